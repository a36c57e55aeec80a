package configdbapi

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// TestWhoMayWhat requests each row with each role (docs/adr/0022).
func TestWhoMayWhat(t *testing.T) {
	roles := rolesTable(t)
	if len(roles) != len(table) {
		t.Errorf("the table of roles has %d routes, there are %d", len(roles), len(table))
	}
	for _, c := range routeCases {
		method, target, _ := strings.Cut(c.ask, " ")
		path, _, _ := strings.Cut(strings.ReplaceAll(target, "%22", ""), "?")
		p, err := parse(path)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(table, func(r row) bool {
			return r.Path == p.path && (r.Method == method || r.Patch && method == "PATCH")
		})
		for _, role := range []Role{Viewer, Operator, Admin} {
			f := &fake{}
			w := ask(Handler(f, door{}), asked{method: method, target: target, body: c.body, token: string(role)})
			want := c.status
			least, known := roles[table[i].Method+" "+table[i].Path]
			if !known {
				t.Fatalf("%s %s: is not in the table of roles", table[i].Method, table[i].Path)
			}
			if !role.Includes(least.role) {
				want = http.StatusForbidden
			}
			if heard := f.taken(); w.Code != want || want == 403 && heard != "" {
				t.Errorf("%s by a %s: %d %s, heard %s", c.ask, role, w.Code, w.Body, heard)
			}
		}
	}
	for _, r := range table {
		if want := roles[r.Method+" "+r.Path]; nodeWords[r.Own] != want.node {
			t.Errorf("%s %s: a node %q, in the table of roles %q", r.Method, r.Path, nodeWords[r.Own], want.node)
		}
	}
}

var nodeWords = map[nodeMay]string{nodeNot: "", nodeReads: "reads", nodeWrites: "writes", nodeItself: "itself"}

// permitted states who may use a route: the lowest role, and what a node may do with it.
type permitted struct {
	role Role
	node string
}

// rolesTable reads config/httpapi/rest/testdata/roles.txt, by "METHOD PATH" of ConfigDB.
func rolesTable(t *testing.T) map[string]permitted {
	t.Helper()
	text, err := os.ReadFile("../rest/testdata/roles.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]permitted{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(words) < 3 || !strings.HasPrefix(words[2], "config/") {
			continue
		}
		p := permitted{role: Role(words[0])}
		if len(words) == 5 {
			p.node = words[4]
		}
		out[words[1]+" "+strings.TrimPrefix(words[2], "config/")] = p
	}
	return out
}

// An act that can't be recorded in the audit log is not done; a read is, and so is a node's upload.
func TestAnActThatCannotBeAuditedIsNotDone(t *testing.T) {
	var musts []bool
	f := &fake{}
	h := Handler(f, door{}, rest.WithIntents(func(e Entry, must bool) error {
		musts = append(musts, must)
		return errors.New("no space left on device")
	}))
	for _, c := range routeCases {
		method, target, _ := strings.Cut(c.ask, " ")
		path, _, _ := strings.Cut(strings.ReplaceAll(target, "%22", ""), "?")
		p, err := parse(path)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(table, func(r row) bool {
			return r.Path == p.path && (r.Method == method || r.Patch && method == "PATCH")
		})
		musts = nil
		w := ask(h, asked{method: method, target: target, body: c.body, token: string(Admin)})
		heard := f.taken()
		if row := table[i]; row.Effect == rest.Writes && (w.Code != 503 || heard != "" ||
			len(musts) != 1 || musts[0] != (row.Role == Admin)) || row.Effect != rest.Writes &&
			(w.Code != c.status || musts != nil) {
			t.Errorf("%s: %d %s, heard %q, intents %v", c.ask, w.Code, w.Body, heard, musts)
		}
	}
	musts = nil
	if w := ask(h, asked{method: "PUT", target: "environments/9/role/r/nodes/1/resources/1/values", body: "{}",
		token: "node"}); w.Code != 204 || musts != nil {
		t.Errorf("an upload of a node: %d %s", w.Code, w.Body)
	}
}

