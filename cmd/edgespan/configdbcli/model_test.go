package configdbcli

import (
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
)

// Both spellings of each group, and each of their commands.
func TestModelCommands(t *testing.T) {
	env := serveEnvironment(t)
	types(t, env, []typed{
		{line: "env list -f table", out: "ID  COMPONENTS  HIERARCHY LEVELS\n1   1           nodes\n"},
		{line: "config env list -f table", out: "ID  COMPONENTS  HIERARCHY LEVELS\n1   1           nodes\n"},
		{line: "env create", out: "{\n  \"components\": [],\n  \"hierarchy_levels\": [],\n  \"id\": 2\n}\n"},
		{line: "env update 2 -i fuel,1 -l a,b", code: term.ExitConflict,
			out: "components of an environment: 1 (\"fuel\") is there twice: duplicate key value violates unique constraint: " +
				"must be unique\n", err: "duplicate"},
		{line: "env update 2 -i 1 -l a,b", out: "Environment with id 2 was updated\n"},
		{line: "env show 2 -f yaml", out: "components:\n  - 1\nhierarchy_levels:\n  - a\n  - b\nid: 2\n"},
		{line: "config env update 2 -i []", out: "Environment with id 2 was updated\n"},
		{line: "env show 2 -f table", out: "ID  COMPONENTS  HIERARCHY LEVELS\n2   -           a,b\n"},
		{line: "env update 2 -l []", out: "Environment with id 2 was updated\n"},
		{line: "env update 2", code: term.ExitUsage,
			err: "--components, --levels, --self-registration or --strict-nodes"},
		{line: "env update 2 -i nobody", code: term.ExitNotFound, err: "nobody"},
		{line: "env create --id 2", code: term.ExitConflict,
			out: "environment id 2: duplicate key value violates unique constraint: it is that of environment 2: " +
				"must be another one\n", err: "2"},
		{line: "env delete 2", out: "Environment with id 2 was deleted\n"},
		{line: "env delete 2", code: term.ExitNotFound, err: "2"},
		{line: "env show 2", code: term.ExitNotFound, err: "2"},
		{line: "env show two", code: term.ExitUsage, err: `ID: invalid value "two": must be a number`},
		{line: "env show", code: term.ExitUsage, err: "must be one ID"},

		// What the original's tests look for.
		{line: "comp create -n fuel", code: term.ExitConflict,
			out: "component name \"fuel\": duplicate key value violates unique constraint: it is that of component 1: " +
				"must be another one\n", err: "duplicate key value violates unique constraint"},
		{line: "comp create", code: term.ExitUsage, err: "--name: required"},
		{line: "comp create -n other --id 9 -f table", out: "ID  NAME   RESOURCE DEFINITIONS\n9   other  -\n"},
		{line: "comp update 9 -n another", out: "Component with id 9 was updated\n"},
		{line: "def create -n extra -i another -f table", out: "ID  NAME   COMPONENT  CONTENT\n4   extra  9          null\n"},
		{line: "comp show another",
			out: "{\n  \"id\": 9,\n  \"name\": \"another\",\n  \"resource_definitions\": [\n    {\n      \"component_id\": " +
				"9,\n      \"content\": null,\n      \"id\": 4,\n      \"name\": \"extra\"\n    }\n  ]\n}\n"},
		{line: "comp update another", code: term.ExitUsage, err: "--name or --resource-definitions"},
		{line: "comp update another -r x", code: term.ExitUsage, err: `--resource-definitions: invalid value "x"`},
		{line: "comp update another -r 4,77", code: term.ExitNotFound, err: "77"},
		{line: "comp update another -r []", out: "Component with id 9 was updated\n"},
		{line: "def show 4", code: term.ExitNotFound, err: "4"},
		{line: "config comp list -f table",
			out: "ID  NAME     RESOURCE DEFINITIONS\n1   fuel     1 astute, 2 globals, 3 override/node\n9   another  -\n"},
		{line: "comp delete another", out: "Component with id 9 was deleted\n"},
		{line: "comp delete another", code: term.ExitNotFound, err: `component "another": not found`},
		{line: "comp delete 9", code: term.ExitNotFound, err: "9"},
	})
}

