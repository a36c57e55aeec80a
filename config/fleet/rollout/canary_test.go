package rollout

import (
	"slices"
	"testing"

	"edgespan/config/fleet/topology"
)

// The canary of sites of two nodes each, p the point of presence: b-a hangs on p, and c and d are
// in a ring with it.
func TestTheCanaryIsBehindNobodyWhoComesLater(t *testing.T) {
	net := &topology.Topology{}
	for _, site := range []string{"p", "a", "b", "c", "d"} {
		for _, n := range []string{"1", "2"} {
			net.Nodes = append(net.Nodes, topology.Node{Name: site + n, Site: site, Pop: site == "p", Status: topology.Online})
		}
	}
	for _, l := range []string{"pb", "ba", "pc", "cd", "dp"} {
		net.Links = append(net.Links, topology.Link{A: l[:1] + "1", Z: l[1:] + "1", Alive: true})
	}
	for _, test := range []struct {
		what    string
		pending []string
		limit   int
		want    []string
	}{
		{"a cuts off nobody and has no other turn", []string{"a1", "a2", "c1", "c2"}, 1, []string{"a1"}},
		{"a goes down again with b", []string{"a1", "a2", "b1", "b2", "c1", "c2", "d1"}, 1, []string{"c1"}},
		{"… and with p, as all do", []string{"p1", "a1", "a2", "c1", "c2"}, 2, []string{"a1", "a2"}},
		{"only b is there beside a, and would cut it off", []string{"a1", "a2", "b1", "b2"}, 1, []string{"a1"}},
		{"one site alone", []string{"p1", "p2"}, 1, []string{"p1"}},
	} {
		for range 2 {
			if got := chooseCanary(test.limit, net, test.pending, false); !slices.Equal(got, test.want) {
				t.Errorf("%s: %v, want %v", test.what, got, test.want)
			}
			slices.Reverse(test.pending)
		}
	}
}
