package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/config/events"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// memEvents is a file of events in memory, which outlives the nodes of a rig.
type memEvents struct {
	mu     sync.Mutex
	text   []byte
	calls  int
	failed error
	hang   chan struct{} // closed: no call hangs; nil too
}

func (m *memEvents) do(f func()) error {
	m.mu.Lock()
	hang := m.hang
	m.mu.Unlock()
	if hang != nil {
		<-hang
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.failed == nil {
		f()
	}
	return m.failed
}

func (m *memEvents) Read() (text []byte, err error) {
	err = m.do(func() { text = slices.Clone(m.text) })
	return text, err
}

func (m *memEvents) Append(lines []byte) error {
	return m.do(func() { m.text = append(m.text, lines...) })
}

func (m *memEvents) Replace(lines []byte) error { return m.do(func() { m.text = slices.Clone(lines) }) }

// set changes the file.
func (m *memEvents) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// onDisk runs f with a node that keeps events in a file.
func onDisk(t *testing.T, f func(r *rig, m *memEvents)) {
	t.Helper()
	onHost(t, func(r *rig) {
		m := &memEvents{}
		r.change = func(o *Options) { o.EventStore = m }
		r.start()
		f(r, m)
	})
}

// events returns what a query selects.
func (r *rig) events(q nodeapi.EventQuery) (out []nodeapi.Event) {
	r.Helper()
	if err := r.node.Events(context.Background(), q, func(e nodeapi.Event) error { out = append(out, e); return nil }); err != nil {
		r.Fatal(err)
	}
	return out
}

// why returns the words for why the newest event that a query selects happened.
func (r *rig) why(q nodeapi.EventQuery) string {
	r.Helper()
	q.Why, q.Last = true, 1
	list := r.events(q)
	if len(list) != 1 {
		r.Fatalf("%+v selects no event", q)
	}
	return strings.Join(events.Why(list[0]), "\n")
}

// An event names what led to it, from the config on, and so it does after the daemon was killed.
func TestAnEventNamesItsCauseAlsoAfterARestart(t *testing.T) {
	onDisk(t, func(r *rig, m *memEvents) {
		r.netns("ns1")
		r.host.SetFault(func(_ netstate.Owner, op netstate.Op) *fake.OpFault {
			if op.Kind == netstate.KindProcess {
				return &fake.OpFault{Err: errors.New("no memory")}
			}
			return nil
		})
		how := nodeapi.ApplyOptions{By: "ann", Caller: "uid 1000"}
		if _, err := r.node.Apply(context.Background(), []byte(doc(1, 1)), how); err != nil {
			t.Fatal(err)
		}
		r.settle(3 * time.Second)
		check := func(name string) {
			t.Helper()
			q := nodeapi.EventQuery{Of: "ni/" + niID(1), Kind: nodeapi.EventState}
			r.has(strings.Split(r.why(q), "\n"), "generation 1 from apply: networks 1, apps 1, ports 1, as ", ", by uid 1000 (ann)",
				", since its config changed", "add process ni/1/dnsmasq failed: ", "-> CreatingFailed")
			q = nodeapi.EventQuery{Of: "app/" + appID(1), Kind: nodeapi.EventState}
			r.has(strings.Split(r.why(q), "\n"), ", by uid 1000 (ann)", "app/"+appID(1)+" (app1): pending")
			for _, e := range r.events(nodeapi.EventQuery{Of: "ni/" + niID(1), Kind: nodeapi.EventFailed}) {
				if e.Cause.Config != 1 || e.Cause.Apply == "" || e.Op == "" {
					t.Errorf("%s: %+v", name, e)
				}
			}
		}
		check("at once")
		before := r.events(nodeapi.EventQuery{Of: "ni/" + niID(1)})
		stored := slices.Clone(m.text)
		r.stop()
		m.set(func() { m.text = stored }) // as if it was killed
		r.host.SetFault(nil)
		r.start()
		r.settle(time.Second)
		for _, e := range before {
			q := func(o nodeapi.Event) bool { return o.Seq == e.Seq && o.Text == e.Text && o.Cause == e.Cause }
			if !slices.ContainsFunc(r.events(nodeapi.EventQuery{}), q) {
				t.Errorf("after the restart there is no %+v", e)
			}
		}
		r.ready(time.Minute, "ni/"+niID(1))
		r.settle(time.Second)
		list := r.events(nodeapi.EventQuery{})
		if !slices.IsSortedFunc(list, func(a, b nodeapi.Event) int { return int(a.Seq) - int(b.Seq) }) {
			t.Error("the numbers do not rise")
		}
		r.has(strings.Split(r.why(nodeapi.EventQuery{Of: "ni/" + niID(1), Kind: nodeapi.EventState}), "\n"),
			", by uid 1000 (ann)", "-> Present")
	})
}

// A port that goes is the cause of what its network then does.
func TestAPortIsACause(t *testing.T) {
	onDisk(t, func(r *rig, _ *memEvents) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Minute, "ni/"+niID(1), "app/"+appID(1))
		r.host.SetInterfaces(netstate.Interface{Name: "uplink0", MTU: 1500})
		r.settle(5 * time.Second)
		r.has(strings.Split(r.why(nodeapi.EventQuery{Of: "ni/" + niID(1), Kind: nodeapi.EventState}), "\n"),
			"since a port changed", "port/wan (uplink0): up with", "Present -> WaitingForDependencies")
	})
}

