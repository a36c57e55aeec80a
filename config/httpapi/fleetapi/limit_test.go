package fleetapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/httpapi/rest"
)

func TestRequestsInFlightAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{hold: make(chan struct{}), entered: make(chan struct{}, 3)}
		h := Handler(f, WithTokens(fakeHash),
			rest.WithLimits(Limits{Rate: 1, Burst: 100, InFlight: 3, Deadline: time.Minute}))
		codes := make(chan int)
		for range 3 {
			go func() { codes <- ask(h, asked{method: "GET", target: Prefix + "nodes", token: "t-viewer"}).Code }()
		}
		synctest.Wait() // one of them is computed, the others wait in their caller's turn
		w := ask(h, asked{method: "GET", target: Prefix + "rollouts", token: "t-viewer"})
		if p := problemIn(t, w); p.Type != rest.TypeBusy || w.Header().Get("Retry-After") != "1" {
			t.Errorf("a fourth: %+v", p)
		}
		if w := ask(h, asked{method: "GET", target: "/livez"}); w.Code != 200 {
			t.Errorf("/livez: %d", w.Code)
		}
		close(f.hold)
		for range 3 {
			if code := <-codes; code != 200 {
				t.Errorf("one of three: %d", code)
			}
		}
		if w := ask(h, asked{method: "GET", target: Prefix + "rollouts", token: "t-viewer"}); w.Code != 200 {
			t.Errorf("afterwards: %d", w.Code)
		}
	})
}

func TestARequestHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{hold: make(chan struct{}), entered: make(chan struct{}, 1)}
		h := Handler(f, WithTokens(fakeHash))
		for _, token := range []string{"t-viewer", "t-slow"} { // the backend, and before it the token lookup
			began := time.Now()
			w := ask(h, asked{method: "GET", target: Prefix + "nodes", token: token})
			if took := time.Since(began); w.Code != 504 || took != DefaultLimits.Deadline {
				t.Errorf("%s: %d after %s", token, w.Code, took)
			}
		}
	})
}

func TestTheRateOfOneCallerIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Handler(&fake{}, WithTokens(fakeHash),
			rest.WithLimits(Limits{Rate: 0.5, Burst: 3, InFlight: 9, Deadline: time.Minute}))
		get := func(token string) *httptest.ResponseRecorder {
			return ask(h, asked{method: "GET", target: Prefix + "rollouts", token: token})
		}
		for i := range 3 {
			if w := get("t-viewer"); w.Code != 200 {
				t.Fatalf("request %d: %d", i, w.Code)
			}
		}
		w := get("t-viewer")
		if p := problemIn(t, w); p.Type != rest.TypeTooMany || w.Header().Get("Retry-After") != "2" {
			t.Fatalf("%+v %v", p, w.Header())
		}
		if w := get("t-admin"); w.Code != 200 {
			t.Errorf("another caller: %d", w.Code)
		}
		time.Sleep(2 * time.Second)
		if w := get("t-viewer"); w.Code != 200 {
			t.Errorf("after the wait: %d", w.Code)
		}
		if w := get("t-viewer"); w.Code != 429 {
			t.Errorf("and one more: %d", w.Code)
		}
		time.Sleep(time.Hour)
		for i, status := range []int{200, 200, 200, 429} { // an hour of silence saves up no more than the burst
			if w := get("t-viewer"); w.Code != status {
				t.Errorf("request %d after an hour: %d", i, w.Code)
			}
		}
	})
}

