package rollout

import (
	"slices"

	"edgespan/config/fleet/topology"
)

// chooseCanary returns the canary of a change: at most limit nodes of the one site that cuts off the fewest others when
// it goes alone. The rules of plans would include everything behind a site, which is the whole network if its only
// point of presence is pending: a bad config would be everywhere with the first batch. Among equal sites it is the
// first by name that is behind no pending site: a site behind one would go down again with it. If the site has more
// nodes than the limit, the canary may lose its path when the others go; a canary as large as a site does not.
func chooseCanary(limit int, t *topology.Topology, pending []string, assumeAlive bool) []string {
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
	behind := func(i int) bool { // behind a pending site
		for i = g.above[i]; i != root && len(g.pending[i]) == 0; {
			i = g.above[i]
		}
		return i != root
	}
	best := none
	for i := range g.sites {
		if !g.isReached(i) || len(g.pending[i]) == 0 {
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
