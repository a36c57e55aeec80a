package configdbapi

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"edgespan/config/configdb/model"
)

// The table is reference §1.7: the meaning of a path whose names look like other parts of it.
func TestPathsAreReadAsTheyWereMeant(t *testing.T) {
	for path, want := range map[string]string{
		"environments/1/resources/astute/values":                  "values [] astute",
		"environments/1/resources/override/node/values":           "values [] override/node",
		"environments/1/resources/override%2Fnode/values":         "values [] override/node",
		"environments/1/resources/a/resources/b/values":           "values [] a/resources/b",
		"environments/1/resources/x/values/values":                "values [] x/values",
		"environments/1/resources/x/values/overrides":             "overrides [] x/values",
		"environments/1/resources/override/override":              "overrides [] override",
		"environments/1/resources/nodes/resources/values":         "values [] nodes/resources",
		"environments/1/resources/resources/values":               "values [] resources",
		"environments/1/nodes/resources/resources/x/values":       "values [nodes=resources] x",
		"environments/1/nodes/a%2Fb/resources/x/values":           "values [nodes=a/b] x",
		"environments/1/hiera/data/resources/x/values":            "values [hiera=data] x",
		"environments/1/hiera/lookup/resources/x/values":          "values [hiera=lookup] x",
		"environments/1/rollback/bulk/resources/x/values":         "values [rollback=bulk] x",
		"environments/1/hierarchy_levels/a/resources/x/values":    "values [hierarchy_levels=a] x",
		"environments/1/a/b/c/d/e/f/g/h/i/j/resources/x/override": "overrides [a=b c=d e=f g=h i=j] x",
		"environments/1/resources/5/values":                       "values [] 5",
		"environments/1/resources/007/values":                     "values [] 7",
		"environments/1/resources/5/6/values":                     "values [] 5/6",
		"environments/1/resources/-5/values":                      "values [] -5",
		"environments/1/resources/x/values/keys/set":              "keys/set [] x",
		"environments/1/resources/x/keys/set/values":              "values [] x/keys/set",
		"environments/1/resources/x/values/keys/values":           "values [] x/values/keys",
		"environments/1/resources/x/values/history/values":        "values [] x/values/history",
		"environments/1/resources/x/values/history":               "history [] x",
		"environments/1/resources/x%2Fvalues/values":              "values [] x/values",
		"environments/1/resources/a//b/values":                    "values [] a//b",
		"environments/1/resources/%E2%82%AC/values":               "values [] €",
		"environments/1/nodes/1/rollback":                         "rollback [nodes=1] ",
		"environments/1/nodes":                                    "nodes [] ",
		"environments/1/nodes/1":                                  "{node} [] ",
		"environments/1/nodes/n/1":                                "",
		"environments/1/node/1":                                   "",
		"environments/1/nodes/1/":                                 "",
		"environments/1/":                                         "",
		"environments/1/resources":                                "",
		"environments/1/resources/x":                              "",
		"environments/1/resources/values":                         "",
		"environments/1/resources//values":                        "",
		"environments/1/resources/x/values/":                      "",
		"environments/1/resources/x/values/keys/frob":             "",
		"environments/1/resources/x/values/keys":                  "",
		"environments/1/resources/0/values":                       "",
		"environments/1/nodes//resources/x/values":                "",
		"environments/1/nodes/resources/x/values":                 "",
		"environments/x/resources/x/values":                       "",
		"environments/99999999999999999999":                       "",
		"components/":                                             "",
		"components/-1":                                           "",
		"components/1/x":                                          "",
		"watch/1":                                                 "",
		"":                                                        "",
		"/":                                                       "",
	} {
		got := ""
		if p, err := parse(path); err == nil {
			name := p.resource.Name
			if p.resource.ID > 0 {
				name = fmt.Sprint(p.resource.ID)
			}
			got = fmt.Sprintf("%s %s %s", tail(p.path), spellLevels(p.levels), name)
			if p.kind != "" && path[p.from:p.to] != escapedName(path, p.resource) {
				t.Errorf("%s: the resource stands at %q", path, path[p.from:p.to])
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func escapedName(path string, r model.Ref) string {
	for _, n := range []string{r.Name, strings.ReplaceAll(r.Name, "/", "%2F"), "%E2%82%AC", "5", "007"} {
		if n != "" && strings.Contains(path, "resources/"+n+"/") {
			return n
		}
	}
	return "?"
}

func tail(path string) string {
	for _, t := range []string{"keys/set", "history", "values", "overrides", "rollback", "{node}"} {
		if strings.HasSuffix(strings.ReplaceAll(path, "{levels}", ""), "/"+t) {
			return t
		}
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

func spellLevels(ls []model.LevelValue) string {
	out := make([]string, len(ls))
	for i, l := range ls {
		out[i] = l.Level + "=" + l.Value
	}
	return "[" + strings.Join(out, " ") + "]"
}

// The vectors are those of the original's tests (reference §1.7): absolute, with the prefix, the levels, the spelling
// and the query of the request.
func TestPutByNameSaysWhereItIs(t *testing.T) {
	for _, c := range []struct{ target, proto, host, want string }{
		{target: "http://localhost/api/v1/config/environments/9/role/val1/nodes/val2/resources/x%2Fvalues/values",
			want: "http://localhost/api/v1/config/environments/9/role/val1/nodes/val2/resources/5/values"},
		{target: "http://localhost/api/config/environments/9/resources/override/node/override?a=b%20c&effective",
			want: "http://localhost/api/config/environments/9/resources/2/override?a=b%20c&effective"},
		{target: "http://10.20.0.2:8000/api/config/environments/9/resources/astute/overrides",
			want: "http://10.20.0.2:8000/api/config/environments/9/resources/1/overrides"},
		{target: "https://cdb:8443/api/v1/config/environment/9/nodes/a%2Fb/resources/astute/values",
			want: "https://cdb:8443/api/v1/config/environment/9/nodes/a%2Fb/resources/1/values"},
		{target: "http://in/api/v1/config/environments/9/resources/astute/values", proto: "https", host: "out:1",
			want: "https://out:1/api/v1/config/environments/9/resources/1/values"},
		{target: "http://in/api/v1/config/environments/9/resources/astute/values", proto: "javascript", host: "a/b",
			want: "http://in/api/v1/config/environments/9/resources/1/values"},
		{target: "http://in/api/v1/config/environments/9/resources/astute/values", proto: "", host: "u@h",
			want: "http://in/api/v1/config/environments/9/resources/1/values"},
	} {
		f := &fake{}
		w := ask(Handler(f, door{}, WithTrustedProxy()),
			asked{method: "PUT", target: c.target, token: "operator", body: "no JSON",
				header: map[string]string{"X-Forwarded-Proto": c.proto, "X-Forwarded-Host": c.host}})
		if w.Code != 308 || w.Header().Get("Location") != c.want || !strings.Contains(msgOf(t, w), c.want) {
			t.Errorf("%s: %d %s %s\nwant %s", c.target, w.Code, w.Header().Get("Location"), w.Body, c.want)
		}
		if heard := f.taken(); strings.Contains(heard, "Write") {
			t.Errorf("%s: heard %s", c.target, heard)
		}
	}
	w := ask(Handler(&fake{}, door{}),
		asked{method: "PUT", target: "http://in/api/config/environments/9/resources/astute/values",
			header: map[string]string{"X-Forwarded-Host": "evil"}})
	if got := w.Header().Get("Location"); got != "http://in/api/config/environments/9/resources/1/values" {
		t.Errorf("X-Forwarded-Host of anybody: %s", got)
	}
	if w := ask(Handler(&fake{}, door{}),
		asked{method: "PUT", target: "environments/9/resources/none/values"}); w.Code != 404 ||
		msgOf(t, w) != "resource_definition not found by none in environment 9" {
		t.Errorf("a name that nobody has: %d %s", w.Code, w.Body)
	}
	r := httptest.NewRequest("PUT", "/api/config/environments/9/resources/astute/values", nil)
	r.Host = ""
	r.Header.Set("X-Auth-Token", "admin")
	rec := httptest.NewRecorder()
	if Handler(&fake{}, door{}).ServeHTTP(rec,
		r); rec.Header().Get("Location") != "http://localhost/api/config/environments/9/resources/1/values" {
		t.Errorf("without Host: %s", rec.Header().Get("Location"))
	}
}

func TestNamesAreDirectWhereThatIsWanted(t *testing.T) {
	f := &fake{}
	w := ask(Handler(f, door{}, WithDirectNames()),
		asked{method: "PUT", target: "environments/9/resources/astute/values", body: "{}"})
	if heard := f.taken(); w.Code != 204 ||
		!strings.HasPrefix(heard, `Write Put{"Environment":9,"Levels":[],"Resource":{"ID":0,"Name":"astute"}`) {
		t.Errorf("%d, heard %s", w.Code, heard)
	}
}

func TestPrefixes(t *testing.T) {
	for path, ok := range map[string]bool{
		"/api/v1/config": true, "/api/config": true, "/api/v1/config/x": true, "/api/config//": true,
		"/api/v1/configs": false, "/api/v1/fleet/config": false, "/": false,
	} {
		if IsFactsPath(path) != ok {
			t.Errorf("%s: %v", path, !ok)
		}
	}
	for _, path := range []string{"/api/v1/config", "/api/v1/configs", "/", "/components"} {
		if w := ask(Handler(&fake{}, door{}), asked{method: "GET", target: path}); w.Code != 404 ||
			!strings.Contains(msgOf(t, w), Prefixes[1]) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
