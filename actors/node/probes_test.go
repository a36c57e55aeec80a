package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/actors/node/api"
	"edgespan/netinst/probe"
	"edgespan/platform/fake"
)

// probedUplinks starts networks that may use the ports wan and lte, of which each in dead has a silent far side.
func (r *rig) probedUplinks(nets int) (dead *sync.Map) {
	r.Helper()
	dead = r.setUplinks()
	r.apply(withProbedUplinks(nets))
	for n := range nets {
		r.ready(5*time.Second, "ni/"+niID(n+1))
	}
	r.settle(30 * time.Second)
	return dead
}

func withProbedUplinks(nets int) string {
	two := withLTE(doc(nets, 0))
	return strings.ReplaceAll(two, "port: wan", "port: uplink")
}

func (r *rig) goesBy(n int, when, port string) {
	r.Helper()
	if s, _ := r.node.d.topics.NetworkStatus.Get("", niID(n)); s.Port != port {
		choice, _ := r.node.d.topics.Uplinks.Get("", niID(n))
		r.Errorf("%s: network %d by %q, want %q: %+v", when, n, s.Port, port, choice)
	}
}

// outcomes are the probes that the runner has published something about.
func (r *rig) outcomes() []string {
	return slices.Sorted(maps.Keys(r.node.d.topics.ProbeOutcomes.List("")))
}

func (r *rig) requests(n int) []string {
	return slices.Sorted(maps.Keys(r.node.d.topics.ProbeRequest.List(niID(n))))
}

func TestProbesAreSharedAndEndWithTheLastNetwork(t *testing.T) {
	onRig(t, func(r *rig) {
		dead := r.probedUplinks(2)
		shared := r.requests(1)
		if len(shared) == 0 || !slices.Equal(r.requests(2), shared) || !slices.Equal(r.outcomes(), shared) {
			t.Fatalf("%q and %q, of which run %q", shared, r.requests(2), r.outcomes())
		}
		r.node.Topics().UplinkRecords.Publisher("thief").Adopt("", niID(1)) // its bridge manager crashes at a move
		dead.Store("wan", context.DeadlineExceeded)
		r.settle(3 * time.Second)
		r.goesBy(2, "the bridge manager beside it crashed", "lte")
		r.settle(10 * time.Second)
		r.goesBy(1, "it came back", "lte")
		r.apply(withProbedUplinks(1))
		r.settle(5 * time.Second)
		if !slices.Equal(r.outcomes(), shared) {
			t.Errorf("with one network run %q", r.outcomes())
		}
		r.apply(withProbedUplinks(0))
		r.settle(5 * time.Second)
		if got := r.outcomes(); len(got) > 0 || len(r.node.d.topics.UplinkRecords.List("")) > 0 {
			t.Errorf("without any: %q", got)
		}
	})
}

func TestARunnerThatCrashesMovesNothingAndLeavesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		dead := r.probedUplinks(1)
		dead.Store("wan", context.DeadlineExceeded)
		r.settle(5 * time.Second)
		r.goesBy(1, "wan is dead", "lte")
		stale := probe.Outcomes{ID: probe.ID{Port: "gone"}}
		if err := r.node.d.topics.ProbeOutcomes.Publisher(api.OwnerProbes).Publish("", "stale", stale); err != nil {
			t.Fatal(err)
		}
		for _, key := range r.outcomes() {
			r.node.Topics().ProbeOutcomes.Publisher("thief").Adopt("", key)
		}
		r.settle(30 * time.Second)
		r.goesBy(1, "after a crash of the runner", "lte")
		if !slices.Equal(r.outcomes(), r.requests(1)) {
			t.Errorf("%q instead of %q", r.outcomes(), r.requests(1))
		}
		dead.Delete("wan")
		r.settle(30 * time.Second)
		r.goesBy(1, "wan works again", "wan")
		dead.Store("wan", context.DeadlineExceeded)
		r.settle(3 * time.Second)
		r.goesBy(1, "and is dead again", "lte")
	})
}

// Another program's firewall drops what the node sends: no port is to blame.
func TestShotsThatTheNodeKeepsBackMoveNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		dead := r.probedUplinks(1)
		kept := fmt.Errorf("send: operation not permitted: %w", probe.ErrNotAsked)
		dead.Store("wan", kept)
		dead.Store("lte", kept)
		r.settle(time.Minute)
		r.goesBy(1, "no shot leaves the node", "wan")
		dead.Delete("lte")
		dead.Store("wan", context.DeadlineExceeded)
		r.settle(3 * time.Second)
		r.goesBy(1, "shots leave, and wan is dead", "lte")
		dead.Store("wan", kept)
		r.settle(time.Minute)
		r.goesBy(1, "no shot by wan leaves", "lte")
	})
}

// A large config of silent targets has a bound.
func TestTheShotsOfAllProbesHaveABound(t *testing.T) {
	onRig(t, func(r *rig) {
		var flying, peak atomic.Int64
		r.probedUplinks(1)
		r.host.SetProbes(func(id probe.ID) error {
			if id.Port != "p" {
				return nil
			}
			peak.Store(max(peak.Load(), flying.Add(1)))
			time.AfterFunc(id.Timeout, func() { flying.Add(-1) })
			return context.DeadlineExceeded
		})
		requests := r.node.d.topics.ProbeRequest.Publisher("test")
		for i := range 1500 {
			id := probe.ID{Port: "p", Method: probe.TCP, Target: fmt.Sprint(i), Interval: 200 * time.Millisecond,
				Timeout: 2 * time.Second}
			if err := requests.Publish("test", id.String(), id); err != nil {
				t.Fatal(err)
			}
		}
		r.settle(10 * time.Second)
		if n := peak.Load(); n < 1500 || n > 2*maxAllFlying {
			t.Errorf("%d shots under way", n)
		}
		for i := range 1500 {
			id := probe.ID{Port: "p", Method: probe.TCP, Target: fmt.Sprint(i), Interval: 200 * time.Millisecond,
				Timeout: 2 * time.Second}
			if err := requests.Unpublish("test", id.String()); err != nil {
				t.Fatal(err)
			}
		}
		r.settle(3 * time.Second)
	})
}

// An uplink that answers slowly, such as one over satellite or a mobile one, is no uplink that is about to fail.
func TestSlowAnswersAreProbedNoMoreOften(t *testing.T) {
	onRig(t, func(r *rig) {
		shots := &shotsOf{n: map[string]int{}}
		r.host.SetInterfaces(wanAndLTE())
		r.host.SetProbes(func(id probe.ID) error {
			shots.mu.Lock()
			defer shots.mu.Unlock()
			if id.Method != probe.DNS {
				return nil
			}
			shots.n[id.Port]++
			return fake.Slow(600 * time.Millisecond)
		})
		r.apply(strings.Replace(withProbedUplinks(1), "lte: {", "lte: {metered: true, ", 1))
		r.ready(5*time.Second, "ni/"+niID(1))
		r.settle(time.Minute)
		shots.take()
		r.settle(10 * time.Minute)
		if n := shots.take(); n["wan"] > 660 || n["lte"] > 22 {
			t.Errorf("shots in 10 minutes: %v, want 600 by wan and 20 by lte", n)
		}
		r.goesBy(1, "all answers are slow", "wan")
	})
}
