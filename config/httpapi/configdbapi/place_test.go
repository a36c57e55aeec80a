package configdbapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/httpapi/rest"
)

// A connection beyond its caller's share is refused, once the caller is known.
func TestAConnectionIsThatOfItsCaller(t *testing.T) {
	h := Handler(&fake{}, door{})
	reported := ""
	r := httptest.NewRequest("GET", Prefixes[0]+"environments", nil)
	r.Header.Set("X-Auth-Token", "operator")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(rest.WithAdmit(r.Context(),
		func(caller string, _, _ bool) bool { reported = caller; return false })))
	if w.Code != 503 || reported != ":olga" {
		t.Errorf("%d, told of %q: %s", w.Code, reported, w.Body)
	}
}

// Callers with the same name from different sources have separate shares.
func TestCallersOfOneNameAreToldApart(t *testing.T) {
	limits := DefaultLimits
	limits.Rate, limits.Burst = 1, 1
	for _, via := range []rest.Via{rest.ViaToken, rest.ViaKeystone} {
		h := Handler(&fake{}, twins{}, rest.WithLimits(limits))
		for _, first := range []int{200, 429} {
			if w := ask(h, asked{method: "GET", target: "components", token: string(via)}); w.Code != first {
				t.Errorf("%s: %d", via, w.Code)
			}
		}
		if w := ask(h, asked{method: "GET", target: "components", token: string(rest.ViaBasic)}); w.Code != 200 {
			t.Errorf("another one of the name: %d", w.Code)
		}
	}
}

// For a node that an environment does not know, the controller computes what the node's config names: in a turn of the
// node's own, and in one of its places.
func TestAnUnregisteredNodeIsLookedUpInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, more = 16, 4 // the minimum for one caller
		var computing, refused atomic.Int64
		hold := make(chan struct{})
		h := Handler(&fake{}, door{}, rest.WithLimits(Limits{InFlight: 4 * places, Deadline: time.Minute}),
			WithEnvironmentOf(func(context.Context, string) (int64, error) {
				computing.Add(1)
				<-hold
				return 7, nil
			}))
		var all sync.WaitGroup
		for range places + more {
			all.Go(func() {
				switch w := ask(h, asked{method: "PUT", target: "environments/9/nodes/new", token: "new", body: "{}"}); w.Code {
				case http.StatusServiceUnavailable:
					refused.Add(1)
				case http.StatusForbidden:
				default:
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		if computing.Load() != 1 || refused.Load() != more {
			t.Errorf("%d are computed at once, %d refused: must be 1 or %d", computing.Load(), refused.Load(), more)
		}
		close(hold)
		all.Wait()
		if computing.Load() != places {
			t.Errorf("%d were computed", computing.Load())
		}
	})
}

// twins are callers with the same name.
type twins struct{ door }

func (twins) Authenticate(r *http.Request) (Caller, error) {
	return Caller{Name: "ann", Role: Viewer, Via: rest.Via(r.Header.Get("X-Auth-Token"))}, nil
}
