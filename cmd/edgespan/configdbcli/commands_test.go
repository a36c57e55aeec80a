package configdbcli

import (
	"strings"
	"testing"

	"edgespan/cmd/term"
)

// The commands of the seed's use cases, word for word, but for the name of the program. The facts are
// those of a node's /etc/hiera/astute.yaml, with what tells a reader of YAML and JSON apart.
func TestSeed_UseCases(t *testing.T) {
	env := serveEnvironment(t)
	const get, astute = "config get --env 1 --level node=node-1.domain.tld --resource astute",
		"deployment_id: 1\nfqdn: node-1.domain.tld\nmtu: 1500.0\nid: 12345678901234567890\ndebug: no\n"
	types(t, env, []typed{
		{line: "config node set --env 1 1 --fqdn node-1.domain.tld", out: "Node 1 was registered in environment 1\n"},
		{line: "config set --env 1 --level nodes=1 --resource astute --format yaml", stdin: astute,
			out: "ResourceValue was set\n"},
		// 1: all deployment data for a node.
		{line: get, out: "{\n  \"debug\": false,\n  \"deployment_id\": 1,\n  \"fqdn\": \"node-1.domain.tld\",\n  \"id\": " +
			"12345678901234567890,\n  \"mtu\": 1500.0\n}\n"},
		{line: get + " --format yaml",
			out: "debug: false\ndeployment_id: 1\nfqdn: node-1.domain.tld\nid: 12345678901234567890\nmtu: 1500.0\n"},
		// 2: a key.
		{line: get + " --key deployment_id", out: "{\n  \"deployment_id\": 1\n}\n"},
		// 3: override it, and look it up.
		{line: "config override --env 1 --level node=node-1.domain.tld --resource astute --key deployment_id --value 2",
			out: "ResourceOverride for key deployment_id was set\n"},
		{line: get + " --key deployment_id", out: "{\n  \"deployment_id\": 2\n}\n"},
		// The values themselves are unchanged, and a new upload leaves the override where it is.
		{line: get + " --key deployment_id --values --format plain", out: "1\n"},
		{line: "config set --env 1 --level nodes=1 --resource astute --format yaml", stdin: "deployment_id: 7\n",
			out: "ResourceValue was set\n"},
		{line: get + " --key deployment_id --format plain", out: "2\n"},
	})
}

