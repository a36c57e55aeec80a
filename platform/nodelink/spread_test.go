package nodelink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
)

// none is an attempt from which no stream came.
var none = streamEnd{}

func TestBackoff(t *testing.T) {
	var b reconnect
	var got []time.Duration
	for range 9 {
		got = append(got, b.next(none, false, 1))
	}
	s := time.Second
	want := []time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 30 * s}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if d := b.next(streamEnd{up: 59 * s}, false, 1); d != 30*s {
		t.Errorf("after an unstable stream %v", d)
	}
	if d := b.next(streamEnd{up: time.Minute}, false, 1); d != s/2 {
		t.Errorf("after a stable minute %v", d)
	}
	if d := b.next(none, true, 1); d != 30*s {
		t.Errorf("after a refusal %v", d)
	}
	if lo, hi := b.next(none, false, 0), b.next(none, false, 0.5); lo != 0 || hi != 15*s {
		t.Errorf("full jitter goes from %v, its middle is %v", lo, hi)
	}
}

// After a stream the node waits a part of what its controller said, and at least all of
// that before each attempt more, until a stream stands again.
func TestTheSpreadIsKeptUntilAStreamStands(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		name   string
		last   streamEnd
		first  time.Duration    // the bound of the wait after it
		lo, hi [3]time.Duration // the bounds of those after three attempts that failed
	}{
		{"a controller that knows no spread", streamEnd{up: time.Hour}, s / 2, [3]time.Duration{},
			[3]time.Duration{s, 2 * s, 4 * s}},
		{"few nodes", streamEnd{time.Hour, s / 2}, s / 2, [3]time.Duration{s / 2, s / 2, s / 2},
			[3]time.Duration{s, 2 * s, 4 * s}},
		{"some nodes", streamEnd{time.Hour, 3 * s}, 3 * s, [3]time.Duration{3 * s, 3 * s, 3 * s},
			[3]time.Duration{3 * s, 3 * s, 4 * s}},
		{"many nodes", streamEnd{time.Hour, 12 * s}, 12 * s, [3]time.Duration{12 * s, 12 * s, 12 * s},
			[3]time.Duration{12 * s, 12 * s, 12 * s}},
		{"a stream that ended at once", streamEnd{1, 12 * s}, 12 * s, [3]time.Duration{12 * s, 12 * s, 12 * s},
			[3]time.Duration{12 * s, 12 * s, 12 * s}},
		{"less than is allowed", streamEnd{time.Hour, 1}, s / 2, [3]time.Duration{s / 2, s / 2, s / 2},
			[3]time.Duration{s, 2 * s, 4 * s}},
		{"more than is allowed", streamEnd{time.Hour, math.MaxInt64}, 30 * s, [3]time.Duration{30 * s, 30 * s, 30 * s},
			[3]time.Duration{30 * s, 30 * s, 30 * s}},
		{"a time that makes no sense", streamEnd{time.Hour, -s}, s / 2, [3]time.Duration{},
			[3]time.Duration{s, 2 * s, 4 * s}},
	} {
		t.Run(c.name, func(t *testing.T) {
			waits := func(random float64) (first time.Duration, more [3]time.Duration) {
				var b reconnect
				first = b.next(c.last, false, random)
				for i := range more {
					more[i] = b.next(none, false, random)
				}
				if after := b.next(streamEnd{up: time.Hour}, false, 1); after != s/2 {
					t.Errorf("after a stream of a controller that knows no spread %v", after)
				}
				return first, more
			}
			if first, lo := waits(0); first != 0 || lo != c.lo {
				t.Errorf("at least %v, %v, want 0, %v", first, lo, c.lo)
			}
			if first, hi := waits(1); first != c.first || hi != c.hi {
				t.Errorf("at most %v, %v, want %v, %v", first, hi, c.first, c.hi)
			}
		})
	}
}

func TestTheSpreadOfAWave(t *testing.T) {
	for nodes, want := range map[int]time.Duration{
		-1: 500 * time.Millisecond, 0: 500 * time.Millisecond, 10: 500 * time.Millisecond, 333: 500 * time.Millisecond,
		334: 501 * time.Millisecond, 1000: 1500 * time.Millisecond, 10000: 15 * time.Second,
		19999: 29998500 * time.Microsecond, 20000: 30 * time.Second, math.MaxInt: 30 * time.Second,
	} {
		if got := reconnectSpread(nodes); got != want {
			t.Errorf("%d nodes: %v, want %v", nodes, got, want)
		}
	}
}