func TestWhoCannotSayWhoItIs(t *testing.T) {
	h := Handler(&fake{}, door{}, rest.WithFailures(func(string, string, error) {}))
	w := ask(h, asked{method: "GET", target: "components", token: "guess"})
	if who := w.Header().Values("WWW-Authenticate"); w.Code != 401 || len(who) != 2 ||
		who[1] != `Basic realm="edgespan"` || msgOf(t, w) != "a token is needed" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	w = ask(h, asked{method: "GET", target: "components", token: "busy"})
	if w.Code != 503 || w.Header().Get("Retry-After") != "3" || w.Header().Get("WWW-Authenticate") != "" ||
		msgOf(t, w) != "Keystone is away" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w = ask(h, asked{method: "GET", target: "components", token: "broken"}); w.Code != 500 ||
		strings.Contains(msgOf(t, w), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A node reaches its own value of the level nodes by any of its names, and no other value.
func TestANodeReachesItself(t *testing.T) {
	const env, role = "environments/9/", "environments/9/role/r/"
	for _, c := range []struct {
		token, ask, body string
		status           int
	}{
		{"node", "GET " + env + "nodes/1/resources/astute/values?effective", "", 200},
		{"node", "GET " + role + "nodes/n1.example/resources/astute/values", "", 200},
		{"node", "GET " + role + "nodes/c1/resources/astute/overrides", "", 200},
		{"node", "PUT " + role + "nodes/1/resources/1/values", "{}", 204},
		{"node", "PUT " + role + "nodes/1/resources/astute/values", "{}", 308},
		{"node", "PATCH " + role + "nodes/1/resources/1/values/keys/set", `[["a",1]]`, 204},
		{"node", "PATCH " + role + "nodes/1/resources/1/overrides/keys/get", `[["a"]]`, 200},
		{"node", "GET " + env + "nodes/1/resources/1/values/history", "", 200},
		{"node", "POST " + env + "nodes/1/bulk", `{"resources":{"1":{"values":{}}}}`, 200},
		{"node", "GET " + env + "nodes/1/hiera/data?resources=a", "", 200},
		{"node", "GET " + env + "nodes/1/hiera/lookup/a?resources=a", "", 200},
		{"node", "POST " + env + "nodes/1/hiera/lookup", `{"keys":[],"resources":["a"]}`, 200},
		{"node", "GET " + env + "nodes/1", "", 200},
		{"node", "PUT " + env + "nodes/1", `{"fqdn":"n1.example","certname":"c1"}`, 204},
		{"node", "PUT " + env + "nodes/1", `{"fqdn":"n1.example","certname":"c1","levels":{"role":"r"}}`, 204},
		{"node", "PUT " + env + "nodes/1", `{"fqdn":"n1.example","certname":"c1","levels":null}`, 204},
		{"cert", "GET " + env + "nodes/1/resources/astute/values?effective", "", 200},
		{"cert", "PUT " + env + "nodes/n1.example/resources/1/values", "{}", 204},
		{"new", "PUT " + env + "nodes/new/resources/1/values", "{}", 204},
		{"new", "PUT " + env + "nodes/new", `{}`, 204},
		{"newcert", "PUT " + env + "nodes/c9", `{"certname":"c9","fqdn":"c9"}`, 204},
		{"newcert", "PUT " + env + "nodes/c9/resources/1/values", "{}", 204},

		{"new", "PUT " + env + "nodes/new", `{"fqdn":"db-1.example"}`, 403},
		{"new", "PUT " + env + "nodes/new", `{"certname":"db-1.example"}`, 403},
		{"newcert", "PUT " + env + "nodes/c9", `{"certname":"c9","fqdn":"db-1.example"}`, 403},
		{"new", "PUT environments/10/nodes/new/resources/1/values", "{}", 403},
		{"node", "PUT " + env + "nodes/1", `{"fqdn":"n2.example","certname":"c1"}`, 403},
		{"node", "PUT " + env + "nodes/1", `{}`, 403},
		{"node", "PUT " + env + "nodes/1", `{"fqdn":"n1.example","certname":"c1","levels":{"role":"a"}}`, 403},
		{"node", "PUT " + env + "nodes/1", `{"fqdn":"n1.example","certname":"c1","levels":{}}`, 403},
		{"new", "PUT " + env + "nodes/new", `{"levels":{"role":"a"}}`, 403},
		{"node", "GET " + env + "role/a/nodes/1/resources/astute/values?effective", "", 403},
		{"cert", "GET " + env + "role/a/nodes/1/resources/astute/values?effective", "", 403},
		{"node", "GET " + env + "role/r/role/a/nodes/1/resources/astute/values", "", 403},
		{"node", "GET " + env + "role/a/role/r/nodes/1/resources/astute/values", "", 403},
		{"node", "GET " + env + "roles/r/nodes/1/resources/astute/values", "", 403},
		{"new", "PUT " + role + "nodes/new/resources/1/values", "{}", 403},
		{"node", "DELETE " + env + "nodes/1", "", 403},
		{"node", "GET " + env + "nodes", "", 403},
		{"node", "GET " + env + "nodes/2", "", 403},
		{"node", "GET " + env + "nodes/2/resources/astute/values", "", 403},
		{"node", "PUT " + env + "nodes/2/resources/1/values", "{}", 403},
		{"node", "PUT " + env + "nodes/2/resources/astute/values", "{}", 403},
		{"node", "PUT " + env + "nodes/1/resources/1/overrides", "{}", 403},
		{"node", "PATCH " + env + "nodes/1/resources/1/overrides/keys/set", `[["a",1]]`, 403},
		{"node", "DELETE " + env + "nodes/1/resources/1/values", "", 403},
		{"node", "POST " + env + "nodes/1/bulk", `{"resources":{"1":{"overrides":{}}}}`, 403},
		{"node", "POST " + env + "nodes/1/rollback", `{"revision":1}`, 403},
		{"node", "GET " + env + "resources/astute/values?effective", "", 403},
		{"node", "GET " + env + "role/1/resources/astute/values", "", 403},
		{"node", "GET " + env + "nodes/1/role/r/resources/astute/values", "", 403},
		{"node", "GET environments/10/nodes/1/resources/astute/values", "", 403},
		{"node", "GET components", "", 403},
		{"node", "GET history", "", 403},
		{"node", "GET watch", "", 403},
		{"node", "GET openapi.json", "", 403},
		{"new", "GET " + env + "nodes/new/resources/1/values", "", 403},
		{"new", "PATCH " + env + "nodes/new/resources/1/values/keys/get", "[]", 403},
		{"new", "PUT " + env + "nodes/other/resources/1/values", "{}", 403},
		{"newcert", "PUT " + env + "nodes/1/resources/1/values", "{}", 403},
		{"newcert", "PUT " + env + "nodes/c9", `{"certname":"c1"}`, 403},
	} {
		f := &fake{opens: true}
		method, target, _ := strings.Cut(c.ask, " ")
		w := ask(Handler(f, door{}), asked{method: method, target: target, body: c.body, token: c.token})
		if heard := f.taken(); w.Code != c.status || c.status == 403 && strings.Contains(heard, "Write") {
			t.Errorf("%s: %s: %d %s, want %d; heard %s", c.token, c.ask, w.Code, w.Body, c.status, heard)
		}
	}
	f := &fake{opens: true}
	ask(Handler(f, door{}),
		asked{method: "PUT", target: env + "nodes/c9/resources/1/values", body: "{}", token: "newcert"})
	if heard := f.taken(); !strings.Contains(heard,
		`Write PutNode{"Environment":9,"Node":{"id":"c9","certname":"c9","undeclared":true}}`) ||
		!strings.Contains(heard, "Write Put{") {
		t.Errorf("one with a certificate of another CA is not known by it: heard %s", heard)
	}
}

// hearing returns options that record each line of the audit log, except those that announce a write.
func hearing(log *[]Entry) []Option {
	return []Option{rest.WithAudit(func(e Entry) { *log = append(*log, e) }),
		rest.WithIntents(func(e Entry, must bool) error {
			if e.Reveal && must {
				*log = append(*log, e)
			}
			return nil
		})}
}

// While the audit log can't be written no secret is shown, to an admin or to a node; everything else is.
func TestNoSecretIsShownUnseen(t *testing.T) {
	for token, shown := range map[string]bool{"viewer": false, "operator": false, "admin": true, "node": true} {
		for _, secret := range []bool{true, false} {
			f := &fake{answer: model.Answer{Body: []byte(`{"a":"s3cret"}`), ETag: `"s"`, Secret: secret}}
			h := Handler(f, door{}, rest.WithAudit(func(e Entry) {
				if e.Reveal {
					t.Errorf("%+v", e)
				}
			}), rest.WithIntents(func(Entry, bool) error { return errors.New("no space left on device") }))
			w := ask(h, asked{method: "GET", target: "environments/9/nodes/1/resources/1/values", token: token})
			if refused := shown && secret; (w.Code == 503) != refused ||
				strings.Contains(w.Body.String(), "s3cret") == refused || refused && w.Header().Get("ETag") != "" {
				t.Errorf("%s, secret %t: %d %s %v", token, secret, w.Code, w.Body, w.Header())
			}
		}
	}
}

func TestSecretsAreShownToFewAndThatIsAudited(t *testing.T) {
	const values = "environments/9/nodes/1/resources/1/values"
	for token, shown := range map[string]bool{"viewer": false, "operator": false, "admin": true, "node": true} {
		for _, secret := range []bool{true, false} {
			f := &fake{answer: model.Answer{Body: []byte(`{}`), ETag: `"s"`, Secret: secret}}
			var log []Entry
			h := Handler(f, door{}, hearing(&log)...)
			w := ask(h, asked{method: "GET", target: values, token: token})
			if heard := f.taken(); !strings.Contains(heard, fmt.Sprintf("Reveal:%v", shown)) {
				t.Errorf("%s: heard %s", token, heard)
			}
			if (len(log) == 1) != (shown && secret) || len(log) == 1 && (!log[0].Reveal || log[0].Status != 200) {
				t.Errorf("%s: audited: %+v", token, log)
			}
			if w.Header().Get("Cache-Control") == "no-store" != (shown && secret) {
				t.Errorf("%s: Cache-Control: %s", token, w.Header().Get("Cache-Control"))
			}
			log = nil
			if w = ask(h, asked{method: "GET", target: values, token: token,
				header: map[string]string{"If-None-Match": `"s"`}}); w.Code != 304 || len(log) > 0 {
				t.Errorf("%s: nothing is shown by %d, audited: %+v", token, w.Code, log)
			}
		}
	}
}

func TestWritesAndRefusalsAreAudited(t *testing.T) {
	for _, c := range []struct {
		asked
		want string
	}{
		{asked{method: "PUT", target: "environments/9/resources/1/values?message=why", body: `{}`, token: "operator"},
			`olga operator PUT /api/v1/config/environments/9/resources/1/values 204 8 false why`},
		{asked{method: "PUT", target: "environments/9/resources/1/values?dryRun=1", body: `{}`},
			`ann admin PUT /api/v1/config/environments/9/resources/1/values 200 0 true `},
		{asked{method: "PUT", target: "environments/9/resources/1/values", body: `[]`},
			`ann admin PUT /api/v1/config/environments/9/resources/1/values 400 0 false `},
		{asked{method: "POST", target: "components", body: `{"name":"x"}`},
			`ann admin POST /api/v1/config/components 201 8 false `},
		{asked{method: "POST", target: "components", body: `{"name":"x"}`, token: "viewer"},
			`vera viewer POST /api/v1/config/components 403 0 false `},
		{asked{method: "GET", target: "components", token: "guess"}, `  GET /api/v1/config/components 401 0 false `},
		{asked{method: "GET", target: "components"}, ``},
		{asked{method: "PUT", target: "environments/9/resources/astute/values", body: `{}`}, ``},
		{asked{method: "PUT", target: "environments/9/resources/1/values/keys/get", body: `[["a"]]`}, ``},
	} {
		got := ""
		ask(Handler(&fake{}, door{}, rest.WithAudit(func(e Entry) {
			got = fmt.Sprint(e.Caller, " ", e.Role, " ", e.Method, " ", e.Path, " ", e.Status, " ", e.Revision, " ", e.DryRun,
				" ", e.Message)
		})), c.asked)
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.target, got, c.want)
		}
	}
}

