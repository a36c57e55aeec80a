package fleetapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
	overridepkg "edgespan/config/layers/override"
)

func TestEveryErrorOfTheBackendIsAProblem(t *testing.T) {
	refusal := &ops.Refused{Faults: overridepkg.WriteFaults{
		{Nodes: []string{"n1", "n2"}, Path: []string{"a", "b.c"}, Rule: "type", Layer: "node", Problem: "invalid value 5",
			Expectation: "must be a string"},
		{Path: []string{"z"}, Rule: overridepkg.RuleRequest, Problem: "is nothing"},
	}}
	lostTo := history.Conflicts{{
		Layer: history.Layer{Kind: history.Network}, Expected: 4,
		By: history.RevisionRecord{Number: 5, Author: "ann", Time: at, Message: "mine"},
	}}
	for _, c := range []struct {
		err    error
		kind   string
		header string
		detail string
		faults string
	}{
		{
			refusal, rest.TypeRejected, "", "2 faults",
			`[{a."b.c" [n1 n2] node type invalid value 5 must be a string} {z []  request is nothing }]`,
		},
		{fmt.Errorf("write: %w", refusal.Faults), rest.TypeRejected, "", "2 faults",
			`[{a."b.c" [n1 n2] node type invalid value 5 must be a string} {z []  request is nothing }]`},
		{config.Faults{{Path: []string{"x"}, Problem: "is wrong"}}, rest.TypeRejected, "", "refused", `[{x []   is wrong }]`},
		{&ops.NotFoundError{What: "node n7", Allowed: "n1 is"}, rest.TypeNotFound, "", "node n7 does not exist: n1 is", ""},
		{&history.NoRevisionError{Number: 7}, rest.TypeNotFound, "", "7", ""},
		{lostTo, rest.TypePrecondition, "", "by ann at 2026-01-02T03:04:05Z", ""},
		{lostTo[0], rest.TypePrecondition, "", "by ann at 2026-01-02T03:04:05Z", ""},
		{fmt.Errorf("n1 is not pending: %w", ErrRefused), rest.TypeConflict, "", "n1 is not pending", ""},
		{fmt.Errorf("e2e/controller: %w", ErrRole), rest.TypePermission, "", "e2e/controller: not permitted", ""},
		{fmt.Errorf("store: %w", &TooManyError{Text: "too much of bob", Wait: 12500 * time.Millisecond}), rest.TypeTooMany,
			"Retry-After: 13", "too much of bob", ""},
		{fmt.Errorf("store: %w", ErrBusy), rest.TypeBusy, "Retry-After: 1", "can't take this now", ""},
		{ErrNoToken, rest.TypeNoToken, `Www-Authenticate: Bearer realm="edgespan"`, "expired", ""},
		{fmt.Errorf("ask: %w", context.DeadlineExceeded), rest.TypeTimeout, "", "no answer in time", ""},
		{context.Canceled, rest.TypeTimeout, "", "no answer in time", ""},
		{errors.New("a secret of the store"), rest.TypeInternal, "", "its log says why", ""},
	} {
		var reported []string
		h := Handler(&fake{err: c.err}, WithTokens(fakeHash),
			rest.WithFailures(func(m, p string, err error) { reported = append(reported, m+" "+p+" "+err.Error()) }))
		for _, call := range []asked{
			{method: "GET", target: Prefix + "nodes", token: "t-admin"},
			{method: "PUT", target: Prefix + "layers/network", body: "{}", token: "t-admin"},
		} {
			reported = nil
			w := ask(h, call)
			p := problemIn(t, w)
			if p.Type != c.kind || !strings.Contains(p.Detail, c.detail) || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%v: %+v", c.err, p)
			}
			if name, value, has := strings.Cut(c.header, ": "); has && w.Header().Get(name) != value {
				t.Errorf("%v: header %v", c.err, w.Header())
			}
			if got := fmt.Sprint(p.Errors); c.faults != "" && got != c.faults {
				t.Errorf("%v: faults\n got    %s\n wanted %s", c.err, got, c.faults)
			}
			if (len(reported) == 1) != (c.kind == rest.TypeInternal) {
				t.Errorf("%v: the log heard %q", c.err, reported)
			}
		}
	}
}

