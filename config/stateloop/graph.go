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
	Cycles  []Cycle         // by their first member
	Unknown []Dependency    // on IDs that are not in the set; by both ends
	absent  map[string]bool // the IDs whose target is absent
}

// Cycle is a set of parameters that wait for each other.
type Cycle struct {
	Members []string // all of them, sorted
	Path    []string // a shortest path from the first member back to it; it may leave out members
}

// Dependency says that the parameter From depends on the parameter To.
type Dependency struct{ From, To string }

// NewGraph returns the graph of a set. It finds cycles across all dependencies, regardless of targets. If two
// parameters share an ID, it joins their dependencies.
func NewGraph(params []DesiredParameter) Graph {
	s := search{needs: make(map[string][]string, len(params)), index: make(map[string]int, len(params)),
		low: make(map[string]int, len(params)), onStack: map[string]bool{}}
	g := Graph{absent: map[string]bool{}}
	for _, p := range params {
		s.needs[p.ID] = append(s.needs[p.ID], p.Dependencies...)
		if p.Target == ToBeAbsent {
			g.absent[p.ID] = true
		}
	}
	ids := make([]string, 0, len(s.needs))
	for id, needed := range s.needs {
		ids = append(ids, id)
		slices.Sort(needed)
		needed = slices.Compact(needed)
		known := make([]string, 0, len(needed))
		for _, to := range needed {
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
		if s.index[id] == 0 {
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

// CreationOrder returns the IDs to create, dependencies first.
func (g Graph) CreationOrder() []string {
	return slices.DeleteFunc(slices.Clone(g.Order), func(id string) bool { return g.absent[id] })
}

// RemovalOrder returns the IDs to remove, dependents first: while a dependent exists it needs its dependencies,
// whatever its target.
func (g Graph) RemovalOrder() []string {
	out := slices.DeleteFunc(slices.Clone(g.Order), func(id string) bool { return !g.absent[id] })
	slices.Reverse(out)
	return out
}

// Faults reports each cycle and each unknown ID as a fault of the document. path returns where in the document the
// dependencies of a parameter are.
func (g Graph) Faults(path func(id string) []string) config.Faults {
	var faults config.Faults
	for _, c := range g.Cycles {
		what := "parameters wait for each other: " + joinQuoted(c.Path, " -> ")
		if len(c.Members) == 1 {
			what = quote(c.Members[0]) + " depends on itself"
		} else if len(c.Path) <= len(c.Members) {
			what += ", all in " + joinQuoted(c.Members, ", ")
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

// maxIDLength limits the length of an ID in a message; edgespan's longest, of a tunnel's link in a bridge
// (peer.JoinedID), is shorter.
const maxIDLength = 200

func quote(id string) string { return strconv.Quote(config.Truncate(id, maxIDLength)) }

func joinQuoted(ids []string, between string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = quote(id)
	}
	return strings.Join(out, between)
}

// search is Tarjan's search for strongly connected components (R. Tarjan, Depth-first search and linear graph
// algorithms, 1972): it completes each component after all components that it depends on.
type search struct {
	needs   map[string][]string
	index   map[string]int // number of the visit, from 1; 0: not visited yet
	low     map[string]int // Tarjan's lowlink: the lowest index reachable
	stack   []string
	onStack map[string]bool
	order   []string
	cycles  [][]string
}

// visit completes the components that are reachable from a parameter.
func (s *search) visit(id string) {
	s.index[id] = len(s.index) + 1
	s.low[id] = s.index[id]
	s.stack = append(s.stack, id)
	s.onStack[id] = true
	dependsOnItself := false
	for _, to := range s.needs[id] {
		switch {
		case s.index[to] == 0:
			s.visit(to)
			s.low[id] = min(s.low[id], s.low[to])
		case s.onStack[to]:
			s.low[id] = min(s.low[id], s.index[to])
		}
		dependsOnItself = dependsOnItself || to == id
	}
	if s.low[id] != s.index[id] {
		return
	}
	from := len(s.stack) - 1
	for s.stack[from] != id {
		from--
	}
	members := slices.Clone(s.stack[from:])
	s.stack = s.stack[:from]
	for _, m := range members {
		delete(s.onStack, m)
	}
	slices.Sort(members)
	s.order = append(s.order, members...)
	if len(members) > 1 || dependsOnItself {
		s.cycles = append(s.cycles, members)
	}
}

// path returns a shortest path from the first member of a cycle back to it, by breadth-first search.
func (s *search) path(members []string) []string {
	start := members[0]
	previous := map[string]string{} // the parameter from which each one was reached
	for queue := []string{start}; ; queue = queue[1:] {
		id := queue[0]
		for _, to := range s.needs[id] {
			if to == start {
				out := []string{start}
				for ; id != start; id = previous[id] {
					out = append(out, id)
				}
				out = append(out, start)
				slices.Reverse(out)
				return out
			}
			_, seen := previous[to]
			if _, inside := slices.BinarySearch(members, to); inside && !seen {
				previous[to] = id
				queue = append(queue, to)
			}
		}
	}
}
