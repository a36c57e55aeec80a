package factsapi

import (
	"net/http/httptest"
	"testing"

	"edgespan/config/httpapi"
)

// A caller with more connections than its share is told so, by whom it is known.
func TestAConnectionIsThatOfItsCaller(t *testing.T) {
	h := Handler(&fake{}, door{})
	told := ""
	r := httptest.NewRequest("GET", Prefixes[0]+"environments", nil)
	r.Header.Set("X-Auth-Token", "operator")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(httpapi.WithPlace(r.Context(), func(caller string) bool { told = caller; return false })))
	if w.Code != 503 || told != "olga" {
		t.Errorf("%d, told of %q: %s", w.Code, told, w.Body)
	}
}
