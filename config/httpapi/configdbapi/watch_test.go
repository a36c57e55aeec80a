package configdbapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// stream is a ResponseWriter that can be read while it is written.
type stream struct {
	mu   sync.Mutex
	h    http.Header
	code int
	text strings.Builder
	err  error
}

func (s *stream) Header() http.Header { return s.h }

func (s *stream) WriteHeader(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code = code
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	return s.text.Write(p)
}

func (s *stream) Flush() {}

func (s *stream) taken() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.text.String()
	s.text.Reset()
	return out
}

// watching begins a watch, and returns a function that ends it and waits for its end.
func watching(h http.Handler, target string, header map[string]string) (s *stream, ended chan struct{}, leave func()) {
	ctx, leave := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, "GET", Prefixes[0]+target, nil)
	r.Header.Set("X-Auth-Token", "viewer")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	s, ended = &stream{h: http.Header{}}, make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(s, r)
	}()
	return s, ended, leave
}

func change(environment, resource int64, level, value string) model.Change {
	c := model.Change{What: "values", Did: "changed", Environment: environment, Resource: resource}
	if level != "" {
		c.Levels = []model.LevelValue{{Level: level, Value: value}}
	}
	return c
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{pending: make(chan model.Record)}
		s, ended, leave := watching(Handler(f, door{}), "watch?since=3", nil)
		if got := s.taken(); got != ": watching\n\n" || s.code != 200 || s.h.Get("Content-Type") != "text/event-stream" ||
			s.h.Get("Content-Length") != "" {
			t.Errorf("%q %d %v", got, s.code, s.h)
		}
		f.pending <- record
		if got := s.taken(); got != "id: 7\nevent: revision\ndata: "+
			`{"revision":7,"time":"2026-11-21T12:00:00Z","author":"ann","message":"why","changes":[{"what":"values","did":"changed","environment":9,"levels":[{"level":"nodes","value":"1"}],"resource":1,"version":3}]}`+"\n\n" {
			t.Errorf("%q", got)
		}
		time.Sleep(40 * time.Second)
		if got := s.taken(); got != ": nothing new\n\n: nothing new\n\n" {
			t.Errorf("after 40 s: %q", got)
		}
		leave()
		<-ended
		if heard := f.taken(); heard != "Records {Environment:0 Before:0 Limit:1}; Watch 3" {
			t.Errorf("heard %s", heard)
		}
	})
}

func TestAWatchBeginsWhereItsReaderWas(t *testing.T) {
	for _, c := range []struct{ target, last, heard string }{
		{"watch", "", "Records {Environment:0 Before:0 Limit:1}; Watch 7"},
		{"watch?since=3", "5", "Records {Environment:0 Before:0 Limit:1}; Watch 5"},
		{"watch?since=0", "", "Watch 0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			_, ended, leave := watching(Handler(f, door{}), c.target, map[string]string{"Last-Event-ID": c.last})
			synctest.Wait()
			leave()
			<-ended
			if heard := f.taken(); heard != c.heard {
				t.Errorf("%s after %q: heard %s", c.target, c.last, heard)
			}
		})
	}
}