// However nodes come and go between two looks, after a look no node knows of a spread that
// is more than a tenth off, and one that knows the right one hears nothing.
func TestPropertyASpreadIsSaidAgainWhenItIsOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reported := reconnectSpread(rapid.IntRange(0, 30000).Draw(t, "then"))
		now := reconnectSpread(rapid.IntRange(0, 30000).Draw(t, "now"))
		off := math.Abs(float64(now-reported)) / float64(reported)
		if again := needsNewSpread(reported, now); again != (off > 0.1) && math.Abs(off-0.1) > 1e-6 {
			t.Errorf("%v was told, it is %v: said again is %v", reported, now, again)
		}
	})
	if !needsNewSpread(0, reconnectSpread(0)) {
		t.Error("a node that was told nothing is told nothing")
	}
}

// A controller that is away for an hour: on the fake clock the attempts are counted. With
// full jitter at its middle they come each 15 s.
func TestAnHourWithoutAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b reconnect
		attempts, begun := 0, time.Now()
		for time.Since(begun) < time.Hour {
			time.Sleep(b.next(none, false, 0.5))
			attempts++
		}
		if attempts < 240 || attempts > 248 {
			t.Errorf("%d attempts", attempts)
		}
	})
}

// wave is a fleet of clients on the fake clock, and its controllers.
type wave struct {
	mu       sync.Mutex
	random   *rand.Rand
	gone     map[string]chan struct{} // of the controllers that serve: closed when one ends
	streams  map[string]int
	arrivals []time.Time // of streams that began
}

func (w *wave) float() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.Float64()
}

func (w *wave) begin(controller string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[controller] = make(chan struct{})
}

func (w *wave) kill(controller string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.gone[controller])
	delete(w.gone, controller)
}

// stream is one of a node's, as session has it: what it was told is a tenth off at most.
func (w *wave) stream(ctx context.Context, controller string) (streamEnd, error) {
	w.mu.Lock()
	gone := w.gone[controller]
	if gone == nil {
		w.mu.Unlock()
		return streamEnd{}, errors.New("connection refused")
	}
	w.streams[controller]++
	w.arrivals = append(w.arrivals, time.Now())
	w.mu.Unlock()
	begun := time.Now()
	select {
	case <-gone:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	reported := reconnectSpread(w.streams[controller]) * 10 / 11
	return streamEnd{max(1, time.Since(begun)), reported}, errors.New("connection reset")
}

// run has a fleet of clients that know some controllers, until the end of the test.
func (w *wave) run(t *testing.T, nodes int, controllers ...string) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	c := NewClient(ClientOptions{Random: w.float})
	for range nodes {
		all.Go(func() { c.keepStream(ctx, controllers, w.stream) })
	}
	t.Cleanup(func() { cancel(); all.Wait() })
}

// limit is how many streams began within any one second after an instant, and when the last did.
func (w *wave) limit(since time.Time) (limit, count int, last time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	after := slices.DeleteFunc(slices.Clone(w.arrivals), func(at time.Time) bool { return at.Before(since) })
	slices.SortFunc(after, time.Time.Compare)
	from := 0
	for i, at := range after {
		for at.Sub(after[from]) >= time.Second {
			from++
		}
		limit = max(limit, i-from+1)
		last = at.Sub(since)
	}
	return limit, len(after), last
}

// bound is what no second of a wave exceeds. The arrivals within a second are binomial with
// p = 1 s / spread; five standard deviations are exceeded by one second in three million, and
// what the nodes were told may be a tenth too short.
func bound(nodes int, over time.Duration) int {
	n, p := float64(nodes), 1.1*min(1, 1/over.Seconds())
	return int(n*p + 5*math.Sqrt(n*p*(1-min(1, p))))
}

// A replica dies, and all its nodes go to the other one: ten thousand within a quarter of a
// minute and no second with more than one in ten of them, ten within half a second.
func TestAWaveOfReconnectsIsSpread(t *testing.T) {
	for _, nodes := range []int{10, 166, 1000, 10000} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wave{random: rand.New(rand.NewPCG(uint64(nodes), 6)), gone: map[string]chan struct{}{},
					streams: map[string]int{}}
				w.begin("a")
				w.begin("b")
				w.run(t, nodes, "a", "b")
				time.Sleep(time.Hour)
				killed := time.Now()
				w.kill("a")
				time.Sleep(time.Minute)
				limit, count, last := w.limit(killed)
				allowed := min(nodes, bound(nodes, reconnectSpread(nodes)))
				t.Logf("%d nodes: at most %d (%.1f %%) in a second, the last after %v; the bound is %d", nodes, limit,
					100*float64(limit)/float64(nodes), last, allowed)
				if count != nodes || w.streams["b"] != nodes {
					t.Errorf("%d of %d nodes came back", count, nodes)
				}
				if limit > allowed || nodes == 10000 && limit > nodes/10 {
					t.Errorf("%d nodes in one second", limit)
				}
				if last > reconnectSpread(nodes) {
					t.Errorf("the last one came after %v, the spread is %v", last, reconnectSpread(nodes))
				}
			})
		})
	}
}