func TestDefinitionCommands(t *testing.T) {
	env := serveEnvironment(t)
	both := "mutually exclusive"
	types(t, env, []typed{
		{line: `def create -n a -p '{"x": 1.0}' -t json -f yaml`,
			out: "component_id: null\ncontent:\n  x: 1.0\nid: 4\nname: a\n"},
		{line: `def create -n b -i fuel -p 'x: 2' -t yaml -f table`,
			out: "ID  NAME  COMPONENT  CONTENT\n5   b     1          {\"x\":2}\n"},
		{line: "def create -n c -d yaml -f table", stdin: "x: 3\n",
			out: "ID  NAME  COMPONENT  CONTENT\n6   c     -          {\"x\":3}\n"},
		{line: "def create -n c -p x -d json", code: term.ExitUsage, err: both},
		{line: "def create -n c -p x", code: term.ExitUsage, err: "--content and --type: only one of them given"},
		{line: "def create -n c -t json", code: term.ExitUsage, err: "--content and --type: only one of them given"},
		{line: "def create -n c -d json -t json", code: term.ExitUsage, err: "--type and --data-format: mutually exclusive"},
		{line: "def create -n c -p x -t str", code: term.ExitUsage, err: `--type: invalid value "str": must be json or yaml`},
		{line: "def create -n c -d str", code: term.ExitUsage, err: `--data-format: invalid value "str"`},
		{line: "def create -n c -d json", stdin: "{", code: term.ExitRejected, err: "stdin: "},
		{line: "def create", code: term.ExitUsage, err: "--name: required"},
		{line: "def update c -n d -i fuel -p null -t json", out: "Resource_definition with id 6 was updated\n"},
		{line: "def show d -f table", out: "ID  NAME  COMPONENT  CONTENT\n6   d     1          null\n"},
		{line: "def update 6 -d json", stdin: `{"$template": {"y": 1}}`, out: "Resource_definition with id 6 was updated\n"},
		{line: "config get -e 1 -r d -k y -f plain", out: "1\n"}, // content that is marked is the lowest of the values
		{line: "def update d", code: term.ExitUsage, err: "def update: nothing to update"},
		{line: "config def delete d", out: "Resource_definition with id 6 was deleted\n"},
		{line: "def delete d", code: term.ExitNotFound, err: `resource definition "d": not found`},
		{line: "comp create -n second -f table", out: "ID  NAME    RESOURCE DEFINITIONS\n2   second  -\n"},
		{line: "def create -n astute -i second -f table",
			out: "ID  NAME    COMPONENT  CONTENT\n7   astute  2          null\n"},
		{line: "def show astute", code: term.ExitConflict,
			err: `resource definition "astute": ambiguous name: must be one of the IDs 1,7`},
		{line: "def list -f table",
			out: "ID  NAME           COMPONENT  CONTENT\n1   astute         1          null\n2   globals        1          " +
				"null\n3   override/node  1          null\n" +
				"4   a              -          {\"x\":1.0}\n5   b              1          {\"x\":2}\n7   astute         2         " +
				" null\n"},
	})
}

