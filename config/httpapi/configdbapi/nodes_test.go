package configdbapi

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
)

// nodeRows define what a node may do with each row: a new row must decide. The history and the watch show what others
// have done, and the model what they have: a node may use none of these.
var nodeRows = map[string]nodeMay{
	"GET " + toComponents: nodeNot, "POST " + toComponents: nodeNot, "GET " + toComponent: nodeNot, "PUT " +
		toComponent: nodeNot, "DELETE " + toComponent: nodeNot,
	"GET " + toDefinitions: nodeNot, "POST " + toDefinitions: nodeNot, "GET " + toDefinition: nodeNot, "PUT " +
		toDefinition: nodeNot, "DELETE " + toDefinition: nodeNot,
	"GET " + toSecrets: nodeNot, "PUT " + toSecrets: nodeNot,
	"PUT " + toContentKeys + "get": nodeNot, "PUT " + toContentKeys + "set": nodeNot, "PUT " + toContentKeys +
		"delete": nodeNot,
	"GET " + toEnvironments: nodeNot, "POST " + toEnvironments: nodeNot, "GET " + toEnvironment: nodeNot, "PUT " +
		toEnvironment: nodeNot, "DELETE " + toEnvironment: nodeNot,
	"GET " + toLevels: nodeNot, "GET " + toLevel: nodeNot, "PUT " + toLevel: nodeNot,
	"GET " + toNodes: nodeNot, "GET " + toNode: nodeItself, "PUT " + toNode: nodeItself, "DELETE " + toNode: nodeNot,

	"GET " + inResource + "values": nodeReads, "PUT " + inResource + "values": nodeWrites, "DELETE " + inResource +
		"values": nodeNot,
	"GET " + inResource + "values/history": nodeReads, "GET " + inResource + "values/diff": nodeReads, "POST " +
		inResource + "values/rollback": nodeWrites,
	"PUT " + inResource + "values/keys/get": nodeReads, "PUT " + inResource + "values/keys/set": nodeWrites, "PUT " +
		inResource + "values/keys/delete": nodeWrites,
	"GET " + inResource + "overrides": nodeReads, "PUT " + inResource + "overrides": nodeNot, "DELETE " + inResource +
		"overrides": nodeNot,
	"GET " + inResource + "overrides/history": nodeReads, "GET " + inResource + "overrides/diff": nodeReads, "POST " +
		inResource + "overrides/rollback": nodeNot,
	"PUT " + inResource + "overrides/keys/get": nodeReads, "PUT " + inResource + "overrides/keys/set": nodeNot, "PUT " +
		inResource + "overrides/keys/delete": nodeNot,

	"POST " + toBulk: nodeWrites, "POST " + toRollback: nodeNot,
	"GET " + toHieraData: nodeReads, "GET " + toHieraKey: nodeReads, "POST " + toHieraLookup: nodeReads,
	"GET " + toHistory: nodeNot, "GET " + toRevision: nodeNot, "GET " + toWatch: nodeNot, "GET " + toOpenAPI: nodeNot,
}

// askedOf returns a request of a row at a place, which the fake answers if the caller may make it.
func askedOf(r row, place, token string) asked {
	target := strings.NewReplacer("{environment}", "9", "{levels}", place, "{resource}", "1", "{component}", "1",
		"{definition}", "1",
		"{level}", "nodes", "{node}", "1", "{key}", "a", "{revision}", "7").Replace(r.Path)
	q := asked{method: r.Method, target: target, token: token, body: "{}"}
	switch r.Path {
	case toNode:
		q.body = `{"fqdn":"n1.example","certname":"c1"}`
	case toBulk:
		q.body = `{"resources":{"1":{"values":{}}}}`
	case toHieraLookup:
		q.body = `{"keys":["a"],"resources":["c"]}`
	case toHieraData, toHieraKey:
		q.target += "?resources=c"
	}
	switch tail := target[strings.LastIndex(target, "/")+1:]; {
	case strings.Contains(target, "/keys/"):
		q.body = `[["a",1]]`
	case tail == "diff":
		q.target += "?from=1"
	case tail == "rollback":
		q.body = `{"revision":1}`
	}
	return q
}

