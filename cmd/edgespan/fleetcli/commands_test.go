package fleetcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers/override"
	"edgespan/config/layers/schema"
)

// TestEveryCommandAsksTheController runs each command once; what it asks is what the words say.
func TestEveryCommandAsksTheController(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	doc := clitest.File(t, "# YAML\nsysParams: {managedConfig: true}\n")
	const set = "{Overrides:map[sysParams:map[managedConfig:true]] Modify:"
	const nodes = "{Overrides:map[pop-1:map[sysParams:map[managedConfig:true]]] Modify:"
	const plain = ` message "" dry false if map[]`
	for line, asked := range map[string]string{
		"network get": "layer {Layer:network Nodes:[] Versions:[] Boards:[] " +
			"Reveal:false}",
		"network get --reveal": "layer {Layer:network Nodes:[] Versions:[] Boards:[] " +
			"Reveal:true}",
		"network set -f " + doc:    "write ops.SetNetwork" + set + "false}" + plain,
		"network modify -f " + doc: "write ops.SetNetwork" + set + "true}" + plain,
		"network modify count=5 label=5 other=5 flags.v=2": "metadata node; write " +
			"ops.SetNetwork{Overrides:map[count:5 flags:map[v:2] label:5 other:5] Modify:true}" + plain,
		"network unset a.b c": "write ops.Unset{Layer:network Keys:[[a b] [c]]}" +
			plain,
		"network set -f " + doc + " -m why --dry-run": "write ops.SetNetwork" + set +
			`false} message "why" dry true if map[]`,
		"network set -f " + doc + " --if-match 12": "write ops.SetNetwork" + set +
			`false} message "" dry false if map[network:12]`,
		"network actions -f " + doc:       "preview ops.SetNetwork" + set + "true}",
		"network actions --set -f " + doc: "preview ops.SetNetwork" + set + "false}",
		"actions p1":                      "result p1",
		"node get pop-1 --layer full": "config {Node:pop-1 Paths:[] Versions:{Software: " +
			"Firmware: Board:} Reveal:false}",
		"node get pop-1 --layer full --sw a --fw b --board c": "config {Node:pop-1 Paths:[] Versions:{Software:a " +
			"Firmware:b Board:c} Reveal:false}",
		`node get pop-1 --layer full --paths a.b,c."d,e"`: "config {Node:pop-1 Paths:[[a b] [c d,e]] " +
			"Versions:{Software: Firmware: Board:} Reveal:false}",
		"node get --layer full --paths a":     "paths {Nodes:[] Paths:[[a]] Reveal:false After: Limit:0}",
		"node get x y --layer full --paths a": "paths {Nodes:[x y] Paths:[[a]] Reveal:false After: Limit:0}",
		"node get pop-1": "layer {Layer:node Nodes:[pop-1] Versions:[] Boards:[] " +
			"Reveal:false}",
		"node get": "layer {Layer:node Nodes:[] Versions:[] Boards:[] " +
			"Reveal:false}",
		"node get pop-1 --layer auto": "layer {Layer:auto Nodes:[pop-1] Versions:[] Boards:[] " +
			"Reveal:false}",
		"node get pop-1 --layer base": "node pop-1; layer {Layer:base Nodes:[] " +
			"Versions:[RELEASE_M81] Boards:[] Reveal:false}",
		"node get pop-1 --layer firmware": "node pop-1; layer {Layer:firmware Nodes:[] " +
			"Versions:[10.11.0.90] Boards:[] Reveal:false}",
		"node get pop-1 --layer hardware --sw x": "node pop-1; layer {Layer:hardware Nodes:[] Versions:[x] " +
			"Boards:[MVL_ARMADA] Reveal:false}",
		"node get pop-1 --layer network": "layer {Layer:network Nodes:[] Versions:[] Boards:[] " +
			"Reveal:false}",
		"node set pop-1 -f " + doc: "write ops.SetNodes" + nodes + "false}" + plain,
		"node set -f " + doc:       "write ops.SetNodes" + set + "false}" + plain,
		"node modify pop-1 label=7 -m x": `metadata node; write ops.SetNodes{Overrides:map[pop-1:map[label:7]] ` +
			`Modify:true} message "x" dry false if map[]`,
		"node set pop-1 -f " + doc + " --if-match 4": "write ops.SetNodes" + nodes +
			`false} message "" dry false if map[node/pop-1:4]`,
		"node unset pop-1 a.b":         "write ops.Unset{Layer:node Keys:[[pop-1 a b]]}" + plain,
		"node actions pop-1 -f " + doc: "preview ops.SetNodes" + nodes + "true}",
		"node clear-auto x y --paths a.b,*": "write ops.ClearAuto{Nodes:[x y] Paths:[[a b] [*]]}" +
			plain,
		"base get RELEASE_M81": "layer {Layer:base Nodes:[] Versions:[RELEASE_M81] " +
			"Boards:[] Reveal:false}",
		"firmware get": "layer {Layer:firmware Nodes:[] Versions:[] Boards:[] " +
			"Reveal:false}",
		"hardware get B --versions a,b": "layer {Layer:hardware Nodes:[] Versions:[a b] Boards:[B] " +
			"Reveal:false}",
		"metadata get":            "metadata node",
		"metadata get aggregator": "metadata aggregator",
		"controller get":          "e2e controller reveal false",
		"controller set -f " +
			doc: "write ops.SetE2E{File:controller Config:map[sysParams:map[managedConfig:true]] Modify:false Replica:}" +
			plain,
		"controller modify flags.v=2": "metadata controller; write " +
			"ops.SetE2E{File:controller Config:map[flags:map[v:2]] Modify:true Replica:}" + plain,
		"controller metadata": "metadata controller",
		"controller actions -f " +
			doc: "write ops.SetE2E{File:controller Config:map[sysParams:map[managedConfig:true]] Modify:true Replica:} " +
			"message \"\" dry true if map[]",
		"aggregator get --reveal": "e2e aggregator reveal true",
		"aggregator set -f " +
			doc: "write ops.SetE2E{File:aggregator Config:map[sysParams:map[managedConfig:true]] Modify:false Replica:}" +
			plain,
		"optimize polarity": "write ops.Optimize{Kinds:[polarity] ClearUser:false}" +
			plain,
		"optimize control-superframe --clear-user": "write ops.Optimize{Kinds:[superframe] ClearUser:true}" +
			plain,
		"topology get": "topology",
		"topology import -f " +
			doc: "write ops.SetTopology{Document:map[sysParams:map[managedConfig:true]]}" + plain,
		"topology add node name=n pop_node=true": "write ops.EditTopology{Object:node Op:add Name: To: " +
			"Document:map[name:n pop_node:true]}" + plain,
		"topology edit site s latitude=1.5": "write ops.EditTopology{Object:site Op:edit Name:s " +
			"To: Document:map[latitude:1.5]}" + plain,
		"topology delete link l": "write ops.EditTopology{Object:link Op:delete Name:l " +
			"To: Document:map[]}" + plain,
		"topology rename node a b": "write ops.EditTopology{Object:node Op:rename Name:a " +
			"To:b Document:map[]}" + plain,
		"nodes list":                              "nodes",
		"nodes describe pop-1":                    "node pop-1",
		"nodes status":                            "nodes",
		"nodes status pop-1":                      "node pop-1",
		"nodes explain pop-1 sysParams":           "explain pop-1 sysParams",
		"nodes retry a b":                         "command retry a; command retry b",
		"nodes release a":                         "command release a",
		"nodes confirm a":                         "command confirm a",
		"nodes renew a b":                         "command renew a; command renew b",
		"nodes forget a":                          "command forget a",
		"nodes adopt a --import":                  "command adopt-import a",
		"nodes adopt a --replace":                 "command adopt-replace a",
		"nodes invite dn-3 --life 24h":            "invite dn-3 24h0m0s replace false",
		"nodes replace dn-3":                      "invite dn-3 0s replace true",
		"history":                                 "history all before 0 limit 0",
		"history node/pop-1 --before 9 --limit 2": "history node/pop-1 before 9 limit 2",
		"history diff 1 2":                        "diff 1 2",
		"history prune --before 2020-01-02T03:04:05Z --dry-run": "prune 2020-01-02T03:04:05Z true",
		"history revert 3":   "write ops.Revert{Revision:3}" + plain,
		"history rollback 3": "write ops.Restore{Revision:3 Layers:[]}" + plain,
		"history rollback 3 network node/pop-1 --dry-run": "write ops.Restore{Revision:3 Layers:[network " +
			"node/pop-1]} message \"\" dry true if map[]",
		"rollout list":              "rollouts",
		"rollout show 13":           "rollouts",
		"rollout explain 13":        "explain rollout 13",
		"rollout pause 13":          "rollout 13 pause",
		"rollout resume 13":         "rollout 13 resume",
		"rollout abort 13":          "rollout 13 abort",
		"rollout abort 13 --revert": "rollout 13 revert",
		"bisect list":               "bisects",
		"bisect abort pop-1":        "bisect abort pop-1",
		"operators list":            "operators",
		"boards list":               "hardware",
		"nodes events":              `events "" "" "" 100 false`,
		"nodes events pop-1 --object ni/blue --kind failed --why -n 7": `events "pop-1" "ni/blue" "failed" 7 true`,
		"boards show B9":                                  "hardware config B9  false",
		"boards show B9 --from pop-1 --reveal":            "hardware config B9 pop-1 true",
		"boards accept B9 --from pop-1 --digest 5d41402a": "accept hardware B9 pop-1 5d41402a",
		"boards reject B9":                                "reject hardware B9 ",
		"boards forget B9":                                "forget hardware B9",
		"operators add bob --role viewer --life 1h":       "add operator bob viewer expires true",
		"operators remove bob":                            "remove operator bob",
	} {
		got := cli(t, env, "", strings.Fields(line)...)
		heard := strings.Join(f.TakeRequests(), "; ")
		if got.Code != term.ExitOK || !sameAsked(heard, asked) {
			t.Errorf("edgespan %s: exit %d, asks\n %s\nwant\n %s\n%s", line, got.Code, heard, asked, got.Err)
		}
	}
}

