package configdbapi

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

const aTarget = `environments/9/resources/1/values`

var malformed = []struct {
	ask, body string
	status    int
	says      string
}{
	{`PUT ` + aTarget, ``, 400, `empty`},
	{`PUT ` + aTarget, `{`, 400, `line 1`},
	{`PUT ` + aTarget, `[]`, 400, `object`},
	{`PUT ` + aTarget, `null`, 400, `object`},
	{`PUT ` + aTarget, `"x"`, 400, `object`},
	{`PUT ` + aTarget, `{} {}`, 400, `one JSON value`},
	{`PUT ` + aTarget, "{\"a\":\"\xff\"}", 400, `UTF-8`},
	{`PUT ` + aTarget, `{"a":01}`, 400, `line 1`},
	{`PUT ` + aTarget, `{"a":NaN}`, 400, `line 1`},
	{`PUT ` + aTarget, `a=b&c=d`, 400, `line 1`},
	{`PUT ` + aTarget, strings.Repeat(`{"a":`, 20000) + `1` + strings.Repeat(`}`, 20000), 400, `deep`},
	{`PUT ` + aTarget + `?message=a%0Ab`, `{}`, 400, `one line`},
	{`PUT ` + aTarget + `?dryRun=maybe`, `{}`, 400, `must be 0 or 1`},
	{`PUT ` + aTarget + `?message=%zz`, `{}`, 400, `query`},
	{`PUT ` + aTarget + `/keys/set`, `{}`, 400, `list`},
	{`PUT ` + aTarget + `/keys/set`, `["a"]`, 400, `list of keys`},
	{`PUT ` + aTarget + `/keys/get`, ``, 400, `empty`},
	{`PUT ` + aTarget + `/keys/frob`, `[]`, 404, `no such route`},
	{`GET ` + aTarget + `/keys/get`, ``, 405, `PATCH, PUT`},
	{`POST ` + aTarget, `{}`, 405, `DELETE, GET, HEAD, OPTIONS, PUT`},
	{`PATCH ` + aTarget, `{}`, 405, `PUT`},
	{`bad-method ` + aTarget, ``, 405, `"bad-method"`},
	{`GET ` + aTarget + `?show_lookup`, ``, 409, `only for effective values`},
	{`GET ` + aTarget + `?version=x`, ``, 400, `version: invalid value "x"`},
	{`GET ` + aTarget + `?version=-1`, ``, 400, `version`},
	{`GET ` + aTarget + `?version=0`, ``, 404, `version 0`},
	{`GET ` + aTarget + `?revision=0`, ``, 404, `revision 0`},
	{`GET ` + aTarget + `?version=99999999999999999999`, ``, 400, `version`},
	{`GET ` + aTarget + `?effective&merge=hash`, ``, 400, `must be deep`},
	{`GET ` + aTarget + `?merge=deep`, ``, 400, `with effective`},
	{`GET ` + aTarget + `?key=%ff`, ``, 400, `UTF-8`},
	{`GET environments/9/resources/%ff/values`, ``, 400, `UTF-8`},
	{`GET ` + aTarget + `/diff`, ``, 400, `from: required`},
	{`GET ` + aTarget + `/diff?from=1&to=0`, ``, 400, `to: invalid value 0`},
	{`GET ` + aTarget + `/history?limit=0`, ``, 400, `limit`},
	{`GET ` + aTarget + `/history?limits=1`, ``, 400, `limits: unknown field: must be before or limit`},
	{`POST ` + aTarget + `/rollback`, `{}`, 400, `one of them`},
	{`POST ` + aTarget + `/rollback`, `{"version":1,"revision":1}`, 400, `one of them`},
	{`POST ` + aTarget + `/rollback`, `{"version":1.5}`, 400, `whole number`},
	{`POST environments/9/resources/0/values/rollback`, `{"version":1}`, 404, `not found by 0`},
	{`POST environments/9/rollback`, `{}`, 400, `revision: required`},
	{`POST environments/9/bulk`, `{}`, 400, `resources: required`},
	{`POST environments/9/bulk`, `{"resources":{}}`, 400, `nothing to write`},
	{`POST environments/9/bulk`, `{"resources":{"a":{"value":{}}}}`, 400, `resources.a.value: unknown field`},
	{`POST environments/9/bulk`, `{"resources":{"a":{"values":[]},"b":7}}`, 400, `resources.a.values: invalid type list`},
	{`POST environments/9/bulk`, `{"resources":{"a":{"values":[]},"b":7}}`, 400, `resources.b: invalid type number`},
	{`POST environments/9/bulk`, `{"resources":{"":{"values":{}}}}`, 400, `empty name`},
	{`POST components`, `{}`, 400, `name: required`},
	{`POST components`, `{"name":1,"id":"x","resource_definitions":[{"name":2},3,{}]}`, 400, `name: invalid type number`},
	{`POST components`, `{"name":1,"id":"x","resource_definitions":[{"name":2},3,{}]}`, 400, `id: invalid value "x"`},
	{`POST components`, `{"name":1,"id":"x","resource_definitions":[{"name":2},3,{}]}`, 400,
		`resource_definitions[0].name: invalid type number`},
	{`POST components`, `{"name":1,"id":"x","resource_definitions":[{"name":2},3,{}]}`, 400,
		`resource_definitions[1]: invalid type number`},
	{`POST components`, `{"name":1,"id":"x","resource_definitions":[{"name":2},3,{}]}`, 400,
		`resource_definitions[2].name: required`},
	{`POST components`, `{"name":"a","resource_definitions":{}}`, 400, `list`},
	{`POST components`, `{"name":"a","id":99999999999999999999}`, 400, `whole number`},
	{`PUT components/1`, `{"resource_definitions":[{"name":"x"}]}`, 400, `resource_definitions[0].id: required`},
	{`PUT components/4`, `not JSON`, 404, `component not found by 4`},
	{`GET components/x`, ``, 404, `component not found by "x"`},
	{`PUT components`, `{}`, 405, `GET, HEAD, OPTIONS, POST`},
	{`POST environments`, `{"components":[true],"hierarchy_levels":[1]}`, 400, `components[0]: invalid type boolean`},
	{`POST environments`, `{"hierarchy_levels":["a"]}`, 400, `components: required`},
	{`PUT environments/9`, `{"hierarchy_levels":["a",null]}`, 404, `hierarchy_levels: null is the name of no level`},
	{`PUT environments/9`, `{"hierarchy_levels":["a",1]}`, 400, `hierarchy_levels[1]: invalid type number`},
	{`PUT environments/9`, `{"hierarchy_levels":null}`, 400, `hierarchy_levels: invalid type null`},
	{`POST environments`, `{"components":[]}`, 400, `hierarchy_levels: required`},
	{`PUT environments/4`, ``, 404, `environment not found by 4`},
	{`PUT environments/9`, ``, 400, `empty`},
	{`PUT environments/9/hierarchy_levels/nodes`, `{}`, 400, `name: required`},
	{`PUT environments/9/hierarchy_levels/none`, `{}`, 404, `level not found`},
	{`PUT resource_definitions/1`, `{"component_id":"x"}`, 400, `component_id`},
	{`PUT resource_definitions/3/keys/set`, `x`, 404, `not found by 3`},
	{`PUT resource_definitions/1/keys/get`, `[["no"]]`, 409, `no`},
	{`GET resource_definitions?component_id=x`, ``, 400, `component_id`},
	{`PUT resource_definitions/1/secrets`, `["a"]`, 400, `object`},
	{`PUT environments/9/nodes/1`, `{"fqdn":1,"cert":"x"}`, 400, `cert: unknown field`},
	{`PUT environments/9/nodes/1`, `{"levels":["role"]}`, 400, `levels: invalid type list: must be an object`},
	{`PUT environments/9/nodes/1`, `{"levels":{"role":1}}`, 400, `levels.role: invalid type number: must be a string`},
	{`PUT environments/9/nodes/1`, `{"id":"2"}`, 400, `must be the same as in the path`},
	{`GET environments/9/hiera/data`, ``, 400, `resources`},
	{`GET environments/9/hiera/data?resources=a,,b`, ``, 400, `resources`},
	{`GET environments/9/hiera/data?resources=a&merge=native`, ``, 400, `first, unique, hash or deep`},
	{`GET environments/9/hiera/data?resources=a&sort_merged_arrays=2`, ``, 400, `must be 0 or 1`},
	{`POST environments/9/hiera/lookup`, `{"keys":"a"}`, 400, `keys: invalid type string`},
	{`GET environments/9/hiera/lookup`, ``, 405, `OPTIONS, POST`},
	{`GET history/99`, ``, 404, `revision 99`},
	{`GET history?environment=x`, ``, 400, `environment`},
	{`GET history?limit=x`, ``, 400, `limit: invalid value "x"`},
	{`GET watch?since=8`, ``, 400, `since: invalid value 8: the newest revision is 7`},
	{`GET watch?since=x`, ``, 400, `since`},
	{`GET watch?level=nodes`, ``, 400, `LEVEL=VALUE`},
	{`GET watch?resource=astute`, ``, 400, `together with environment`},
	{`GET watch?resource=none&environment=9`, ``, 404, `none`},
	{`GET nonsense`, ``, 404, `openapi.json`},
}

