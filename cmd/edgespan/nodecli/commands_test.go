package nodecli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
)

func TestTables(t *testing.T) {
	socket := clitest.ServeDaemon(t, clitest.Filled())
	for kind, want := range map[string]string{
		"ni": `NAME      ID                                    STATE    BRIDGE  SUBNET        PORT  GEN  ERROR
demo net  10000000-0000-4000-8000-000000000001  Present  es1     10.10.0.0/24  wan   3    -
`,
		"app": `NAME  ID                                    STATE  VERSION  ADAPTERS  ERROR
web   a0000000-0000-4000-8000-000000000001  ready  2        1/2       -
`,
		"adapter": `APP                                   INDEX  NETWORK                               IP           MAC ` +
			`               IFNAME  HOSTIF  STATE   ERROR
a0000000-0000-4000-8000-000000000001  0      10000000-0000-4000-8000-000000000001  10.10.0.130  02:00:00:00:00:01 ` +
			` eth0    es1a1   active  -
`,
		"port": `LABEL  IFNAME   STATE  UPLINK  ADDRESSES     DEFAULT ROUTE  DNS            ERROR
wan    uplink0  up     true    192.0.2.2/24  via 192.0.2.1  198.51.100.53  -
`,
		"param": `ID             TARGET   STATE    ERROR
ports.wan.mtu  present  present  -
`,
		"actor": `ID      STATE    RESTARTS  ERROR
router  running  0         -
`,
	} {
		if got := cli(t, clitest.At(socket), "", "get", kind); got != (clitest.Said{Code: 0, Out: want, Err: ""}) {
			t.Errorf("get %s: exit %d, %s\n%swant\n%s", kind, got.Code, got.Err, got.Out, want)
		}
	}
}

func TestStatesOfAnAdapter(t *testing.T) {
	for _, c := range []struct {
		status nodeapi.AdapterStatus
		want   string
	}{
		{nodeapi.AdapterStatus{Activated: true, State: "Present"}, "active"},
		{nodeapi.AdapterStatus{State: "WaitingForDependencies", Error: "namespace ns1 does not exist"}, "waiting"},
		{nodeapi.AdapterStatus{State: "CreatingFailed", Error: "no free address"}, "failed"},
		{nodeapi.AdapterStatus{State: "WaitingForDependencies"}, "inactive"},
	} {
		if got := adapterState(c.status); got != c.want {
			t.Errorf("adapter %v: %s, want %s", c.status, got, c.want)
		}
	}
}

func TestStates(t *testing.T) {
	for _, c := range []struct {
		status clitest.Obj
		want   string
	}{
		{clitest.Obj{"pending": true, "activated": true}, "pending"},
		{clitest.Obj{}, "pending"},
		{clitest.Obj{"pending": false, "activated": true}, "ready"},
		{clitest.Obj{"pending": false, "activated": false}, "inactive"},
	} {
		if got := appState(nodeapi.As[nodeapi.AppStatus](c.status, unknownApp)); got != c.want {
			t.Errorf("app %v: %s, want %s", c.status, got, c.want)
		}
	}
}

func TestForms(t *testing.T) {
	f := clitest.Filled()
	socket := clitest.ServeDaemon(t, f)
	var list []nodeapi.Resource
	got := cli(t, clitest.At(socket), "", "get", "app", "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &list); err != nil || len(list) != 1 || list[0].ID != clitest.AppID {
		t.Errorf("json of all: %v in %s", err, got.Out)
	}
	var one map[string]any
	got = cli(t, clitest.At(socket), "", "get", "app", clitest.AppID, "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &one); err != nil {
		t.Fatalf("json of one: %v in %s", err, got.Out)
	}
	for _, k := range []string{"id", "kind", "spec", "status"} {
		if _, ok := one[k]; !ok {
			t.Errorf("json of one has no %q: %s", k, got.Out)
		}
	}
	f.Items["param"] = nil
	if got = cli(t, clitest.At(socket), "", "get", "param", "-o", "json"); got.Out != "[]\n" {
		t.Errorf("json of nothing: %q", got.Out)
	}
	if got = cli(t, clitest.At(socket), "", "get", "param"); got != (clitest.Said{Code: 0, Out: "", Err: "no param\n"}) {
		t.Errorf("table of nothing: %+v", got)
	}
	if got = cli(t, clitest.At(socket), "", "get", "ni", "-o", "name"); got.Out != "ni/"+clitest.NiID+"\n" {
		t.Errorf("name: %q", got.Out)
	}
	if got = cli(t, clitest.At(socket), "", "get", "app", clitest.AppID, "-o", "yaml"); !strings.HasPrefix(got.Out, "id: "+
		clitest.AppID+"\nkind: app\n") {
		t.Errorf("yaml: %s", got.Out)
	}
	if got = cli(t, clitest.At(socket), "", "get", "ni", "-o", "wide"); !strings.Contains(got.Out, "DOMAIN") {
		t.Errorf("wide: %s", got.Out)
	}
	if got = cli(t, clitest.At(socket), "", "get", "adapter", clitest.AppID+"/0"); !strings.Contains(got.Out, "es1a1") {
		t.Errorf("adapter by id: %+v", got)
	}
}