// TestEveryBoundWriteTellsWhatWasSeen gives --if-match to each command that has it.
func TestEveryBoundWriteTellsWhatWasSeen(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	for _, line := range []string{
		"network set -f -", "network modify -f -", "network unset a", "node set pop-1 -f -", "node modify pop-1 -f -",
		"node unset pop-1 a",
		"node clear-auto pop-1 --paths a", "controller set -f -", "aggregator modify -f -", "topology import -f -",
		"topology add node -f -",
		"topology edit site s -f -", "topology delete link l", "topology rename node a b", "optimize golay",
	} {
		got := cli(t, env, "{}", append(strings.Fields(line), "--if-match", `"12"`)...)
		if heard := f.TakeRequests(); got.Code != term.ExitOK || len(heard) == 0 ||
			!strings.HasSuffix(heard[len(heard)-1], ":12]") {
			t.Errorf("edgespan %s: exit %d, asks %q: %s", line, got.Code, heard, got.Err)
		}
	}
	for _, line := range []string{"history revert 3", "history rollback 3"} {
		if got := cli(t, env, "", append(strings.Fields(line), "--if-match", "12")...); got.Code != term.ExitUsage {
			t.Errorf("edgespan %s: exit %d: %s", line, got.Code, got.Err)
		}
	}
}

