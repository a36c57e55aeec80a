package simulate

import (
	"fmt"
	"slices"
	"sync"

	"edgespan/config/fleet/topology"
)

// Paths is what happened to nodes' paths to points of presence while others applied configs.
type Paths struct {
	Looks  int      `json:"looks"`  // how often a site went down
	Broken int      `json:"broken"` // nodes without a path because of sites that need not have been down together
	Named  []Broken `json:"named"`  // some of them, the first ones
	// nodes cut off by a single site that was down: no plan avoids that
	Behind int `json:"behind"`
}

// Broken is a node that lost its last path, and some of the nodes that were applying a config then.
type Broken struct {
	Node string   `json:"node"`
	By   []string `json:"by"`
}

// paths tracks which nodes have a path to a point of presence. A site is down while one of its nodes applies a config,
// as in plans of rollouts. Lost nodes are those without links because of a fault, for which no plan is to blame.
type paths struct {
	names []string // in the fleet's order
	ways  *topology.Paths
	order []int // by node of the fleet: its number in the topology
	back  []int // the inverse of order

	mu       sync.Mutex
	watching bool
	taking   []bool // by number in the topology
	sites    []int  // how many nodes of a site are taking
	lost     []bool
	alone    map[int][]int // by site: the nodes that it alone cuts off, given lost
	linked   []bool        // nodes with a path while no node applies a config, given lost
	out      Paths
	broken   map[int]bool
	behind   map[int]bool
}

func newPaths(names []string, t *topology.Topology) (*paths, error) {
	p := &paths{names: names, order: make([]int, len(names)), back: make([]int, len(names))}
	p.taking, p.lost = make([]bool, len(names)), make([]bool, len(names))
	p.broken, p.behind, p.alone = map[int]bool{}, map[int]bool{}, map[int][]int{}
	p.out.Named = []Broken{}
	if t == nil {
		for i := range names {
			p.order[i], p.back[i] = i, i
		}
		return p, nil
	}
	if len(t.Nodes) != len(names) {
		return nil, fmt.Errorf("simulate: a topology of %d nodes for %d names", len(t.Nodes), len(names))
	}
	by := make(map[string]int, len(names))
	for i, n := range t.Nodes {
		by[n.Name] = i
	}
	for i, name := range names {
		at, has := by[name]
		if !has {
			return nil, fmt.Errorf("simulate: %s: not in the topology", name)
		}
		p.order[i], p.back[at] = at, i
	}
	p.ways = t.NewPaths()
	p.sites = make([]int, p.ways.Sites())
	p.linked = p.ways.Reached(p.isLost)
	return p, nil
}

func (p *paths) isLost(at int) bool { return p.lost[at] }

func (p *paths) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching = true
}

func (p *paths) observed() Paths {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.out
	out.Broken, out.Behind, out.Named = len(p.broken), len(p.behind), slices.Clone(p.out.Named)
	return out
}

// takeDown marks a node as down, and checks which nodes are cut off.
func (p *paths) takeDown(node int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.order[node]
	if p.taking[at] || p.ways == nil {
		return
	}
	p.taking[at] = true
	s := p.ways.Site(at)
	p.sites[s]++
	if p.sites[s] == 1 && p.watching {
		p.check()
	}
}

// done marks a node as up.
func (p *paths) done(node int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.order[node]; p.taking[at] {
		p.taking[at] = false
		p.sites[p.ways.Site(at)]--
	}
}

// check records which nodes lost their last path, and whether one site alone is the cause: that is unavoidable, as each
// site has its turn at some time.
func (p *paths) check() {
	p.out.Looks++
	down := func(at int) bool { return p.lost[at] || p.sites[p.ways.Site(at)] > 0 }
	var cut []int
	for at, up := range p.ways.Reached(down) {
		if !up && !down(at) && p.linked[at] {
			cut = append(cut, at)
		}
	}
	if len(cut) == 0 {
		return
	}
	excused := make([]bool, len(p.names))
	for s, n := range p.sites {
		if n > 0 {
			for _, at := range p.cutOffBy(s) {
				excused[at] = true
			}
		}
	}
	for _, at := range cut {
		if excused[at] {
			p.behind[at] = true
			continue
		}
		if !p.broken[at] && len(p.out.Named) < someNames {
			p.out.Named = append(p.out.Named, Broken{p.names[p.back[at]], p.nodesToTake()})
		}
		p.broken[at] = true
	}
}

// cutOffBy returns the nodes that have no path without a site.
func (p *paths) cutOffBy(site int) []int {
	if list, known := p.alone[site]; known {
		return list
	}
	list := []int{}
	for at, up := range p.ways.Reached(func(at int) bool { return p.lost[at] || p.ways.Site(at) == site }) {
		if !up && p.linked[at] {
			list = append(list, at)
		}
	}
	p.alone[site] = list
	return list
}

func (p *paths) nodesToTake() []string {
	var out []string
	for at, ok := range p.taking {
		if ok && len(out) < someNames {
			out = append(out, p.names[p.back[at]])
		}
	}
	return out
}

// takeLinks cuts a node's links, and returns which nodes of the fleet have a path.
func (p *paths) takeLinks(node int) []bool { return p.setLost(node, true) }

// restoreLinks restores them.
func (p *paths) restoreLinks(node int) []bool { return p.setLost(node, false) }

func (p *paths) setLost(node int, lost bool) []bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost[p.order[node]] = lost
	out := make([]bool, len(p.names))
	if p.ways != nil {
		clear(p.alone)
		p.linked = p.ways.Reached(p.isLost)
	}
	for i := range out {
		at := p.order[i]
		out[i] = !p.lost[at] && (p.ways == nil || p.linked[at])
	}
	return out
}