// A filter drops irrelevant changes, and a revision of which nothing remains.
func TestWatchFilters(t *testing.T) {
	all := []model.Change{
		change(9, 1, "", ""), change(9, 1, "nodes", "1"), change(9, 1, "nodes", "2"), change(9, 2, "role", "r"),
		change(8, 1, "nodes", "1"),
		{What: "definition", ID: 1},
		{What: "definition", ID: 2},
		{What: "environment", ID: 9},
		{What: "environment", ID: 8},
		{What: "node", Environment: 9, Name: "1"},
	}
	for query, want := range map[string][]int{
		"":                                       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		"environment=9":                          {0, 1, 2, 3, 5, 6, 7, 9},
		"resource=1":                             {0, 1, 2, 4, 5},
		"resource=astute&environment=9":          {0, 1, 2, 5},
		"level=nodes=1&environment=9":            {0, 1, 3, 5, 6, 7, 9},
		"level=nodes=1&environment=9&resource=1": {0, 1, 5},
		"environment=7&resource=2":               {6},
	} {
		a := Handler(&fake{}, door{}).(*api)
		c := &call{Call: &rest.Call{Request: httptest.NewRequest("GET", Prefixes[0]+"watch?"+query, nil)}}
		if err := a.route(c); err != nil {
			t.Fatal(err)
		}
		of, err := a.interest(c)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for i, one := range all {
			if len(of.in(model.Record{Changes: []model.Change{one}})) == 1 {
				got = append(got, i)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", query, got, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := &fake{pending: make(chan model.Record)}
		s, ended, leave := watching(Handler(f, door{}), "watch?since=0&environment=9", nil)
		s.taken()
		f.pending <- model.Record{Revision: 4, Changes: []model.Change{change(8, 1, "", "")}}
		f.pending <- model.Record{Revision: 5, Changes: []model.Change{change(8, 1, "", ""), change(9, 1, "", "")}}
		if got := s.taken(); strings.Count(got, "event:") != 1 || !strings.Contains(got, "id: 5\n") ||
			strings.Contains(got, `"environment":8`) {
			t.Errorf("%q", got)
		}
		leave()
		<-ended
	})
}

func TestAWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, ended, leave := watching(Handler(&fake{}, door{}), "watch?since=0", nil)
		defer leave()
		if <-ended; time.Since(began) != rest.StreamDeadline {
			t.Errorf("by itself after %s", time.Since(began))
		}
		server, down := context.WithCancel(context.Background())
		_, ended, leave = watching(Handler(&fake{}, door{}, rest.WithEnd(server)), "watch?since=0", nil)
		defer leave()
		synctest.Wait()
		down()
		<-ended
		f := &fake{pending: make(chan model.Record)}
		var reported error
		s, ended, leave := watching(Handler(f, door{}, rest.WithFailures(func(_, _ string, err error) { reported = err })),
			"watch?since=0", nil)
		defer leave()
		synctest.Wait()
		s.mu.Lock()
		s.err = errors.New("gone")
		s.mu.Unlock()
		f.pending <- record
		<-ended
		if reported != nil {
			t.Errorf("a reader that has gone is a failure: %v", reported)
		}
	})
}

func TestWatchesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Handler(&fake{}, door{}, rest.WithLimits(Limits{InFlight: 1, Watches: 1, Deadline: time.Minute}))
		_, ended, leave := watching(h, "watch?since=0", nil)
		synctest.Wait()
		if w := ask(h, asked{method: "GET", target: "watch?since=0"}); w.Code != 503 {
			t.Errorf("a second: %d", w.Code)
		}
		if w := ask(h, asked{method: "GET", target: "components"}); w.Code != 200 {
			t.Errorf("beside it: %d", w.Code)
		}
		leave()
		<-ended
		if _, err := h.(*api).Watch(&rest.Call{Caller: rest.Caller{Name: "ann"}}); err != nil {
			t.Errorf("its place is not free: %v", err)
		}
	})
}

// A client continues after the last revision that it received, however often the stream ends.
func TestTheClientWatchesOn(t *testing.T) {
	f := &fake{pending: make(chan model.Record)}
	server, down := context.WithCancel(context.Background())
	h := Handler(f, door{}, rest.WithEnd(server))
	var mu sync.Mutex
	returned := make(chan struct{}, 9)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now := h
		mu.Unlock()
		now.ServeHTTP(w, r)
		returned <- struct{}{}
	}))
	t.Cleanup(s.Close)
	c, err := NewClient(Options{URL: s.URL, Authorize: WithToken("viewer")})
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	enough := errors.New("enough")
	ended := make(chan error)
	seen := make(chan struct{})
	go func() {
		ended <- c.Watch(t.Context(), WatchOptions{Since: 6, Environment: 9,
			Level: &model.LevelValue{Level: "nodes", Value: "1"}}, time.Millisecond, func(r model.Record) error {
			if got = append(got, r.Revision); r.Revision == 9 {
				return enough
			}
			seen <- struct{}{}
			return nil
		})
	}()
	f.pending <- record
	<-seen
	mu.Lock()
	h = Handler(f, door{})
	mu.Unlock()
	down()
	<-returned
	nine := record
	nine.Revision = 9
	f.pending <- nine
	if err := <-ended; !errors.Is(err, enough) || len(got) != 2 {
		t.Errorf("%v, got %v", err, got)
	}
	if heard := strings.ReplaceAll(f.taken(), "Records {Environment:0 Before:0 Limit:1}; ", ""); !strings.HasPrefix(heard,
		"Watch 6; Watch 7") {
		t.Errorf("heard %s", heard)
	}
	if err := serving(t, &fake{}, "guess").Watch(t.Context(), WatchOptions{}, time.Hour, nil); err == nil {
		t.Error("one who may not watch waits")
	}
}