// The only controller is away for a while: attempts fail meanwhile, and the fleet comes as
// spread as one that finds another replica.
func TestAWaveAfterTheOnlyControllerWasAway(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 25 * time.Second,
		2 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes = 10000
				w := &wave{random: rand.New(rand.NewPCG(7, 6)), gone: map[string]chan struct{}{}, streams: map[string]int{}}
				w.begin("a")
				w.run(t, nodes, "a")
				time.Sleep(time.Hour)
				w.kill("a")
				time.Sleep(away)
				back := time.Now()
				w.begin("a")
				time.Sleep(2 * time.Minute)
				limit, count, last := w.limit(back)
				t.Logf("away for %v: at most %d (%.1f %%) in a second, the last after %v", away, limit, 100*float64(limit)/nodes,
					last)
				if count != nodes || last > connectWaits.Max {
					t.Errorf("%d came back, the last after %v", count, last)
				}
				if limit > bound(nodes, reconnectSpread(nodes)) {
					t.Errorf("%d nodes in one second", limit)
				}
			})
		})
	}
}

// told is the stream of a node at the server, after it has said a spread.
func (r *rig) told(node string, over time.Duration) {
	r.server.mu.Lock()
	st := r.server.nodes[node]
	r.server.mu.Unlock()
	st.sendSpread(over)
}

// A node is told the spread at its greeting (hello checks it), and again when it is off.
func TestANodeIsToldTheSpread(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.Sweep = time.Hour })
	cred := r.joined(t)
	rpc, err := hello(t, dial(t, r, cred), cred.Node().String())
	if err != nil {
		t.Fatal(err)
	}
	s := take(t, r.up).s
	r.told(cred.Node().String(), reconnectSpread(10000))
	r.told(cred.Node().String(), reconnectSpread(10200)) // too little to be said
	if err := s.Send(nodeproto.Release{}); err != nil {
		t.Fatal(err)
	}
	m := &pb.Down{}
	if err := rpc.RecvMsg(m); err != nil || m.GetSpread().GetOverMs() != 15000 {
		t.Errorf("%v, %v", m, err)
	}
	if err := rpc.RecvMsg(m); err != nil || m.GetRelease() == nil {
		t.Errorf("%v, %v", m, err)
	}
}

// The look at all streams finds that a node was told of a wave of many, and mends it.
func TestTheSpreadFollowsTheNumberOfNodes(t *testing.T) {
	r := newRig(t)
	cred := r.joined(t)
	rpc, err := hello(t, dial(t, r, cred), cred.Node().String())
	if err != nil {
		t.Fatal(err)
	}
	take(t, r.up)
	r.told(cred.Node().String(), reconnectSpread(10000))
	for over := int64(0); over != 500; { // the first message goes unsaid if the look comes before it is written
		m := &pb.Down{}
		err := rpc.RecvMsg(m)
		if over = m.GetSpread().GetOverMs(); err != nil || over != 15000 && over != 500 {
			t.Fatalf("%v, %v, want 15000 and then 500", m, err)
		}
	}
}

// Whatever ends a stream, the node waits a part of what its controller said: a goodbye, too.
func TestANodeWaitsAsItsControllerSaid(t *testing.T) {
	for name, end := range map[string]func(*rig, nodeproto.ToNode){
		"the stream is ended": func(_ *rig, s nodeproto.ToNode) { s.End("go on") },
		"the controller says goodbye": func(r *rig, _ nodeproto.ToNode) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			r.server.Drain(ctx)
		},
		"the controller is gone": func(r *rig, _ nodeproto.ToNode) { r.server.grpc.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *ServerOptions) { o.Sweep = time.Hour })
			cred := r.joined(t)
			logs, seen := observer.New(zap.InfoLevel)
			n := r.run(t, cred, func(o *ClientOptions) { o.Log = zap.New(logs) })
			take(t, n.up)
			s := take(t, r.up).s
			r.told(cred.Node().String(), reconnectSpread(10000))
			if err := s.Send(nodeproto.Release{}); err != nil {
				t.Fatal(err)
			}
			take(t, n.got) // and so it has heard of the spread
			end(r, s)
			take(t, n.down)
			until(t, "it says when it tries again", func() bool { return seen.FilterMessage("node link is down").Len() > 0 })
			// The rig's Random is 0.02.
			if got := seen.FilterMessage("node link is down").All()[0].ContextMap()["retry"]; got != 300*time.Millisecond {
				t.Errorf("it tries again after %v", got)
			}
		})
	}
}