func TestNodesAndSecretsOfTheCommandLine(t *testing.T) {
	env := serveEnvironment(t)
	viewer := map[string]string{"EDGESPAN_CONTROLLER": env["EDGESPAN_CONTROLLER"],
		"EDGESPAN_TOKEN_FILE": clitest.SecretFile(t, "looks"), "HOME": env["HOME"]}
	types(t, env, []typed{
		{line: "config node set -e 1 1 --fqdn n1.test --certname n1.puppet", out: "Node 1 was registered in environment 1\n"},
		{line: "config node list -e 1 -f table", out: "ID  FQDN     CERTNAME   LEVELS\n1   n1.test  n1.puppet  -\n"},
		{line: "config node set -e 1 1 --levels nodes=1", code: term.ExitRejected,
			err: `"nodes" is that of the nodes themselves`},
		{line: "config node set -e 1 1 --levels role", code: term.ExitUsage,
			err: `--levels: invalid value "role": must be LEVEL=VALUE, or several separated by commas`},
		{line: "config node set -e 1 1 --levels ''", code: term.ExitUsage, err: `--levels: invalid value ""`},
		{line: "config node set -e 1 1 --levels role=a,role=b", code: term.ExitUsage,
			err: `--levels: duplicate level "role": give each level once`},
		{line: "env create --id 2 -l release,role,nodes -f table",
			out: "ID  COMPONENTS  HIERARCHY LEVELS\n2   -           release,role,nodes\n"},
		{line: "config node set -e 2 1 --levels role=compute,release=9.0", out: "Node 1 was registered in environment 2\n"},
		{line: "config node set -e 2 1 --certname n1.other", out: "Node 1 was registered in environment 2\n"},
		{line: "config node list -e 2 -f table",
			out: "ID  FQDN  CERTNAME  LEVELS\n1   -     n1.other  release=9.0,role=compute\n"},
		{line: "config node set -e 2 1 --levels []", out: "Node 1 was registered in environment 2\n"},
		{line: "config node list -e 2 -f table", out: "ID  FQDN  CERTNAME  LEVELS\n1   -     -         -\n"},
		{line: "config set -e 1 -l node=n1.puppet -r astute -k db.password -v x", code: term.ExitConflict,
			err: "Keys path doesn't exist"},
		{line: "config set -e 1 -l node=n1.puppet -r astute", stdin: `{"db": {"password": "hush", "user": "nova"}}`,
			out: "ResourceValue was set\n"},
		{line: "config get -e 1 -l nodes=n1.test -r astute -k db.user -f plain", out: "nova\n"},
		{line: "config get -e 1 -l nodes=stranger -r astute", out: "{}\n"},
		{line: "env update 1 --strict-nodes", out: "Environment with id 1 was updated\n"},
		{line: "config get -e 1 -l nodes=stranger -r astute", code: term.ExitNotFound, err: "stranger"},
		{line: "env update 1 --strict-nodes=false --self-registration", out: "Environment with id 1 was updated\n"},
		{line: "env show 1 -f yaml",
			out: "components:\n  - 1\nhierarchy_levels:\n  - nodes\nid: 1\nself_registration: true\n"},
		{line: "config secrets set astute db.password other.*", out: "Secrets of resource_definition with id 1 were set\n"},
		{line: "config secrets show 1 -f plain", code: term.ExitUsage, err: "--format: "},
		{line: "config secrets show 1 -f yaml", out: "- db.password\n- \"other.*\"\n"},
		{line: "config get -e 1 -l nodes=1 -r astute -k db -f plain", out: "{\"password\":\"hush\",\"user\":\"nova\"}\n"},
	})
	types(t, viewer, []typed{
		{line: "config get -e 1 -l nodes=1 -r astute -k db -f plain",
			out: "{\"password\":{\"$masked\":true},\"user\":\"nova\"}\n"},
		{line: "config set -e 1 -l nodes=1 -r astute -k a -v 1", code: term.ExitPermission, err: "operator"},
		{line: "config node del -e 1 1", code: term.ExitPermission, err: "admin"},
	})
	types(t, env, []typed{
		{line: "config secrets set 1 []", out: "Secrets of resource_definition with id 1 were set\n"},
		{line: "config secrets show astute", out: "[]\n"},
		{line: "config node del -e 1 n1.test", out: "Node n1.test was taken from environment 1\n"},
		{line: "config node del -e 1 n1.test", code: term.ExitNotFound, err: "n1.test"},
		{line: "config node list", code: term.ExitUsage, err: "--env: required"},
	})
}