// Each malformed request is a 4xx that states the reason, and causes no write.
func TestMalformedRequests(t *testing.T) {
	for _, c := range malformed {
		f := &fake{}
		method, target, _ := strings.Cut(c.ask, " ")
		w := ask(Handler(f, door{}), asked{method: method, target: target, body: c.body})
		heard := f.taken()
		if w.Code != c.status || !strings.Contains(msgOf(t, w), c.says) || strings.Contains(heard, "Write") {
			t.Errorf("%s %.40s: %d %s\nwant %d %s; heard %s", c.ask, c.body, w.Code, w.Body, c.status, c.says, heard)
		}
		if allow := w.Header().Get("Allow"); (w.Code == 405) != (allow != "") {
			t.Errorf("%s: Allow: %s", c.ask, allow)
		}
	}
}

func TestBodiesAreBounded(t *testing.T) {
	f := &fake{}
	h := Handler(f, door{})
	const target = "/api/config/environments/9/resources/1/values"
	large := strings.NewReader(`{"a":"` + strings.Repeat("x", MaxBody) + `"}`)
	for name, body := range map[string]io.Reader{"with its length": large, "without": io.MultiReader(large)} {
		_, _ = large.Seek(0, io.SeekStart)
		r := httptest.NewRequest("PUT", target, body)
		r.Header.Set("X-Auth-Token", "admin")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 413 || !strings.Contains(msgOf(t, w), "8 MiB") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if n := h.(*api).Bodies.Held(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
	limits := DefaultLimits
	limits.Bytes = 10
	if w := ask(Handler(f, door{}, rest.WithLimits(limits)), asked{method: "PUT",
		target: target, body: `{"a":"0123456789"}`}); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("beyond what may be uploaded at once: %d %s", w.Code, w.Body)
	}
	if heard := f.taken(); heard != "" {
		t.Errorf("heard %s", heard)
	}
}

// Clients of the original send any content type, or none.
func TestAnyContentTypeOfJSONIsTaken(t *testing.T) {
	for _, kind := range []string{"", "application/json", "application/x-www-form-urlencoded",
		"text/plain; charset=latin-1", "nonsense"} {
		if w := ask(Handler(&fake{}, door{}), asked{method: "PUT", target: "environments/9/resources/1/values",
			body: `{}`, header: map[string]string{"Content-Type": kind}}); w.Code != 204 {
			t.Errorf("%q: %d %s", kind, w.Code, w.Body)
		}
	}
	if w := ask(Handler(&fake{}, door{}), asked{method: "PUT", target: "environments/9/resources/1/values",
		body: `{}`, header: map[string]string{"Content-Encoding": "gzip"}}); w.Code != 415 {
		t.Errorf("an encoding: %d %s", w.Code, w.Body)
	}
}

func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil"} {
		f := &fake{}
		w := ask(Handler(f, door{}), asked{method: "PUT",
			target: "environments/9/resources/1/values", body: `{}`, header: map[string]string{header: value}})
		if heard := f.taken(); w.Code != 403 || heard != "" {
			t.Errorf("%s: %d, heard %s", header, w.Code, heard)
		}
	}
	for host, status := range map[string]int{"evil.example": 421, "localhost:1": 200, "127.0.0.1": 200, "[::1]:8": 200} {
		if w := ask(Handler(&fake{}, door{}, WithLocalHosts()),
			asked{method: "GET", target: "http://" + host + "/api/config/components"}); w.Code != status {
			t.Errorf("Host %s: %d", host, w.Code)
		}
	}
}

