package fleetapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/httpapi/rest"
)

var errEnough = errors.New("enough")

// A watch sends the current state at once, then each change and nothing else, until the peer is gone.
func TestWatchTellsEachChangeOnce(t *testing.T) {
	f := &fake{changes: make(chan func(*fake))}
	c := clientOf(t, f, "t-viewer")
	reported := make(chan PeerDetail)
	ended := make(chan error)
	go func() {
		ended <- c.WatchPeer(t.Context(), "p1", func(d PeerDetail) error { reported <- d; return nil })
	}()
	first := <-reported
	want, _ := f.Peer(t.Context(), "p1")
	if first.Name != "p1" || first.Why != want.Why || len(first.Parameters) != 1 || first.Revision != 4 ||
		*first.AgeSeconds != 2.5 || first.Descriptor["kind"] != "PeerDescriptor" {
		t.Errorf("at first %+v", first)
	}
	f.changes <- func(f *fake) { f.pending = ": a" }
	if d := <-reported; d.Why != want.Why+": a" {
		t.Errorf("after a change %+v", d)
	}
	f.changes <- func(*fake) {}              // changes nothing visible
	f.changes <- func(f *fake) { f.age = 9 } // a report with the same content
	f.changes <- func(f *fake) { f.pending = ": b" }
	if d := <-reported; d.Why != want.Why+": b" {
		t.Errorf("after a change that does not show, and one that does: %+v", d)
	}
	f.changes <- func(f *fake) { f.gone = true }
	if err := <-ended; err != nil {
		t.Errorf("a watch whose peer goes ends: %v", err)
	}
	if err := c.WatchPeer(t.Context(), "p1", nil); !errors.Is(err, rest.ErrNotFound) {
		t.Errorf("a watch of what is not there: %v", err)
	}
}

func TestWatchEndsWithItsTellerAndWithItsContext(t *testing.T) {
	f := &fake{changes: make(chan func(*fake))}
	c := clientOf(t, f, "t-viewer")
	if err := c.WatchCluster(t.Context(), "lab", func(d ClusterDetail) error {
		if d.Name != "lab" || d.Tunnels[0].VNI != 256 {
			t.Errorf("told %+v", d)
		}
		return errEnough
	}); !errors.Is(err, errEnough) {
		t.Errorf("the teller's error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.WatchCluster(ctx, "lab", func(ClusterDetail) error { cancel(); return nil }); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a context that ends: %v", err)
	}
}

// The number of watches is limited, for all callers together, and a place is free again when one ends.
func TestWatchesAreBounded(t *testing.T) {
	f := &fake{changes: make(chan func(*fake))}
	limits := DefaultLimits
	limits.Watches = 1
	c := clientOf(t, f, "t-viewer", rest.WithLimits(limits))
	in, end := make(chan bool), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { end <- c.WatchPeer(ctx, "p1", func(PeerDetail) error { close(in); return nil }) }()
	<-in
	var p *Problem
	if err := c.WatchPeer(t.Context(), "p1", nil); !errors.As(err, &p) || p.Type != rest.TypeBusy ||
		!strings.Contains(p.Detail, "1 watches") {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	<-end
	for { // the handler learns of it from the connection
		err := c.WatchPeer(t.Context(), "p1", func(PeerDetail) error { return errEnough })
		if errors.Is(err, errEnough) {
			return
		}
		if !errors.Is(err, rest.ErrBusy) {
			t.Fatal(err)
		}
	}
}

// A HEAD of a watch takes no place.
func TestHeadOfAWatchTakesNoPlace(t *testing.T) {
	limits := DefaultLimits
	limits.Watches = 1
	h := Handler(&fake{}, WithTokens(fakeHash), rest.WithLimits(limits))
	for range 3 {
		w := ask(h, asked{method: "HEAD", target: Prefix + "peers/p1/watch", token: "t-viewer"})
		if w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" || w.Body.Len() > 0 {
			t.Fatalf("HEAD: %d %v", w.Code, w.Header())
		}
	}
}