func TestVersionsOfTheCommandLine(t *testing.T) {
	env := serveEnvironment(t)
	const record = " -e 1 -r astute"
	types(t, env, []typed{
		{line: "config set -k a -v 1 -m first" + record, out: "ResourceValue for key a was set\n"},
		{line: "config set -k b -v 2" + record, out: "ResourceValue for key b was set\n"},
		{line: "config set -k a -v 3" + record, out: "ResourceValue for key a was set\n"},
		{line: "config set -k a -v 3" + record, out: "ResourceValue for key a was set\n"}, // no version of its own
		{line: "config history" + record, out: `VERSION  REVISION  TIME                  AUTHOR  SIZE  MESSAGE
3        8         2026-11-21T12:00:00Z  ann     13    -
2        7         2026-11-21T12:00:00Z  ann     13    -
1        6         2026-11-21T12:00:00Z  ann     7     first
`},
		{line: "config history --limit 1 --before 3" + record,
			out: "VERSION  REVISION  TIME                  AUTHOR  SIZE  MESSAGE\n2        7         2026-11-21T12:00:00Z  " +
				"ann     13    -\n"},
		{line: "config history --overrides" + record, err: "no versions"},
		{line: "config history -e 1 --limit 2 -f table",
			out: `REVISION  TIME                  AUTHOR  CHANGES                    MESSAGE
8         2026-11-21T12:00:00Z  ann     values of astute: changed  -
7         2026-11-21T12:00:00Z  ann     values of astute: changed  -
`},
		{line: "config get --version 1 -f plain" + record, out: "{\"a\":1}\n"},
		{line: "config get --version 9 -f plain" + record, code: term.ExitNotFound, err: "9"},
		{line: "config get --revision 7 -f plain" + record, out: "{\"a\":1,\"b\":2}\n"},
		{line: "config diff" + record, out: "~ a: 1 -> 3\n"},
		{line: "config diff 1" + record, out: "~ a: 1 -> 3\n+ b: 2\n"},
		{line: "config diff 0 1 -f yaml" + record, out: "- op: add\n  path: /a\n  value: 1\n"},
		{line: "config diff 1 1" + record, err: "no differences"},
		{line: "config diff 1 0" + record, code: term.ExitUsage, err: "second VERSION: invalid value 0"},
		{line: "config diff 1 9" + record, code: term.ExitNotFound, err: "9"},
		{line: "config diff x" + record, code: term.ExitUsage, err: "VERSION"},
		{line: "config diff --overrides" + record, code: term.ExitNotFound, err: "no versions"},
		{line: "config rollback --version 1 --dry-run" + record, out: "values of astute would be changed\n"},
		{line: "config get -f plain" + record, out: "{\"a\":3,\"b\":2}\n"},
		{line: "config rollback --version 1" + record, out: "ResourceValue rolled back to version 1\n"},
		{line: "config rollback --version 1" + record, err: "no change"},
		{line: "config get -f plain" + record, out: "{\"a\":1}\n"},
		{line: "config rollback --revision 7" + record, out: "ResourceValue rolled back to revision 7\n"},
		{line: "config get -f plain" + record, out: "{\"a\":1,\"b\":2}\n"},
		{line: "config override -k c -v 9" + record, out: "ResourceOverride for key c was set\n"},
		{line: "config rollback -e 1 --revision 6", out: "2 records rolled back to revision 6\n"},
		{line: "config get -f plain" + record, out: "{\"a\":1}\n"},
		{line: "config rollback -e 1 --version 6", code: term.ExitUsage, err: "--resource: required"},
		{line: "config rollback" + record, code: term.ExitUsage, err: "requires either --version or --revision"},
		{line: "config del --all" + record, out: "ResourceValue was deleted\n"},
		{line: "config history --limit 1" + record, out: `VERSION  REVISION  TIME                  AUTHOR  SIZE     MESSAGE
-        13        2026-11-21T12:00:00Z  ann     removed  -
6        12        2026-11-21T12:00:00Z  ann     7        -
`},
		{line: "config diff" + record, out: "- b: 2\n"},
		{line: "config set -k a -v 1" + record, out: "ResourceValue for key a was set\n"},
		{line: "config history --limit 1" + record,
			out: "VERSION  REVISION  TIME                  AUTHOR  SIZE  MESSAGE\n7        14        2026-11-21T12:00:00Z  " +
				"ann     7     -\n"},
		{line: "config history --level nodes=1 -e 1", code: term.ExitUsage, err: "--resource: required"},
		{line: "config history -r astute", code: term.ExitUsage, err: "--resource: requires --env"},
		{line: "config history -e 9", code: term.ExitNotFound, err: "9"},
		{line: "env create --id 9 -f table", out: "ID  COMPONENTS  HIERARCHY LEVELS\n9   -           -\n"},
		{line: "env delete 9", out: "Environment with id 9 was deleted\n"},
		{line: "config history -e 9 --limit 1",
			out: "REVISION  TIME                  AUTHOR  CHANGES                 MESSAGE\n16        2026-11-21T12:00:00Z  " +
				"ann     environment 9: deleted  -\n"},
		{line: "config history --limit 0", code: term.ExitUsage, err: "--limit: invalid value 0"},
		{line: "config set -e 1 -l nodes=1 -r astute", stdin: "{}", out: "ResourceValue was set\n"},
		{line: "config override -e 1 -l nodes=1 -r astute --dry-run", stdin: "{}",
			out: "overrides of astute at nodes=1 would be created\n"},
		{line: "config override -e 1 -l nodes=1 -r astute", stdin: "{}", out: "ResourceOverride was set\n"},
		{line: "config history --limit 1",
			out: `REVISION  TIME                  AUTHOR  CHANGES                                                   MESSAGE
18        2026-11-21T12:00:00Z  ann     overrides of astute at nodes=1 in environment 1: created  -
`},
		{line: "config history -e 1 --limit 1",
			out: `REVISION  TIME                  AUTHOR  CHANGES                                  MESSAGE
18        2026-11-21T12:00:00Z  ann     overrides of astute at nodes=1: created  -
`},
		{line: "config set -k a -v 7 --dry-run" + record, out: "values of astute would be changed\n"},
		{line: "config set -k a -v 1 --dry-run" + record, out: "no changes\n"},
	})
	tag := strings.TrimSpace(cli(t, env, "", clitest.ShellWords("config get --values --etag"+record)...).Out)
	types(t, env, []typed{
		{line: "config set -k a -v 5 --if-match '" + tag + "'" + record, out: "ResourceValue for key a was set\n"},
		{line: "config set -k a -v 6 --if-match '" + tag + "'" + record, code: term.ExitConflict, err: "If-Match"},
		{line: "config del -k a --if-match " + strings.Trim(tag, `"`) + record, code: term.ExitConflict, err: "If-Match"},
		{line: "config get -k a -f plain" + record, out: "5\n"},
	})
}