func TestApplyAndPlan(t *testing.T) {
	f := clitest.Filled()
	f.Warnings = []string{"appNetworks.x: names a network without config"}
	f.Changes = []nodeapi.Change{{Op: "add", Kind: "link", ID: "es1", Owner: "ni " + clitest.NiID}}
	socket := clitest.ServeDaemon(t, f)
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte("ports: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := cli(t, clitest.At(socket), "", "apply", "-f", file)
	if got != (clitest.Said{Code: 0, Out: "",
		Err: "warning: appNetworks.x: names a network without config\nconfig stored\n"}) {
		t.Errorf("apply: %+v", got)
	}
	if got = cli(t, clitest.At(socket), "{}", "apply", "-f", "-"); got.Code != 0 {
		t.Errorf("apply of stdin: %+v", got)
	}
	wantPlan := "{\n  \"changes\": [\n    {\n      \"op\": \"add\",\n      \"kind\": \"link\",\n      \"id\": " +
		"\"es1\",\n      \"owner\": \"ni " + clitest.NiID + "\"\n    }\n  ]\n}\n"
	for _, args := range [][]string{{"plan", "-f", "-", "-o", "json"}, {"apply", "--dry-run", "-f", "-", "-o", "json"}} {
		if got = cli(t, clitest.At(socket), "{}", args...); got != (clitest.Said{Code: 0, Out: wantPlan, Err: ""}) {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if got = cli(t, clitest.At(socket), "{}", "plan", "-f", "-"); !strings.HasPrefix(got.Out,
		"OP   KIND  ID   OWNER\nadd  link  es1  ni ") {
		t.Errorf("plan: %s", got.Out)
	}
	want := []string{"apply ports: {}\n", "apply {}", "plan {}", "plan {}", "plan {}"}
	if got := f.Requests(); !reflect.DeepEqual(got, want) {
		t.Errorf("the daemon was asked %q, want %q", got, want)
	}
	f.Changes = nil
	if got = cli(t, clitest.At(socket), "{}", "plan", "-f",
		"-"); got != (clitest.Said{Code: 0, Out: "", Err: "no changes\n"}) {
		t.Errorf("empty plan: %+v", got)
	}
	if got = cli(t, clitest.At(socket), "{}", "plan", "-f", "-", "-o", "json"); got.Out != "{\n  \"changes\": []\n}\n" {
		t.Errorf("empty plan: %+v", got)
	}
}

// hangsUp is a server whose answers never come.
func hangsUp(t *testing.T) (socket string) {
	t.Helper()
	return clitest.ServeHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/version" {
			return
		}
		panic(http.ErrAbortHandler)
	}))
}

