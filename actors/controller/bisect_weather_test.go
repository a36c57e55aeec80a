package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/kv"
)

// tests waits until the node runs another config than that.
func (r *rig) tests(n *fakeNode, head string) {
	r.Helper()
	for range 600 {
		r.pass(time.Second)
		if _, md5 := n.got(); md5 != head {
			return
		}
	}
	r.Fatalf("%s tests nothing", n.name)
}

// finds waits for the end of the search, which must name a revision as the first bad one.
func (r *rig) finds(c *Controller, within time.Duration, first uint64) {
	r.Helper()
	if b := r.searched(c, within); b.State != bisect.Found || b.First != first {
		r.Errorf("%+v\n%s", b, strings.Join(steps(b), "\n"))
	}
}

// A search whose test came to nothing can be repeated: the node is asked again at once.
func TestASearchCanBeRepeated(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "pop")
		r.node(c, "other")
		numbers := r.sixteen(c, 5)
		n.set(func() { n.sick = "SICK" })
		r.pass(time.Minute)
		_, head := n.got()
		q := bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[15], TimeoutS: 20, SettleS: 5}
		n.tap = func(*Controller, nodeproto.Push) { n.untidy = true }
		r.bisect(c, q)
		if b := r.searched(c, 10*time.Minute); b.State != bisect.Failed {
			t.Errorf("%+v\n%s", b, strings.Join(steps(b), "\n"))
		}
		n.set(func() { n.tap, n.untidy = nil, false })
		r.unchanged(c, n, head)
		r.bisect(c, q)
		r.finds(c, 10*time.Minute, numbers[5])
		r.unchanged(c, n, head)
	})
}

// A canary that is renamed takes its test along; a node that gets its name gets nothing of it.
func TestARenamedCanaryTakesItsTestAlong(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.write(c, ops.SetTopology{Document: r.doc(`{"sites":[{"name":"s","location":{"latitude":1,"longitude":1,
			"altitude":1,"accuracy":1}}],"nodes":[{"name":"pop","mac_addr":"02:00:00:00:00:01","node_type":2,"site_name":"s",
			"pop_node":true}]}`)})
		n := r.node(c, "pop")
		r.node(c, "other")
		numbers := r.sixteen(c, 5)
		n.set(func() { n.sick = "SICK" })
		r.pass(time.Minute)
		r.bisect(c, bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[15]})
		_, head := n.got()
		r.tests(n, head)
		r.write(c, ops.EditTopology{Object: "node", Op: "rename", Name: "pop", To: "pop2"})
		r.pass(5 * time.Second)
		m := r.node(c, "pop")
		r.pass(10 * time.Second)
		r.wants(c, "pop", "InSync")
		if pushes, _ := m.got(); pushes != 1 {
			t.Errorf("the node with the canary's old name got %d pushes", pushes)
		}
		all, _ := c.Bisects(r.Context())
		if all[0].Node != "pop2" {
			t.Errorf("%+v", all)
		}
		b := r.searched(c, 20*time.Minute)
		if b.State != bisect.Found || b.First != numbers[5] {
			t.Errorf("%+v\n%s", b, strings.Join(steps(b), "\n"))
		}
		r.pass(time.Minute)
		r.wants(c, "pop2", "InSync")
		r.wants(c, "pop", "InSync")
	})
}

// A search ends when its node is set unmanaged: nothing more is pushed.
func TestANodeThatIsNoLongerManagedIsNotTested(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "pop")
		r.node(c, "other")
		numbers := r.sixteen(c, 5)
		n.set(func() { n.sick = "SICK" })
		r.pass(time.Minute)
		_, head := n.got()
		r.bisect(c, bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[15]})
		r.tests(n, head)
		r.write(c, ops.SetNodes{Overrides: r.doc(`{"pop":{"sysParams":{"managedConfig":false}}}`), Modify: true})
		before, _ := n.got()
		b := r.searched(c, 20*time.Minute)
		if after, _ := n.got(); after != before || b.State != bisect.Failed {
			t.Errorf("%d pushes: %+v\n%s", after-before, b, strings.Join(steps(b), "\n"))
		}
		r.unchanged(c, n, head)
	})
}

// With staged rollouts a change during a search reaches the canary after it.
func TestAChangeDuringASearchReachesTheCanaryAfterIt(t *testing.T) {
	onRig(t, func(r *rig) {
		r.change = func(o *Options) {
			o.Flags = map[string]string{"config_staged_rollout_enabled": "true"}
		}
		c := r.start("a")
		n := r.node(c, "pop")
		other := r.node(c, "other")
		numbers := r.sixteen(c, 5)
		r.pass(10 * time.Minute)
		n.set(func() { n.sick = "SICK" })
		r.wants(c, "pop", "InSync")
		_, head := n.got()
		r.bisect(c, bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[15]})
		r.tests(n, head)
		r.network(c, `{"envParams":{"N":"new"}}`)
		b := r.searched(c, 20*time.Minute)
		if b.State != bisect.Found || b.First != numbers[5] {
			t.Errorf("%+v\n%s", b, strings.Join(steps(b), "\n"))
		}
		r.pass(20 * time.Minute)
		r.wants(c, "pop", "InSync")
		r.wants(c, "other", "InSync")
		for _, x := range []*fakeNode{n, other} {
			if !contains(x.doc, `"new"`) || x.pending != nil {
				t.Errorf("%s has %s, %+v", x.name, x.doc, x.pending)
			}
		}
	})
}