// The config that lacks a network is the cause of its removal.
func TestARemovalIsCausedByTheNextConfig(t *testing.T) {
	onDisk(t, func(r *rig, _ *memEvents) {
		r.apply(doc(1, 0))
		r.ready(time.Minute, "ni/"+niID(1))
		r.apply(doc(0, 0))
		r.settle(time.Minute)
		words := strings.Split(r.why(nodeapi.EventQuery{Of: "ni/" + niID(1), Kind: nodeapi.EventState}), "\n")
		r.has(words, "generation 2 from apply: networks 0", "Removing -> gone")
	})
}

// Whatever a power cut leaves of the file, the next start has the whole lines, gives no number twice, and repairs the
// file with its next events.
func TestAPowerCutDuringAWrite(t *testing.T) {
	onDisk(t, func(r *rig, m *memEvents) {
		r.apply(doc(1, 0))
		r.ready(time.Minute, "ni/"+niID(1))
		r.settle(2 * time.Second)
		last := r.node.d.lastEvent.Load()
		whole := slices.Clone(m.text)
		for _, cut := range []int{len(whole), len(whole) - 1, len(whole) - 40, len(whole) / 2, 5, 0} {
			r.stop()
			torn := append(slices.Clone(whole[:cut]), make([]byte, min(3, len(whole)-cut))...)
			m.set(func() { m.text = torn })
			want, _ := events.Decode(torn)
			r.start()
			r.settle(3 * time.Second)
			list := r.events(nodeapi.EventQuery{})
			for i, e := range want {
				if list[i].Seq != e.Seq || list[i].Text != e.Text {
					t.Fatalf("cut at %d: %+v, want %+v", cut, list[i], e)
				}
			}
			for _, e := range list[len(want):] {
				if e.Seq <= last {
					t.Fatalf("cut at %d: %d was given before", cut, e.Seq)
				}
			}
			if _, damaged := events.Decode(m.text); damaged > 0 || len(list) == len(want) {
				t.Fatalf("cut at %d: %d damaged lines are left; %d events, %d of them old", cut, damaged, len(list), len(want))
			}
		}
	})
}

// A disk that hangs or is full holds up nothing, and it is reported once.
func TestEventsWithoutTheirDisk(t *testing.T) {
	onHost(t, func(r *rig) {
		m := &memEvents{hang: make(chan struct{})}
		r.change = func(o *Options) { o.EventStore = m }
		r.start()
		r.apply(doc(1, 0))
		r.ready(time.Minute, "ni/"+niID(1))
		r.settle(6 * time.Second)
		r.has(r.told(nodeapi.EventQuery{}), "state ni/"+niID(1)+" Creating -> Present")
		m.set(func() { m.failed = errors.New("no space left on device") })
		close(m.hang)
		r.settle(time.Minute)
		for i := range 100 {
			r.node.d.recordEvent(event(nodeapi.EventPort, "port/x", "", fmt.Sprint(i)))
			r.settle(time.Second)
		}
		failures := r.told(nodeapi.EventQuery{Kind: nodeapi.EventStorage})
		if len(failures) != 1 || !strings.Contains(failures[0], "events are kept in memory only no space left on device") {
			t.Errorf("%q", failures)
		}
		if m.calls > 10 {
			t.Errorf("a disk that refuses was asked %d times in 100 s", m.calls)
		}
		m.set(func() { m.failed = nil })
		r.settle(time.Minute)
		r.has(r.told(nodeapi.EventQuery{Kind: nodeapi.EventStorage}), "events are stored again; 0 were lost")
		r.settle(time.Minute)
		list, damaged := events.Decode(m.text)
		if n := len(r.events(nodeapi.EventQuery{})); damaged > 0 || len(list) != n {
			t.Errorf("the file has %d of %d events, %d damaged", len(list), n, damaged)
		}
	})
}

