package factsapi

import (
	"net/http"
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
	h.ServeHTTP(w, r.WithContext(httpapi.WithPlace(r.Context(), func(caller string, _, _ bool) bool { told = caller; return false })))
	if w.Code != 503 || told != ":olga" {
		t.Errorf("%d, told of %q: %s", w.Code, told, w.Body)
	}
}

// Callers of one name by other sources have shares of their own.
func TestCallersOfOneNameAreToldApart(t *testing.T) {
	limits := DefaultLimits
	limits.Rate, limits.Burst = 1, 1
	for _, via := range []httpapi.Via{httpapi.ViaToken, httpapi.ViaKeystone} {
		h := Handler(&fake{}, twins{}, WithLimits(limits))
		for _, first := range []int{200, 429} {
			if w := ask(h, asked{method: "GET", target: "components", token: string(via)}); w.Code != first {
				t.Errorf("%s: %d", via, w.Code)
			}
		}
		if w := ask(h, asked{method: "GET", target: "components", token: string(httpapi.ViaBasic)}); w.Code != 200 {
			t.Errorf("another one of the name: %d", w.Code)
		}
	}
}

// twins are callers of one name.
type twins struct{ door }

func (twins) Authenticate(r *http.Request) (Caller, error) {
	return Caller{Name: "ann", Role: Viewer, Via: httpapi.Via(r.Header.Get("X-Auth-Token"))}, nil
}