// A client that tries tokens shares turns with all others at its address, and does not keep out a client with a valid
// one: a token that this replica does not know yet is looked up too.
func TestWhoTriesTokensKeepsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := Handler(f, WithTokens(fakeHash),
			rest.WithLimits(Limits{InFlight: 2, Rate: 1000, Burst: 1000, Deadline: time.Minute}))
		from := func(address, token string) int {
			r := httptest.NewRequest("GET", Prefix+"rollouts", nil)
			r.RemoteAddr = address
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		for i := range 3 * rest.AuthBurst {
			if code := from(fmt.Sprintf("10.0.0.1:%d", i+1), "t-guess"); code != 401 {
				t.Fatalf("guess %d: %d", i, code)
			}
		}
		for token, want := range map[string]int{"t-guess": 401, "nonsense": 401, "": 401, "t-admin": 200, "t-wizard": 403} {
			if code := from("10.0.0.1:9", token); code != want {
				t.Errorf("from there with %q: %d", token, code)
			}
		}
		// Requests whose tokens are being looked up take neither a place of a known caller, nor more than some of their
		// address's turns.
		var slow sync.WaitGroup
		for range 200 {
			slow.Go(func() {
				if code := from("10.0.0.1:9", "t-slow"); code != 504 && code != 429 {
					t.Errorf("a look without an end: %d", code)
				}
			})
		}
		synctest.Wait()
		if code := from("10.0.0.1:9", "t-guess"); code != 429 {
			t.Errorf("one more that is to be looked for: %d", code)
		}
		for address, token := range map[string]string{"10.0.0.1:9": "t-admin", "10.0.0.2:9": "t-viewer"} {
			if code := from(address, token); code != 200 {
				t.Errorf("%s beside them: %d", token, code)
			}
		}
		if code := from("10.0.0.2:9", "t-wizard"); code != 403 {
			t.Errorf("one who is not known at once, from elsewhere: %d", code)
		}
		slow.Wait()
	})
}

func TestReadiness(t *testing.T) {
	f := &fake{err: errors.New("the store at secret:2379 is away")}
	var reported string
	h := Handler(f, WithTokens(fakeHash), rest.WithFailures(func(_, _ string, err error) { reported = err.Error() }))
	w := ask(h, asked{method: "GET", target: "/readyz"})
	if p := problemIn(t, w); w.Code != 503 || w.Header().Get("Retry-After") != "5" ||
		strings.Contains(p.Detail, "secret") || !strings.Contains(reported, "secret") {
		t.Errorf("%+v, the log heard %q", p, reported)
	}
	if w := ask(h, asked{method: "GET", target: "/livez"}); w.Code != 200 {
		t.Errorf("/livez: %d", w.Code)
	}
}

// The checks say what fails, not why, since anybody may ask; ConfigDB alone makes no controller unready.
func TestReadinessListsItsChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ran := &fake{}, 0
		h := Handler(f, WithTokens(fakeHash), WithChecks(func(context.Context) []Check {
			ran++
			return []Check{{Name: "fleet", OK: f.err == nil}, {Name: "configdb"}}
		}))
		for range 50 {
			w := ask(h, asked{method: "GET", target: "/readyz?verbose"})
			if w.Code != 200 || !strings.Contains(w.Body.String(),
				`"checks":[{"name":"fleet","ok":true},{"name":"configdb","ok":false}]`) {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		if ran != 1 {
			t.Errorf("50 requests ran the checks %d times", ran)
		}
		time.Sleep(time.Second)
		f.err = errors.New("the store at secret:2379 is away")
		w := ask(h, asked{method: "GET", target: "/readyz?verbose=1"})
		if w.Code != 503 || strings.Contains(w.Body.String(), "secret") ||
			!strings.Contains(w.Body.String(), `{"name":"fleet","ok":false}`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// Any client may query readiness, as often as it likes.
func TestReadinessIsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, lines := &fake{err: errors.New("the disk is full")}, 0
		h := Handler(f, WithTokens(fakeHash), rest.WithFailures(func(string, string, error) { lines++ }))
		for i := range 1000 {
			if w := ask(h, asked{method: "GET", target: "/readyz"}); w.Code != 503 {
				t.Fatalf("question %d: %d", i, w.Code)
			}
			time.Sleep(time.Millisecond)
		}
		if lines < 2 || lines > 5 {
			t.Errorf("the log has %d lines of a second", lines)
		}
		if n := strings.Count(f.taken(), "Ready"); n < 2 || n > 5 {
			t.Errorf("the store was asked %d times in a second", n)
		}
	})
}

