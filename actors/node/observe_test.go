package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// told returns the events as lines "kind object text error".
func (r *rig) told(q nodeapi.EventQuery) []string {
	r.Helper()
	var out []string
	err := r.node.Events(context.Background(), q, func(e nodeapi.Event) error {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Kind, e.Object, e.Text, e.Error)))
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	return out
}

func (r *rig) has(lines []string, want ...string) {
	r.Helper()
	for _, w := range want {
		n := 0
		for _, l := range lines {
			if strings.Contains(l, w) {
				n++
			}
		}
		if n != 1 {
			r.Errorf("%q is told %d times in\n%s", w, n, strings.Join(lines, "\n"))
		}
	}
}

func TestEventsReportAFailureOnceAndItsEnd(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.host.SetFault(opFails(netstate.KindRule, "busy"))
		r.apply(doc(1, 1))
		r.settle(10 * time.Second) // many tries
		r.host.SetFault(nil)
		r.ready(time.Minute, "app/"+appID(1))
		of := r.told(nodeapi.EventQuery{Of: "ni/" + niID(1)})
		r.has(of, "failed ni/"+niID(1)+" add rule 20001 failed busy", "recovered ni/"+niID(1)+" add rule 20001, after ",
			"state ni/"+niID(1)+" Creating -> CreatingFailed", "CreatingFailed -> Present")
		all := r.told(nodeapi.EventQuery{})
		r.has(all, "config config generation 1 from apply: networks 1, apps 1, ports 1",
			"port port/wan up with 192.0.2.2/24 via 192.0.2.1",
			"applied host", "state app/"+appID(1)+" pending -> ready")
		if last := r.told(nodeapi.EventQuery{Last: 2}); len(last) != 2 || last[1] != all[len(all)-1] {
			t.Errorf("the last two are %q", last)
		}
	})
}

func TestEventsReportRepairsDeathsAndPorts(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		before := len(r.told(nodeapi.EventQuery{}))
		r.host.Break(1, netstate.ID{Kind: netstate.KindProcess, Name: "ni/1/dnsmasq"})
		r.settle(time.Second)
		r.host.SetInterfaces(netstate.Interface{Name: "uplink0"})
		r.settle(time.Second)
		if _, err := r.node.Apply(context.Background(), []byte("nonsense: 1"), nodeapi.ApplyOptions{}); err == nil {
			t.Fatal("nonsense is taken")
		}
		got := r.told(nodeapi.EventQuery{})[before:]
		r.has(got, "repaired ni/"+niID(1)+" add process ni/1/dnsmasq", "process ni/"+niID(1)+
			" ni/1/dnsmasq died and was restarted",
			"port port/wan up with 192.0.2.2/24 via 192.0.2.1 -> down", "Present -> WaitingForDependencies")
		for _, l := range got {
			if strings.HasPrefix(l, "applied") && strings.Contains(l, " 0 changes") {
				t.Errorf("a repair is told as an apply too: %s", l)
			}
		}
	})
}

// If a network fails for a day or an app flaps, the number of remembered events is bounded, and the newest are kept.
func TestEventsAreBounded(t *testing.T) {
	onRig(t, func(r *rig) {
		for i := range 3 * eventLimits.Events {
			r.node.d.recordEvent(event("test", fmt.Sprintf("config/%d", i), "", ""))
		}
		r.settle(0)
		if n := len(r.node.Topics().Events.All()); n != eventLimits.Events {
			t.Errorf("%d are kept", n)
		}
		got := r.told(nodeapi.EventQuery{})
		if want := fmt.Sprintf("test config/%d", 3*eventLimits.Events-1); got[len(got)-1] != want {
			t.Errorf("the last is %q, want %q", got[len(got)-1], want)
		}
	})
}

func TestACrashIsAnEvent(t *testing.T) {
	onRig(t, func(r *rig) {
		var once sync.Once
		r.host.SetFault(func(_ netstate.Owner, op netstate.Op) (f *fake.OpFault) {
			if op.Kind == netstate.KindRule {
				once.Do(func() { f = &fake.OpFault{Panic: true} })
			}
			return f
		})
		r.apply(doc(1, 0))
		r.ready(time.Minute, "ni/"+niID(1))
		r.has(r.told(nodeapi.EventQuery{}), "crash actor/router/ni/"+niID(1)+"/applier crashed, restarts in ")
	})
}

// stream reads in a goroutine of the bubble until stop is called.
type stream[T any] struct {
	mu   sync.Mutex
	got  []T
	stop context.CancelFunc
	done chan error
}

func follow[T any](run func(context.Context, func(T) error) error) *stream[T] {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream[T]{stop: cancel, done: make(chan error, 1)}
	go func() {
		s.done <- run(ctx, func(v T) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.got = append(s.got, v)
			return nil
		})
	}()
	synctest.Wait()
	return s
}

func (s *stream[T]) take() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

