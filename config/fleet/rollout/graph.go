package rollout

import (
	"slices"

	"edgespan/config/fleet/topology"
)

// graph is the input of a plan: sites with nodes that are online, and the links between them. Sites are numbered in the
// order of their names.
type graph struct {
	sites   []string
	pending [][]string // names of the pending nodes of each site that are online
	pop     []bool
	pops    []int
	next    [][]int // neighbours, in order, each once
	above   []int   // the nearest site that cuts this one off; root for none, unseen if cut off already
	order   []int   // the reachable sites, each after the one above it
}

const (
	unseen = -2
	root   = -1 // parent of all points of presence
)

func newGraph(t *topology.Topology, desired map[string]bool, assumeAlive bool) *graph {
	g := &graph{}
	siteOf := make(map[string]string, len(t.Nodes)) // of nodes online
	for _, n := range t.Nodes {
		if n.Status != topology.Offline {
			siteOf[n.Name] = n.Site
			g.sites = append(g.sites, n.Site)
		}
	}
	slices.Sort(g.sites)
	g.sites = slices.Compact(g.sites)
	number := make(map[string]int, len(g.sites))
	for i, s := range g.sites {
		number[s] = i
	}
	n := len(g.sites)
	g.pending, g.pop, g.next = make([][]string, n), make([]bool, n), make([][]int, n)
	for _, node := range t.Nodes {
		if _, online := siteOf[node.Name]; !online {
			continue
		}
		i := number[node.Site]
		if desired[node.Name] {
			g.pending[i] = append(g.pending[i], node.Name)
		}
		g.pop[i] = g.pop[i] || node.Pop
	}
	for _, l := range t.Links {
		a, aOnline := siteOf[l.A]
		z, zOnline := siteOf[l.Z]
		if aOnline && zOnline && a != z && (l.Alive || assumeAlive) {
			i, j := number[a], number[z]
			g.next[i], g.next[j] = append(g.next[i], j), append(g.next[j], i)
		}
	}
	for i := range n {
		slices.Sort(g.next[i])
		g.next[i] = slices.Compact(g.next[i])
		if g.pop[i] {
			g.pops = append(g.pops, i)
		}
	}
	g.cut()
	return g
}

func (g *graph) isReached(i int) bool { return g.above[i] != unseen }

// cut finds for each site the nearest one that cuts it off, by one depth-first walk from a root that is linked to all
// points of presence (Tarjan's low points): a child whose subtree doesn't reach above its parent is behind its parent;
// any other one is behind the site that its parent is behind.
func (g *graph) cut() {
	n := len(g.sites)
	g.above = make([]int, n)
	parent, seen, low, at := make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	for i := range n {
		g.above[i] = unseen
	}
	count := 0
	enter := func(i, from int) {
		count++
		parent[i], seen[i], low[i] = from, count, count
		if g.pop[i] {
			low[i] = 0 // by the link to the root
		}
		g.order = append(g.order, i)
	}
	for _, start := range g.pops {
		if seen[start] != 0 {
			continue
		}
		enter(start, root)
		for i := start; i != root; {
			if at[i] == len(g.next[i]) {
				if up := parent[i]; up != root {
					low[up] = min(low[up], low[i])
				}
				i = parent[i]
				continue
			}
			j := g.next[i][at[i]]
			at[i]++
			switch {
			case seen[j] == 0:
				enter(j, i)
				i = j
			case j != parent[i]:
				low[i] = min(low[i], seen[j])
			}
		}
	}
	for _, i := range g.order {
		switch up := parent[i]; {
		case up == root || low[i] >= seen[up]:
			g.above[i] = up
		default:
			g.above[i] = g.above[up]
		}
	}
}