// sameAsked is equality but for a limit that the handler fills in.
func sameAsked(got, want string) bool {
	return got == want || strings.TrimSuffix(got, "limit 50") == strings.TrimSuffix(want, "limit 0")
}

func TestAFileOrStdinIsTheBody(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	for stdin, code := range map[string]int{"a: {b: 1}": term.ExitOK, `{"a": {"b": 1}}`: term.ExitOK,
		"[1]": term.ExitRejected, "a: [": term.ExitRejected, "": term.ExitRejected} {
		got := cli(t, env, stdin, "network", "set", "-f", "-")
		if heard := f.TakeRequests(); got.Code != code || (len(heard) > 0) != (code == term.ExitOK) {
			t.Errorf("%q: exit %d, asks %q: %s", stdin, got.Code, heard, got.Err)
		} else if code == term.ExitOK && !strings.Contains(heard[0], "{Overrides:map[a:map[b:1]] Modify:false}") {
			t.Errorf("%q: asks %q", stdin, heard)
		}
	}
}

func TestValuesAreTypedAsTheControllersMetadataSays(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	var sent config.Object
	f.OnWrite = func(w ops.Write) { sent = w.(ops.SetNetwork).Overrides }
	if got := cli(t, env, "", "network", "modify", "label=007", "count=7", "free=true", `quoted="8"`,
		"flags.v=2"); got.Code != 0 {
		t.Fatal(got.Err)
	}
	want := config.Object{"label": "007", "count": int64(7), "free": true, "quoted": "8", "flags": config.Object{"v": "2"}}
	if !config.Equal(sent, want) {
		t.Errorf("sent %s, want %s", config.OneLine(sent), config.OneLine(want))
	}
}

