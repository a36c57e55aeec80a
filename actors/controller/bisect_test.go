package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// sixteen writes sixteen revisions of the network layer, and between them four of another node's: those from the given
// one on make nodes sick. It returns the number of each, by its place.
func (r *rig) sixteen(c *Controller, sick int) (numbers []uint64) {
	r.Helper()
	for i := range 16 {
		if i%4 == 3 {
			r.write(c, ops.SetNodes{Overrides: r.doc(fmt.Sprintf(`{"other":{"envParams":{"X":"%d"}}}`, i)), Modify: true})
		}
		ill := ""
		if i >= sick {
			ill = `,"SICK":"1"`
		}
		w := r.write(c, ops.SetNetwork{Overrides: r.doc(fmt.Sprintf(`{"envParams":{"N":"%d"%s}}`, i, ill))})
		numbers = append(numbers, w.Revision)
	}
	return numbers
}

// searched lets a search end, and returns it.
func (r *rig) searched(c *Controller, limit time.Duration) fleetapi.Bisect {
	r.Helper()
	for range int(limit / time.Second) {
		r.pass(time.Second)
		if all, err := c.Bisects(r.Context()); err == nil && len(all) == 1 && all[0].Ended != nil {
			return all[0]
		}
	}
	all, err := c.Bisects(r.Context())
	r.Fatalf("the search has not ended: %+v, %v", all, err)
	return fleetapi.Bisect{}
}

func (r *rig) bisect(c *Controller, q bisect.Request) fleetapi.Bisect {
	r.Helper()
	b, err := c.StartBisect(r.Context(), alice, q)
	if err != nil {
		r.Fatal(err)
	}
	return b
}

// unchanged fails the test unless the node has what it should have, confirmed.
func (r *rig) unchanged(c *Controller, n *fakeNode, md5 string) {
	r.Helper()
	r.pass(10 * time.Second)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.md5 != md5 || n.confirmed.md5 != md5 || n.pending != nil {
		r.Errorf("the canary is left with %s, confirmed %s, pending %v; want %s", n.md5, n.confirmed.md5, n.pending, md5)
	}
}

// set changes how the node behaves.
func (n *fakeNode) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func steps(b fleetapi.Bisect) (out []string) {
	for _, s := range b.Steps {
		out = append(out, fmt.Sprintf("%d %s by %s: %s", s.Revision, s.Verdict, s.By, s.Why))
	}
	return out
}

// Of sixteen revisions of the node's config the first bad one is found in six pushes, with staged rollouts or without:
// no rollout begins, and no other node gets anything.
func TestTheRevisionThatMadeANodeSickIsFound(t *testing.T) {
	for _, staged := range []bool{false, true} {
		t.Run(fmt.Sprint("staged ", staged), func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.change = func(o *Options) {
					o.Flags = map[string]string{"config_staged_rollout_enabled": fmt.Sprint(staged)}
				}
				c := r.start("a")
				n, other := r.node(c, "pop"), r.node(c, "other")
				numbers := r.sixteen(c, 9)
				r.pass(10 * time.Minute)
				n.set(func() { n.sick = "SICK" }) // as when its health goes bad later
				other.set(func() { other.sick = "SICK" })
				r.wants(c, "pop", "InSync")
				r.wants(c, "other", "InSync")
				_, head := n.got()
				before, _ := other.got()
				rollouts, err := c.Rollouts(r.Context())
				if err != nil {
					t.Fatal(err)
				}
				r.bisect(c, bisect.Request{Nodes: []string{"pop", "other"}, Good: numbers[0], Bad: numbers[15]})
				b := r.searched(c, 10*time.Minute)
				if b.State != bisect.Found || b.First != numbers[9] || b.LastGood != numbers[8] || b.Candidates != 15 ||
					b.Pushes > 6 || b.Canary != "its desired config" {
					t.Errorf("%+v\n%s", b, strings.Join(steps(b), "\n"))
				}
				r.unchanged(c, n, head)
				r.wants(c, "pop", "InSync")
				if after, _ := other.got(); after != before {
					t.Errorf("the other node got %d pushes", after-before)
				}
				if now, err := c.Rollouts(r.Context()); err != nil || len(now) != len(rollouts) || now[0].Nodes != rollouts[0].Nodes {
					t.Errorf("rollouts before %+v, after %+v, %v", rollouts, now, err)
				}
			})
		})
	}
}