func TestEveryExitCode(t *testing.T) {
	answers := func(err error) string { return clitest.ServeDaemon(t, &clitest.Daemon{Err: err}) }
	ok := clitest.ServeDaemon(t, clitest.Filled())
	nobody := filepath.Join(clitest.Scratch(t), "nobody")
	never := clitest.Filled()
	never.ReadyAt = func(int) (nodeapi.Readiness, error) { return nodeapi.Readiness{Why: "Creating"}, nil }
	notReady := clitest.ServeDaemon(t, never)
	partly := clitest.Filled()
	partly.Err = &rest.Incomplete{Missing: []string{"ni-2: no answer in 1s"}}
	incomplete := clitest.ServeDaemon(t, partly)

	for _, c := range []struct {
		name, socket, args string
		code               int
		err                string // part of stderr
	}{
		{"ok", ok, "get ni", 0, ""},
		{"help", ok, "--help", 0, ""},
		{"no command is help", ok, "", 0, ""},
		{"error of the daemon", answers(errors.New("disk is full")), "get ni", 1, "disk is full"},
		{"busy daemon", answers(fmt.Errorf("store config: %w", rest.ErrBusy)), "apply -f -", 1, "store config: busy"},
		{"no such file", ok, "apply -f /nonexistent/x", 1, "/nonexistent/x"},
		{"unknown command", ok, "frobnicate", 2, `"frobnicate"`},
		{"unknown flag", ok, "get ni --frob", 2, "--frob: unknown flag"},
		{"unknown type", ok, "get pod", 2, "must be ni, app, adapter, port, tunnel, lease, dns, param, actor, config or pending"},
		{"unknown form", ok, "get ni -o xml", 2, "must be table, wide, json, yaml or name"},
		{"unknown form of a plan", ok, "plan -f - -o xml", 2, "must be table, wide, json, yaml or name"},
		{"apply with -o", ok, "apply -f - -o json", 2, "requires --dry-run"},
		{"no file", ok, "apply", 2, "-f: required"},
		{"too many arguments", ok, "get ni a b", 2, "got 3 arguments"},
		{"a target without id", ok, "wait ni/ --for ready", 2, "ID required"},
		{"a target without an id at all", ok, "wait ni", 2, "ni/ID|app/ID"},
		{"a target without kind", ok, "wait " + clitest.NiID, 2, "must be ni, app, node, peer or cluster"},
		{"a target twice", ok, "get ni/" + clitest.NiID + " " + clitest.NiID, 2, "got both"},
		{"an app with an index to wait for", ok, "wait app/" + clitest.AppID + "/0 --timeout 1h", 2, "must be an app: app/"},
		{"a file without -f", ok, "apply node.yaml", 2, "run 'edgespan apply -f node.yaml'"},
		{"a file without -f to plan", ok, "plan node.yaml", 2, "run 'edgespan plan -f node.yaml'"},
		{"a condition that is none", ok, "wait ni/" + clitest.NiID + " --for fun", 2, "must be ready or absent"},
		{"a timeout that is none", ok, "wait ni/" + clitest.NiID + " --timeout 5", 2, "--timeout"},
		{"a timeout of 0", ok, "wait ni/" + clitest.NiID + " --timeout 0s", 2, "more than 0s"},
		{"defect 18: not ready in time is no success", notReady, "wait ni/" + clitest.NiID + " --timeout 60ms", 3,
			"not ready after 60ms: Creating"},
		{"daemon that times out", answers(context.DeadlineExceeded), "get ni", 3, "deadline"},
		{"rejected", answers(&rest.Rejected{Faults: []string{"a: b", "c: d"}}), "apply -f -", 4, "a: b\nc: d\n"},
		{"rejected plan", answers(&rest.Rejected{Faults: []string{"a: b"}}), "plan -f -", 4, "a: b\n"},
		{"conflict", answers(fmt.Errorf("apply: %w: controller c rules", rest.ErrConflict)), "apply -f -", 5,
			"controller c rules"},
		{"partial answer", incomplete, "get ni", 6, "ni-2: no answer in 1s"},
		{"partial answer in JSON", incomplete, "get ni -o json", 6, "ni-2"},
		{"permission", answers(rest.ErrPermission), "apply -f -", 7, "permission"},
		{"wait does not wait for permission", answers(rest.ErrPermission), "wait ni/" + clitest.NiID + " --timeout 1h", 7,
			"permission"},
		{"no daemon", nobody, "get ni", 8, "no such file or directory: run 'edgespan doctor' to find out why"},
		{"no daemon to apply to", nobody, "apply -f -", 8, nobody},
		{"no daemon to wait for", nobody, "wait ni/" + clitest.NiID + " --timeout 60ms", 8, "not ready after 60ms"},
		{"no daemon, and yet not absent", nobody, "wait ni/" + clitest.NiID + " --for absent --timeout 60ms", 8,
			"not absent"},
		{"a daemon that hangs up", hangsUp(t), "get ni", 8, "daemon not reachable"},
		{"unknown id", ok, "get ni nobody", 10, "get ni nobody: not found"},
		{"unknown id in JSON", ok, "get app nobody -o json", 10, "not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := cli(t, clitest.At(c.socket), "{}", strings.Fields(c.args)...)
			if got.Code != c.code || !strings.Contains(got.Err, c.err) {
				t.Errorf("exit %d, want %d; stderr %q, want %q in it", got.Code, c.code, got.Err, c.err)
			}
			if got.Code != 0 && got.Code != term.ExitPartial && got.Out != "" {
				t.Errorf("an error leaves data on stdout: %q", got.Out)
			}
			if got.Code == term.ExitPartial && !strings.Contains(got.Out, clitest.NiID) {
				t.Errorf("a partial answer shows what there is: %q", got.Out)
			}
		})
	}
}