func TestServerLimits(t *testing.T) {
	s := NewServer(Handler(&fake{}, WithNoAuth()))
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= DefaultLimits.Deadline || s.IdleTimeout <= 0 {
		t.Errorf("timeouts: %+v", s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	defer s.Close()
	for size, status := range map[int]int{1 << 10: 200, 128 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		r, _ := http.NewRequest("GET", "http://"+l.Addr().String()+Prefix+"rollouts", nil)
		r.Header.Set("X-Long", strings.Repeat("x", size))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("a header of %d octets: %d", size, resp.StatusCode)
		}
	}
}

// A connection beyond its caller's share is refused, once the caller is known.
func TestAConnectionIsThatOfItsCaller(t *testing.T) {
	h := Handler(&fake{}, WithTokens(fakeHash))
	for token, want := range map[string]struct {
		code     int
		reported string
	}{"t-viewer": {503, "token:viewer-1"}, "t-nobody": {401, ""}} {
		reported := ""
		r := httptest.NewRequest("GET", Prefix+"rollouts", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(rest.WithAdmit(r.Context(),
			func(caller string, _, _ bool) bool { reported = caller; return false })))
		if w.Code != want.code || reported != want.reported {
			t.Errorf("%s: %d, told of %q", token, w.Code, reported)
		}
	}
}

// Both APIs share one budget of bodies, and a body's room is free once it is answered.
func TestBodiesAreBounded(t *testing.T) {
	f, b := &fake{}, rest.NewBodies(1<<20)
	h := Handler(f, WithTokens(fakeHash), rest.WithBodies(b))
	put := func(body string) *httptest.ResponseRecorder {
		return ask(h, asked{method: "PUT", target: Prefix + "layers/network", token: "t-operator", body: body})
	}
	if w := put(`{"a":1}`); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	f.taken()
	if w := put(`{"a":"` + strings.Repeat("x", MaxBody) + `"}`); w.Code != 413 ||
		!strings.Contains(w.Body.String(), "16 MiB") {
		t.Errorf("%d %.300s", w.Code, w.Body)
	}
	if w := put(`{"a":"` + strings.Repeat("x", 3<<19) + `"}`); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %.300s", w.Code, w.Body)
	}
	if n, heard := b.Held(), f.taken(); n != 0 || heard != "" {
		t.Errorf("%d bytes are held, heard %s", n, heard)
	}
}

// Answers that need no authentication cost no memory per client: the description is created once, and a connection of
// HTTP/2 has few unread answers.
func TestAnAnswerThatNobodyReadsCostsLittle(t *testing.T) {
	h := Handler(&fake{}, WithTokens(fakeHash))
	first, err := serveOpenAPI(h.(*api), nil)
	again, err2 := serveOpenAPI(h.(*api), nil)
	if err != nil || err2 != nil || len(first.Body) < 10_000 || &first.Body[0] != &again.Body[0] {
		t.Errorf("each answer has %d bytes of its own: %v, %v", len(again.Body), err, err2)
	}
	if s := NewServer(h); s.HTTP2 == nil || s.HTTP2.MaxConcurrentStreams < 1 || s.HTTP2.MaxConcurrentStreams > 64 {
		t.Errorf("streams of a connection: %+v", s.HTTP2)
	}
}

// Viewers with all their requests in flight leave an admin its place.
func TestAnAdminHasAPlaceBesideViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{hold: make(chan struct{}), entered: make(chan struct{}, 8)}
		h := Handler(f, WithTokens(fakeHash),
			rest.WithLimits(Limits{Rate: 100, Burst: 100, InFlight: 8, Deadline: time.Minute}))
		get := func(token string) int {
			return ask(h, asked{method: "GET", target: Prefix + "nodes", token: token}).Code
		}
		codes := make(chan int)
		for range 7 {
			go func() { codes <- get("t-viewer") }()
		}
		synctest.Wait()
		<-f.entered // one is computed, the others wait in their caller's turn
		if code := get("t-viewer"); code != 503 {
			t.Errorf("one more viewer: %d", code)
		}
		go func() { codes <- get("t-admin") }()
		select {
		case <-f.entered:
		case code := <-codes:
			t.Fatalf("an admin: %d", code)
		}
		close(f.hold)
		for range 8 {
			if code := <-codes; code != 200 {
				t.Error(code)
			}
		}
	})
}

// A body also reserves what its values take, not only its text: it is held until its caller has its turn.
func TestABodyHoldsWhatItsValuesTake(t *testing.T) {
	body := `{"a":[` + strings.Repeat(`{"":0},`, 20_000) + `0]}`
	for room, want := range map[int64]int{8 << 20: 503, 32 << 20: 200} {
		b := rest.NewBodies(room)
		w := ask(Handler(&fake{}, WithTokens(fakeHash), rest.WithBodies(b)),
			asked{method: "PUT", target: Prefix + "layers/network", token: "t-operator", body: body})
		if w.Code != want || b.Held() != 0 {
			t.Errorf("%d bytes, of which there are %d: %d, %d are held", len(body), room, w.Code, b.Held())
		}
	}
}