// Each form that the seed and its implementations have for a value, and what is then read.
func TestValuesOfTheCommandLine(t *testing.T) {
	env := serveEnvironment(t)
	for _, c := range []struct{ flags, stdin, want, err string }{
		{flags: "--type null", want: "null"},
		{flags: "--type int --value 4", want: "4"},
		{flags: "--type int --value ' -1_000 '", want: "-1000"},
		{flags: "--type int --value +007", want: "7"},
		{flags: "--type int --value 123456789012345678901234567890", want: "123456789012345678901234567890"},
		{flags: "--type int --value 1.0", err: `Bad value for 'int' type: "1.0"`},
		{flags: "--type int --value 1__0", err: "Bad value for 'int' type"},
		{flags: "--type str --value 4", want: `"4"`},
		{flags: "--type str --value ''", want: `""`},
		{flags: "--type bool --value TRUE", want: "true"},
		{flags: "--type bool --value 1", want: "true"},
		{flags: "--type bool --value 0", want: "false"},
		{flags: "--type bool --value false", want: "false"},
		{flags: "--type bool --value yes", err: `Bad value for 'bool' type: "yes": must be 1, true, 0 or false`},
		{flags: `--type json --value '{"b":[1.0,null],"a":"x"}'`, want: `{"a":"x","b":[1.0,null]}`},
		{flags: "--type json --value {a", err: "Bad value for 'json' type"},
		{flags: "--type yaml --value '[a, {b: 1}]'", want: `["a",{"b":1}]`},
		{flags: "--type yaml --value '{'", err: "Bad value for 'yaml' type"},
		{flags: "--type json", stdin: `[1, 2]`, want: "[1,2]"},
		{flags: "--type yaml", stdin: "a: 1\n", want: `{"a":1}`},
		{flags: "--format yaml", stdin: "- 1\n- ~\n", want: "[1,null]"},
		{flags: "", stdin: `"x"`, want: `"x"`},
		{flags: "--value 2", want: "2"},
		{flags: "--value true", want: "true"},
		{flags: "--value text", want: `"text"`},
		{flags: `--value '"2"'`, want: `"2"`},
		{flags: "--value 1.10", want: "1.10"},
		{flags: "--value ~", want: "null"},
		{flags: "--value ''", want: "null"},
		{flags: "--value [1]", err: "must be a YAML scalar"},
		{flags: "--value 'a: b'", err: "must be a YAML scalar"},
		{flags: "--value 'a: b: c'", err: "must be a YAML scalar"},
		{flags: "--value 1 --format json",
			err: "You shouldn't specify --format if you pass value in command line, specify --type instead."},
		{flags: "--value 1 --type null", err: "You shouldn't specify a value for 'null' type because there can be only one."},
		{flags: "--type int", err: "--type specifies type for value provided in --value but there is not --value argument"},
		{flags: "--type str --format json", err: "--format json and --type str: contradict each other"},
		{flags: "--type float --value 1", err: `--type: invalid value "float": must be null, int, str, json, yaml or bool`},
		{flags: "--format plain", stdin: "1", err: `--format: invalid value "plain": must be json or yaml`},
		{flags: "", err: "stdin: empty"},
	} {
		for command, name := range map[string]string{"set": "ResourceValue", "override": "ResourceOverride"} {
			types(t, env, []typed{
				{line: "config set -e 1 -r globals -t json -v {}", out: "ResourceValue was set\n"},
				{line: "config override -e 1 -r globals -t json -v {}", out: "ResourceOverride was set\n"},
			})
			line := "config " + command + " -e 1 -r globals -k k " + c.flags
			if c.err != "" {
				types(t, env, []typed{{line: line, stdin: c.stdin, code: term.ExitUsage, err: c.err}})
				continue
			}
			types(t, env, []typed{{line: line, stdin: c.stdin, out: name + " for key k was set\n"}})
			if got := cli(t, env, "", "config", "get", "-e", "1", "-r", "globals"); squeezed(got.Out) != `{"k":`+c.want+`}` {
				t.Errorf("%s: %s%s, want %s", line, got.Out, got.Err, c.want)
			}
		}
	}
	types(t, env, []typed{
		{line: "config set -e 1 -r globals --format yaml", stdin: "a: 1\n---\nb: 2\n", out: "ResourceValue was set\n",
			err: "Warning: will use only first document from YAML stream"},
		{line: "config set -e 1 -r globals", stdin: `{"a": 1,}`, code: term.ExitRejected, err: "stdin: "},
		{line: "config set -e 1 -r globals", stdin: `[1]`, code: term.ExitRejected, err: "object"},
		{line: "config set -e 1 -r globals --type null", code: term.ExitRejected, err: "object"},
		{line: `config set -e 1 -r globals --type json --value '{"whole": true}'`, out: "ResourceValue was set\n"},
		{line: "config get -e 1 -r globals -f plain", out: "{\"whole\":true}\n"},
	})
}

// squeezed is JSON without what makes it readable.
func squeezed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line))
	}
	return strings.ReplaceAll(b.String(), `": `, `":`)
}

func TestKeysAndForms(t *testing.T) {
	env := serveEnvironment(t)
	const doc = `{"a": {"b.c": [{"x": 1.0}, "two\nlines"], "n": null}, "text": "plain text", "yes": "yes"}`
	const get = "config get -e 1 -r astute "
	types(t, env, []typed{
		{line: "config set -e 1 -r 1", stdin: doc, out: "ResourceValue was set\n"},
		{line: get + `-k 'a."b.c".0.x'`, out: "{\n  \"a.\\\"b.c\\\".0.x\": 1.0\n}\n"},
		{line: get + `-k 'a."b.c".1' -f plain`, out: "two\nlines\n"},
		{line: get + `-k 'a."b.c".0' -f plain`, out: "{\"x\":1.0}\n"},
		{line: get + "-k a.n -f plain", out: "\n"},
		{line: get + "-k a.n", out: "{\n  \"a.n\": null\n}\n"},
		{line: get + "-k text -f plain", out: "plain text\n"},
		{line: get + "-k text -f yaml", out: "text: plain text\n"},
		{line: get + "-k yes -f yaml", out: "\"yes\": \"yes\"\n"},
		{line: get + "-k text -s", out: "{\n  \"text\": [\n    \"plain text\",\n    \"/\"\n  ]\n}\n"},
		{line: get + "-k a.n -s -f plain", out: "[null,\"/\"]\n"},
		{line: get + "-k a.m", code: term.ExitNotFound, err: "key a.m: Keys path doesn't exist"},
		{line: get + "-k text.deeper", code: term.ExitNotFound, err: "key text.deeper: "},
		{line: get + `-k 'a."b.c".7'`, code: term.ExitNotFound, err: "key a.b.c.7: "},
		{line: get + "-k a..b", code: term.ExitUsage, err: "--key: empty segment in a path"},
		{line: get + "-k ''", code: term.ExitUsage, err: "--key: "},
		{line: get + "-f xml", code: term.ExitUsage,
			err: `--format: invalid value "xml": must be json, yaml, plain or value`},
		{line: get + "-s --values", code: term.ExitUsage, err: "--show-lookup and "},
		{line: get + "--values --overrides", code: term.ExitUsage, err: "--values and "},
		{line: get + "--version 1 --revision 1", code: term.ExitUsage, err: "--version and "},
		{line: get + "--etag", code: term.ExitUsage, err: "--etag: "},
		{line: `config set -e 1 -r astute -k 'a."d.e"' -v 1`, out: "ResourceValue for key a.\"d.e\" was set\n"},
		{line: `config set -e 1 -r astute -k 'a."b.c".0.x' -v 2`, out: "ResourceValue for key a.\"b.c\".0.x was set\n"},
		{line: get + "-k a -f yaml", out: "a:\n  b.c:\n    - x: 2\n    - \"two\\nlines\"\n  d.e: 1\n  \"n\": null\n"},
		{line: "config set -e 1 -r astute -k missing.b -v 1", code: term.ExitConflict, err: "Keys path doesn't exist"},
		{line: `config del -e 1 -r astute -k 'a."d.e"'`, out: "ResourceValue for key a.\"d.e\" was deleted\n"},
		{line: `config del -e 1 -r astute -k 'a."d.e"'`, code: term.ExitNotFound, err: "Keys path doesn't exist"},
		{line: "config del -e 1 -r astute -k text.deeper", code: term.ExitNotFound, err: "text"},
		{line: "config rm override -e 1 -r astute -k text", code: term.ExitNotFound, err: "text"},
		{line: "config del -e 1 -r astute", code: term.ExitUsage, err: "requires either --key or --all"},
		{line: "config del -e 1 -r astute -k a --all", code: term.ExitUsage, err: "requires either --key or --all"},
	})
}