func TestADocumentAboveTheLimitIsRejected(t *testing.T) {
	got := cli(t, clitest.At(clitest.ServeDaemon(t, clitest.Filled())), strings.Repeat(" ", nodeapi.MaxDocument+1),
		"apply", "-f", "-")
	if got.Code != term.ExitRejected || !strings.Contains(got.Err, "at most 4 MiB") {
		t.Errorf("%d %s", got.Code, got.Err)
	}
}

func TestFaultsAreOneHarmlessLineEach(t *testing.T) {
	socket := clitest.ServeDaemon(t,
		&clitest.Daemon{Err: &rest.Rejected{Faults: []string{"a: is \"x\ny\": b", "c: is \"\x1b[31m\u2028\": d"}}})
	got := cli(t, clitest.At(socket), "{}", "apply", "-f", "-")
	if n := strings.Count(got.Err, "\n"); n != 2 || strings.ContainsAny(got.Err, "\x1b\u2028") {
		t.Errorf("%d lines: %q", n, got.Err)
	}
}

func TestWaitForReady(t *testing.T) {
	f := clitest.Filled()
	f.ReadyAt = func(n int) (nodeapi.Readiness, error) { // unknown, then known, then ready
		switch n {
		case 1:
			return nodeapi.Readiness{Absent: true}, nil
		case 2:
			return nodeapi.Readiness{}, rest.ErrNotFound
		case 3:
			return nodeapi.Readiness{}, rest.ErrBusy
		case 4:
			return nodeapi.Readiness{Why: "Creating"}, nil
		}
		return nodeapi.Readiness{Ready: true}, nil
	}
	got := cli(t, clitest.At(clitest.ServeDaemon(t, f)), "", "wait", "ni/"+clitest.NiID, "--timeout", "20s")
	if got != (clitest.Said{Code: 0, Out: "", Err: ""}) || f.ReadyN != 5 {
		t.Errorf("%+v after %d questions", got, f.ReadyN)
	}
}

func TestWaitForAbsent(t *testing.T) {
	for name, absent := range map[string]func() (nodeapi.Readiness, error){
		"absent":    func() (nodeapi.Readiness, error) { return nodeapi.Readiness{Absent: true}, nil },
		"not found": func() (nodeapi.Readiness, error) { return nodeapi.Readiness{}, rest.ErrNotFound },
	} {
		f := clitest.Filled()
		f.ReadyAt = func(n int) (nodeapi.Readiness, error) {
			if n < 3 {
				return nodeapi.Readiness{Ready: true}, nil
			}
			return absent()
		}
		got := cli(t, clitest.At(clitest.ServeDaemon(t, f)), "", "wait", "app/"+clitest.AppID, "--for", "absent", "--timeout",
			"20s")
		if got != (clitest.Said{Code: 0, Out: "", Err: ""}) || f.ReadyN != 3 {
			t.Errorf("%s: %+v after %d questions", name, got, f.ReadyN)
		}
	}
}