// Each route, requested by a node for itself below its declared levels, below others, for another node, and for no
// node.
func TestEachRouteDecidesWhatANodeMay(t *testing.T) {
	for _, r := range table {
		name := r.Method + " " + r.Path
		may, decided := nodeRows[name]
		if !decided {
			t.Errorf("%s: may a node? the table above says it of each route", name)
		}
		for place, own := range map[string]bool{
			"role/r/nodes/1/": true, "nodes/1/": true, "role/r/nodes/n1.example/": true, "role/r/node/1/": true,
			"role/a/nodes/1/": false, "role/r/role/a/nodes/1/": false, "role/a/role/r/nodes/1/": false, "x/r/nodes/1/": false,
			"nodes/1/nodes/1/": false, "role/r/nodes/1/x/1/": false,
			"role/r/nodes/2/": false, "nodes/2/": false, "role/r/": false, "": false,
		} {
			for _, token := range []string{"node", "cert", "new", "newcert"} {
				allowed := may != nodeNot && (own || may == nodeItself) && (token == "node" || token == "cert")
				f := &fake{}
				q := askedOf(r, place, token)
				w := ask(Handler(f, door{}), q)
				heard := f.taken()
				if allowed && w.Code >= 400 || !allowed &&
					(w.Code != http.StatusForbidden || strings.Trim(heard, "; ") != "" && !onlyNode(heard)) {
					t.Errorf("%s by %s: %s %s: %d %s, heard %s", name, token, q.method, q.target, w.Code, w.Body, heard)
				}
			}
		}
	}
	if len(nodeRows) != len(table) {
		t.Errorf("%d rows are decided, there are %d", len(nodeRows), len(table))
	}
}

// onlyNode reports whether the only call was the lookup of the node.
func onlyNode(heard string) bool {
	for _, one := range strings.Split(heard, "; ") {
		if !strings.HasPrefix(one, "Node ") {
			return false
		}
	}
	return true
}

func TestARefusedNodeIsToldWhoDeclaresItsLevels(t *testing.T) {
	for token, want := range map[string]string{
		"node": `GET environments/{environment}/{levels}resources/{resource}/values: not permitted to node 1 at ` +
			`"release=9.0", "role=a\"b", which is not declared of it: ` +
			`an admin can do that: PUT /api/v1/config/environments/9/nodes/1 ` +
			`{"fqdn":"n1.example","certname":"c1","levels":{"release":"9.0","role":"a\"b"}}`,
		"newcert": `an admin can do that: PUT /api/v1/config/environments/9/nodes/c9 {"certname":"c9","levels":{"role":"a"}}`,
	} {
		q := asked{method: "GET", target: `environments/9/release/9.0/role/a%22b/nodes/1/resources/1/values`, token: token}
		if token == "newcert" {
			q = asked{method: "PUT", target: `environments/9/role/a/nodes/c9/resources/1/values`, body: "{}", token: token}
		}
		if w := ask(Handler(&fake{opens: true}, door{}), q); w.Code != 403 || !strings.HasSuffix(msgOf(t, w), want) {
			t.Errorf("%s: %d %s", token, w.Code, w.Body)
		}
	}
}