func TestWrongFleetCommandsAskNothing(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	for _, line := range []string{
		"network", "network set", "network set x.json", "network modify a=1 -f x", "network unset", "network get -o text",
		"network set a=1 --if-match x",
		"network actions a=1 --wait -1s", "network foo", "node foo", "node set a=1", "node get --layer full",
		"node get x y --layer base", "node get x --layer none",
		"node get x --sw 1", "node get x --paths ..", "node clear-auto x", "node unset x", "metadata get base", "optimize",
		"optimize all", "topology add", "topology add cable a=1",
		"topology rename link a b", "topology get node", "topology import", "nodes describe", "nodes adopt x",
		"nodes adopt x --import --replace", "nodes retry", "nodes explain x",
		"nodes explain x ..", "nodes invite x --life -1s", "history base", "history show x", "history diff 1 0",
		"history --limit -1", "history rollback x", "history rollback 1 nodes",
		"bisect", "bisect --nodes a --good 1 --bad 2 --timeout 1ms", "bisect --nodes a --settle -1s", "bisect abort",
		"bisect --nodes a --wait -1s", "bisect show",
		"rollout show", "rollout pause", "rollout abort x", "rollout watch 13 --wait -1s", "operators add x",
		"operators add x --role root", "operators add x --role admin --life -1h", "actions",
	} {
		got := cli(t, env, "", strings.Fields(line)...)
		help := line == "network" && got.Code == term.ExitOK
		heard := slices.DeleteFunc(f.TakeRequests(), func(s string) bool { return s == "metadata node" })
		if !help && (got.Code != term.ExitUsage || got.Err == "") || len(heard) > 0 {
			t.Errorf("edgespan %s: exit %d, asks %q: %s", line, got.Code, heard, got.Err)
		}
	}
}

