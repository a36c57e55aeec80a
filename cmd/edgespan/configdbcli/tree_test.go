package configdbcli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
	"edgespan/config/configdb"
)

// plant writes files below a new folder.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hiera")
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func textOfFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// aNode are the files of node 1.
func aNode(t *testing.T) string {
	t.Helper()
	return plant(t, map[string]string{
		"astute.yaml": "# made by Fuel\nuid: '1'\nfqdn: node-1.domain.tld\ndeployment_id: " +
			"1\n\"settings:storage.images_ceph.value == true\": yes\nmtu: 1500.0\nbig: 12345678901234567890123\n",
		"globals.yaml":                     "debug: null\n",
		"override/plugins.yaml":            "ceph:\n  mon: [a, b]\n",
		"override/configuration/role.yaml": "nova_config: {DEFAULT/debug: {value: true}}\n",
		"README":                           "not Hiera's",
	})
}

func TestATreeIsImportedOnce(t *testing.T) {
	env := clitest.ServeFacts(t)
	dir := aNode(t)
	const first = `component fuel would be created
definition astute would be created
definition globals would be created
definition override/configuration/cluster would be created
definition override/configuration/node would be created
definition override/configuration/role would be created
definition override/node would be created
definition override/plugins would be created
environment 1 would be created
values of astute would be uploaded for node 1
values of globals would be uploaded for node 1
values of override/configuration/role would be uploaded for node 1
values of override/plugins would be uploaded for node 1
`
	types(t, env, []typed{
		{line: "config import hiera " + dir + " --env 1 --dry-run", out: first},
		{line: "config history", err: "no revisions"},
		{line: "config import hiera " + dir + " --env 1 -m deployed",
			out: "Component fuel with id 1 was created\nEnvironment with id 1 was created\nNode 1 was registered as " +
				"node-1.domain.tld\n" +
				"astute: created, version 1\nglobals: created, version 1\noverride/configuration/role: created, version " +
				"1\noverride/plugins: created, version 1\n"},
		{line: "config import hiera " + dir + " --env 1", out: "no change\n"},
		{line: "config import hiera " + dir + " --env 1 --dry-run", out: "no change\n"},
		{line: "config node list -e 1 -f table",
			out: "ID  FQDN               CERTNAME  LEVELS\n1   node-1.domain.tld  -         -\n"},
		{line: "env show 1 -f table", out: "ID  COMPONENTS  HIERARCHY LEVELS\n1   1           nodes\n"},
		{line: "config get -e 1 -l node=node-1.domain.tld -r astute -k big -f plain", out: "12345678901234567890123\n"},
		{line: `config get -e 1 -l node=1 -r astute -k '"settings:storage.images_ceph.value == true"' -f plain`,
			out: "true\n"},
	})
	history := cli(t, env, "", clitest.ShellWords("config history -f table")...).Out
	if n := strings.Count(history, "deployed"); n != 4 { // component, environment, node, and all values in one
		t.Errorf("the first import is %d revisions:\n%s", n, history)
	}
	if err := os.WriteFile(filepath.Join(dir, "globals.yaml"), []byte("debug: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "override/node"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "override/node/n1.yaml"), []byte("a: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	types(t, env, []typed{
		{line: "config import hiera " + dir + " --env 1 --node node-1.domain.tld --certname n1.puppet --dry-run",
			out: "definition override/node/n1 would be created\n" +
				"values of astute would be uploaded for node node-1.domain.tld\nvalues of globals would be uploaded for node " +
				"node-1.domain.tld\n" +
				"values of override/configuration/role would be uploaded for node node-1.domain.tld\nvalues of override/node/n1 " +
				"would be uploaded for node node-1.domain.tld\nvalues of override/plugins would be uploaded for node " +
				"node-1.domain.tld\n"},
		{line: "config import hiera " + dir + " --env 1 --node node-1.domain.tld --certname n1.puppet",
			out: "Resource_definition override/node/n1 with id 8 was created\n" +
				"Node 1 was registered as node-1.domain.tld, n1.puppet\nglobals: changed, version 2\noverride/node/n1: created, " +
				"version 1\n"},
		{line: "config get -e 1 -l node=1 -r globals --version 1 --values", out: "{\n  \"debug\": null\n}\n"},
		{line: "config node list -e 1 -f table",
			out: "ID  FQDN               CERTNAME   LEVELS\n1   node-1.domain.tld  n1.puppet  -\n"},
	})
}

func TestTheOtherNamingGroupsFolders(t *testing.T) {
	env := clitest.ServeFacts(t)
	dir := aNode(t)
	said := cli(t, env, "",
		clitest.ShellWords("config import hiera "+dir+
			" --env 7 --node 5 --naming lcm --component fuel9.0 --level role=compute")...)
	if said.Code != 0 ||
		!strings.HasSuffix(said.Out,
			"astute: created, version 1\nglobals: created, version 1\noverride: created, version 1\noverride/configuration: "+
				"created, version 1\n") {
		t.Fatalf("%+v", said)
	}
	types(t, env, []typed{
		{line: "config get -e 7 -l role=x,node=5 -r override -k plugins.ceph.mon -f plain", out: "[\"a\",\"b\"]\n"},
		{line: "config get -e 7 -l role=x,node=5 -r override/configuration -k role -f plain",
			out: "{\"nova_config\":{\"DEFAULT/debug\":{\"value\":true}}}\n"},
		{line: "env show 7 -f table", out: "ID  COMPONENTS  HIERARCHY LEVELS\n7   1           role,nodes\n"},
		{line: "config verify " + dir + " --env 7 --node 5 --naming lcm --level role=compute",
			out: "4 resources: the same\n"},
		{line: "config override -e 7 -l role=y,node=5 -r override -k plugins -t yaml -v '{ceph: {mon: [c]}}'",
			out: "ResourceOverride for key plugins was set\n"},
		{line: "config export hiera " + dir + " --env 7 --node 5 --naming lcm --level role=compute --effective",
			out: "override/plugins.yaml: changed\n"},
	})
	if got := cli(t, env, "", clitest.ShellWords("comp show fuel9.0")...); strings.Count(got.Out,
		`"component_id"`) != 16 || !strings.Contains(got.Out, `"deleted_nodes"`) {
		t.Errorf("the component of the original's task: %+v", got)
	}
	if got, _, err := configdb.FromYAML([]byte(textOfFile(t, filepath.Join(dir, "override/plugins.yaml")))); err != nil ||
		got.String() != `{"ceph":{"mon":["c"]}}` {
		t.Errorf("%s %v", got, err)
	}
}

// What is wrong is told at once, and nothing is uploaded.
func TestNothingHalfIsImported(t *testing.T) {
	env := clitest.ServeFacts(t)
	dir := plant(t, map[string]string{"astute.yaml": "a: 1\nb: [\n", "globals.yaml": "- 1\n", "good.yaml": "a: 1\n",
		"override/5.yaml": "a: 1\na: 2\n"})
	got := cli(t, env, "", "config", "import", "hiera", dir, "--env", "1", "--node", "1")
	if got.Code != term.ExitRejected || strings.Count(got.Err, "\n") != 3 || !strings.Contains(got.Err, "astute.yaml: ") ||
		!strings.Contains(got.Err, "globals.yaml: line 1: not a mapping") || !strings.Contains(got.Err, "override/5.yaml: ") {
		t.Errorf("%+v", got)
	}
	good := plant(t, map[string]string{"globals.yaml": "a: 1\n"})
	types(t, env, []typed{
		{line: "config history", err: "no revisions"},
		{line: "config import hiera " + good + " --env 1", code: term.ExitUsage, err: "--node: required"},
		{line: "config import hiera " + good + " --env 1 --node 1 --naming odd", code: term.ExitUsage,
			err: `--naming: invalid value "odd"`},
		{line: "config import hiera " + good + " --env 1 --node 1 --level role", code: term.ExitUsage, err: "LEVEL=VALUE"},
		{line: "config import hiera " + good + "/none --env 1 --node 1", code: term.ExitNotFound, err: "no such file"},
		{line: "config import hiera " + plant(t, map[string]string{"a.txt": ""}) + " --env 1 --node 1",
			code: term.ExitRejected, err: "no file *.yaml"},
		{line: "config import hiera --env 1 --node 1", code: term.ExitUsage, err: "one folder"},
		{line: "config verify " + good + " --env 1 --node 1", code: term.ExitNotFound, err: "environment 1"},
		{line: "config history", err: "no revisions"},
		{line: "comp create -n a -f table", out: "ID  NAME  RESOURCE DEFINITIONS\n1   a     -\n"},
		{line: "comp create -n b -f table", out: "ID  NAME  RESOURCE DEFINITIONS\n2   b     -\n"},
		{line: "env create --id 1 -i a,b -l nodes -f table",
			out: "ID  COMPONENTS  HIERARCHY LEVELS\n1   1,2         nodes\n"},
		{line: "env create --id 2 -i a -l role -f table", out: "ID  COMPONENTS  HIERARCHY LEVELS\n2   1           role\n"},
		{line: "config import hiera " + good + " --env 1 --node 1", code: term.ExitConflict,
			err: `environment 1: no component "fuel", only "a,b"`},
		{line: "config import hiera " + good + " --env 1 --node 1 --component b",
			out: "Resource_definition globals with id 1 was created\nnode 1 was created\nglobals: created, version 1\n"},
		{line: "config import hiera " + good + " --env 2 --node 1", code: term.ExitRejected,
			err: "must have one"},
	})
	if err := os.Symlink("/nowhere/at/all", filepath.Join(good, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	types(t, env, []typed{{line: "config import hiera " + good + " --env 1 --node 1", code: term.ExitNotFound,
		err: "link.yaml"}})
}

// The way of a node that is deployed again: its files are made anew, uploaded, and get the overrides back.
func TestOverridesOutliveADeployment(t *testing.T) {
	env := clitest.ServeFacts(t)
	dir := aNode(t)
	astute := textOfFile(t, filepath.Join(dir, "astute.yaml"))
	in := func(command string) string { return "config " + command + " " + dir + " --env 1" }
	if got := cli(t, env, "", clitest.ShellWords(in("import hiera"))...); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	types(t, env, []typed{
		{line: in("verify"), out: "4 resources: the same\n"},
		{line: in("export hiera") + " --effective", out: "no differences\n"},
		{line: "config override -e 1 -l node=node-1.domain.tld -r astute -k deployment_id -v 2",
			out: "ResourceOverride for key deployment_id was set\n"},
		{line: "config override -e 1 -r override/node -k debug -v true", out: "ResourceOverride for key debug was set\n"},
		{line: in("verify"), code: term.ExitError, out: "astute: ~ deployment_id: 1 -> 2\noverride/node: + debug: true\n",
			err: "2 resources of node 1 differ"},
		{line: in("export hiera"), out: "no differences\n"}, // its values are what it has uploaded
		{line: in("export hiera") + " --effective --dry-run",
			out: "astute.yaml: would be changed\noverride/node.yaml: would be created\n"},
		{line: in("export hiera") + " --effective", out: "astute.yaml: changed\noverride/node.yaml: created\n"},
		{line: in("export hiera") + " --effective", out: "no differences\n"},
		{line: in("verify"), out: "5 resources: the same\n"},
	})
	if info, err := os.Stat(filepath.Join(dir, "astute.yaml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if text := textOfFile(t, filepath.Join(dir, "README")); text != "not Hiera's" {
		t.Errorf("a stranger's file: %q", text)
	}
	// Deployed again.
	if err := os.WriteFile(filepath.Join(dir, "astute.yaml"), []byte(strings.Replace(astute, "1500.0", "9000", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	types(t, env, []typed{
		{line: in("import hiera"), out: "astute: changed, version 2\noverride/node: created, version 1\n"},
		{line: in("export hiera") + " --effective", out: "astute.yaml: changed\n"},
		{line: in("verify"), out: "5 resources: the same\n"},
	})
	got, _, err := configdb.FromYAML([]byte(textOfFile(t, filepath.Join(dir, "astute.yaml"))))
	if id, missing := configdb.At(got, []string{"deployment_id"}); err != nil || missing != nil || id.String() != "2" ||
		!strings.Contains(got.String(), `"mtu":9000`) {
		t.Errorf("%s %v %v", got, err, missing)
	}
	// What holds nothing good is mended, once the node is named.
	if err := os.WriteFile(filepath.Join(dir, "astute.yaml"), []byte("a: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	types(t, env, []typed{{line: in("export hiera") + " --effective --node 1", out: "astute.yaml: changed\n"}})
}

// Secrets are shown to nobody who verifies, and masks are written into no file.
func TestSecretsOfATree(t *testing.T) {
	env := clitest.ServeFacts(t)
	dir := plant(t, map[string]string{"astute.yaml": "db: {password: hush, user: nova}\n"})
	viewer := map[string]string{"EDGESPAN_CONTROLLER": env["EDGESPAN_CONTROLLER"],
		"EDGESPAN_TOKEN_FILE": clitest.SecretFile(t, "looks"), "HOME": env["HOME"]}
	tail := " --env 1 --node 1"
	if got := cli(t, env, "", clitest.ShellWords("config import hiera "+dir+tail)...); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	types(t, env, []typed{
		{line: "config secrets set astute *.password", out: "Secrets of resource_definition with id 1 were set\n"},
		{line: "config set -e 1 -l nodes=1 -r astute -k db.password -v louder",
			out: "ResourceValue for key db.password was set\n"},
		{line: "config verify " + dir + tail, code: term.ExitError,
			out: "astute: ~ db.password: {\"$masked\":true} -> {\"$masked\":true}\n", err: "1 resource of node 1 differ"},
	})
	types(t, viewer, []typed{
		{line: "config verify " + dir + tail, out: "1 resource: the same\n", err: "astute: has secrets that you may not see"},
		{line: "config export hiera " + dir + tail, code: term.ExitPermission, err: "has secrets that you may not see"},
		{line: "config import hiera " + dir + tail, code: term.ExitPermission, err: "operator"},
	})
	if text := textOfFile(t, filepath.Join(dir, "astute.yaml")); text != "db: {password: hush, user: nova}\n" {
		t.Errorf("%q", text)
	}
}

// Many nodes that import first at the same time make one component, one environment and each data source once; so do
// those that bring another data source later.
func TestManyNodesImportFirst(t *testing.T) {
	env := clitest.ServeFacts(t)
	const nodes = 8
	var dirs []string
	for n := range nodes {
		dirs = append(dirs, plant(t, map[string]string{"astute.yaml": fmt.Sprintf("uid: %d\n", n+1), "extra.yaml": "a: 1\n"}))
	}
	all := func() {
		var wait sync.WaitGroup
		for n, dir := range dirs {
			wait.Go(func() {
				if got := cli(t, env, "", "config", "import", "hiera", dir, "--env", "1"); got.Code != 0 {
					t.Errorf("node %d: %+v", n+1, got)
				}
			})
		}
		wait.Wait()
	}
	all()
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "late.yaml"), []byte("b: 2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all()
	got := cli(t, env, "", clitest.ShellWords("def list")...)
	for _, name := range []string{"astute", "extra", "late"} {
		if strings.Count(got.Out, `"`+name+`"`) != 1 {
			t.Errorf("%s is not there once: %s", name, got.Out)
		}
	}
	for n := range nodes {
		if got := cli(t, env, "", "config", "verify", dirs[n], "--env", "1"); got.Out != "3 resources: the same\n" {
			t.Errorf("node %d: %+v", n+1, got)
		}
	}
}

// An operator uploads into what is there, without registering other names.
func TestAnOperatorImports(t *testing.T) {
	h := clitest.FactsHandler(t, clitest.FactsDoor{})
	s := httptest.NewServer(http.HandlerFunc(h.ServeHTTP))
	t.Cleanup(s.Close)
	env := map[string]string{"EDGESPAN_CONTROLLER": s.URL, "EDGESPAN_TOKEN_FILE": clitest.SecretFile(t, "secret"),
		"HOME": t.TempDir()}
	operator := map[string]string{"EDGESPAN_CONTROLLER": s.URL, "EDGESPAN_USER": "olga", "EDGESPAN_PASSWORD": "pass word",
		"HOME": t.TempDir()}
	dir := aNode(t)
	tail := " --env 1 --node 2"
	if got := cli(t, env, "",
		clitest.ShellWords("config import hiera "+dir+" --env 1 --fqdn node-2.domain.tld"+" --node 9")...); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	types(t, operator, []typed{
		{line: "config import hiera " + dir + tail,
			out: "node 2 was created\nastute: created, version 1\nglobals: created, version 1\noverride/configuration/role: " +
				"created, version 1\noverride/plugins: created, version 1\n",
			err: "node 2: not registered as node-1.domain.tld: an admin can do that"},
		{line: "config import hiera " + dir + tail + " --fqdn mine", code: term.ExitPermission, err: "admin"},
	})
}

// TestTheExamplesOfATreeOnTheFactsPage runs the console blocks of two chapters of docs/configdb.md, from the first to
// the last; stdout comes before stderr.
func TestTheExamplesOfATreeOnTheFactsPage(t *testing.T) {
	page := textOfFile(t, "../../../docs/configdb.md")
	env := clitest.ServeFacts(t)
	t.Chdir(t.TempDir())
	ran := 0
	for _, chapter := range []string{"A node's /etc/hiera", "Facts of a node"} {
		_, text, found := strings.Cut(page, "\n## "+chapter+"\n")
		if text, _, _ = strings.Cut(text, "\n## "); !found {
			t.Fatalf("there is no chapter %q", chapter)
		}
		for _, e := range clitest.ConsoleExamples(text) {
			words := clitest.ShellWords(e.Command)
			if words[0] == "cat" {
				if err := os.MkdirAll(filepath.Dir(words[1]), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(words[1], []byte(e.Output), 0o600); err != nil {
					t.Fatal(err)
				}
				continue
			}
			ran++
			if got := cli(t, env, "", words[1:]...); !clitest.MatchElided(got.Out+got.Err, e.Output) {
				t.Errorf("$ %s\nexit %d and\n%s%swant\n%s", e.Command, got.Code, got.Out, got.Err, e.Output)
			}
		}
	}
	if ran < 10 {
		t.Errorf("%d examples", ran)
	}
}
