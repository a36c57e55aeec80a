package fleetapi

import (
	"net/http/httptest"
	"testing"
)

func TestAReaderWaitsForARevision(t *testing.T) {
	h := Handler(&fake{}, WithNoAuth())
	for revision, want := range map[string]int{"": 200, "7": 200, "101": 503, "9223372036854775807": 400, "x": 400,
		"-1": 400} {
		r := httptest.NewRequest("GET", "http://localhost/api/v1/fleet/nodes", nil)
		if revision != "" {
			r.Header.Set(revisionHeader, revision)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d %s", revision, w.Code, w.Body)
		}
	}
}
