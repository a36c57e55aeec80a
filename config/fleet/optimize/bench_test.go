package optimize

import (
	"fmt"
	"testing"

	"edgespan/config/fleet/topology"
)

// grid is a town of n×n sites, 150 m apart, each linked to its neighbours and some across a
// corner, by radios of their own.
func grid(n int) *topology.Topology {
	t := &topology.Topology{}
	site := func(x, y int) string { return fmt.Sprintf("%03d-%03d", x, y) }
	link := func(x, y, u, v int) {
		if u < n && v < n {
			i := len(t.Links)
			t.Links = append(t.Links, topology.Link{
				Name: fmt.Sprintf("l%06d", i), A: site(x, y), Z: site(u, v), AMAC: mac(i, 0), ZMAC: mac(i, 1),
				Type: topology.Wireless,
			})
		}
	}
	for x := range n {
		for y := range n {
			t.Sites = append(t.Sites, topology.Site{Name: site(x, y),
				Located: true, Latitude: float64(x) * 1.35e-3, Longitude: float64(y) * 1.35e-3})
			t.Nodes = append(t.Nodes, topology.Node{Name: site(x, y), Site: site(x, y), Type: topology.DN})
			link(x, y, x+1, y)
			link(x, y, x, y+1)
			if x%7 == 3 && y%5 == 2 {
				link(x, y, x+1, y+1)
			}
		}
	}
	return t
}

// BenchmarkTown assigns everything in a town of 1,600 sites and over 3,000 links: more than
// an exact cover takes, so it is the worst case too.
func BenchmarkTown(b *testing.B) {
	in := Input{Topology: grid(40), Channels: []int64{1, 2}}
	for b.Loop() {
		must(b, in, All...)
	}
}

// The heuristic finds what can be counted here: each link across a corner makes two
// triangles, and one site of their common side solves both.
func TestATownOfTriangles(t *testing.T) {
	in := Input{Topology: grid(22)}
	out := must(t, in, Polarity)
	now := after(in, out)
	seen := map[string]int64{}
	for _, r := range newNetwork(in.Topology).radios {
		seen[r.node] |= effective(now, r.node, r.mac, polarity)
	}
	hybrids, triangles := 0, 0
	for _, p := range seen {
		if p == 3 {
			hybrids++
		}
	}
	for _, l := range in.Topology.Links {
		if l.A[:3] != l.Z[:3] && l.A[4:] != l.Z[4:] {
			triangles++
		}
	}
	if hybrids != triangles || triangles == 0 {
		t.Errorf("%d hybrid sites for %d links across corners", hybrids, triangles)
	}
	if again := must(t, now, Polarity); len(again.Changes) > 0 {
		t.Errorf("again: %d changes", len(again.Changes))
	}
}
