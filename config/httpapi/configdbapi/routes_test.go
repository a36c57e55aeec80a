package configdbapi

import (
	"strings"
	"testing"
)

const at = `environments/9/role/r/nodes/1/resources/`

// routeCases have requests for each row, with the answer and the backend's record.
var routeCases = []struct {
	ask, body string
	status    int
	answer    string
	heard     string
}{
	{`GET components`, ``, 200,
		`[{"id":1,"name":"fuel","resource_definitions":[{"id":1,"name":"astute","component_id":1,"content":{"d":1.0}},{"id":2,"name":"override/node","component_id":1,"content":null}]},{"id":2,"name":"empty","resource_definitions":[]}]`, `Components`},
	{`GET components/1`, ``, 200,
		`{"id":1,"name":"fuel","resource_definitions":[{"id":1,"name":"astute","component_id":1,"content":{"d":1.0}},{"id":2,"name":"override/node","component_id":1,"content":null}]}`, `Component 1`},
	{`POST components`, `{"id":1,"name":"fuel","resource_definitions":[{"name":"astute","content":{"d":1.0}},{"name":"a/b"}],"more":1}`, 201, `{"id":1,"name":"fuel","resource_definitions":[{"id":1,"name":"astute","component_id":1,"content":{"d":1.0}},{"id":2,"name":"override/node","component_id":1,"content":null}]}`, `Write CreateComponent{"ID":1,"Name":"fuel","Definitions":[{"id":0,"name":"astute","component_id":null,"content":{"d":1.0}},{"id":0,"name":"a/b","component_id":null,"content":null}]} by=ann message="" dry=false; Component 1`},
	{`POST components?dryRun=1&message=because`, `{"name":"fuel"}`, 200,
		`{"revision":8,"changed":true,"changes":[{"what":"values","did":"changed","environment":9,"levels":[{"level":"nodes","value":"1"}],"resource":1,"version":3}]}`, `Write CreateComponent{"ID":null,"Name":"fuel","Definitions":null} by=ann message="because" dry=true`},
	{`PUT components/1`, `{"name":"n","resource_definitions":[{"id":2,"name":"x"}],"id":7}`, 204, ``,
		`Write EditComponent{"ID":1,"Name":"n","Definitions":[2]} by=ann message="" dry=false`},
	{`PATCH components/1`, `{}`, 204, ``,
		`Write EditComponent{"ID":1,"Name":null,"Definitions":null} by=ann message="" dry=false`},
	{`DELETE components/1`, ``, 204, ``, `Write DeleteComponent{"ID":1} by=ann message="" dry=false`},
	{`GET resource_definitions`, ``, 200,
		`[{"id":1,"name":"astute","component_id":1,"content":{"d":1.0}},{"id":2,"name":"override/node","component_id":1,"content":null}]`, `Definitions all`},
	{`GET resource_definitions?component_id=4`, ``, 200, ``, `Definitions 4`},
	{`GET resource_definitions?component_id=`, ``, 200, ``, `Definitions none`},
	{`POST resource_definitions`, `{"id":1,"name":"a","component_id":1,"content":[1.0]}`, 201,
		`{"id":1,"name":"astute","component_id":1,"content":{"d":1.0}}`,
		`Write CreateDefinition{"ID":1,"Name":"a","Component":1,"Content":[1.0]} by=ann message="" dry=false; Definition 1`},
	{`GET resource_definitions/2`, ``, 200, `{"id":2,"name":"override/node","component_id":1,"content":null}`,
		`Definition 2`},
	{`GET resource_definition/2`, ``, 200, ``, `Definition 2`},
	{`PUT resource_definitions/2`, `{"component_id":null,"content":null}`, 204, ``,
		`Write EditDefinition{"ID":2,"Name":null,"Component":null,"Content":null} by=ann message="" dry=false`},
	{`PATCH resource_definitions/2`, `{"name":"n","component_id":1,"content":{"b":1}}`, 204, ``,
		`Write EditDefinition{"ID":2,"Name":"n","Component":1,"Content":{"b":1}} by=ann message="" dry=false`},
	{`DELETE resource_definitions/2`, ``, 204, ``, `Write DeleteDefinition{"ID":2} by=ann message="" dry=false`},
	{`GET resource_definitions/2/secrets`, ``, 200, `{"secrets":["a.*"]}`, `Secrets 2`},
	{`PUT resource_definitions/2/secrets`, `{"secrets":["a.*","b"]}`, 204, ``,
		`Write DeclareSecrets{"ID":2,"Keys":["a.*","b"]} by=ann message="" dry=false`},
	{`PUT resource_definitions/1/keys/get`, `[["d"]]`, 200, `[1.0]`, `Definition 1`},
	{`PATCH resource_definitions/1/keys/set`, `[["d",{"x":1.0}]]`, 204, ``,
		`Write EditContent{"ID":1,"Edit":{"Op":"set","Items":[["d",{"x":1.0}]]}} by=ann message="" dry=false`},
	{`PUT resource_definitions/1/keys/delete`, `[["d"]]`, 204, ``,
		`Write EditContent{"ID":1,"Edit":{"Op":"delete","Items":[["d"]]}} by=ann message="" dry=false`},
	{`GET environments`, ``, 200,
		`[{"id":9,"components":[1],"hierarchy_levels":["role","nodes"]},{"id":10,"components":[],"hierarchy_levels":[]}]`,
		`Environments`},
	{`POST environments`, `{"id":1,"components":["fuel",7,"12"],"hierarchy_levels":["nodes"],"name":"env1"}`, 201, ``,
		`Write CreateEnvironment{"ID":1,"Components":[{"ID":0,"Name":"fuel"},{"ID":7,"Name":""},{"ID":0,"Name":"12"}],"Levels":["nodes"]} by=ann message="" dry=false; Environment 1`},
	{`GET environments/9`, ``, 200, `{"id":9,"components":[1],"hierarchy_levels":["role","nodes"]}`, `Environment 9`},
	{`GET environment/9`, ``, 200, ``, `Environment 9`},
	{`PUT environments/9`, `{"components":[]}`, 204, ``,
		`Write EditEnvironment{"ID":9,"Components":[],"Levels":null} by=ann message="" dry=false`},
	{`PATCH environments/9`, `{"hierarchy_levels":["a"]}`, 204, ``,
		`Write EditEnvironment{"ID":9,"Components":null,"Levels":["a"]} by=ann message="" dry=false`},
	{`DELETE environments/9`, ``, 204, ``, `Write DeleteEnvironment{"ID":9} by=ann message="" dry=false`},
	{`GET environments/9/hierarchy_levels`, ``, 200,
		`[{"id":3,"name":"role","environment_id":9,"parent":null,"values":[]},{"id":4,"name":"nodes","environment_id":9,"parent":"role","values":["1"]}]`, `Levels 9`},
	{`GET environments/9/hierarchy_levels/nodes`, ``, 200,
		`{"id":4,"name":"nodes","environment_id":9,"parent":"role","values":["1"]}`, `Level 9 {ID:0 Name:nodes}`},
	{`GET environments/9/hierarchy_levels/4`, ``, 200, ``, `Level 9 {ID:4 Name:}`},
	{`PUT environments/9/hierarchy_levels/nodes`, `{"name":"node"}`, 204, ``,
		`Write RenameLevel{"Environment":9,"Level":{"ID":0,"Name":"nodes"},"Name":"node"} by=ann message="" dry=false`},
	{`GET environments/9/nodes`, ``, 200,
		`[{"id":"1","fqdn":"n1.example","certname":"c1","levels":{"role":"r"}},{"id":"2"}]`, `Nodes 9`},
	{`GET environments/9/nodes/n1.example`, ``, 200,
		`{"id":"1","fqdn":"n1.example","certname":"c1","levels":{"role":"r"}}`, `Node 9 n1.example`},
	{`PUT environments/9/nodes/3`, `{"fqdn":"n3.example","certname":"c3"}`, 204, ``,
		`Write PutNode{"Environment":9,"Node":{"id":"3","fqdn":"n3.example","certname":"c3"}} by=ann message="" dry=false`},
	{`PUT environments/9/nodes/3?message=why`, `{"levels":{"role":"a","release":"9.0"}}`, 204, ``,
		`Write PutNode{"Environment":9,"Node":{"id":"3","levels":{"release":"9.0","role":"a"}}} by=ann message="why" ` +
			`dry=false`},
	{`DELETE environments/9/nodes/3`, ``, 204, ``,
		`Write DeleteNode{"Environment":9,"ID":"3"} by=ann message="" dry=false`},
	{`GET ` + at + `astute/values?effective&version=2&x=1`, ``, 200, `{"a":1.0}`,
		`Answer {Target:{Environment:9 Levels:[{Level:role Value:r} {Level:nodes Value:1}] Resource:{ID:0 Name:astute}} ` +
			`Kind:values Effective:true Lookup:false Key:[] Version:2 Revision:0 Deep:false Reveal:true} known=[]`},
	{`GET environments/9/resources/1/values?effective=0&show_lookup=False&key=a.0.c&merge=deep&revision=5`, ``, 200,
		`{"a":1.0}`, `Answer {Target:{Environment:9 Levels:[] Resource:{ID:1 Name:}} Kind:values Effective:true ` +
			`Lookup:true Key:[a 0 c] Version:0 Revision:5 Deep:true Reveal:true} known=[]`},
	{`GET environments/9/resources/1/overrides?effective&key=`, ``, 200, `{"a":1.0}`,
		`Answer {Target:{Environment:9 Levels:[] Resource:{ID:1 Name:}} Kind:overrides Effective:false Lookup:false ` +
			`Key:[] Version:0 Revision:0 Deep:false Reveal:true} known=[]`},
	{`GET environments/9/resources/1/override`, ``, 200, ``,
		`Answer {Target:{Environment:9 Levels:[] Resource:{ID:1 Name:}} Kind:overrides Effective:false Lookup:false ` +
			`Key:[] Version:0 Revision:0 Deep:false Reveal:true} known=[]`},
	{`PUT ` + at + `1/values?message=why`, ` {"b": 1.0, "a":12345678901234567890} `, 204, ``,
		`Write Put{"Environment":9,"Levels":[{"level":"role","value":"r"},{"level":"nodes","value":"1"}],"Resource":{"ID":1,"Name":""},"Kind":"values","Value":{"a":12345678901234567890,"b":1.0},"IfMatch":null,"Register":true} by=ann message="why" dry=false`},
	{`PUT environments/9/resources/1/override`, `{}`, 204, ``,
		`Write Put{"Environment":9,"Levels":[],"Resource":{"ID":1,"Name":""},"Kind":"overrides","Value":{},"IfMatch":null,"Register":false} by=ann message="" dry=false`},
	{`PUT environments/9/resources/1/overrides`, `{}`, 204, ``,
		`Write Put{"Environment":9,"Levels":[],"Resource":{"ID":1,"Name":""},"Kind":"overrides","Value":{},"IfMatch":null,"Register":false} by=ann message="" dry=false`},
	{`DELETE environments/9/resources/astute/values`, ``, 204, ``,
		`Write Remove{"Environment":9,"Levels":[],"Resource":{"ID":0,"Name":"astute"},"Kind":"values","IfMatch":null} ` +
			`by=ann message="" dry=false`},
	{`DELETE environments/9/resources/1/override`, ``, 204, ``,
		`Write Remove{"Environment":9,"Levels":[],"Resource":{"ID":1,"Name":""},"Kind":"overrides","IfMatch":null} ` +
			`by=ann message="" dry=false`},
	{`PATCH environments/9/resources/astute/values/keys/get`, `[["a"]]`, 200, `[1.0]`,
		`Keys {Target:{Environment:9 Levels:[] Resource:{ID:0 Name:astute}} Kind:values Effective:false Lookup:false ` +
			`Key:[] Version:0 Revision:0 Deep:false Reveal:true} get [["a"]]`},
	{`PUT environments/9/resources/astute/values/keys/set`, `[["a","b",null]]`, 204, ``,
		`Write EditKeys{"Environment":9,"Levels":[],"Resource":{"ID":0,"Name":"astute"},"Kind":"values","Edit":{"Op":"set","Items":[["a","b",null]]},"IfMatch":null,"Register":true} by=ann message="" dry=false`},
	{`PATCH environments/9/resources/astute/values/keys/delete`, `[["a"]]`, 204, ``,
		`Write EditKeys{"Environment":9,"Levels":[],"Resource":{"ID":0,"Name":"astute"},"Kind":"values","Edit":{"Op":"delete","Items":[["a"]]},"IfMatch":null,"Register":false} by=ann message="" dry=false`},
	{`PUT environments/9/resources/astute/overrides/keys/get`, `[["a"]]`, 200, `[1.0]`,
		`Keys {Target:{Environment:9 Levels:[] Resource:{ID:0 Name:astute}} Kind:overrides Effective:false Lookup:false ` +
			`Key:[] Version:0 Revision:0 Deep:false Reveal:true} get [["a"]]`},
	{`PATCH environments/9/resources/override/node/override/keys/set`, `[["a",1]]`, 204, ``,
		`Write EditKeys{"Environment":9,"Levels":[],"Resource":{"ID":0,"Name":"override/node"},"Kind":"overrides","Edit":{"Op":"set","Items":[["a",1]]},"IfMatch":null,"Register":false} by=ann message="" dry=false`},
	{`PATCH environments/9/resources/1/overrides/keys/delete`, `[["a",1]]`, 204, ``,
		`Write EditKeys{"Environment":9,"Levels":[],"Resource":{"ID":1,"Name":""},"Kind":"overrides","Edit":{"Op":"delete","Items":[["a",1]]},"IfMatch":null,"Register":false} by=ann message="" dry=false`},
	{`GET environments/9/resources/1/values/history?before=5&limit=2`, ``, 200,
		`[{"version":3,"revision":7,"time":"2026-11-21T12:00:00Z","author":"ann","sha256":"ab","size":9}]`,
		`Versions {Target:{Environment:9 Levels:[] Resource:{ID:1 Name:}} Kind:values Before:5 Limit:2}`},
	{`GET environments/9/resources/1/overrides/history`, ``, 200, ``,
		`Versions {Target:{Environment:9 Levels:[] Resource:{ID:1 Name:}} Kind:overrides Before:0 Limit:1000}`},
	{`GET environments/9/resources/1/values/diff?from=0`, ``, 200, `[{"op":"add","path":"/a","value":1.0}]`,
		`Answer {Target:{Environment:9 Levels:[] Resource:{ID:1 Name:}} Kind:values Effective:false Lookup:false Key:[] ` +
			`Version:0 Revision:0 Deep:false Reveal:true} known=[]`},
	{`GET environments/9/resources/1/overrides/diff?from=1&to=2`, ``, 200, `[]`,
		`Answer {Target:{Environment:9 Levels:[] Resource:{ID:1 Name:}} Kind:overrides Effective:false Lookup:false ` +
			`Key:[] Version:2 Revision:0 Deep:false Reveal:true} known=[]; Answer {Target:{Environment:9 Levels:[] ` +
			`Resource:{ID:1 Name:}} Kind:overrides Effective:false Lookup:false Key:[] Version:1 Revision:0 Deep:false ` +
			`Reveal:true} known=[]`},
	{`POST environments/9/resources/1/values/rollback`, `{"version":2}`, 200, ``,
		`Write Rollback{"Environment":9,"Levels":[],"Resource":{"ID":1,"Name":""},"Kind":"values","Version":2,"Revision":0} by=ann message="" dry=false`},
	{`POST environments/9/resources/1/override/rollback`, `{"revision":2}`, 200, ``,
		`Write Rollback{"Environment":9,"Levels":[],"Resource":{"ID":1,"Name":""},"Kind":"overrides","Version":0,"Revision":2} by=ann message="" dry=false`},
	{`POST environments/9/nodes/1/rollback?dryRun=1`, `{"revision":2}`, 200,
		`{"revision":8,"changed":true,"changes":[{"what":"values","did":"changed","environment":9,"levels":[{"level":"nodes","value":"1"}],"resource":1,"version":3}]}`, `Write Rollback{"Environment":9,"Levels":[{"level":"nodes","value":"1"}],"Resource":{"ID":0,"Name":""},"Kind":"","Version":0,"Revision":2} by=ann message="" dry=true`},
	{`POST environments/9/bulk`, `{"resources":{"override/node":{"values":{"a":1.0},"overrides":{}},"5":{"values":{}}}}`,
		200, ``, `Write Bulk{"Writes":[{"Environment":9,"Levels":[],"Resource":{"ID":5,"Name":""},"Kind":"values","Value":{},"IfMatch":null,"Register":true},{"Environment":9,"Levels":[],"Resource":{"ID":0,"Name":"override/node"},"Kind":"values","Value":{"a":1.0},"IfMatch":null,"Register":true},{"Environment":9,"Levels":[],"Resource":{"ID":0,"Name":"override/node"},"Kind":"overrides","Value":{},"IfMatch":null,"Register":false}]} by=ann message="" dry=false`},
	{`GET environments/9/nodes/1/hiera/data?resources=a/b,c&merge=deep&knockout_prefix=--&sort_merged_arrays=1&merge_hash_arrays`, ``, 200, `{"a":1.0}`, `Hiera {Environment:9 Levels:[{Level:nodes Value:1}] Resources:[a/b c] Merge:{Strategy:deep KnockoutPrefix:-- SortMergedArrays:true MergeHashArrays:true} Keys:[] Reveal:true} known=[]`},
	{`GET environments/9/hiera/lookup/a?resources=c`, ``, 200, `{"value":1.0}`,
		`Hiera {Environment:9 Levels:[] Resources:[c] Merge:{Strategy:first KnockoutPrefix: SortMergedArrays:false ` +
			`MergeHashArrays:false} Keys:[a] Reveal:true} known=[]`},
	{`GET environments/9/hiera/lookup/a?resources=c&raw`, ``, 200, `1.0`,
		`Hiera {Environment:9 Levels:[] Resources:[c] Merge:{Strategy:first KnockoutPrefix: SortMergedArrays:false ` +
			`MergeHashArrays:false} Keys:[a] Reveal:true} known=[]`},
	{`GET environments/9/hiera/lookup/b.%22c.d%22?resources=c`, ``, 404,
		`{"msg":"key \"b.\\\"c.d\\\"\": none of c has it"}`,
		`Hiera {Environment:9 Levels:[] Resources:[c] Merge:{Strategy:first KnockoutPrefix: SortMergedArrays:false ` +
			`MergeHashArrays:false} Keys:[b."c.d"] Reveal:true} known=[]`},
	{`POST environments/9/hiera/lookup`, `{"keys":["a","b"],"resources":["c"],"merge":"unique","sort_merged_arrays":true}`,
		200, `{"a":1.0}`, `Hiera {Environment:9 Levels:[] Resources:[c] Merge:{Strategy:unique KnockoutPrefix: ` +
			`SortMergedArrays:true MergeHashArrays:false} Keys:[a b] Reveal:true} known=[]`},
	{`GET history?environment=9&before=8&limit=5000`, ``, 200,
		`[{"revision":7,"time":"2026-11-21T12:00:00Z","author":"ann","message":"why","changes":[{"what":"values","did":"changed","environment":9,"levels":[{"level":"nodes","value":"1"}],"resource":1,"version":3}]}]`, `Records {Environment:9 Before:8 Limit:1000}`},
	{`GET history/7`, ``, 200,
		`{"revision":7,"time":"2026-11-21T12:00:00Z","author":"ann","message":"why","changes":[{"what":"values","did":"changed","environment":9,"levels":[{"level":"nodes","value":"1"}],"resource":1,"version":3}]}`, `Records {Environment:0 Before:8 Limit:1}`},
	{`GET openapi.json`, ``, 200, ``, ``},
}