// bound is a stream with its writer's deadline.
type bound struct {
	*stream
	deadline time.Time
}

func (b *bound) SetWriteDeadline(at time.Time) error {
	b.deadline = at
	return nil
}

// The end of the answer is written after the last event, whose deadline may have passed: a reader receives a regular
// end of the stream.
func TestAWatchHasTimeToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &bound{stream: &stream{h: http.Header{}}}
		r := httptest.NewRequestWithContext(t.Context(), "GET", Prefixes[0]+"watch?since=0", nil)
		r.Header.Set("X-Auth-Token", "viewer")
		server, down := context.WithTimeout(t.Context(), 14*time.Second) // before the first keepalive
		defer down()
		began := time.Now()
		Handler(&fake{}, door{}, rest.WithEnd(server)).ServeHTTP(out, r)
		if lasted := time.Since(began); lasted != 14*time.Second || !out.deadline.After(time.Now()) {
			t.Errorf("it lasted %v, and was to be written %v before its end", lasted, time.Since(out.deadline))
		}
	})
}

// A caller takes no more than its share of the watches, and releases it.
func TestOneCallerDoesNotTakeAllWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Handler(&fake{}, door{}, rest.WithLimits(Limits{InFlight: 1, Watches: 20, Deadline: time.Minute})) // 16 of each
		var leaves []func()
		for range 16 {
			_, ended, leave := watching(h, "watch?since=0", nil)
			synctest.Wait()
			leaves = append(leaves, func() { leave(); <-ended })
		}
		if w := ask(h, asked{method: "GET", target: "watch?since=0", token: "viewer"}); w.Code != 503 ||
			!strings.Contains(msgOf(t, w), "the same caller") {
			t.Errorf("beyond its share: %d %s", w.Code, w.Body)
		}
		for _, leave := range leaves {
			leave()
		}
		for range 16 {
			if _, err := h.(*api).Watch(&rest.Call{Caller: rest.Caller{Name: "vera"}}); err != nil {
				t.Fatalf("its places are not free: %v", err)
			}
		}
	})
}

// fickle is a door that admits callers as long as they are known.
type fickle struct {
	door
	gone *atomic.Bool
}

func (f fickle) Authenticate(r *http.Request) (Caller, error) {
	if f.gone.Load() {
		return Caller{}, errors.New("revoked")
	}
	return f.door.Authenticate(r)
}

// A caller whose access is revoked receives nothing more on its open watches.
func TestAWatchEndsWithItsCallersAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, gone := &fake{pending: make(chan model.Record)}, &atomic.Bool{}
		s, ended, leave := watching(Handler(f, fickle{gone: gone}), "watch?since=3", nil)
		defer leave()
		f.pending <- record
		if got := s.taken(); !strings.Contains(got, `"revision":7`) {
			t.Errorf("before: %q", got)
		}
		gone.Store(true)
		f.pending <- record
		<-ended
		if got := s.taken(); got != "" {
			t.Errorf("after: %q", got)
		}
		gone.Store(false)
		_, ended, leave = watching(Handler(f, fickle{gone: gone}), "watch?since=3", nil)
		defer leave()
		synctest.Wait()
		gone.Store(true)
		began := time.Now()
		<-ended
		if took := time.Since(began); took > rest.Heartbeat {
			t.Errorf("where nothing happens: after %v", took)
		}
	})
}
