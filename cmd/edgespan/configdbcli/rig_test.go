package configdbcli

import (
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
)

// typed is a command line, what it is given, and what it says.
type typed struct {
	line, stdin string
	code        int
	out, err    string // err: a part of it, "": nothing
}

// types types command lines, one after the other.
func types(t *testing.T, env map[string]string, all []typed) {
	t.Helper()
	for _, s := range all {
		got := cli(t, env, s.stdin, clitest.ShellWords(s.line)...)
		if got.Code != s.code || got.Out != s.out || s.err == "" && got.Err != "" || !strings.Contains(got.Err, s.err) {
			t.Errorf("edgespan %s\nexit %d, out %q, err %q\nwant %d, %q, %q", s.line, got.Code, got.Out, got.Err, s.code, s.out,
				s.err)
		}
	}
}

// anEnvironment is environment 1 of a component fuel with astute (1), globals (2) and override/node (3), whose only
// level is nodes.
var anEnvironment = []typed{
	{line: "comp create --name fuel", out: "{\n  \"id\": 1,\n  \"name\": \"fuel\",\n  \"resource_definitions\": []\n}\n"},
	{line: "def create -n astute -i fuel",
		out: "{\n  \"component_id\": 1,\n  \"content\": null,\n  \"id\": 1,\n  \"name\": \"astute\"\n}\n"},
	{line: "def create -n globals -i 1",
		out: "{\n  \"component_id\": 1,\n  \"content\": null,\n  \"id\": 2,\n  \"name\": \"globals\"\n}\n"},
	{line: "def create -n override/node -i 1",
		out: "{\n  \"component_id\": 1,\n  \"content\": null,\n  \"id\": 3,\n  \"name\": \"override/node\"\n}\n"},
	{line: "env create --id 1 -i fuel -l nodes",
		out: "{\n  \"components\": [\n    1\n  ],\n  \"hierarchy_levels\": [\n    \"nodes\"\n  ],\n  \"id\": 1\n}\n"},
}

// serveEnvironment serves that environment.
func serveEnvironment(t *testing.T) map[string]string {
	t.Helper()
	env := clitest.ServeFacts(t)
	types(t, env, anEnvironment)
	return env
}

// program has the commands of this package.
var program = clitest.RootOf(Commands)

// cli runs a command line of them.
func cli(t *testing.T, env map[string]string, stdin string, args ...string) clitest.Said {
	t.Helper()
	return clitest.Run(t, program, env, stdin, args...)
}