func TestEventsCanBeFollowed(t *testing.T) {
	onRig(t, func(r *rig) {
		s := follow(func(ctx context.Context, emit func(nodeapi.Event) error) error {
			return r.node.Events(ctx, nodeapi.EventQuery{Of: "ni/" + niID(1), Follow: true}, emit)
		})
		r.apply(doc(2, 0))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
		got := s.take()
		if len(got) == 0 || got[len(got)-1].Text != "Creating -> Present" {
			t.Errorf("followed %+v", got)
		}
		for _, e := range got {
			if e.Object != "ni/"+niID(1) {
				t.Errorf("%s is not asked for", e.Object)
			}
		}
		s.stop()
		if err := <-s.done; err != nil {
			t.Error(err)
		}
	})
}

func TestWatchReportsWhatListShows(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		s := follow(func(ctx context.Context, emit func(nodeapi.Observed) error) error {
			return r.node.Watch(ctx, nodeapi.WatchKinds(), emit)
		})
		line := func(x nodeapi.Observed) string {
			if x.Object == nil {
				return x.Change
			}
			return x.Change + " " + x.Object.Kind
		}
		var first []string
		for _, x := range s.take() {
			first = append(first, line(x))
		}
		if got := strings.Join(first, ", "); got != "added ni, added app, added adapter, added port, synchronized" {
			t.Errorf("at first: %s", got)
		}
		r.settle(time.Minute)
		if got := s.take(); len(got) != 0 {
			t.Errorf("nothing happens, told is %+v", got)
		}
		last := map[string]string{}
		r.netns("ns2")
		for _, d := range []string{doc(2, 2), doc(1, 2), doc(1, 1)} {
			r.apply(d)
			r.settle(5 * time.Second)
			for _, x := range s.take() {
				last[x.Object.Kind+"/"+x.Object.ID] = x.Change
			}
		}
		if last["ni/"+niID(2)] != "deleted" || last["app/"+appID(2)] != "deleted" ||
			last["adapter/"+appID(2)+"/0"] != "deleted" {
			t.Errorf("the last of each: %v", last)
		}
		s.stop()
		if err := <-s.done; err != nil {
			t.Error(err)
		}
	})
}

// A slow reader delays no other actor, and the last event that it gets is the newest.
func TestASlowWatcherConflates(t *testing.T) {
	onRig(t, func(r *rig) {
		free := make(chan struct{})
		s := follow(func(ctx context.Context, emit func(nodeapi.Observed) error) error {
			return r.node.Watch(ctx, []string{"ni"}, func(x nodeapi.Observed) error {
				if x.Change == nodeapi.Synchronized {
					<-free
				}
				return emit(x)
			})
		})
		for i := range 50 {
			r.apply(strings.Replace(doc(1, 0), "net1", fmt.Sprintf("name%d", i), 1))
		}
		r.ready(time.Second, "ni/"+niID(1))
		close(free)
		r.settle(time.Second)
		got := s.take()
		if len(got) != 2 || got[1].Object.Status.(nodeapi.NetworkStatus).DisplayName != "name49" {
			t.Errorf("told %+v", got)
		}
		s.stop()
		<-s.done
	})
}

func TestDiffShowsMissingChangedAndUnexpected(t *testing.T) {
	onRig(t, func(r *rig) {
		if _, err := r.node.Diff(context.Background(), ""); !errors.Is(err, rest.ErrBusy) {
			t.Errorf("without a config: %v", err)
		}
		r.apply(doc(1, 1))
		r.settle(time.Second)
		diff := func(of string) string {
			ds, err := r.node.Diff(context.Background(), of)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, d := range ds {
				out = append(out, fmt.Sprintf("%s %s %s/%s", d.Owner[:4], d.Change, d.Kind, d.ID))
				if d.Kind == "link" && !strings.Contains(d.Why, "namespace ns1 does not exist") {
					t.Errorf("why it is missing: %+v", d)
				}
			}
			return strings.Join(out, ", ")
		}
		if got := diff(""); got != "ni/0 missing link/es1a1, ni/0 missing port/es1a1" {
			t.Errorf("an app that waits: %s", got)
		}
		r.netns("ns1")
		r.ready(time.Minute, "app/"+appID(1))
		if got := diff(""); got != "" {
			t.Errorf("all is well: %s", got)
		}
		r.host.SetFault(func(netstate.Owner, netstate.Op) *fake.OpFault { return &fake.OpFault{Err: errors.New("no")} })
		r.host.RemoveSilently(1, netstate.ID{Kind: netstate.KindRule, Name: "20001"})
		r.host.RemoveSilently(0, netstate.ID{Kind: netstate.KindSysctl, Name: "net/ipv4/conf/uplink0/forwarding"})
		if got := diff("ni/" + niID(1)); got != "ni/0 missing rule/20001" {
			t.Errorf("of the network: %s", got)
		}
		if got := diff(""); got != "host missing sysctl/net/ipv4/conf/uplink0/forwarding, ni/0 missing rule/20001" {
			t.Errorf("of all: %s", got)
		}
		if _, err := r.node.Diff(context.Background(), "ni/"+niID(7)); !errors.Is(err, rest.ErrNotFound) {
			t.Errorf("of a network that is none: %v", err)
		}
		r.host.SetFault(nil)
	})
}
