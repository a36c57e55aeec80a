package serve

import (
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"edgespan/cmd/edgespan-controller/ctltest"
)

// uploaded are the resources of the original's upload task.
var uploaded = []string{
	"override/node", "override/class", "override/module", "override/plugins", "override/common", "override/configuration",
	"override/configuration/role",
	"override/configuration/cluster", "class", "module", "nodes", "globals", "deleted_nodes", "astute", "plugins",
	"override",
}

// original is a client of the original: it says X-Auth-Token, and follows no redirect by itself.
type original struct {
	*ctltest.Controller
	t      *testing.T
	client *http.Client
}

// logsIn is with the certificate of a first start.
func (o original) logsIn() original {
	o.t.Helper()
	o.client = o.Browser(o.Pin())
	o.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return o
}

func (o original) asks(method, path, body string) ctltest.Reported {
	o.t.Helper()
	return o.Controller.Ask(o.client, method, path, body, "Authorization: ", "X-Auth-Token: "+o.Token())
}

// plays asks line by line what is written as METHOD PATH [BODY] => STATUS [ANSWER]; an answer that ends with … goes
// on.
// A PUT that is told another place goes there. What is 4xx says why, and nothing else.
func (o original) plays(base, script string) {
	o.t.Helper()
	for line := range strings.Lines(script) {
		ask, want, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		parts := append(strings.SplitN(ask, " ", 3), "")
		w := o.asks(parts[0], base+parts[1], parts[2])
		if w.Status == http.StatusPermanentRedirect {
			w = o.follows(w.Location, parts[2])
		}
		status, answer, _ := strings.Cut(want, " ")
		start, more := strings.CutSuffix(answer, "…")
		if strconv.Itoa(w.Status) != status || (w.Text != answer && (!more || !strings.HasPrefix(w.Text, start))) {
			o.t.Errorf("%s\nis %d %s\nnot %s", ask, w.Status, w.Text, want)
		}
		if w.Status >= 400 && (!strings.HasPrefix(w.Text, `{"msg":"`) || w.Status >= 500) {
			o.t.Errorf("%s: it is no reason: %d %s", ask, w.Status, w.Text)
		}
	}
}

// follows puts a body to a Location, which must be whole.
func (o original) follows(location, body string) ctltest.Reported {
	o.t.Helper()
	path, ok := strings.CutPrefix(location, "https://"+o.API)
	if !ok {
		o.t.Fatalf("Location: %q does not begin with https://%s", location, o.API)
	}
	return o.asks(http.MethodPut, path, body)
}

// TestTheOriginalsClientsWorkUnchanged does what the original's clients are known to do (the upload task of its
// plugin, its system tests, its command line and its unit tests) to a controller as it is started, before and after a
// restart.
func TestTheOriginalsClientsWorkUnchanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	o := original{Controller: program.Start(t, dir), t: t}.logsIn()
	o.uploads()
	o.plays("/api/config", systemTests)
	o.plays("/api/v1/config", unitTests)
	const read = "/api/config/environments/1/nodes/1/resources/globals/values?effective"
	before := o.asks("GET", read, "")
	if code := o.End(); code != 0 {
		t.Fatal(code)
	}
	o.Controller = program.Start(t, dir)
	if w := o.asks("GET", read, ""); w != before || w.Tag == "" {
		t.Errorf("after a restart it is %+v, was %+v", w, before)
	}
	o.plays("/api/v1/config", afterwards)
}