// A prune keeps the revisions of a search, but not for a canary that never comes back.
func TestASearchKeepsItsRevisionsWhileItTests(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "pop")
		r.node(c, "other")
		numbers := r.sixteen(c, 5)
		for range 3 {
			r.sixteen(c, 5) // more than a prune keeps anyway
		}
		n.set(func() { n.sick = "SICK" })
		r.pass(time.Minute)
		_, head := n.got()
		kept := func() uint64 {
			r.Helper()
			p, err := c.PruneHistory(r.Context(), alice, time.Now().Add(time.Hour), true)
			if err != nil {
				t.Fatal(err)
			}
			return p.From
		}
		if before := kept(); before <= numbers[15] {
			t.Fatalf("without a search a prune keeps revision %d", before)
		}
		r.bisect(c, bisect.Request{Nodes: []string{"pop"}, Good: numbers[1], Bad: numbers[15]})
		r.tests(n, head)
		if from := kept(); from != numbers[1] {
			t.Errorf("during a search from %d a prune keeps revision %d", numbers[1], from)
		}
		n.cut()
		r.pass(10 * time.Minute)
		if all, err := c.Bisects(r.Context()); err != nil || all[0].State != bisect.Undoing {
			t.Errorf("%+v, %v", all, err)
		}
		if from := kept(); from <= numbers[15] {
			t.Errorf("after the tests a prune keeps revision %d", from)
		}
	})
}

// A search over many revisions ends as one over few does, though its record is large.
func TestASearchOverManyRevisions(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "pop")
		var numbers []uint64
		for i := range 900 {
			ill := ""
			if i >= 300 {
				ill = `,"SICK":"1"`
			}
			w := r.write(c, ops.SetNetwork{Overrides: r.doc(fmt.Sprintf(`{"envParams":{"N":"%d"%s}}`, i, ill))})
			numbers = append(numbers, w.Revision)
		}
		n.set(func() { n.sick = "SICK" })
		r.pass(10 * time.Minute)
		_, head := n.got()
		at := time.Now()
		r.bisect(c, bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[899]})
		b := r.searched(c, 2*time.Hour)
		page, _ := r.store.List(r.Context(), history.InBisects, kv.ListOptions{})
		t.Logf("%v, %d pushes, %d bytes", time.Since(at), b.Pushes, len(page.Entries[0].Value))
		if b.State != bisect.Found || b.First != numbers[300] || time.Since(at) > 10*time.Minute {
			t.Errorf("%v: %s %s %d\n%s", time.Since(at), b.State, b.Why, b.First, strings.Join(steps(b), "\n"))
		}
		r.unchanged(c, n, head)
	})
}

// unreadable is a store that can't be read for a while.
type unreadable struct {
	*memory
	fails atomic.Bool
}

func (u *unreadable) Get(ctx context.Context, k kv.Key) (kv.Entry, kv.Revision, error) {
	if u.fails.Load() {
		return kv.Entry{}, 0, errors.New("unreadable")
	}
	return u.memory.Get(ctx, k)
}

func (u *unreadable) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	if u.fails.Load() && !t.Writes() {
		return kv.TxnResult{}, errors.New("unreadable")
	}
	return u.memory.Commit(ctx, t)
}

// A store that can't be read for some seconds costs a test nothing but time.
func TestATestWaitsForLayersThatCanNotBeRead(t *testing.T) {
	onRig(t, func(r *rig) {
		store := &unreadable{memory: r.store}
		r.change = func(o *Options) { o.Store = store }
		c := r.start("a")
		n := r.node(c, "pop")
		r.node(c, "other")
		numbers := r.sixteen(c, 5)
		n.set(func() { n.sick = "SICK" })
		r.pass(time.Minute)
		_, head := n.got()
		r.bisect(c, bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[15]})
		store.fails.Store(true)
		r.pass(20 * time.Second)
		if _, md5 := n.got(); md5 != head {
			t.Error("the store could be read")
		}
		store.fails.Store(false)
		r.finds(c, 20*time.Minute, numbers[5])
		r.unchanged(c, n, head)
	})
}

// A damaged record of a search harms nothing else, and the next search replaces it.
func TestADamagedSearchIsReplaced(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "pop")
		other := r.node(c, "other")
		numbers := r.sixteen(c, 5)
		n.set(func() { n.sick = "SICK" })
		r.pass(time.Minute)
		for id, text := range map[string]string{n.id: `{"phase":"testing","lo":0,"hi":0,"test":{"index":7}}`, other.id: `{`} {
			if _, err := r.store.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put(history.BisectKey(id), []byte(text))}}); err != nil {
				t.Fatal(err)
			}
		}
		r.pass(time.Minute)
		if all, err := c.Bisects(r.Context()); err != nil || len(all) != 0 {
			t.Errorf("%+v, %v", all, err)
		}
		if _, err := c.PruneHistory(r.Context(), alice, time.Now().Add(time.Hour), true); err != nil {
			t.Error(err)
		}
		r.bisect(c, bisect.Request{Nodes: []string{"pop"}, Good: numbers[0], Bad: numbers[15]})
		r.finds(c, 20*time.Minute, numbers[5])
	})
}