// A server that shuts down ends its watches, and does not wait for them.
func TestShutdownEndsWatches(t *testing.T) {
	f := &fake{changes: make(chan func(*fake))}
	s := NewServer(Handler(f, WithTokens(fakeHash)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := NewClient(Options{URL: "http://" + l.Addr().String(), Token: "t-viewer", Transport: &http.Transport{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in, end := make(chan bool), make(chan error, 1)
	go func() { end <- c.WatchPeer(t.Context(), "p1", func(PeerDetail) error { close(in); return nil }) }()
	<-in
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-end; err != nil {
		t.Errorf("the watch: %v", err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// A failure of the controller breaks a watch off, and its log has the reason.
func TestWatchThatFailsIsNoEnd(t *testing.T) {
	f := &fake{changes: make(chan func(*fake))}
	failed := make(chan error, 1)
	c := clientOf(t, f, "t-viewer", rest.WithFailures(func(_, _ string, err error) { failed <- err }))
	end := make(chan error, 1)
	go func() { end <- c.WatchPeer(t.Context(), "p1", func(PeerDetail) error { return nil }) }()
	f.changes <- func(f *fake) { f.err = errors.New("the store is gone") }
	if err := <-end; !errors.Is(err, rest.ErrUnreachable) {
		t.Errorf("the watch: %v", err)
	}
	if err := <-failed; err == nil || err.Error() != "the store is gone" {
		t.Errorf("the log: %v", err)
	}
}

// Without changes a comment each 15 s shows that the controller is alive; events are at least 100 ms apart, and the
// last one is never lost.
func TestWatchBeatsAndPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		began, value := time.Now(), 0
		var at []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		err := rest.StreamEvents(ctx, writer(func(p []byte) (int, error) {
			at = append(at, time.Since(began))
			return out.Write(p)
		}), func(ctx context.Context, tell func([]byte) error) error {
			s := watcher[int]{tell: tell, look: func() (int, error) { return value, nil },
				quiet: func(v int) int { return v }}
			return s.run(ctx, 1, value, func(ctx context.Context, mark uint64) (uint64, error) {
				switch {
				case value == 0:
					time.Sleep(40 * time.Second)
				case value > 20:
					cancel()
					return mark, ctx.Err()
				}
				value += 10 // ten changes at once: only the last is sent
				return mark + 1, nil
			})
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		want := "event: state\ndata: 0\n\n: nothing new\n\n: nothing new\n\nevent: state\ndata: 10\n\nevent: state\ndata: " +
			"20\n\nevent: state\ndata: 30\n\n"
		if out.String() != want {
			t.Errorf("told %q", &out)
		}
		for i, now := range []time.Duration{0, 15 * time.Second, 30 * time.Second, 40 * time.Second, 40100 * time.Millisecond,
			40200 * time.Millisecond} {
			if at[i] != now {
				t.Errorf("write %d after %s, wanted %s", i, at[i], now)
			}
		}
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A descriptor is found under its own name and kind only.
func TestDescriptorIsWhatThePathNames(t *testing.T) {
	h := Handler(&fake{}, WithTokens(fakeHash))
	for body, says := range map[string]string{
		`{"kind":"PeerDescriptor","metadata":{"name":"p2"}}`: `metadata.name|invalid value "p2"|must be "p1" here`,
		`{"kind":"ClusterDescriptor","metadata":{"name":"p1"}}`: `kind|invalid value "ClusterDescriptor"|must be ` +
			`"PeerDescriptor" here`,
		`{}`: `kind|invalid value ""|must be "PeerDescriptor" here metadata.name|invalid value ""|must be "p1" here`,
	} {
		p := problemIn(t, ask(h, asked{method: "PUT", target: Prefix + "peers/p1", body: body, token: "t-operator"}))
		var got []string
		for _, e := range p.Errors {
			got = append(got, e.Path+"|"+e.Detail+"|"+e.Allowed)
		}
		if p.Status != 422 || strings.Join(got, " ") != says {
			t.Errorf("%s: %d %q", body, p.Status, got)
		}
	}
	for body, says := range map[string]string{
		`{"documents":[1]}`: "documents.0", `{"documents":{}}`: "documents", `{}`: "documents", `{"documents":[],"x":1}`: "x",
	} {
		p := problemIn(t, ask(h, asked{method: "POST", target: Prefix + "documents", body: body, token: "t-operator"}))
		if p.Status != 422 || len(p.Errors) != 1 || p.Errors[0].Path != says {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// The answer of a watch is an event stream that no proxy buffers.
func TestWatchHeaders(t *testing.T) {
	h := Handler(&fake{}, WithTokens(fakeHash))
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", Prefix+"clusters/lab/watch", nil)
	r.Header.Set("Authorization", "Bearer t-viewer")
	h.ServeHTTP(w, r)
	if w.Header().Get("Content-Type") != "text/event-stream" || w.Header().Get("X-Accel-Buffering") != "no" ||
		!w.Flushed || w.Header().Get("Content-Length") != "" {
		t.Errorf("%v, flushed %v", w.Header(), w.Flushed)
	}
}

// A caller takes no more than its share of the watches, and releases it.
func TestOneCallerDoesNotTakeAllWatches(t *testing.T) {
	f := &fake{changes: make(chan func(*fake))}
	limits := DefaultLimits
	limits.Watches = 20 // 16 of each
	c := clientOf(t, f, "t-viewer", rest.WithLimits(limits))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, end := make(chan bool), make(chan error)
	for range 16 {
		go func() { end <- c.WatchPeer(ctx, "p1", func(PeerDetail) error { in <- true; return nil }) }()
		<-in
	}
	var p *Problem
	if err := c.WatchPeer(t.Context(), "p1", nil); !errors.As(err, &p) || p.Type != rest.TypeBusy ||
		!strings.Contains(p.Detail, "the same caller") {
		t.Errorf("beyond its share: %v", err)
	}
	cancel()
	for range 16 {
		<-end
	}
	for { // the handler learns of it from the connections
		err := c.WatchPeer(t.Context(), "p1", func(PeerDetail) error { return errEnough })
		if errors.Is(err, errEnough) {
			return
		}
		if !errors.Is(err, rest.ErrBusy) {
			t.Fatal(err)
		}
	}
}

// fickle knows a token as long as it is not revoked.
type fickle struct {
	*fake
	gone atomic.Bool
}

func (f *fickle) Known(hash string) (Caller, bool) {
	if f.gone.Load() {
		return Caller{}, false
	}
	return f.fake.Known(hash)
}

func (f *fickle) Authenticate(context.Context, string) (Caller, error) { return Caller{}, ErrNoToken }

// A caller whose token is revoked receives nothing more on its open watches.
func TestAWatchEndsWithItsCallersToken(t *testing.T) {
	f := &fickle{fake: &fake{changes: make(chan func(*fake))}}
	s := httptest.NewServer(Handler(f, WithTokens(fakeHash)))
	t.Cleanup(s.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/fleet/peers/p1/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer t-viewer")
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for range 3 { // the first event, and the empty line after it
		if line, err := lines.ReadString('\n'); err != nil {
			t.Fatalf("before: %q %v", line, err)
		}
	}
	f.gone.Store(true)
	f.changes <- func(f *fake) { f.pending = ": a" }
	if more, err := io.ReadAll(lines); err != nil || strings.Contains(string(more), "data:") {
		t.Errorf("after: %q %v", more, err)
	}
}
