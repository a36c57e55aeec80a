package factsapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzRequests asks for anything in any way: no answer is a 5xx, what is no success is a whole
// {"msg"}, and then nothing was written.
func FuzzRequests(f *testing.F) {
	for _, c := range routeCases {
		method, target, _ := strings.Cut(c.ask, " ")
		f.Add(method, Prefixes[1]+target, c.body, "", `"e1"`)
	}
	f.Add("BREW", "//x/%2e%2e?a=%zz;&=", "\xff", "text/plain", `W/"`)
	f.Add("PUT", Prefixes[0]+"environments/9/resources/astute/values", "{}", "", "*")
	f.Add("PUT", Prefixes[0]+"environments/9/resources/1/values/keys/set", `[["a","b"],[1,2],[{}]]`, "", "")
	f.Add("POST", Prefixes[0]+"components", `{"name":"x","resource_definitions":[[],{"name":null}]}`, "", "")
	f.Fuzz(func(t *testing.T, method, target, body, kind, tag string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") || strings.Contains(target, toWatch) {
			return // net/http answers these itself; a watch goes on
		}
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
		backend := &fake{}
		w := httptest.NewRecorder()
		Handler(backend, door{}, WithFailures(func(m, p string, err error) { t.Errorf("%s %s: %v", m, p, err) })).ServeHTTP(w, r)
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