// Without events nothing is written; an orderly stop writes what waits.
func TestAnIdleNodeWritesNoEvents(t *testing.T) {
	onDisk(t, func(r *rig, m *memEvents) {
		r.apply(doc(1, 0))
		r.ready(time.Minute, "ni/"+niID(1))
		r.settle(time.Minute)
		before := m.calls
		r.settle(time.Hour)
		if m.calls != before {
			t.Errorf("%d writes in an hour", m.calls-before)
		}
		for range 3 {
			r.node.d.recordEvent(event(nodeapi.EventPort, "port/x", "", "last words"))
		}
		r.stop()
		list, _ := events.Decode(m.text)
		if e := list[len(list)-1]; e.Text != "last words" || e.Count != 3 {
			t.Errorf("the file ends with %+v", e)
		}
		r.node = nil
	})
}

// An object that flaps is counted, and takes no other one's events.
func TestAFlappingObject(t *testing.T) {
	onDisk(t, func(r *rig, m *memEvents) {
		r.apply(doc(1, 0))
		r.ready(time.Minute, "ni/"+niID(1))
		before := r.events(nodeapi.EventQuery{Of: "ni/" + niID(1)})
		for i := range 3 * eventLimits.Events {
			r.node.d.recordEvent(event(nodeapi.EventPort, "port/flap", "", []string{"up", "down"}[i%2]))
			r.node.d.recordEvent(event(nodeapi.EventFailed, "adapter/x/0", "", fmt.Sprint("for another reason each time: ", i)))
		}
		r.settle(2 * time.Second)
		if after := r.events(nodeapi.EventQuery{Of: "ni/" + niID(1)}); len(after) != len(before) {
			t.Errorf("%d of the network's %d events are left", len(after), len(before))
		}
		flaps := r.events(nodeapi.EventQuery{Of: "port/flap"})
		if len(flaps) != 2 || flaps[0].Count != 3*eventLimits.Events/2 || !strings.Contains(fmt.Sprint(flaps), "up") {
			t.Errorf("%+v", flaps)
		}
		if len(m.text) > EventFileLimit {
			t.Errorf("the file has %d bytes", len(m.text))
		}
	})
}

// A crash of the actor loses no event but the one that crashed it, and the file goes on.
func TestACrashOfTheEventsActor(t *testing.T) {
	onDisk(t, func(r *rig, m *memEvents) {
		r.apply(doc(1, 0))
		r.ready(time.Minute, "ni/"+niID(1))
		before := r.events(nodeapi.EventQuery{})
		flap := event(nodeapi.EventPort, "port/x", "", "flaps")
		r.node.d.recordEvent(flap)
		r.settle(0)
		r.node.Topics().Events.Publisher("a thief").Adopt("", eventKey(r.node.d.lastEvent.Load()))
		r.node.d.recordEvent(flap) // publishing it fails
		r.settle(5 * time.Second)
		r.has(r.told(nodeapi.EventQuery{Kind: nodeapi.EventCrash}), "actor/router/events crashed")
		r.node.d.recordEvent(event(nodeapi.EventPort, "port/x", "", "after"))
		r.settle(5 * time.Second)
		after := r.events(nodeapi.EventQuery{})
		if len(after) < len(before)+1 || after[0].Seq != before[0].Seq || after[len(after)-1].Text != "after" {
			t.Errorf("%d events, then %d", len(before), len(after))
		}
		list, damaged := events.Decode(m.text)
		if damaged > 0 || list[len(list)-1].Text != "after" {
			t.Errorf("%d damaged lines, the last event is %+v", damaged, list[len(list)-1])
		}
	})
}

// Each reason to begin an apply is one that config/events has words for.
func TestEveryBeginHasWords(t *testing.T) {
	for _, b := range []manager.Began{manager.BeganConfig, manager.BeganApps, manager.BeganPorts, manager.BeganOverlap,
		manager.BeganHost, manager.BeganProcess, manager.BeganRetry, manager.BeganCheck, manager.BeganStart,
		manager.BeganLearning} {
		e := nodeapi.Event{Seq: 1, Kind: nodeapi.EventApplied, Cause: events.Cause{Apply: "1.1.1", Began: string(b)}}
		if why := events.Why(e); !strings.HasPrefix(why[0], "apply 1.1.1, ") {
			t.Errorf("%s: %q", b, why)
		}
	}
}
