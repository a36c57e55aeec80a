package stateloop

import (
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
)

// Graph is what the dependencies of a set of parameters come to. It does not depend on the
// set's order.
type Graph struct {
	// Order has every id once, what others depend on before them. With cycles it is no
	// order to work by.
	Order   []string
	Cycles  []Cycle      // by their first member
	Unknown []Dependency // on ids that the set has not; by both ends
	absent  map[string]bool
}

// Cycle are parameters that wait for each other.
type Cycle struct {
	Members []string // all of them, sorted
	Path    []string // one way round, from the first member back to it
}

// Dependency is one parameter's need of another.
type Dependency struct{ From, To string }

// GraphOf is the graph of a set. Cycles are those of all dependencies, whatever the targets.
// Of two parameters with one id the dependencies of both count.
func GraphOf(ws []Desired) Graph {
	s := search{needs: make(map[string][]string, len(ws)), at: make(map[string]int, len(ws)),
		low: make(map[string]int, len(ws)), on: map[string]bool{}}
	g := Graph{absent: map[string]bool{}}
	for _, w := range ws {
		s.needs[w.ID] = append(s.needs[w.ID], w.Dependencies...)
		if w.Target == ToBeAbsent {
			g.absent[w.ID] = true
		}
	}
	ids := make([]string, 0, len(s.needs))
	for id, on := range s.needs {
		ids = append(ids, id)
		slices.Sort(on)
		on = slices.Compact(on)
		known := make([]string, 0, len(on))
		for _, to := range on {
			if _, has := s.needs[to]; has {
				known = append(known, to)
			} else {
				g.Unknown = append(g.Unknown, Dependency{id, to})
			}
		}
		s.needs[id] = known
	}
	slices.Sort(ids)
	for _, id := range ids {
		if s.at[id] == 0 {
			s.visit(id)
		}
	}
	g.Order = s.order
	for _, members := range s.cycles {
		g.Cycles = append(g.Cycles, Cycle{members, s.path(members)})
	}
	slices.SortFunc(g.Cycles, func(a, b Cycle) int { return slices.Compare(a.Members, b.Members) })
	slices.SortFunc(g.Unknown, func(a, b Dependency) int {
		return slices.Compare([]string{a.From, a.To}, []string{b.From, b.To})
	})
	return g
}

// Make are the ids to be present, what others depend on before them.
func (g Graph) Make() []string {
	return slices.DeleteFunc(slices.Clone(g.Order), func(id string) bool { return g.absent[id] })
}

// Remove are the ids to be absent in reverse, what depends on another before it: dependencies
// say what a parameter needs while it is there, whatever its target.
func (g Graph) Remove() []string {
	out := slices.DeleteFunc(slices.Clone(g.Order), func(id string) bool { return !g.absent[id] })
	slices.Reverse(out)
	return out
}

// Faults are the cycles and the unknown ids, with the path of each parameter's dependencies
// by its id.
func (g Graph) Faults(path func(id string) []string) config.Faults {
	var faults config.Faults
	for _, c := range g.Cycles {
		what := "parameters wait for each other: " + quoted(c.Path, " -> ")
		if len(c.Members) == 1 {
			what = quote(c.Members[0]) + " depends on itself"
		} else if len(c.Path) <= len(c.Members) {
			what += ", all in " + quoted(c.Members, ", ")
		}
		faults.Add(path(c.Members[0]), what, "must be without a cycle")
	}
	for _, d := range g.Unknown {
		faults.Add(path(d.From), quote(d.From)+" depends on "+quote(d.To)+", which is not a parameter",
			"must be the id of a parameter")
	}
	faults.Sort()
	return faults
}

// longestID is how much of an id a message shows: our longest, of a joined tunnel, is shorter.
const longestID = 200

func quote(id string) string { return strconv.Quote(config.Cut(id, longestID)) }

func quoted(ids []string, between string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = quote(id)
	}
	return strings.Join(out, between)
}

// search is Tarjan's search for strongly connected components (R. Tarjan, Depth-first search
// and linear graph algorithms, 1972): it ends each after all that it depends on.
type search struct {
	needs  map[string][]string
	at     map[string]int // number of the visit, from 1
	low    map[string]int // lowest number that can be reached
	stack  []string
	on     map[string]bool // is on the stack
	order  []string
	cycles [][]string
}

func (s *search) visit(id string) {
	s.at[id] = len(s.at) + 1
	s.low[id] = s.at[id]
	s.stack = append(s.stack, id)
	s.on[id] = true
	self := false
	for _, to := range s.needs[id] {
		switch {
		case s.at[to] == 0:
			s.visit(to)
			s.low[id] = min(s.low[id], s.low[to])
		case s.on[to]:
			s.low[id] = min(s.low[id], s.at[to])
		}
		self = self || to == id
	}
	if s.low[id] != s.at[id] {
		return
	}
	from := len(s.stack) - 1
	for s.stack[from] != id {
		from--
	}
	members := slices.Clone(s.stack[from:])
	s.stack = s.stack[:from]
	for _, m := range members {
		delete(s.on, m)
	}
	slices.Sort(members)
	s.order = append(s.order, members...)
	if len(members) > 1 || self {
		s.cycles = append(s.cycles, members)
	}
}

// path is a shortest way from the first of a cycle's members back to it.
func (s *search) path(members []string) []string {
	start := members[0]
	before := map[string]string{}
	for queue := []string{start}; ; queue = queue[1:] {
		id := queue[0]
		for _, to := range s.needs[id] {
			if to == start {
				out := []string{start}
				for ; id != start; id = before[id] {
					out = append(out, id)
				}
				out = append(out, start)
				slices.Reverse(out)
				return out
			}
			_, seen := before[to]
			if _, inside := slices.BinarySearch(members, to); inside && !seen {
				before[to] = id
				queue = append(queue, to)
			}
		}
	}
}