// What scripts for the original's command line ask for: some columns, values alone, and the columns that it has of
// levels.
func TestColumnsAndValues(t *testing.T) {
	types(t, serveEnvironment(t), []typed{
		{line: "comp create -n second -f value -c id", out: "2\n"},
		{line: "def create -n own -i second -f value -c name -c id", out: "own\n4\n"},
		{line: "def show own -f table -c name", out: "NAME\nown\n"},
		{line: "env create --id 9 -i fuel -l role,nodes -f value -c hierarchy_levels", out: "[\"role\",\"nodes\"]\n"},
		{line: "env list -f value -c id -c hierarchy_levels", out: "1 [\"nodes\"]\n9 [\"role\",\"nodes\"]\n"},
		{line: "env list -c id", out: "[\n  {\n    \"id\": 1\n  },\n  {\n    \"id\": 9\n  }\n]\n"},
		{line: "comp list -c nothing", code: term.ExitUsage,
			err: `--column: invalid value "nothing": must be one of id, name, resource_definitions`},
		{line: "comp list -f table -c nothing", code: term.ExitUsage, err: `--column: invalid value "nothing"`},
		{line: "config set -e 9 -l role=a,nodes=1 -r astute", stdin: `{"a": {"b": 2}, "s": "text"}`,
			out: "ResourceValue was set\n"},
		{line: "config get -e 9 -l role=a,nodes=1 -r astute -f value", out: "{\"b\":2}\ntext\n"},
		{line: "config get -e 9 -l role=a,nodes=1 -r astute -f value -c s", out: "text\n"},
		{line: "config get -e 9 -l role=a,nodes=1 -r astute -k a.b -f value", out: "2\n"},
		{line: "lvl list -e 9 -f yaml",
			out: "- id: 2\n  name: role\n  parent: null\n  values:\n    - a\n- id: 3\n  name: nodes\n  parent: role\n  " +
				"values:\n    - \"1\"\n"},
		{line: "lvl show -e 9 role -f value", out: "2\nrole\nnull\n[\"a\"]\n"},
		{line: "lvl list -e 9 -f value -c name", out: "role\nnodes\n"},
	})
}