// A node reads no secret of a role other than its own, whichever way the ledger is queried, and the levels declared for
// it grant exactly these.
func TestANodeReadsTheSecretsOfItsOwnRoleOnly(t *testing.T) {
	h := Handler(newReal(t), door{})
	do := func(token, method, target, body string, want int) string {
		t.Helper()
		w := ask(h, asked{method: method, target: target, body: body, token: token})
		if w.Code != want {
			t.Errorf("%s: %s %s: %d %s, want %d", token, method, target, w.Code, w.Body, want)
		}
		return w.Body.String()
	}
	const env = "environments/1/"
	do("admin", "POST", "components", `{"name":"c","resource_definitions":[{"name":"astute"},{"name":"t"}]}`, 201)
	do("admin", "PUT", "resource_definitions/2", `{"content":{"$template":{"copy":"%{astute:password}"}}}`, 204)
	do("admin", "PUT", "resource_definitions/1/secrets", `{"secrets":["password"]}`, 204)
	do("admin", "POST", "environments", `{"id":1,"components":["c"],"hierarchy_levels":["role","nodes"]}`, 201)
	for _, role := range []string{"controller", "compute"} {
		do("admin", "PUT", env+"role/"+role+"/resources/1/values", `{"password":"of `+role+`"}`, 204)
	}
	all := func(role string) map[string]string {
		at := env + "role/" + role + "/nodes/1/"
		return map[string]string{
			"GET " + at + "resources/1/values?effective": "", "GET " + at + "resources/t/values?effective": "", "GET " + at +
				"resources/1/values?effective&revision=6": "",
			"GET " + at + "hiera/data?resources=astute": "", "GET " + at + "hiera/lookup/password?resources=astute": "",
			"POST " + at + "hiera/lookup": `{"keys":["copy"],"resources":["t"]}`,
		}
	}
	refused := func(role string) {
		t.Helper()
		for q, body := range all(role) {
			method, target, _ := strings.Cut(q, " ")
			if got := do("node", method, target, body, 403); strings.Contains(got, "of "+role+`"`) {
				t.Errorf("%s: %s", q, got)
			}
		}
	}
	// Without a declaration, no path, upload or registration of its own gives the node a role.
	refused("compute")
	do("node", "PUT", env+"role/compute/nodes/1/resources/1/values", `{}`, 403)
	do("node", "PUT", env+"nodes/1", `{"levels":{"role":"compute"}}`, 403)
	do("admin", "PUT", "environments/1", `{"self_registration":true}`, 204)
	do("node", "PUT", env+"nodes/1", `{"fqdn":"n1.example"}`, 403)
	do("node", "PUT", env+"nodes/1", `{}`, 204)
	refused("compute")
	do("operator", "PUT", env+"nodes/1", `{"levels":{"role":"compute"}}`, 403)
	do("admin", "PUT", env+"nodes/1", `{"levels":{"roles":"compute"}}`, 400)
	do("admin", "PUT", env+"nodes/1", `{"fqdn":"n1.example","levels":{"role":"compute"}}`, 204)
	for q, body := range all("compute") {
		method, target, _ := strings.Cut(q, " ")
		if got := do("node", method, target, body, 200); !strings.Contains(got, "of compute") {
			t.Errorf("%s: %s", q, got)
		}
	}
	refused("controller")
	do("node", "PUT", env+"role/compute/nodes/1/resources/1/values", `{"up":1}`, 204)
	do("node", "PUT", env+"nodes/1", `{"fqdn":"n1.example","levels":{"role":"controller"}}`, 403)
	refused("controller")
	// The level counts, not its name.
	do("admin", "PATCH", env+"hierarchy_levels/role", `{"name":"group"}`, 204)
	if got := do("node", "GET", env+"group/compute/nodes/1/resources/1/values?effective", "",
		200); got != `{"password":"of compute","up":1}` {
		t.Error(got)
	}
	do("node", "GET", env+"group/controller/nodes/1/resources/1/values?effective", "", 403)
}

// A node that repeats its levels does not restore what an admin changes meanwhile.
func TestANodeWritesNoLevels(t *testing.T) {
	f := &fake{}
	w := ask(Handler(f, door{}), asked{method: "PUT", target: "environments/9/nodes/1",
		body: `{"fqdn":"n1.example","certname":"c1","levels":{"role":"r"}}`, token: "node"})
	if heard := f.taken(); w.Code != 204 || !strings.Contains(heard,
		`Write PutNode{"Environment":9,"Node":{"id":"1","fqdn":"n1.example","certname":"c1","undeclared":true}}`) {
		t.Errorf("%d %s, heard %s", w.Code, w.Body, heard)
	}
}