// The caller receives the backend's errors, except for those that are internal.
func TestErrorsOfTheBackend(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		says   string
	}{
		{&model.RequestError{Kind: model.Invalid, Text: "why"}, 400, "why"},
		{&model.RequestError{Kind: model.NotFound, Text: "why"}, 404, "why"},
		{&model.RequestError{Kind: model.Conflict, Text: "duplicate key value violates unique constraint"}, 409,
			"duplicate key value violates unique constraint"},
		{&model.RequestError{Kind: model.Stale, Text: "why"}, 412, "why"},
		{&model.RequestError{Kind: model.TooLarge, Text: "why"}, 413, "why"},
		{&model.RequestError{Kind: model.Busy, Text: "why"}, 503, "why"},
		{context.DeadlineExceeded, 504, "no answer in time"},
		{errors.New("a secret of the house"), 500, "its log says why"},
	} {
		var reported error
		h := Handler(&fake{err: c.err}, door{}, rest.WithFailures(func(_, _ string, err error) { reported = err }))
		for _, q := range []asked{{method: "GET", target: "components"}, {method: "DELETE", target: "components/1"},
			{method: "GET", target: "environments/9/resources/1/values"}} {
			w := ask(h, q)
			if msg := msgOf(t, w); w.Code != c.status || !strings.Contains(msg, c.says) || strings.Contains(msg, "secret") {
				t.Errorf("%v: %d %s", c.err, w.Code, msg)
			}
		}
		if (reported != nil) != (c.status == 500) {
			t.Errorf("%v: the log has %v", c.err, reported)
		}
	}
}

func TestOptionsSayWhatIsAllowed(t *testing.T) {
	for target, allow := range map[string]string{
		"components": "GET, HEAD, OPTIONS, POST", "components/1": "DELETE, GET, HEAD, OPTIONS, PATCH, PUT",
		"environments/9/resources/1/values/keys/set": "OPTIONS, PATCH, PUT",
		"environments/9/resources/1/override":        "DELETE, GET, HEAD, OPTIONS, PUT",
	} {
		if w := ask(Handler(&fake{}, door{}), asked{method: "OPTIONS", target: target, token: "nobody"}); w.Code != 200 ||
			w.Header().Get("Allow") != allow || w.Body.Len() > 0 {
			t.Errorf("%s: %d %s %s", target, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
	if w := ask(Handler(&fake{}, door{}), asked{method: "OPTIONS", target: "nonsense"}); w.Code != 404 {
		t.Errorf("nonsense: %d", w.Code)
	}
}

// Every fault of the ledger has a status.
func TestEachFaultHasAStatus(t *testing.T) {
	for k := model.Invalid; k <= model.Busy; k++ {
		if statuses[k] < 400 {
			t.Errorf("fault %d has none", k)
		}
	}
}
