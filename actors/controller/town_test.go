package controller

import (
	"fmt"

	"edgespan/config/fleet/topology"
	"edgespan/config/fleet/topology/sketch"
)

// siteNodes is the maximum number of nodes of a site. A canary of this size is a complete site: it has no second turn
// in which one of its nodes could lose its last path.
const siteNodes = 3

// town is a network of the seed's kind: sites of two or three distribution nodes on a grid, a point of presence for
// each 250 nodes, and one client in five nodes, behind a single distribution node.
type town struct {
	names    []string
	ids      []string // UUIDs
	topology *topology.Topology
	ways     *topology.Paths
}

func newTown(nodes int) *town {
	t := &town{}
	for i := range nodes {
		t.names = append(t.names, fmt.Sprintf("n%05d", i))
		t.ids = append(t.ids, fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
	}
	t.topology = sketch.SketchPlan{Kind: sketch.Grid, PerPop: 250}.Make(t.names, 1)
	t.ways = t.topology.NewPaths()
	number := map[string]int{}
	for i, name := range t.names {
		number[name] = i
	}
	for i, n := range t.topology.Nodes {
		if number[n.Name] != i {
			panic("a sketch has its nodes in another order than their names")
		}
	}
	return t
}

// cutOff returns the nodes without a path to a point of presence while others are down, not counting those that are
// down themselves.
func (t *town) cutOff(down []bool) []int {
	var out []int
	for i, up := range t.ways.Reached(func(i int) bool { return down[i] }) {
		if !up && !down[i] {
			out = append(out, i)
		}
	}
	return out
}
