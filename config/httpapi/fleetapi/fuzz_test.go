package fleetapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"edgespan/config/httpapi/rest"
)

// FuzzHandler sends arbitrary requests: the answer is as a row of the table defines or a complete problem, and only a
// backend can cause a 5xx.
func FuzzHandler(f *testing.F) {
	for _, c := range routeCases {
		method, target, _ := strings.Cut(c.ask, " ")
		if !strings.HasPrefix(target, "/") {
			target = Prefix + target
		}
		f.Add(method, target, c.body, "application/json", `"5"`)
	}
	f.Add("BREW", "//x/%2e%2e?a=%zz;&=", "\xff", "text/plain", `W/"`)
	f.Add("PUT", Prefix+"layers/node", "a: &x [*x]", "application/yaml", "*")
	f.Fuzz(func(t *testing.T, method, target, body, kind, tag string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") {
			return // net/http answers these itself
		}
		r := &http.Request{
			Method: method, URL: u, Host: "localhost", RemoteAddr: "192.0.2.1:1", Body: http.NoBody,
			Header: http.Header{"Content-Type": {kind}, "If-Match": {tag}, "If-None-Match": {tag},
				"Authorization": {"Bearer t-admin"}},
		}
		if method == "PUT" || method == "PATCH" {
			r.Header.Del("If-None-Match")
		}
		r.Body = httptest.NewRequest("PUT", "/", strings.NewReader(body)).Body
		backend := &fake{}
		w := httptest.NewRecorder()
		Handler(backend, WithTokens(fakeHash), rest.WithFailures(func(m, p string, err error) {
			if !strings.Contains(p, "panic") { // the fake's own
				t.Errorf("%s %s: %v", m, p, err)
			}
		})).ServeHTTP(w, r)
		heard := backend.taken()
		switch {
		case w.Code >= 500 && !strings.Contains(target, "panic"):
			t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
		case w.Code >= 400 && method != "HEAD":
			problemIn(t, w)
			if strings.Contains(heard, "Write") || strings.Contains(heard, "Command") {
				t.Fatalf("%s %s: %d, and the backend heard %s", method, target, w.Code, heard)
			}
		case w.Code >= 300 && w.Code != 304, w.Code < 200:
			t.Fatalf("%s %s: %d", method, target, w.Code)
		}
	})
}
