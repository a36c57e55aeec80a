package stateloop

import (
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
)

// Graph is the dependency graph of a set of parameters. It does not depend on the set's order.
type Graph struct {
	// Order lists every ID once, dependencies first. With cycles it is not a valid order of work.
	Order   []string
	Cycles  []Cycle      // by their first member
	Unknown []Dependency // on IDs that are not in the set; by both ends
	absent  map[string]bool
}

// Cycle is a set of parameters that wait for each other.
type Cycle struct {
	Members []string // all of them, sorted
	Path    []string // one path around the cycle, from the first member back to it
}

// Dependency is one parameter's need of another.
type Dependency struct{ From, To string }

// GraphOf returns the graph of a set. It finds cycles across all dependencies, regardless of targets. If two parameters
// share an ID, it joins their dependencies.
func GraphOf(ws []DesiredParameter) Graph {
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

// Make returns the IDs to create, dependencies first.
func (g Graph) Make() []string {
	return slices.DeleteFunc(slices.Clone(g.Order), func(id string) bool { return g.absent[id] })
}

// Remove returns the IDs to remove, dependents first: while a dependent exists it needs its dependencies, whatever its
// target.
func (g Graph) Remove() []string {
	out := slices.DeleteFunc(slices.Clone(g.Order), func(id string) bool { return !g.absent[id] })
	slices.Reverse(out)
	return out
}

// Faults returns the cycles and the unknown IDs; path returns the path of a parameter's dependencies.
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

// longestID limits the length of an ID in a message; edgespan's longest, of a joined tunnel, is shorter.
const longestID = 200

func quote(id string) string { return strconv.Quote(config.Truncate(id, longestID)) }

func quoted(ids []string, between string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = quote(id)
	}
	return strings.Join(out, between)
}

// search is Tarjan's search for strongly connected components (R. Tarjan, Depth-first search and linear graph
// algorithms, 1972): it completes each component after all components that it depends on.
type search struct {
	needs  map[string][]string
	at     map[string]int // number of the visit, from 1
	low    map[string]int // lowest reachable number
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

// path returns a shortest path from the first member of a cycle back to it.
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