func TestClientDeclaresLevels(t *testing.T) {
	admin := serving(t, newReal(t), "admin")
	if _, err := admin.CreateComponent(t.Context(),
		NewComponent{Name: "c", Definitions: []NewDefinition{{Name: "astute"}}}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateEnvironment(t.Context(), NewEnvironment{Components: []configdb.JSON{configdb.JSON("1")},
		Levels: []string{"role"}}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	put := func(levels map[string]string, want string) {
		t.Helper()
		if err := admin.PutNode(t.Context(), 1, model.Node{ID: "1", Levels: levels}, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if n, err := admin.Node(t.Context(), 1, "1"); err != nil || n.Levels["role"] != want {
			t.Errorf("%+v %v, want %q", n, err, want)
		}
	}
	put(map[string]string{"role": "a"}, "a")
	put(nil, "a")
	put(map[string]string{}, "")
}

// Where nodes are the only level, no declaration is needed.
func TestNodesAloneNeedNoLevels(t *testing.T) {
	h := Handler(newReal(t), door{})
	for _, q := range []asked{
		{method: "POST", target: "components", body: `{"name":"c","resource_definitions":[{"name":"astute"}]}`},
		{method: "POST", target: "environments",
			body: `{"id":1,"components":["c"],"hierarchy_levels":["nodes"],"self_registration":true}`},
		{method: "PUT", target: "environments/1/nodes/1/resources/1/values", body: `{"a":1}`, token: "node"},
		{method: "GET", target: "environments/1/nodes/1/resources/1/values?effective", token: "node"},
	} {
		if w := ask(h, q); w.Code >= 400 {
			t.Errorf("%s %s: %d %s", q.method, q.target, w.Code, w.Body)
		}
	}
}

// A node registers itself only where the environment lets nodes do so, or where its own config names the environment;
// it then sees no secret before an admin has declared it. (Formerly each node could read the secrets of each
// environment this way.)
func TestANodeOfNoEnvironment(t *testing.T) {
	named := int64(0)
	h := Handler(newReal(t), door{}, WithEnvironmentOf(func(context.Context, string) (int64, error) { return named, nil }))
	do := func(token, method, target, body string, want int) string {
		t.Helper()
		w := ask(h, asked{method: method, target: target, body: body, token: token})
		if w.Code != want {
			t.Errorf("%s: %s %s: %d %s, want %d", token, method, target, w.Code, w.Body, want)
		}
		return w.Body.String()
	}
	const env, at = "environments/77/", "environments/77/nodes/1/resources/1/values"
	do("admin", "POST", "components", `{"name":"c","resource_definitions":[{"name":"astute"}]}`, 201)
	do("admin", "PUT", "resource_definitions/1/secrets", `{"secrets":["*.password"]}`, 204)
	do("admin", "POST", "environments", `{"id":77,"components":["c"],"hierarchy_levels":["nodes"]}`, 201)
	do("admin", "PUT", env+"resources/1/values", `{"nova":{"password":"cloud-wide"}}`, 204)
	for _, token := range []string{"node", "newcert"} {
		owned := map[string]string{"node": env + "nodes/1", "newcert": env + "nodes/c9"}[token]
		do(token, "PUT", owned+"/resources/1/values", `{}`, 403)
		do(token, "PUT", owned, `{}`, 403)
		do(token, "POST", owned+"/bulk", `{"resources":{"1":{"values":{}}}}`, 403)
		do(token, "PATCH", owned+"/resources/1/values/keys/set", `[["a",1]]`, 403)
		do(token, "GET", owned+"/resources/1/values?effective", "", 403)
	}
	if got := do("admin", "GET", env+"nodes", "", 200); got != "[]" {
		t.Errorf("registered: %s", got)
	}
	named = 77
	do("newcert", "PUT", env+"nodes/c9/resources/1/values", `{}`, 403)
	do("node", "PUT", at, `{"up":1}`, 204)
	for _, q := range []string{at + "?effective", env + "nodes/1/hiera/data?resources=astute"} {
		if got := do("node", "GET", q, "", 200); got != `{"nova":{"$masked":true},"up":1}` &&
			got != `{"nova":{"password":{"$masked":true}},"up":1}` {
			t.Errorf("before it is declared: %s", got)
		}
	}
	do("admin", "PUT", env+"nodes/1", `{}`, 204)
	if got := do("node", "GET", at+"?effective", "", 200); got != `{"nova":{"password":"cloud-wide"},"up":1}` {
		t.Errorf("declared: %s", got)
	}
	do("node", "PUT", at, `{"up":2}`, 204)
	if got := do("node", "GET", env+"nodes/1", "", 200); got != `{"id":"1"}` {
		t.Errorf("its own upload: %s", got)
	}
	do("admin", "PUT", "environments/77", `{"strict_nodes":true}`, 204)
	do("admin", "GET", env+"nodes/9/resources/1/values?effective", "", 404)
	do("admin", "PUT", env+"nodes/9/resources/1/values", `{}`, 404)
	do("admin", "PUT", "environments/77", `{"self_registration":true}`, 204)
	do("newcert", "PUT", env+"nodes/c9/resources/1/values", `{}`, 204)
	if got := do("admin", "GET", "environments/77", "",
		200); got != `{"id":77,"components":[1],"hierarchy_levels":["nodes"],"self_registration":true,"strict_nodes":true}` {
		t.Error(got)
	}
}