func TestAPanicOfTheBackendIsAnAnswer(t *testing.T) {
	var reported string
	h := Handler(&fake{}, WithTokens(fakeHash), rest.WithFailures(func(_, _ string, err error) { reported = err.Error() }))
	w := ask(h, asked{method: "GET", target: Prefix + "nodes/panic", token: "t-admin"})
	if p := problemIn(t, w); w.Code != 500 || strings.Contains(p.Detail, "secret") ||
		!strings.Contains(reported, "secret") {
		t.Errorf("%+v, the log heard %q", p, reported)
	}
}

func TestBodies(t *testing.T) {
	big := `{"a":"` + strings.Repeat("x", MaxBody) + `"}`
	for _, c := range []struct {
		ask, contentType, body string
		status                 int
		says                   string // in the problem, or in the backend's record
	}{
		{"PUT layers/network", "application/json", `{"a":1}`, 200, "Overrides:map[a:1]"},
		{"PUT layers/network", "application/json; charset=UTF-8", `{"a":1}`, 200, "Overrides:map[a:1]"},
		{"PUT layers/network", "application/yaml", "a:\n  b: true\n", 200, "Overrides:map[a:map[b:true]]"},
		{"PUT layers/network", "application/yaml", "a: 1\na: 2\n", 400, "a"},
		{"PUT layers/network", "application/yaml", "{", 400, "line"},
		{"PUT layers/network", "application/json", ``, 400, "line 1 column 1"},
		{"PUT layers/network", "application/json", "{\"a\":1,\n \"b\"", 400, "line 2 column 5"},
		{"PUT layers/network", "application/json", `{"a":1,"a":2,"b":{"c":1,"c":1}}`, 400, "b.c"},
		{"PUT layers/network", "application/json", `5`, 400, "must be one JSON object"},
		{"PUT layers/network", "application/json", `[]`, 400, "must be one JSON object"},
		{"PUT layers/network", "application/json", `null`, 400, "must be one JSON object"},
		{"PUT layers/network", "application/json", `"x"`, 400, "must be one JSON object"},
		{"PUT layers/network", "application/yaml", `[]`, 400, ""},
		{"PUT layers/network", "application/yaml", `5`, 400, ""},
		{"PUT layers/network", "application/json", "{\"a\":\"\xff\"}", 400, "UTF-8"},
		{"PUT layers/network", "application/json", strings.Repeat(`{"a":`, 200), 400, "deep"},
		{"PUT layers/network", "application/json", big, 413, "16 MiB"},
		{"PUT layers/network", "", `{}`, 415, "application/json or application/yaml"},
		{"PUT layers/network", "text/plain", `{}`, 415, "text/plain"},
		{"POST nodes/n1/retry", "application/x-www-form-urlencoded", ``, 415, "application/json"},
		{"POST nodes/n1/retry", "", ``, 415, "application/json"},
		{"POST nodes/n1/retry", "application/json", `{}`, 200, "Command n1 retry"},
		{"POST nodes/n1/retry", "application/json", `{"a":1}`, 400, "must be empty"},
		{"PUT layers/network", "application/json; charset=latin1", `{}`, 415, "UTF-8"},
		{"DELETE layers/node/n1", "", ``, 200, "Unset"},
		{"DELETE layers/node/n1", "text/plain", ``, 415, "Content-Type"},
		{"POST operators", "application/json", `{"name":"x","role":"king","expires":"soon","more":1}`, 422,
			"expires|more|role"},
		{"POST operators", "application/json", `{}`, 422, "name|role"},
		{"POST operators", "application/json", `{"name":5,"role":[]}`, 422, "name|role"},
		{"POST topology/nodes/n1/rename", "application/json", `{"to":5}`, 422, "to"},
		{"POST import", "application/json", `{"network":"topsecret","e2e":{"controller":[]},"what":{}}`, 422,
			"e2e.controller|network|what"},
	} {
		f := &fake{}
		h := Handler(f, WithTokens(fakeHash))
		method, path, _ := strings.Cut(c.ask, " ")
		w := ask(h, asked{method: method, target: Prefix + path, body: c.body, token: "t-admin",
			header: map[string]string{"Content-Type": c.contentType}})
		heard := f.taken()
		switch {
		case w.Code != c.status:
			t.Errorf("%s %.40s as %q: status %d: %s", c.ask, c.body, c.contentType, w.Code, w.Body)
		case c.status == 200 && !strings.Contains(heard, c.says):
			t.Errorf("%s %s: heard %s", c.ask, c.body, heard)
		case c.status != 200:
			p := problemIn(t, w)
			var paths []string
			for _, e := range p.Errors {
				paths = append(paths, e.Path)
			}
			text := w.Body.String()
			if heard != "" || !strings.Contains(text, c.says) && strings.Join(paths, "|") != c.says ||
				strings.Contains(text, "topsecret") {
				t.Errorf("%s %.40s: heard %q, answered %s", c.ask, c.body, heard, text)
			}
		}
	}
}