func TestWaitOutlastsADaemonThatStarts(t *testing.T) {
	socket := filepath.Join(clitest.Scratch(t), "s")
	ended := make(chan clitest.Said, 1)
	go func() {
		ended <- cli(t, clitest.At(socket), "", "wait", "ni/"+clitest.NiID, "--timeout", "20s")
	}()
	clitest.ServeAt(t, socket, nodeapi.Handler(clitest.Filled()))
	if got := <-ended; got != (clitest.Said{Code: 0, Out: "", Err: ""}) {
		t.Errorf("%+v", got)
	}
}

func TestWaitOnADaemonThatHangsIsATimeout(t *testing.T) {
	got := cli(t, clitest.At(clitest.ServeDaemon(t, &clitest.Daemon{Block: true})), "", "wait", "ni/"+clitest.NiID,
		"--timeout", "60ms")
	if got.Code != term.ExitTimeout {
		t.Errorf("%+v", got)
	}
}

func TestFlagBeatsEnvironmentBeatsDefault(t *testing.T) {
	dir := "/somewhere"
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{nil, nil, "/run/edgespan/edgespan.sock"},
		{map[string]string{"EDGESPAN_RUN_DIR": dir}, nil, dir + "/edgespan.sock"},
		{map[string]string{"EDGESPAN_RUN_DIR": dir, "EDGESPAN_SOCKET": "/e/s"}, nil, "/e/s"},
		{map[string]string{"EDGESPAN_SOCKET": "/e/s"}, []string{"--run-dir", "/f"}, "/f/edgespan.sock"},
		{map[string]string{"EDGESPAN_SOCKET": "/e/s"}, []string{"--run-dir", "/f", "--socket", "/g/s"}, "/g/s"},
	} {
		got := cli(t, c.env, "", append([]string{"get", "ni"}, c.args...)...)
		if got.Code != term.ExitUnreachable || !strings.Contains(got.Err, " at "+c.want+":") {
			t.Errorf("%v %v: exit %d, %s", c.env, c.args, got.Code, got.Err)
		}
	}
}

func TestCompletionKnowsLiveNames(t *testing.T) {
	socket := clitest.ServeDaemon(t, clitest.Filled())
	for args, want := range map[string]string{
		"get ni ":                          clitest.NiID,
		"get adapter ":                     clitest.AppID + "/0",
		"wait ":                            "ni/" + clitest.NiID + "\napp/" + clitest.AppID,
		"get ":                             "ni\napp\nadapter",
		"--socket /nonexistent/s get app ": ":4", // no daemon: nothing, and no error
	} {
		got := cli(t, clitest.At(socket), "", append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if got.Code != 0 || !strings.HasPrefix(got.Out, want) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if got := cli(t, nil, "", "completion", "bash"); got.Code != 0 || !strings.Contains(got.Out, "edgespan") {
		t.Errorf("completion bash: %d %s", got.Code, got.Err)
	}
}

func TestColoursAreForTerminalsOnly(t *testing.T) {
	table := &term.Table{Head: []string{"NAME", "STATE"}}
	table.Add("a", "CreatingFailed")
	var plain, colored strings.Builder
	if err := errors.Join(table.Write(&plain, false), table.Write(&colored, true)); err != nil {
		t.Fatal(err)
	}
	if plain.String() != "NAME  STATE\na     CreatingFailed\n" {
		t.Errorf("plain: %q", plain.String())
	}
	if colored.String() != "NAME  STATE\na     \x1b[31mCreatingFailed\x1b[0m\n" {
		t.Errorf("coloured: %q", colored.String())
	}
}

func TestTablesStayAlignedWhateverTheTextIs(t *testing.T) {
	table := &term.Table{Head: []string{"A", "B"}}
	table.Add("ümläut", "x")
	table.Add("line\nend\x1b[2J", "y")
	table.Add(strings.Repeat("long ", 30), "z")
	var out strings.Builder
	if err := table.Write(&out, false); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines: %q", len(lines), out.String())
	}
	for _, l := range lines {
		if r := []rune(l); len(r) != 60+2+1 {
			t.Errorf("%d characters: %q", len(r), l)
		}
	}
}