// uploads is what the plugin's task does on each node.
func (o original) uploads() {
	o.t.Helper()
	const base = "/api/v1/config"
	o.plays(base, `
		GET /environments/77 => 404 {"msg":"environment 77: is not there"}
		POST /components {"name":"fuel9.0","resource_definitions":[{"name":"`+strings.Join(uploaded,
		`","content":{}},{"name":"`)+
		`","content":{}}]} => 201 `+
		`{"id":1,"name":"fuel9.0","resource_definitions":[{"id":1,"name":"override/node","component_id":1,"content":{}},…
		POST /environments {"id":77,"components":["fuel9.0"],"hierarchy_levels":["nodes"]} => 201 `+
		`{"id":77,"components":[1],"hierarchy_levels":["nodes"]}
		POST /environments {"id":77,"components":["fuel9.0"],"hierarchy_levels":["nodes"]} => 409 {"msg":"environment `+
		`id 77: duplicate key value violates unique constraint…
		POST /components {"name":"fuel9.0","resource_definitions":[]} => 409 {"msg":"component name \"fuel9.0\": `+
		`duplicate key value violates unique constraint…`)
	for _, name := range uploaded {
		path, body := base+"/environments/77/nodes/3/resources/"+name+"/values", `{"deployment_id":77,"from":"`+name+
			`","mtu":1500.0}`
		reported := o.asks("PUT", path, body)
		if reported.Status != 308 {
			o.t.Fatalf("%s is %+v", path, reported)
		}
		if w := o.follows(reported.Location, body); w.Status != 204 || w.Text != "" {
			o.t.Errorf("%s is %+v", reported.Location, w)
		}
		if w := o.asks("GET", path+"?effective", ""); w.Status != 200 || w.Text != body {
			o.t.Errorf("%s is %+v", path, w)
		}
	}
}

// What the system tests and the recorded calls do: names of resources, extra keys, overrides that stay, null.
const systemTests = `
	POST /components {"name":"qa","resource_definitions":[{"name":"res1"},{"name":"slashed/res"}]} => 201 ` +
	`{"id":2,"name":"qa","resource_definitions":[{"id":17,"name":"res1","component_id":2,"content":null},{"id":18,"name":"slashed/res","component_id":2,"content":null}]}
	POST /environments {"id":1,"name":"env1","components":[2,"fuel9.0"],"hierarchy_levels":["nodes"]} => 201 ` +
	`{"id":1,"components":[2,1],"hierarchy_levels":["nodes"]}
	GET /environments/1/nodes/1/resources/res1/values => 200 {}
	PUT /environments/1/resources/res1/overrides {"key":{"a":3,"b":null}} => 204
	GET /environments/1/nodes/2/resources/res1/values?effective => 200 {"key":{"a":3,"b":null}}
	PUT /environments/1/nodes/1/resources/res1/values {"key":{"a":1,"b":null},"n":9007199254740993} => 204
	GET /environments/1/nodes/1/resources/res1/values?effective=True => 200 {"key":{"a":1,"b":null},"n":9007199254740993}
	PUT /environments/1/nodes/1/resources/res1/override {"key":{"a":3,"b":null}} => 204
	PUT /environments/1/nodes/1/resources/res1/values {"key":{"a":7},"z":1.0} => 204
	GET /environments/1/nodes/1/resources/res1/values?effective => 200 {"key":{"a":3,"b":null},"z":1.0}
	GET /environments/1/nodes/1/resources/res1/values => 200 {"key":{"a":7},"z":1.0}
	PATCH /environments/1/nodes/1/resources/globals/overrides/keys/set [["new","value"]] => 204
	PATCH /environments/1/nodes/1/resources/slashed/res/values/keys/set [["a",{}],["a","b",[]]] => 204
	GET /environments/1/nodes/1/resources/slashed%2Fres/values => 200 {"a":{"b":[]}}
	GET /environments/1/nodes/2/resources/res1/values => 200 {}
	GET /environments/77/nodes/1/resources/astute/values => 200 {}
	PATCH /environments/77 {"strict_nodes":true} => 204
	GET /environments/77/nodes/1/resources/astute/values => 404 {"msg":"node \"1\": is not assigned to environment ` +
	`77 but to 1"}
	PUT /environments/77/nodes/9/resources/astute/values {} => 404 {"msg":"node \"9\": is not registered in ` +
	`environment 77"}
	PATCH /environments/77 {"strict_nodes":false} => 204
	POST /environments {"components":[null],"hierarchy_levels":[]} => 404 {"msg":"component 0: is not there"}
	PUT /components/2 {"resource_definitions":[{"id":null}]} => 404 {"msg":"resource_definition 0: is not there"}
`