// TestEveryRoute requests each row, and HEAD for each GET, below both prefixes.
func TestEveryRoute(t *testing.T) {
	f := &fake{}
	h := Handler(f, door{})
	a := h.(*api)
	met := map[string]bool{"GET " + toWatch: true} // TestWatch has it
	for _, c := range routeCases {
		method, target, _ := strings.Cut(c.ask, " ")
		for _, prefix := range Prefixes {
			w := ask(h, asked{method: method, target: prefix + target, body: c.body})
			heard := f.taken()
			if w.Code != c.status || c.answer != "" && w.Body.String() != c.answer || w.Code == 204 && w.Body.Len() > 0 {
				t.Errorf("%s: %d %s\nwant %d %s", c.ask, w.Code, w.Body, c.status, c.answer)
			}
			if heard != c.heard {
				t.Errorf("%s: heard\n%s\nwant\n%s", c.ask, heard, c.heard)
			}
			if method != "GET" {
				continue
			}
			if head := ask(h, asked{method: "HEAD", target: prefix + target}); head.Code != c.status || head.Body.Len() > 0 ||
				head.Header().Get("Content-Length") != w.Header().Get("Content-Length") {
				t.Errorf("HEAD %s: %d %v", target, head.Code, head.Header())
			}
			f.taken()
		}
		path, _, _ := strings.Cut(target, "?")
		if p, err := parse(strings.ReplaceAll(path, "%22", "")); err == nil {
			for _, r := range a.rows[p.path] {
				if r.Method == method || r.Patch && method == "PATCH" {
					met[r.Method+" "+r.Path] = true
				}
			}
		}
	}
	for _, r := range table {
		if !met[r.Method+" "+r.Path] {
			t.Errorf("%s %s: no case", r.Method, r.Path)
		}
	}
}
