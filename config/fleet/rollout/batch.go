package rollout

import (
	"cmp"
	"slices"
)

// planner finds the batches of one graph.
//
// A pending site that no pending site cuts off forms a unit with all pending sites behind it. Sites behind a unit are
// left out of the walk, so the remaining graph stays connected when any one unit is gone. For each batch a tree grows
// from the points of presence until it spans the remaining graph; all leaves of a spanning tree can go at once, because
// every site, leaves included, is connected to inner ones that remain. So the tree grows from sites that need no push
// or had it; a pending site becomes an inner one only if necessary, the one with most new neighbours first: fewer inner
// sites, larger batches.
type planner struct {
	*graph
	unit    []int     // by site: its unit, or none
	members [][]int   // by unit: its pending sites
	near    [][]int32 // by site: its neighbours that are behind no unit
	left    []bool    // by unit: in no batch yet
	rest    int       // number of units left that are no point of presence

	covered []bool  // by site: in the tree
	inner   []bool  // by site: an inner one
	bucket  [][]int // candidates for inner sites, by the number of new neighbours they had
	best    int     // all buckets above are empty
}

const none = -1

func newPlanner(g *graph) *planner {
	n := len(g.sites)
	p := &planner{
		graph: g, unit: make([]int, n), members: make([][]int, n), left: make([]bool, n),
		near: make([][]int32, n), covered: make([]bool, n), inner: make([]bool, n),
	}
	limit := 0
	for i := range n {
		p.unit[i] = none
		limit = max(limit, len(g.next[i]))
	}
	p.bucket = make([][]int, limit+1)
	for _, i := range g.order {
		up := g.above[i]
		switch {
		case up != root && p.unit[up] != none:
			p.unit[i] = p.unit[up]
		case len(g.pending[i]) > 0:
			p.unit[i], p.left[i] = i, true
			if !g.pop[i] {
				p.rest++
			}
		}
		if u := p.unit[i]; u != none {
			p.members[u] = append(p.members[u], i)
		}
	}
	for i, next := range g.next {
		for _, j := range next {
			if u := p.unit[j]; u == none || u == j {
				p.near[i] = append(p.near[i], int32(j))
			}
		}
	}
	return p
}

// batches returns the first batches, at most maximum, in order.
func (p *planner) batches(o Options, maximum int) [][]string {
	out := [][]string{}
	var pops []int // the units left with one
	for _, i := range p.pops {
		if p.left[i] {
			pops = append(pops, i)
		}
	}
	for p.rest > 0 || len(pops) > 0 {
		pop := none
		if len(pops) > 0 {
			pop, pops = pops[0], pops[1:]
		}
		units := p.chooseUnits(pop)
		for _, u := range units {
			p.left[u] = false
			if !p.pop[u] {
				p.rest--
			}
		}
		for len(units) > 0 {
			limit := o.Limit
			if len(out) == 0 {
				limit = tighterLimit(o.First, o.Limit)
			}
			var names []string
			names, units = p.pack(units, limit)
			if out = append(out, names); len(out) == maximum {
				return out
			}
		}
	}
	return out
}

// pack fills one batch of at most limit nodes from units, and returns the units that did not fit. If none fits, the
// smallest goes alone.
func (p *planner) pack(units []int, limit int) (names []string, rest []int) {
	smallest := slices.MinFunc(units, func(a, b int) int { return p.size(a) - p.size(b) })
	for _, u := range units {
		full := limit > 0 && len(names)+p.size(u) > limit
		if full && (u != smallest || len(names) > 0) {
			rest = append(rest, u)
			continue
		}
		for _, i := range p.members[u] {
			names = append(names, p.pending[i]...)
		}
	}
	slices.Sort(names)
	return names, rest
}

// tighterLimit returns the smaller of two limits; 0 is none.
func tighterLimit(a, b int) int { return cmp.Or(min(a, b), max(a, b)) }

// size returns how many nodes a unit has.
func (p *planner) size(u int) int {
	n := 0
	for _, i := range p.members[u] {
		n += len(p.pending[i])
	}
	return n
}

// chooseUnits returns units that can go together; pop, if any, is among them, and the only point of presence: all other
// points of presence are inner sites.
func (p *planner) chooseUnits(pop int) []int {
	clear(p.covered)
	clear(p.inner)
	p.best = 0
	var free []int
	for _, i := range p.pops {
		p.covered[i] = true
		if i != pop {
			free = append(free, i)
		}
	}
	for {
		for len(free) > 0 {
			i := free[len(free)-1]
			free = p.grow(i, pop, free[:len(free)-1])
		}
		i := p.candidate()
		if i == none {
			break
		}
		free = p.grow(i, pop, free)
	}
	var out []int
	for u, left := range p.left {
		if left && !p.inner[u] {
			out = append(out, u)
		}
	}
	return out
}

// grow makes site i an inner one: its neighbours join the tree. Those that may become inner ones at no cost are added
// to free, the others wait in a bucket.
func (p *planner) grow(i, pop int, free []int) []int {
	p.inner[i] = true
	for _, near := range p.near[i] {
		j := int(near)
		if p.covered[j] {
			continue
		}
		p.covered[j] = true
		switch {
		case !p.left[j]:
			free = append(free, j)
		case j != pop:
			p.enqueue(j, p.newNeighbours(j))
		}
	}
	return free
}

// candidate returns the pending site of the tree with most new neighbours, none if all sites are in the tree.
func (p *planner) candidate() int {
	for ; p.best != 0; p.best-- {
		for b := p.bucket[p.best]; len(b) > 0; b = p.bucket[p.best] {
			i := b[len(b)-1]
			p.bucket[p.best] = b[:len(b)-1]
			gain := p.newNeighbours(i)
			if gain == p.best {
				return i
			}
			p.enqueue(i, gain) // fewer than before: neighbours have joined meanwhile
		}
	}
	return none
}

func (p *planner) enqueue(i, gain int) {
	if gain != 0 {
		p.bucket[gain] = append(p.bucket[gain], i)
		p.best = max(p.best, gain)
	}
}

// newNeighbours returns how many neighbours of i are not in the tree yet.
func (p *planner) newNeighbours(i int) int {
	n := 0
	for _, j := range p.near[i] {
		if !p.covered[j] {
			n++
		}
	}
	return n
}
