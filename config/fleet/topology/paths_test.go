package topology

import (
	"slices"
	"testing"
)

// In the original's figure 0 B is the point of presence, and the sites are a ring B-C-D-A.
func TestWhoReachesAPointOfPresence(t *testing.T) {
	got, faults := Parse(real(t)["topology_figure0.conf"])
	if faults != nil {
		t.Fatal(faults)
	}
	w := got.NewPaths()
	if w.Sites() != 4 {
		t.Fatalf("%d sites", w.Sites())
	}
	for _, c := range []struct{ down, lost []string }{
		{nil, nil},
		{[]string{"A"}, []string{"A"}},
		{[]string{"A", "C"}, []string{"A", "C", "D"}},
		{[]string{"B"}, []string{"A", "B", "C", "D"}},
	} {
		reached := w.Reached(func(i int) bool { return slices.Contains(c.down, got.Nodes[i].Site) })
		for i, n := range got.Nodes {
			if reached[i] == slices.Contains(c.lost, n.Site) {
				t.Errorf("%v down: %s of %s is reached: %t", c.down, n.Name, n.Site, reached[i])
			}
		}
	}
	// One node of a site is not the site: its mate is reached over it, or over the other side.
	reached := w.Reached(func(i int) bool { return got.Nodes[i].Name == "node-14" })
	for i, n := range got.Nodes {
		if reached[i] != (n.Name != "node-14") {
			t.Errorf("node-14 down: %s is reached: %t", n.Name, reached[i])
		}
	}
	if s := w.Site(0); !slices.Contains(w.onSite[s], 0) || len(w.onSite[s]) != 2 {
		t.Errorf("site %d of the first node has %v", s, w.onSite[s])
	}
}