// However the search ends, and if its replica goes away, the canary has what it had. Another replica continues the search.
func TestASearchSurvivesItsReplicaAndEndsOnRequest(t *testing.T) {
	onRig(t, func(r *rig) {
		c, d := r.start("a"), r.start("b")
		n := r.node(c, "pop")
		r.node(c, "other")
		numbers := r.sixteen(c, 5)
		n.set(func() { n.sick = "SICK" })
		r.pass(time.Minute)
		_, head := n.got()
		q := bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[15]}
		r.bisect(d, q)
		if _, err := c.StartBisect(r.Context(), alice, q); !errors.Is(err, fleetapi.ErrRefused) {
			t.Errorf("a second search on the node: %v", err)
		}
		r.pass(20 * time.Second)
		r.stop("a")
		r.pass(10 * time.Second)
		n.connect(d)
		if b := r.searched(d, 20*time.Minute); b.State != bisect.Found || b.First != numbers[5] || b.Pushes > 6 {
			t.Errorf("%+v\n%s", b, strings.Join(steps(b), "\n"))
		}
		r.unchanged(d, n, head)

		r.bisect(d, q)
		for testing := false; !testing; {
			r.pass(time.Second)
			_, md5 := n.got()
			testing = md5 != head
		}
		if err := d.AbortBisect(r.Context(), alice, "pop"); err != nil {
			t.Fatal(err)
		}
		if b := r.searched(d, time.Minute); b.State != bisect.Aborted || b.Why != "by alice" {
			t.Errorf("%+v", b)
		}
		r.unchanged(d, n, head)
		if err := d.AbortBisect(r.Context(), alice, "pop"); !errors.Is(err, fleetapi.ErrRefused) {
			t.Errorf("a second abort: %v", err)
		}
	})
}

// If every controller dies during a test, the node undoes it by itself.
func TestACanaryGoesBackWithoutAnyController(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "pop")
		r.node(c, "other")
		numbers := r.sixteen(c, 5)
		n.set(func() { n.sick = "SICK" })
		r.pass(time.Minute)
		_, head := n.got()
		r.bisect(c, bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[15], TimeoutS: 60})
		for testing := false; !testing; {
			r.pass(time.Second)
			_, md5 := n.got()
			testing = md5 != head
		}
		r.stop("a")
		r.pass(time.Minute)
		n.mu.Lock()
		n.undo(func(nodeproto.FromNode) {})
		n.mu.Unlock()
		r.unchanged(nil, n, head)
	})
}

// A node that undoes or rejects a config has judged it, also before the search: that config is not pushed again.
func TestWhatNodesUndidAndRejectedIsKnown(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "pop")
		r.node(c, "other")
		n.set(func() { n.unhealthy = "SICK" })
		numbers := r.sixteen(c, 12)
		r.pass(time.Minute)
		r.wants(c, "pop", "RolledBack")
		_, has := n.got()
		r.bisect(c, bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[15]})
		b := r.searched(c, 20*time.Minute)
		if b.State != bisect.Found || b.First != numbers[12] || b.Pushes > 3 || b.Canary != "the config from before" {
			t.Errorf("%+v\n%s", b, strings.Join(steps(b), "\n"))
		}
		r.unchanged(c, n, has)
	})
}

func TestARequestForASearchIsRefusedWithAllFaults(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "pop")
		r.node(c, "other")
		numbers := r.sixteen(c, 9)
		n.cut()
		synctest.Wait()
		_, err := c.StartBisect(r.Context(), alice, bisect.Request{Nodes: []string{"pop", "nope"}, Good: 90, Bad: 80,
			Health: strings.Repeat("x", 300), TimeoutS: 1, SettleS: 1})
		var refused *ops.Refused
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		for _, want := range []string{"nodes.nope: unknown node", "canary: pop can't test a config: it is Offline",
			"good: invalid value 90: must be older than the bad revision", "bad: invalid value 80", "health: ", "timeoutS: ",
			"settleS: "} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in\n%v", want, err)
			}
		}
		n.connect(c)
		r.pass(10 * time.Second)
		w := r.write(c, ops.SetNodes{Overrides: r.doc(`{"other":{"envParams":{"Y":"1"}}}`), Modify: true})
		_, err = c.StartBisect(r.Context(), alice, bisect.Request{Nodes: []string{"pop"}, Good: numbers[15], Bad: w.Revision})
		if err == nil || !strings.Contains(err.Error(), "changes the config of pop") {
			t.Errorf("without a change of the node: %v", err)
		}
	})
}