// What the original's unit tests want, and its command line.
const unitTests = `
	POST /components {"id":7,"name":"component1","resource_definitions":[{"name":"resdef1","content":{"key":"nsname.key"}}]} => 201 {"id":7,"name":"component1","resource_definitions":[{"id":19,"name":"resdef1","component_id":7,"content":{"key":"nsname.key"}}]}
	POST /environments {"id":9,"components":["component1",7],"hierarchy_levels":["lvl1"]} => 409 {"msg":"components ` +
	`of an environment: 7…
	POST /environments {"id":9,"components":["component1"],"hierarchy_levels":["lvl1","lvl2"]} => 201 ` +
	`{"id":9,"components":[7],"hierarchy_levels":["lvl1","lvl2"]}
	POST /environments {"components":["7"],"hierarchy_levels":[]} => 404 {"msg":"component \"7\": is not there"}
	PUT /environments/9/lvl1/val1/lvl2/val2/resources/resdef1/values {"a":1} => 204
	PUT /environments/9/lvl1/val1/resources/19/overrides {"a":0,"b":[{"c":true}]} => 204
	GET /environments/9/lvl1/val1/lvl2/val2/resources/19/values?effective=0&show_lookup => 200 ` +
	`{"a":[1,"/lvl1/val1/lvl2/val2/"],"b":[[{"c":true}],"/lvl1/val1/"]}
	GET /environments/9/lvl1/val1/lvl2/val2/resources/19/values?effective&show_lookup&key=b.0.c => 200 [true,"/lvl1/val1/"]
	GET /environments/9/lvl1/val1/resources/19/values?effective&key=b.1 => 409 {"msg":"Keys path doesn't exist ` +
	`[\"b\",\"1\"]. Failed on the key 1"}
	GET /environments/9/lvl1/val1/resources/19/values?show_lookup => 409 {"msg":"Lookup path tracing can be done ` +
	`only for effective values"}
	GET /environments/9/hierarchy_levels/lvl1 => 200 ` +
	`{"id":3,"name":"lvl1","environment_id":9,"parent":null,"values":["val1"]}
	GET /environments/9/lvl1/other/lvl2/val2/resources/19/values => 200 {"a":1}
	GET /environments/9/lvl2/val2/resources/19/values => 404 {"msg":"Unexpected level name 'lvl2'. Expected 'lvl1'."}
	GET /environments/9/lvl1/1/lvl2/2/lvl3/3/resources/19/values => 404 {"msg":"Levels [u'lvl1', u'lvl2', u'lvl3'] ` +
	`can't be matched with environment 9 levels: [u'lvl1', u'lvl2']"}
	GET /environments/9/resources/astute/values => 404 {"msg":"resource_definition not found by astute in environment 9"}
	GET /environments/9/hierarchy_levels => 200 ` +
	`[{"id":3,"name":"lvl1","environment_id":9,"parent":null,"values":["val1"]},{"id":4,"name":"lvl2","environment_id":9,"parent":"lvl1","values":["val2"]}]
	PATCH /environments/9/resources/19/values/keys/set {} => 404 {"msg":"values of 19: were never written: must be a ` +
	`keys operation that sets a key"}
	PATCH /environments/9/lvl1/val1/lvl2/val2/resources/19/values/keys/set [["a","b",1]] => 409 {"msg":"Leaf value 1 ` +
	`found on key a in keys path [\"a\",\"b\"]"}
	PATCH /environments/9/lvl1/val1/lvl2/val2/resources/19/values/keys/set [["a"]] => 409 {"msg":"Keys path [\"a\"] ` +
	`invalid. Keys path should contain at least one key and value"}
	PUT /environments/9/lvl1/val1/lvl2/val2/resources/19/values/keys/get [["a"]] => 200 [1]
	PATCH /environments/9/lvl1/val1/lvl2/val2/resources/19/values/keys/delete [["a"]] => 204
	GET /environments/9/lvl1/val1/lvl2/val2/resources/19/values => 200 {}
	GET /environments/9/lvl1/val1/lvl2/val2/resources/19/values?effective&version=1 => 200 {"a":1}
	GET /environments/9/lvl1/val1/lvl2/val2/resources/19/values?version=3 => 404 {"msg":"version 3 of the values of ` +
	`\"resdef1\": is not there: 2 is the newest"}
	PUT /environments/9/lvl1/val1/resources/19/values [1] => 400 {"msg":"the document is a list: must be one JSON object"}
	POST /environments {} => 400 {"msg":"components: required: must be a list of ids and names; hierarchy_levels: ` +
	`required: must be a list of strings"}
	POST /components {} => 400 {"msg":"name: required: must be a string"}
	PUT /components/7 {"id":8,"resource_definitions":[{"id":99}]} => 404 {"msg":"resource_definition 99: is not there"}
	PUT /environments/9 {"hierarchy_levels":["lvl2","lvl1"]} => 204
	GET /environment/9 => 200 {"id":9,"components":[7],"hierarchy_levels":["lvl2","lvl1"]}
	DELETE /components/7 => 204
	GET /resource_definitions/19 => 404 {"msg":"resource_definition 19: is not there"}
	DELETE /environments/9 => 204
	GET /environments/9 => 404 {"msg":"environment 9: is not there"}
`