func TestLevelsOfTheCommandLine(t *testing.T) {
	env := serveEnvironment(t)
	get := func(level string) string { return "config get -e 2 -r astute -f plain -l " + level }
	types(t, env, []typed{
		{line: "env create --id 2 -i 1 -l role,node -f table",
			out: "ID  COMPONENTS  HIERARCHY LEVELS\n2   1           role,node\n"},
		{line: "config set -e 2 -r astute -k a -v 1", out: "ResourceValue for key a was set\n"},
		{line: "config set -e 2 -r astute -l role=compute -k b -v 2", out: "ResourceValue for key b was set\n"},
		{line: "config override -e 2 -r astute -l role=compute,nodes=7 -k c -v 3",
			out: "ResourceOverride for key c was set\n"},
		{line: get("role=compute,node=7"), out: "{\"a\":1,\"b\":2,\"c\":3}\n"},
		{line: get("role=compute,nodes=7"), out: "{\"a\":1,\"b\":2,\"c\":3}\n"},
		{line: get("role=compute") + " -s", out: "{\"a\":[1,\"/\"],\"b\":[2,\"/role/compute/\"]}\n"},
		{line: get("role=foo=baz"), out: "{\"a\":1}\n"}, // the value is foo=baz
		{line: get("node=7"), code: term.ExitNotFound, err: "Unexpected level name 'node'. Expected 'role'."},
		{line: get("role=a,node=7,x=y"), code: term.ExitNotFound, err: "can't be matched with environment 2 levels"},
		{line: get("role"), code: term.ExitUsage, err: `--level: invalid value "role": must be LEVEL=VALUE`},
		{line: get("''"), code: term.ExitUsage, err: "--level: "},
		{line: get("role=a,,node=7"), code: term.ExitUsage, err: `--level: invalid value ""`},
		{line: get("role="), code: term.ExitUsage, err: "--level: "},
		{line: "lvl list -e 2 -f table", out: "ID  NAME  PARENT  VALUES\n2   role  -       compute\n3   node  role    7\n"},
		{line: "lvl show -e 2 role",
			out: "{\n  \"id\": 2,\n  \"name\": \"role\",\n  \"parent\": null,\n  \"values\": [\n    \"compute\"\n  ]\n}\n"},
		{line: "env create --id 3 -i 1 -l nodes,node -f table",
			out: "ID  COMPONENTS  HIERARCHY LEVELS\n3   1           nodes,node\n"},
		{line: "config get -e 3 -r astute -l nodes=1,node=2 -f plain", out: "{}\n"}, // each is itself where both are
		{line: "lvl show -e 2 rack", code: term.ExitNotFound, err: "rack"},
		{line: "lvl update -e 2 role -n roles", out: "Hierarchy_level role was renamed to roles\n"},
		{line: "config get -e 2 -r astute -l roles=compute -k b -f plain", out: "2\n"},
	})
}