func TestEveryErrorHasItsExitCode(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code int
		says string
	}{
		{"rejected", &ops.Refused{Faults: override.WriteFaults{
			{Path: []string{"sysParams"}, Rule: "type", Problem: "is 5", Expectation: "must be an object"},
			{Nodes: []string{"pop-1"}, Path: []string{"x"}, Rule: "readOnly", Problem: "is new"},
		}}, term.ExitRejected, "sysParams"},
		{"unknown", &ops.NotFoundError{What: "node x", Allowed: "pop-1 is allowed"}, term.ExitNotFound,
			"node x does not exist: pop-1 is allowed"},
		{"lost race", history.Conflicts{{Layer: history.Layer{Kind: history.Network}, Expected: 3,
			By: history.RevisionRecord{Number: 4, Author: "bob"}}}, term.ExitConflict, "bob"},
		{"state of a node", fmt.Errorf("%w: dn-2 has no pending config", fleetapi.ErrRefused), term.ExitConflict,
			"no pending config"},
		{"busy", fleetapi.ErrBusy, term.ExitError, "can't take this now"},
		{"late", context.DeadlineExceeded, term.ExitTimeout, ""},
		{"broken", errors.New("disk on fire"), term.ExitError, ""},
	} {
		f := clitest.SmallFleet()
		env := clitest.ServeFleet(t, f)
		f.Err = c.err
		for _, line := range []string{"network set -f -", "node get pop-1", "nodes list", "nodes confirm dn-2", "history",
			"topology get", "operators list", "history rollback 3"} {
			got := cli(t, env, "{}", strings.Fields(line)...)
			if got.Code != c.code || !strings.Contains(got.Err, c.says) || got.Out != "" {
				t.Errorf("%s: %s: exit %d\n%s%s", c.name, line, got.Code, got.Out, got.Err)
			}
		}
		if c.name == "rejected" {
			if got := cli(t, env, "{}", "network", "set", "-f", "-"); strings.Count(got.Err, "\n") != 2 {
				t.Errorf("%s: wants a line for each fault:\n%s", c.name, got.Err)
			}
		}
	}
}

func TestWhoMayNotExits7(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	f.Role = fleetapi.Viewer
	for line, code := range map[string]int{
		"nodes list": term.ExitOK, "network set -f -": term.ExitPermission, "operators list": term.ExitPermission,
		"network get --reveal":                                term.ExitPermission,
		"nodes list --token-file " + clitest.File(t, "other"): term.ExitPermission,
	} {
		if got := cli(t, env, "{}", strings.Fields(line)...); got.Code != code {
			t.Errorf("%s: exit %d: %s", line, got.Code, got.Err)
		}
	}
}

func TestAPreviewWaitsUntilAllHaveAnswered(t *testing.T) {
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	stage := func(complete bool, dn string) fleetapi.Preview {
		return fleetapi.Preview{ID: "p1", Until: at, Complete: complete, Nodes: map[string]fleetapi.NodePreview{
			"pop-1": {State: "answered", Actions: []fleetapi.Action{{Name: "UPDATE_FIREWALL"}}},
			"dn-2":  {State: dn},
		}}
	}
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	f.Previews = []fleetapi.Preview{stage(false, "pending"), stage(false, "pending"), stage(true, "unchanged")}
	got := cli(t, env, "{}", "network", "actions", "-f", "-")
	want := clitest.Said{Code: term.ExitOK, Out: `NODE   STATE      ACTIONS          REASON
dn-2   unchanged  -                -
pop-1  answered   UPDATE_FIREWALL  -
`, Err: "preview p1, available until 2026-11-21T13:00:00Z: 1 answered, 0 pending, 0 cannot answer, 1 not asked\n"}
	if got != want {
		t.Errorf("%+v", got)
	}
	if heard := f.TakeRequests(); len(heard) != 3 {
		t.Errorf("asked %q", heard)
	}

	f.Previews = []fleetapi.Preview{stage(false, "pending")}
	got = cli(t, env, "{}", "network", "actions", "-f", "-", "--wait", "0s")
	if got.Code != term.ExitPartial || !strings.Contains(got.Err, "1 node pending") ||
		!strings.Contains(got.Out, "dn-2   pending") {
		t.Errorf("%+v", got)
	}
	for _, state := range []string{"offline", "failed", "unknown-hardware"} {
		f.Previews = []fleetapi.Preview{stage(true, state)}
		if got = cli(t, env, "{}", "network", "actions", "-f", "-"); got.Code != term.ExitPartial ||
			!strings.Contains(got.Err, "1 node can't answer") {
			t.Errorf("%s: %+v", state, got)
		}
	}
}