const afterwards = `
	PUT /environments/1/nodes/u/resources/res1/values { "b":"\u00e9\/\ud83d\ude00", "a":[1.0, 1E+5, -0.0] } => 204
	GET /environments/1/nodes/u/resources/res1/values => 200 {"a":[1.0,1E+5,-0.0],"b":"\u00e9\/\ud83d\ude00"}
	PUT /environments/1/nodes/u/resources/res1/values {"a":[1.0,1E+5,-0.0],"b":"é/😀"} => 204
	GET /environments/1/nodes/u/resources/res1/values?version=2 => 200 {"a":[1.0,1E+5,-0.0],"b":"é/😀"}
	GET /environments/77/nodes/3/resources/override/configuration/role/values?effective&version=1 => 200 ` +
	`{"deployment_id":77,"from":"override/configuration/role","mtu":1500.0}
	PUT /environments/77/nodes/3/resources/astute/values {"deployment_id":78} => 204
	GET /environments/77/nodes/3/resources/astute/values?version=1 => 200 {"deployment_id":77,"from":"astute","mtu":1500.0}
	GET /environments/77/nodes/3/resources/astute/values?effective&version=2 => 200 {"deployment_id":78}
`

// TestWhatAPutByNameMeans: by default it is told the id, at the address that the caller knows; if the controller is
// told so, the address that a proxy knows, or nothing at all.
func TestWhatAPutByNameMeans(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	const path = "/api/v1/config/environments/1/nodes/1/resources/astute/values"
	var client *http.Client
	for _, c := range []struct {
		flag, location string
		status         int
	}{
		{"--v=0", "", 308},
		{"--facts-trusted-proxy", "http://fuel.example.org:8000" + strings.Replace(path, "astute", "1", 1), 308},
		{"--facts-direct-names", "", 204},
	} {
		o := original{program.Start(t, dir, c.flag), t, client}
		if client == nil {
			o = o.logsIn()
			client = o.client
			o.plays("/api/v1/config", `
				POST /components {"name":"fuel","resource_definitions":[{"name":"astute"}]} => 201 {"id":1,…
				POST /environments {"components":["fuel"],"hierarchy_levels":["nodes"]} => 201 {"id":1,…`)
			c.location = "https://" + o.API + strings.Replace(path, "astute", "1", 1)
		}
		w := o.Controller.Ask(o.client, "PUT", path, `{"a":1}`, "X-Forwarded-Proto: http",
			"X-Forwarded-Host: fuel.example.org:8000")
		if w.Status != c.status || w.Location != c.location {
			t.Errorf("with %s it is %+v, want %d %q", c.flag, w, c.status, c.location)
		}
		o.End()
	}
}
