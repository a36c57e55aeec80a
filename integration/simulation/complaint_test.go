package simulation

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
)

// Each judge complains about a world in which what it judges is wrong.
func TestJudgesComplain(t *testing.T) {
	for _, c := range []struct {
		name, want string
		wrong      func(*town) []string
	}{
		{"a drain that is longer than a person wanted", "port wan is still drained", func(w *town) []string {
			if _, err := w.life.node.Drain(context.Background(), "wan", nodeapi.DrainOptions{For: time.Hour}); err != nil {
				return []string{err.Error()}
			}
			w.drains["wan"] = &drained{time.Minute, time.Now().Add(time.Minute)}
			time.Sleep(time.Minute + beat + time.Second)
			w.lateDrains()
			return w.faults
		}},
		{"a network that stays on a dear uplink", "uplink1:2], want uplink0", func(w *town) []string {
			lost := w.uplink(0)
			lost.Addresses, lost.DefaultRoutes = nil, nil
			w.setInterfaces("uplink0", &lost)
			time.Sleep(time.Minute)
			return w.wrongUplinks()
		}},
		{"a DNS server that answers no more", networkID(1), func(w *town) []string {
			for id := range w.host.State(1) {
				if id.Kind == netstate.KindProcess {
					w.host.SetBroken(1, netstate.OpFailure{ID: id, Observe: true, Err: "self-test: no answer"})
				}
			}
			time.Sleep(3 * time.Minute)
			return w.wrong()
		}},
		{"a network of no config", "which is none of the config", func(w *town) []string {
			w.want = scene{}
			return w.wrong()
		}},
		{"a network that is not there", "network 2 has no bridge", func(w *town) []string {
			w.want = scene{networks: map[int]int{1: 0, 2: 0}}
			return w.wrong()
		}},
		{"something is left", "an empty config leaves of owner 1", func(w *town) []string {
			w.leavesNothing()
			return w.faults
		}},
		{"an actor that crashed, and goes on", "an actor crashed: reader", func(w *town) []string {
			zap.New(w.life.crashes).Error("panic", zap.String("actor", "reader"), zap.String("err", "index out of range"))
			w.look()
			return w.faults
		}},
		{"a hungry watchdog", "the watchdog was not fed", func(w *town) []string {
			w.life.late = watchdog + 1
			w.look()
			return w.faults
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTown()
				w.apply(scene{networks: map[int]int{1: 0}}, false)
				w.settle()
				w.look()
				right := slices.Concat(w.faults, w.wrongUplinks())
				got := c.wrong(w)
				w.leave()
				if len(right) > 0 || !strings.Contains(strings.Join(got, "\n"), c.want) {
					t.Errorf("before: %q; then %q, want %q", right, got, c.want)
				}
			})
		})
	}
}

// The model of staged rollouts complains about a change that goes on before it may.
func TestTheModelOfRolloutsComplains(t *testing.T) {
	sent := func(nodes ...string) func(*changes) {
		return func(x *changes) {
			for _, n := range nodes {
				x.push(n, 1)
			}
		}
	}
	confirmed := func(nodes ...string) func(*changes) {
		return func(x *changes) {
			for _, n := range nodes {
				x.confirm(n, []byte(`{"displayName":"net1-r1"}`))
			}
		}
	}
	for _, c := range []struct {
		name, want string
		calm       bool
		happened   []func(*changes)
	}{
		{"batch by batch", "", true, []func(*changes){sent("a", "a"), confirmed("a"), sent("b", "c"), confirmed("c", "b"), sent("d", "e")}},
		{"two before the canary has confirmed", "change 1 is on [a b] before a node has confirmed it, want 1", true,
			[]func(*changes){sent("a", "b")}},
		{"the next batch before the end of one", "change 1 is on [a b c d], of which 3 have not confirmed it, want 2", true,
			[]func(*changes){sent("a"), confirmed("a"), sent("b", "c", "d")}},
		{"a node that went offline is left behind", "", true,
			[]func(*changes){sent("a"), confirmed("a"), (*changes).disturb, sent("b", "c", "d")}},
		{"a batch finds another one under way", "", false, []func(*changes){sent("a", "b", "c")}},
		{"a node more than that", "change 1 is on [a b c d e] before", false, []func(*changes){sent("a", "b", "c", "d", "e")}},
	} {
		x := &changes{all: map[int]*change{}, calm: c.calm}
		x.next()
		for _, f := range c.happened {
			f(x)
		}
		if got := strings.Join(x.wrong, "\n"); (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The model of clusters complains about hosts that lack what people want, and about a process that is not to run.
func TestTheModelOfClustersComplains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &crowd{ctx: context.Background(), clusters: &clusters{members: []string{"a", "b"}}}
		for i, name := range []string{"a", "b", "c"} {
			f.members = append(f.members, &member{name: name, town: newTown(func(w *town) { w.place = i })})
		}
		for _, c := range []struct {
			name, want string
			change     func()
		}{
			{"nothing is wanted", "", func() {}},
			{"it is deployed", "a has tunnels to [], want [192.0.2.3]; a: a bridge of the cluster: false, " +
				"its link in it: false, want true; b has tunnels to [], want [192.0.2.2]; " +
				"b: a bridge of the cluster: false, its link in it: false, want true",
				func() { f.clusters.deployed = true }},
			{"a process that does not run", "a runs [], want one process: true; b runs [], want one process: true; " +
				"c runs [], want one process: true", func() { f.clusters.deployed, f.clusters.process = false, true }},
			{"a process that is not to run", "c runs [x], want one process: false", func() {
				f.clusters.process = false
				_ = f.members[2].execs.Make(f.ctx, netstate.Executor{ID: "x"})
			}},
		} {
			c.change()
			if got := strings.Join(f.wrongInClusters(), "; "); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
		for _, m := range f.members {
			m.leave()
		}
	})
}