func TestQueries(t *testing.T) {
	for ask1, says := range map[string]string{
		"GET nodes?x=1&y=secret":                             `x|y`,
		"GET nodes?%zz":                                      "the query can't be read",
		"GET config":                                         "paths",
		"GET config?paths=":                                  "paths",
		"GET config?paths=a..b&reveal=yes":                   "paths|reveal",
		"GET nodes/n1/config?sw=1&sw=2":                      "sw",
		"GET nodes/n1/config?sw=%ff":                         "sw",
		"GET nodes/n1/explain?path=a..b":                     "path",
		"GET history?before=-1&limit=x":                      "before|limit",
		"GET history?layer=foo":                              "layer: ",
		"GET history/0":                                      "revision: ",
		"GET history/x":                                      "revision: ",
		"GET rollouts/x":                                     "revision: ",
		"POST history/x/revert":                              "revision: ",
		"POST history/1/restore?layers=foo":                  "layers: ",
		"GET history/diff":                                   "from",
		"POST nodes/n1/adopt":                                "mode",
		"POST nodes/n1/adopt?mode=eat":                       "mode",
		"POST nodes/n1/invite?life=-1s&replace=2":            "life|replace",
		"DELETE layers/auto":                                 "paths",
		"DELETE layers/network":                              "paths",
		"DELETE layers/node?nodes=n1":                        "nodes|paths",
		"DELETE layers/node/n1?message=" + "a%0Ab":           "message",
		"DELETE layers/node/n1?message=" + longText:          "message",
		"GET layers/node?nodes=%22a":                         "nodes",
		"POST optimize/golay?clearUser=maybe":                "clearUser",
		"GET layers/network?nodes=n1":                        "nodes",
		"GET nodes/n1/config?reveal=1&reveal=1&paths=%22a,b": "paths|reveal",
	} {
		f := &fake{}
		method, path, _ := strings.Cut(ask1, " ")
		w := ask(Handler(f, WithTokens(fakeHash)), asked{method: method, target: Prefix + path, token: "t-admin"})
		p := problemIn(t, w)
		var paths []string
		for _, e := range p.Errors {
			paths = append(paths, e.Path)
			if e.Detail == "" || e.Allowed == "" {
				t.Errorf("%s: %+v", ask1, e)
			}
		}
		if p.Type != rest.TypeBadRequest || strings.Join(paths, "|") != says && !strings.Contains(p.Detail, says) ||
			f.taken() != "" || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%.60s: %s", ask1, w.Body)
		}
	}
}

var longText = strings.Repeat("x", maxMessage+1)

func TestSecretsAreForAdminsAndAudited(t *testing.T) {
	var log []Entry
	f := &fake{}
	h := Handler(f, WithTokens(fakeHash), rest.WithAudit(func(e Entry) { log = append(log, e) }))
	for _, target := range []string{"layers/network", "layers/node/n1", "nodes/n1/config", "config?paths=a",
		"e2e/controller", "export"} {
		sep := "?"
		if strings.Contains(target, "?") {
			sep = "&"
		}
		for token, status := range map[string]int{"t-viewer": 403, "t-operator": 403, "t-admin": 200} {
			log = nil
			w := ask(h, asked{method: "GET", target: Prefix + target + sep + "reveal=1", token: token})
			heard := f.taken()
			if w.Code != status || (heard != "") != (status == 200) || len(log) != 1 || !log[0].Reveal ||
				log[0].Status != status {
				t.Errorf("%s as %s: %d, heard %q, audit %+v", target, token, w.Code, heard, log)
			}
			if status == 200 && w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s: may be kept: %v", target, w.Header())
			}
			log = nil
			if w := ask(h, asked{method: "GET", target: Prefix + target + sep + "reveal=0", token: token}); w.Code != 200 ||
				len(log) != 0 {
				t.Errorf("%s as %s masked: %d, audit %+v", target, token, w.Code, log)
			}
			f.taken()
		}
	}
}

