package configdbapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// FuzzRequests sends arbitrary requests: no answer is a 5xx, every failure is a complete {"msg"}, and then nothing was
// written.
func FuzzRequests(f *testing.F) {
	for _, c := range routeCases {
		method, target, _ := strings.Cut(c.ask, " ")
		f.Add(method, Prefixes[1]+target, c.body, "", `"e1"`)
	}
	for _, c := range malformed {
		method, target, _ := strings.Cut(c.ask, " ")
		if len(c.body) < 1000 {
			f.Add(method, Prefixes[0]+target, c.body, "", "")
		}
	}
	f.Add("BREW", "//x/%2e%2e?a=%zz;&=", "\xff", "text/plain", `W/"`)
	f.Add("PUT", Prefixes[0]+"environments/9/resources/astute/values", "{}", "", "*")
	f.Add("PUT", Prefixes[0]+"environments/9/resources/1/values/keys/set", `[["a","b"],[1,2],[{}]]`, "", "")
	f.Add("POST", Prefixes[0]+"components", `{"name":"x","resource_definitions":[[],{"name":null}]}`, "", "")
	f.Fuzz(func(t *testing.T, method, target, body, kind, tag string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") || strings.Contains(target, toWatch) {
			return // net/http answers these itself; a watch does not end
		}
		failed := rest.WithFailures(func(m, p string, err error) { t.Errorf("%s %s: %v", m, p, err) })
		request := func() *http.Request {
			r := &http.Request{
				Method: method, URL: u, Host: "localhost", RemoteAddr: "192.0.2.1:1", ContentLength: int64(len(body)),
				Header: http.Header{"Content-Type": {kind}, "X-Auth-Token": {"admin"}, "Last-Event-Id": {tag}},
				Body:   httptest.NewRequest("PUT", "/", strings.NewReader(body)).Body,
			}
			if tag != "" {
				header := "If-None-Match"
				if method != "GET" {
					header = "If-Match"
				}
				r.Header[header] = []string{tag}
			}
			return r
		}
		ledgers := httptest.NewRecorder()
		if Handler(stocked(t), door{}, failed).ServeHTTP(ledgers, request()); ledgers.Code >= 500 || ledgers.Code < 200 {
			t.Fatalf("%s %s: the ledger: %d %s", method, target, ledgers.Code, ledgers.Body)
		}
		backend := &fake{}
		w := httptest.NewRecorder()
		Handler(backend, door{}, failed).ServeHTTP(w, request())
		heard := backend.taken()
		switch {
		case w.Code >= 500:
			t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
		case w.Code >= 400 || w.Code == 308:
			if method != "HEAD" {
				msgOf(t, w)
			}
			if strings.Contains(heard, "Write") {
				t.Fatalf("%s %s: %d, and the backend heard %s", method, target, w.Code, heard)
			}
		case w.Code >= 300 && w.Code != 304, w.Code < 200:
			t.Fatalf("%s %s: %d", method, target, w.Code)
		}
	})
}

// stocked is the ledger with the fake's content, and values and overrides.
func stocked(t *testing.T) *real {
	t.Helper()
	r := newReal(t)
	place := model.Target{Environment: 9, Levels: []model.LevelValue{{Level: "role", Value: "r"},
		{Level: "nodes", Value: "1"}}, Resource: model.Ref{ID: 1}}
	for _, w := range []model.Write{
		model.CreateComponent{Name: "fuel",
			Definitions: []model.Definition{{Name: "astute", Content: configdb.JSON(`{"$template":{"d":"%{override/node:a}"}}`)},
				{Name: "override/node"}, {Name: "a/b"}, {Name: "c"}}},
		model.CreateEnvironment{ID: new(int64(9)), Components: []model.Ref{{ID: 1}}, Levels: []string{"role", "nodes"}},
		model.PutNode{Environment: 9, Node: nodes[0]},
		model.Put{Target: place, Kind: model.Values, Value: configdb.JSON(`{"a":{"b":[1.0,{}]}}`)},
		model.Put{Target: place, Kind: model.Overrides, Value: configdb.JSON(`{"a":null}`)},
		model.Put{Target: model.Target{Environment: 9, Resource: model.Ref{ID: 2}}, Kind: model.Values,
			Value: configdb.JSON(`{"a":{"password":"x"}}`)},
		model.DeclareSecrets{ID: 2, Keys: []string{"*.password"}},
	} {
		if _, err := r.Write(t.Context(), WriteRequest{Author: "ann", Write: w}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestNoRequestIsAFailureOfTheLedger sends all requests of the other tests, good and bad.
func TestNoRequestIsAFailureOfTheLedger(t *testing.T) {
	h := Handler(stocked(t), door{}, rest.WithFailures(func(m, p string, err error) { t.Errorf("%s %s: %v", m, p, err) }))
	request := func(line, body string) {
		method, target, _ := strings.Cut(line, " ")
		if strings.HasPrefix(target, "watch") {
			return
		}
		if w := ask(h, asked{method: method, target: target, body: body}); w.Code >= 500 {
			t.Errorf("%s: %d %s", line, w.Code, w.Body)
		}
	}
	for _, c := range malformed {
		request(c.ask, c.body)
	}
	for _, c := range routeCases {
		request(c.ask, c.body)
	}
}
