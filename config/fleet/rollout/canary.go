package rollout

import (
	"slices"

	"edgespan/config/fleet/topology"
)

// first is the canary of a change: at most so many nodes of the one site that cuts off the
// fewest others when it goes alone. The law of plans would take all that is behind a site with
// it, which is the whole network where its only point of presence is to be pushed: a bad config
// would be everywhere with the first batch. Of several such sites it is the first by name that is
// behind no pending one: others go down once more, with the site that they are behind. Of a site with
// more nodes the canary may lose its path when the rest of them goes: a canary as large as a site
// does not.
func first(limit int, t *topology.Topology, pending []string, assumeAlive bool) []string {
	desired := make(map[string]bool, len(pending))
	for _, name := range pending {
		desired[name] = true
	}
	g := newGraph(t, desired, assumeAlive)
	cuts := make([]int, len(g.sites)) // by site: how many others it cuts off
	for _, i := range slices.Backward(g.order) {
		if g.above[i] != root {
			cuts[g.above[i]] += cuts[i] + 1
		}
	}
	behind := func(i int) bool { // a pending site
		for i = g.above[i]; i != root && len(g.pending[i]) == 0; {
			i = g.above[i]
		}
		return i != root
	}
	best := none
	for i := range g.sites {
		if !g.reached(i) || len(g.pending[i]) == 0 {
			continue
		}
		if best == none || cuts[i] < cuts[best] || cuts[i] == cuts[best] && behind(best) && !behind(i) {
			best = i
		}
	}
	if best == none {
		return nil
	}
	return g.pending[best][:min(limit, len(g.pending[best]))]
}
