package rollout

import (
	"math"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

// Options configure the planning of a rollout. The zero value plans over the links that are alive, in batches of any
// size.
type Options struct {
	AssumeAlive bool `json:"assumeAlive,omitempty"` // plan as if all links were up; OFFLINE nodes stay offline
	Limit       int  `json:"limit,omitempty"`       // maximum nodes of one batch; 0 for any number
	First       int  `json:"first,omitempty"`       // the same for the first batch, the canary
}

// Result is a plan: the nodes of each batch, sorted, and those in no batch.
type Result struct {
	Batches     [][]string    `json:"batches"`
	Unreachable []Unreachable `json:"unreachable"`
}

// Unreachable is a node that no batch can reach, with the reason.
type Unreachable struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

// The reasons for being in no batch.
const (
	reasonOffline = "it is offline"
	reasonNoPop   = "no point of presence is online"
	reasonNoPath  = "its site has no path to a point of presence"
	reasonUnknown = "it is not in the topology"
)

// Plan puts the pending nodes into batches that go down one after the other. A pending name that is no node of the
// topology is a fault.
//
// Sites go down as a whole. A site is cut off if no path of sites and links leads from it to a point of presence; site
// x is behind site y if losing y alone cuts x off; and two sites back each other up if losing both cuts off a site that
// is behind neither. The rules of a batch B:
//
//  1. If all of B except site z itself is down, z is cut off only if it is behind one site of B. This holds for every
//     z, in B or not. So a site outside of B loses its last path only if it does so whenever that one site goes down,
//     in any plan; and two sites of B back each other up only if both are behind a third one of B.
//  2. A site goes in one batch with every pending site behind it.
//  3. At most one site of B has a point of presence.
//
// Each pending node that is reachable is in exactly one batch. The plan depends only on names, not on the order of the
// file. A batch larger than the limit is split, except for a single site with the sites behind it, so a batch may
// exceed the limit.
func Plan(t *topology.Topology, pending []string, o Options) (Result, config.Faults) {
	return planCanary(math.MaxInt, t, pending, o)
}

// planCanary returns a plan of at most limit batches. A rollout needs one at a time and plans again before the next:
// planning all of them each time would cost the cube of their number.
func planCanary(limit int, t *topology.Topology, pending []string, o Options) (Result, config.Faults) {
	var faults config.Faults
	known := make(map[string]topology.Node, len(t.Nodes))
	for _, n := range t.Nodes {
		known[n.Name] = n
	}
	desired := make(map[string]bool, len(pending))
	for _, name := range pending {
		if _, there := known[name]; !there && !desired[name] {
			faults.Add([]string{"pending"}, config.Invalid(name)+", which is not a node of the topology",
				"must be names of its nodes")
		}
		desired[name] = true
	}
	if faults != nil {
		faults.Sort()
		return Result{}, faults
	}
	g := newGraph(t, desired, o.AssumeAlive)
	return Result{Batches: newPlanner(g).batches(o, limit), Unreachable: findUnreachable(g, known, desired)}, nil
}

// findUnreachable returns the pending nodes that are offline or cut off, by name.
func findUnreachable(g *graph, known map[string]topology.Node, desired map[string]bool) []Unreachable {
	out := []Unreachable{}
	for name := range desired {
		n := known[name]
		switch i, there := slices.BinarySearch(g.sites, n.Site); {
		case n.Status == topology.Offline:
			out = append(out, Unreachable{name, reasonOffline})
		case len(g.pops) == 0:
			out = append(out, Unreachable{name, reasonNoPop})
		case !there || !g.isReached(i):
			out = append(out, Unreachable{name, reasonNoPath})
		}
	}
	slices.SortFunc(out, byNode)
	return out
}

func byNode(a, b Unreachable) int { return strings.Compare(a.Node, b.Node) }
