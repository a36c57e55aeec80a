package optimize

import (
	"container/heap"
	"math"
	"slices"
)

// never is the cost of an impossible value.
const never = math.MaxInt64 / 4

// Limits on the entries of the tables of one problem: tooMany together, widest for one table. They exceed the needs of
// a planar network (tables over ten sites), and bound the time to about a second.
const (
	tooMany = 1 << 22
	widest  = 1 << 17
)

// problem is an odd cycle cover with its constraints: variables of few values, each value with a cost, and pairs of
// variables whose values must fit. The solution is the cheapest assignment.
//
// It is solved by eliminating one variable after another (Bertelè and Brioschi): a table holds the best value of a
// variable for each choice of the variables that it is paired with. The tables remain small if the network resembles a
// tree, as with the decomposition of the original.
type problem struct {
	cost [][]int64        // by variable and value
	give []int            // the value that fits with everything, -1 for none
	fits []map[int]fitter // by variable: its neighbours
}

// fitter reports whether values of two variables fit.
type fitter func(owned, theirs int) bool

func newProblem(n int) *problem {
	p := &problem{cost: make([][]int64, n), give: make([]int, n), fits: make([]map[int]fitter, n)}
	for i := range n {
		p.give[i], p.fits[i] = -1, map[int]fitter{}
	}
	return p
}

// pair adds a constraint on a and b. Several constraints on one pair all apply.
func (p *problem) pair(a, b int, fits fitter) {
	before := p.fits[a][b]
	both := func(owned, theirs int) bool { return fits(owned, theirs) && (before == nil || before(owned, theirs)) }
	p.fits[a][b] = both
	p.fits[b][a] = func(owned, theirs int) bool { return both(theirs, owned) }
}

// plan is the order of elimination. It depends on costs only as far as values are impossible.
type plan struct {
	order []int
	scope [][]int // by step: the remaining variables in the step's table
	given []int   // variables whose value was fixed to keep tables small: the result may not be optimal
}

// plan orders the variables by their number of ties, the fewest first, then the lowest number. If the smallest table
// would be too large, the variable with most ties is fixed.
func (p *problem) plan() plan {
	g := newTies(p)
	var out plan
	entries := 0
	for {
		v, left := g.next()
		if !left {
			return out
		}
		size := p.size(v)
		scope := make([]int, 0, len(g.near[v]))
		for u := range g.near[v] {
			scope = append(scope, u)
			if size *= p.size(u); size > widest {
				break
			}
		}
		if size > widest || entries+size > tooMany {
			limit := g.limit(p)
			out.given = append(out.given, limit)
			g.remove(limit)
			continue
		}
		entries += size
		slices.Sort(scope)
		out.order, out.scope = append(out.order, v), append(out.scope, scope)
		g.connectNeighbours(v, scope)
	}
}

// size returns how many values a variable can have.
func (p *problem) size(v int) int { return len(p.cost[v]) }

// solve chooses a value for each variable. Of equally cheap ones it takes the lowest.
func (p *problem) solve(pl plan) []int {
	values := make([]int, len(p.cost))
	for i := range values {
		values[i] = -1
	}
	for _, v := range pl.given {
		values[v] = p.relaxedValue(v)
	}
	tables := make([]table, len(pl.order))
	step := map[int]int{}
	for i, v := range pl.order {
		step[v] = i
	}
	inbox := make([][]int, len(pl.order)) // the tables that a step must add up
	for i, v := range pl.order {
		// A variable that was fixed after it came into a scope has a value by now.
		scope := slices.DeleteFunc(slices.Clone(pl.scope[i]), func(u int) bool { return values[u] >= 0 })
		tables[i] = p.table(v, scope, values, tables, inbox[i])
		if first := earliest(scope, step); first >= 0 {
			inbox[first] = append(inbox[first], i)
		}
	}
	for i := len(pl.order) - 1; i >= 0; i-- {
		values[pl.order[i]] = int(tables[i].best[tables[i].index(values)])
	}
	return values
}

// relaxedValue returns the value of a variable that is fixed.
func (p *problem) relaxedValue(v int) int {
	if p.give[v] >= 0 {
		return p.give[v]
	}
	best := 0
	for i, c := range p.cost[v] {
		if c < p.cost[v][best] {
			best = i
		}
	}
	return best
}