// A node's upload of unchanged content leaves no line; an upload that changes something or is refused does, and so does
// a secret that it reads, and an operator's write that changes nothing.
func TestAnUnchangedUploadOfANodeIsNotAudited(t *testing.T) {
	for _, c := range []struct {
		token string
		same  bool
		err   error
		lines int
	}{
		{"node", true, nil, 0}, {"node", false, nil, 1}, {"operator", true, nil, 1},
		{"node", true, &model.RequestError{Kind: model.Invalid, Text: "no"}, 1},
	} {
		lines := 0
		f := &fake{same: c.same, err: c.err}
		ask(Handler(f, door{}, rest.WithAudit(func(Entry) { lines++ })),
			asked{method: "PUT", target: "environments/9/nodes/1/resources/1/values", body: "{}", token: c.token})
		if lines != c.lines {
			t.Errorf("%+v: %d lines", c, lines)
		}
	}
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Handler(&fake{}, door{},
			rest.WithLimits(Limits{Rate: 0.5, Burst: 2, InFlight: 2, Bytes: 100, Deadline: time.Minute}))
		for i, want := range []int{200, 200, 429} {
			if w := ask(h, asked{method: "GET", target: "components"}); w.Code != want || want == 429 &&
				w.Header().Get("Retry-After") != "2" {
				t.Errorf("request %d: %d %v", i, w.Code, w.Header())
			}
		}
		if w := ask(h, asked{method: "GET", target: "components", token: "viewer"}); w.Code != 200 {
			t.Errorf("another caller: %d", w.Code)
		}
		time.Sleep(2 * time.Second)
		if w := ask(h, asked{method: "GET", target: "components"}); w.Code != 200 {
			t.Errorf("two seconds later: %d", w.Code)
		}
	})
	f := &fake{hold: make(chan struct{}), held: make(chan struct{})}
	h := Handler(f, door{}, rest.WithLimits(Limits{InFlight: 2, Deadline: time.Minute}))
	codes := make(chan int)
	for range 2 {
		go func() { codes <- ask(h, asked{method: "GET", target: "components"}).Code }()
		<-f.held
	}
	if w := ask(h, asked{method: "GET", target: "components"}); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("a third: %d", w.Code)
	}
	close(f.hold)
	for range 2 {
		if code := <-codes; code != 200 {
			t.Errorf("one of two: %d", code)
		}
	}
}