func TestAudit(t *testing.T) {
	var log []Entry
	h := Handler(&fake{}, WithTokens(fakeHash), rest.WithAudit(func(e Entry) { log = append(log, e) }))
	for _, c := range []struct {
		ask, body, token, line string
	}{
		{"PUT layers/network?message=why", `{"password":"hidden"}`, "t-operator",
			`{"caller":"operator-1","role":"operator","via":"token","remote":"192.0.2.1:1234","method":"PUT","path":"/api/v1/fleet/layers/network","status":200,"revision":10,"message":"why"}`},
		{"PUT layers/network?dryRun=1", `{"password":"hidden"}`, "t-operator",
			`{"caller":"operator-1","role":"operator","via":"token","remote":"192.0.2.1:1234","method":"PUT","path":"/api/v1/fleet/layers/network","status":200,"dryRun":true}`},
		{"PUT layers/network", `{"password":"hidden"`, "t-operator",
			`{"caller":"operator-1","role":"operator","via":"token","remote":"192.0.2.1:1234","method":"PUT","path":"/api/v1/fleet/layers/network","status":400}`},
		{"PUT layers/network", `{}`, "t-viewer",
			`{"caller":"viewer-1","role":"viewer","via":"token","remote":"192.0.2.1:1234","method":"PUT","path":"/api/v1/fleet/layers/network","status":403}`},
		{"GET nodes?token=hidden", ``, "t-hidden",
			`{"remote":"192.0.2.1:1234","method":"GET","path":"/api/v1/fleet/nodes","status":401}`},
		{"POST nodes/n1/forget", ``, "t-admin",
			`{"caller":"admin-1","role":"admin","via":"token","remote":"192.0.2.1:1234","method":"POST","path":"/api/v1/fleet/nodes/n1/forget","status":200}`},
		{"POST nodes/n1/invite", ``, "t-admin",
			`{"caller":"admin-1","role":"admin","via":"token","remote":"192.0.2.1:1234","method":"POST","path":"/api/v1/fleet/nodes/n1/invite","status":201,"reveal":true}`},
		{"POST e2e/controller/actions", `{"password":"hidden"}`, "t-admin",
			`{"caller":"admin-1","role":"admin","via":"token","remote":"192.0.2.1:1234","method":"POST","path":"/api/v1/fleet/e2e/controller/actions","status":200,"dryRun":true}`},
		{"GET nodes", ``, "t-admin", ``},
		{"GET nodes/x/y", ``, "t-admin", ``},
	} {
		log = nil
		method, path, _ := strings.Cut(c.ask, " ")
		ask(h, asked{method: method, target: Prefix + path, body: c.body, token: c.token})
		got := ""
		for _, e := range log {
			if e.Time.IsZero() {
				t.Errorf("%s: without a time", c.ask)
			}
			line, _ := json.Marshal(e)
			_, rest, _ := strings.Cut(string(line), `","`)
			got += `{"` + rest
		}
		if got != c.line {
			t.Errorf("%s\n got    %s\n wanted %s", c.ask, got, c.line)
		}
	}
}

func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	f := &fake{}
	var log []Entry
	h := Handler(f, WithNoAuth(), rest.WithAudit(func(e Entry) { log = append(log, e) }))
	for host, status := range map[string]int{
		"localhost": 200, "localhost:8443": 200, "127.0.0.1:8443": 200, "127.9.9.9": 200, "[::1]:8443": 200, "[::1]": 200,
		"LOCALHOST:1":  200,
		"evil.example": 421, "evil.example:8443": 421, "10.0.0.1": 421, "localhost.evil.example": 421,
		"127.0.0.1.evil.example": 421, "": 421,
	} {
		w := ask(hostIs(h, host), asked{method: "GET", target: Prefix + "nodes"})
		if w.Code != status || (f.taken() != "") != (status == 200) {
			t.Errorf("Host %q: %d", host, w.Code)
		}
	}
	if len(log) != 6 {
		t.Errorf("audit: %+v", log)
	}
	for header, status := range map[string]int{
		"Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: same-site": 403, "Origin: https://evil.example": 403,
		"Sec-Fetch-Site: same-origin": 200, "Origin: http://localhost": 200,
	} {
		name, value, _ := strings.Cut(header, ": ")
		w := ask(hostIs(h, "localhost"),
			asked{method: "PUT", target: Prefix + "layers/network", body: "{}", header: map[string]string{name: value}})
		if w.Code != status || (f.taken() != "") != (status == 200) {
			t.Errorf("%s: %d", header, w.Code)
		}
	}
}

func hostIs(h http.Handler, host string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { r.Host = host; h.ServeHTTP(w, r) })
}
