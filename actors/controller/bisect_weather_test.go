package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/kv"
)

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