func TestJSONIsWhatTheControllerSaid(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	for line, check := range map[string]func(any) bool{
		"nodes list -o json": func(v any) bool { return len(v.([]any)) == 2 },
		"nodes describe pop-1 -o json": func(v any) bool {
			return dig(v, "name") == "pop-1" &&
				dig(v, "running", "md5") == "aa"
		},
		"network set -f - -o json": func(v any) bool {
			return dig(v, "revision") == 13.0 &&
				len(dig(v, "effects").([]any)) == 1
		},
		"network get -o json":                  func(v any) bool { return dig(v, "sysParams", "managedConfig") == true },
		"rollout show 13 -o json":              func(v any) bool { return dig(v, "failed", "dn-2") == "unhealthy" },
		"operators add x --role admin -o json": func(v any) bool { return dig(v, "token") == "opaque-token" },
		"nodes invite dn-3 -o json":            func(v any) bool { return dig(v, "token") == "t" },
	} {
		got := cli(t, env, "{}", strings.Fields(line)...)
		var v any
		if err := json.Unmarshal([]byte(got.Out), &v); err != nil || !check(v) {
			t.Errorf("%s: %v\n%s%s", line, err, got.Out, got.Err)
		}
	}
	f.NodeList = nil
	if got := cli(t, env, "", "nodes", "list", "-o", "json"); got.Out != "[]\n" {
		t.Errorf("no nodes: %q", got.Out)
	}
}

func TestPathsAreCutOutOfALayer(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	two := config.Object{"a": config.Object{"x": int64(1), "y": int64(2)},
		"b": config.Object{"x": int64(3), "z": config.Object{}}}
	for _, c := range []struct {
		object config.Object
		line   string
		want   string
	}{
		{config.Object{"n": two}, "node get n --paths *.x", `{"a": {"x": 1}, "b": {"x": 3}}`},
		{config.Object{"n": two}, "node get n --paths a.y,b.z", `{"a": {"y": 2}, "b": {"z": {}}}`},
		{config.Object{"n": two}, "node get n --paths none", `{}`},
		{config.Object{"n": two, "m": two}, "node get --paths a.x", `{"m": {"a": {"x": 1}}, "n": {"a": {"x": 1}}}`},
		{config.Object{"n": two}, "node get n --layer auto --paths b.*", `{"b": {"x": 3, "z": {}}}`},
		{two, "node get --layer network --paths a", `{"a": {"x": 1, "y": 2}}`},
	} {
		f.Doc.Object = c.object
		got := cli(t, env, "", strings.Fields(c.line)...)
		o, faults := config.ParseObject([]byte(got.Out))
		if want, _ := config.ParseObject([]byte(c.want)); faults != nil || !config.Equal(o, want) {
			t.Errorf("%s: exit %d, %v\n%s%s", c.line, got.Code, faults, got.Out, got.Err)
		}
	}
}

func TestFlagsOfTheControllerAreText(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	f.Meta = schema.ControllerMetadata()
	var sent config.Object
	f.OnWrite = func(w ops.Write) { sent = w.(ops.SetE2E).Config }
	if got := cli(t, env, "", "controller", "modify", "flags.v=2"); got.Code != 0 || got.Err == "" {
		t.Fatal(got.Err)
	} else if strings.Contains(got.Err, "can't be read") {
		t.Error(got.Err)
	}
	if want := (config.Object{"flags": config.Object{"v": "2"}}); !config.Equal(sent, want) {
		t.Errorf("sent %s", config.OneLine(sent))
	}
}

// dig follows names into decoded JSON; nil where there is nothing.
func dig(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}
