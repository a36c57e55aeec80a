package controller

import (
	"fmt"
	"strings"
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
		if b := r.searched(c, 10*time.Minute); b.State != bisect.Found || b.First != numbers[5] {
			t.Errorf("%+v\n%s", b, strings.Join(steps(b), "\n"))
		}
		r.unchanged(c, n, head)
	})
}

// Whoever sets the node unmanaged during a search ends it: nothing more is pushed.
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