// The secrets of a resource are also masked in the content of its definition, wherever that is shown; an admin sees
// them, and that is audited.
func TestSecretsOfContentAreMasked(t *testing.T) {
	var log []Entry
	h := Handler(newReal(t), door{}, hearing(&log)...)
	for _, q := range []asked{
		{method: "POST", target: "components",
			body: `{"name":"c","resource_definitions":[{"name":"d","content":{"db":{"password":"s3cret"},"a":1}},{"name":"e","content":{"a":1}}]}`},
		{method: "PUT", target: "resource_definitions/1/secrets", body: `{"secrets":["db.password"]}`},
	} {
		if w := ask(h, q); w.Code >= 300 {
			t.Fatalf("%s: %d %s", q.target, w.Code, w.Body)
		}
	}
	for _, q := range []asked{
		{method: "GET", target: "components"}, {method: "GET", target: "components/1"},
		{method: "GET", target: "resource_definitions"}, {method: "GET", target: "resource_definitions?component_id=1"},
		{method: "GET", target: "resource_definitions/1"},
		{method: "PATCH", target: "resource_definitions/1/keys/get", body: `[[],["db"],["db","password"]]`},
	} {
		for token, shown := range map[string]bool{"viewer": false, "operator": false, "admin": true} {
			log, q.token = nil, token
			w := ask(h, q)
			text := w.Body.String()
			if w.Code != 200 || strings.Contains(text, "s3cret") != shown ||
				strings.Contains(text, `{"$masked":true}`) == shown || (len(log) == 1 && log[0].Reveal) != shown ||
				(w.Header().Get("Cache-Control") == "no-store") != shown {
				t.Errorf("%s %s by a %s: %d %s, audited %+v", q.method, q.target, token, w.Code, text, log)
			}
		}
	}
	log = nil
	if w := ask(h, asked{method: "GET", target: "resource_definitions/2"}); w.Code != 200 || len(log) > 0 {
		t.Errorf("without a secret: %s, audited %+v", w.Body, log)
	}
}