func earliest(scope []int, step map[int]int) int {
	first := -1
	for _, u := range scope {
		if s := step[u]; first < 0 || s < first {
			first = s
		}
	}
	return first
}

// table holds the least cost of a step for each choice of its scope, and the best value.
type table struct {
	scope, sizes []int
	least        []int64
	best         []uint8
}

func (t table) index(values []int) int {
	at := 0
	for i, v := range t.scope {
		at = at*t.sizes[i] + values[v]
	}
	return at
}

// table computes one step. values holds the fixed values, and -1 for the others.
func (p *problem) table(v int, scope, values []int, all []table, inbox []int) table {
	t := table{scope: scope}
	n := 1
	for _, u := range scope {
		t.sizes = append(t.sizes, p.size(u))
		n *= p.size(u)
	}
	// Steps that were eliminated before have included v themselves.
	near := p.beside(v, scope, values)
	t.least, t.best = make([]int64, n), make([]uint8, n)
	for at := range n {
		rest := at
		for i := len(scope) - 1; i >= 0; i-- {
			values[scope[i]] = rest % t.sizes[i]
			rest /= t.sizes[i]
		}
		t.least[at] = math.MaxInt64
		for value, cost := range p.cost[v] {
			values[v] = value
			for _, u := range near {
				if !u.fits(value, values[u.v]) {
					cost = never
				}
			}
			for _, i := range inbox {
				cost = min(never, cost+all[i].least[all[i].index(values)])
			}
			if cost < t.least[at] {
				t.least[at], t.best[at] = cost, uint8(value)
			}
		}
	}
	values[v] = -1
	for _, u := range scope {
		values[u] = -1
	}
	return t
}

// neighbour is a variable with a constraint to another one.
type neighbour struct {
	v    int
	fits fitter
}

// beside returns the neighbours of v that are in a scope or were fixed.
func (p *problem) beside(v int, scope, values []int) []neighbour {
	var out []neighbour
	for u, fits := range p.fits[v] {
		if values[u] >= 0 || slices.Contains(scope, u) {
			out = append(out, neighbour{u, fits})
		}
	}
	return out
}

// ties is the graph of the remaining variables during elimination.
type ties struct {
	near  []map[int]bool
	gone  []bool
	queue byTies
}

func newTies(p *problem) *ties {
	g := &ties{near: make([]map[int]bool, len(p.cost)), gone: make([]bool, len(p.cost))}
	for v := range p.cost {
		g.near[v] = map[int]bool{}
		for u := range p.fits[v] {
			g.near[v][u] = true
		}
	}
	for v := range p.cost {
		g.queue = append(g.queue, tied{len(g.near[v]), v})
	}
	heap.Init(&g.queue)
	return g
}

// next returns the variable with the fewest ties.
func (g *ties) next() (int, bool) {
	for len(g.queue) > 0 {
		first := g.queue[0]
		if !g.gone[first.v] && first.n == len(g.near[first.v]) {
			return first.v, true
		}
		heap.Pop(&g.queue)
	}
	return 0, false
}

// limit returns the variable with most ties among those that can be fixed to a value that always fits, or among all if
// there is none.
func (g *ties) limit(p *problem) int {
	best := -1
	for v := range g.near {
		if g.gone[v] {
			continue
		}
		if best < 0 || p.give[v] >= 0 && p.give[best] < 0 ||
			p.give[v] >= 0 == (p.give[best] >= 0) && len(g.near[v]) > len(g.near[best]) {
			best = v
		}
	}
	return best
}

func (g *ties) remove(v int) {
	g.gone[v] = true
	for u := range g.near[v] {
		delete(g.near[u], v)
		heap.Push(&g.queue, tied{len(g.near[u]), u})
	}
}

// connectNeighbours removes v and ties its neighbours to each other.
func (g *ties) connectNeighbours(v int, scope []int) {
	g.remove(v)
	for i, a := range scope {
		for _, b := range scope[:i] {
			g.near[a][b], g.near[b][a] = true, true
		}
	}
	for _, a := range scope {
		heap.Push(&g.queue, tied{len(g.near[a]), a})
	}
}

type tied struct{ n, v int }

type byTies []tied

func (q byTies) Len() int           { return len(q) }
func (q byTies) Less(i, j int) bool { return q[i].n < q[j].n || q[i].n == q[j].n && q[i].v < q[j].v }
func (q byTies) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byTies) Push(x any)        { *q = append(*q, x.(tied)) }
func (q *byTies) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
