package rollout

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config/fleet/topology"
)

// ways is the graph of sites again, in the plainest form, for judging plans.
type ways struct {
	pop  map[string]bool
	next map[string]map[string]bool
}

func waysOf(t *topology.Topology, assumeAlive bool) ways {
	w := ways{map[string]bool{}, map[string]map[string]bool{}}
	site := map[string]string{}
	for _, n := range t.Nodes {
		if n.Status != topology.Offline {
			site[n.Name] = n.Site
			w.pop[n.Site] = w.pop[n.Site] || n.Pop
			w.next[n.Site] = map[string]bool{}
		}
	}
	for _, l := range t.Links {
		a, z := site[l.A], site[l.Z]
		if a != "" && z != "" && (l.Alive || assumeAlive) {
			w.next[a][z], w.next[z][a] = true, true
		}
	}
	return w
}

// with are the sites that have a path to a point of presence while others are down.
func (w ways) with(down map[string]bool) map[string]bool {
	up := map[string]bool{}
	var walk func(string)
	walk = func(s string) {
		if up[s] || down[s] {
			return
		}
		up[s] = true
		for n := range w.next[s] {
			walk(n)
		}
	}
	for s, pop := range w.pop {
		if pop {
			walk(s)
		}
	}
	return up
}

func (w ways) without(s ...string) map[string]bool {
	down := map[string]bool{}
	for _, s := range s {
		down[s] = true
	}
	return w.with(down)
}

// breaches are the ways in which a plan breaks the law, by its words.
func breaches(t *topology.Topology, pending []string, assumeAlive bool, r Result) []string {
	var out []string
	w := waysOf(t, assumeAlive)
	reached := w.without()
	site, seen := map[string]string{}, map[string]int{}
	for _, n := range t.Nodes {
		site[n.Name] = n.Site
	}
	for _, u := range r.Unreachable {
		seen[u.Node]++
		if n, _ := t.Node(u.Node); n.Status != topology.Offline && reached[n.Site] {
			out = append(out, u.Node+" is said to be unreachable")
		}
	}
	first := map[string]int{} // by site, the batch that it is in
	for i, b := range r.Batches {
		sites := map[string]bool{}
		for _, n := range b {
			seen[n]++
			sites[site[n]] = true
			if at, before := first[site[n]]; before && at != i {
				out = append(out, fmt.Sprintf("%s goes twice", site[n]))
			}
			first[site[n]] = i
		}
		out = append(out, w.breaches(sites, reached)...)
	}
	for name, times := range seen {
		if times != 1 || !slices.Contains(pending, name) {
			out = append(out, fmt.Sprintf("%s is there %d times", name, times))
		}
	}
	for _, name := range pending {
		if seen[name] == 0 {
			out = append(out, name+" is nowhere")
		}
		for s := range first { // a site goes with all pending sites behind it
			n, _ := t.Node(name)
			if at, planned := first[site[name]]; planned && n.Status != topology.Offline && !w.without(s)[site[name]] &&
				s != site[name] && at != first[s] {
				out = append(out, fmt.Sprintf("%s is behind %s and goes apart", name, s))
			}
		}
	}
	return out
}

// breaches of one batch of sites.
func (w ways) breaches(batch, reached map[string]bool) []string {
	var out []string
	pops := 0
	alone := map[string]map[string]bool{} // what each leaves when it goes alone
	for s := range batch {
		if w.pop[s] {
			pops++
		}
		alone[s] = w.without(s)
	}
	if pops > 1 {
		out = append(out, fmt.Sprintf("%d points of presence together", pops))
	}
	up := w.with(batch)
	behindOne := func(z string) bool {
		for s := range batch {
			if s != z && !alone[s][z] {
				return true
			}
		}
		return false
	}
	for z := range reached {
		if !batch[z] && !up[z] && !behindOne(z) {
			out = append(out, fmt.Sprintf("%s loses its last path by %v", z, slices.Sorted(maps.Keys(batch))))
		}
	}
	for x := range batch {
		for y := range batch {
			both := w.without(x, y)
			for z := range reached {
				if x < y && z != x && z != y && !both[z] && alone[x][z] && alone[y][z] && !(behindOne(x) && behindOne(y)) {
					out = append(out, fmt.Sprintf("%s and %s back each other up for %s", x, y, z))
				}
			}
		}
	}
	return out
}

// anyTopology is a random one: trees with chords, so that there are sites behind others,
// rings, and parts without a way out.
func anyTopology(t *rapid.T) *topology.Topology {
	n := rapid.IntRange(1, 14).Draw(t, "sites")
	top := &topology.Topology{}
	flip := func(name string, of int) bool { return rapid.IntRange(1, of).Draw(t, name) == 1 }
	node := func(site int) {
		top.Nodes = append(top.Nodes, topology.Node{
			Name: fmt.Sprintf("n%d", len(top.Nodes)), Site: fmt.Sprintf("s%d", site), Pop: flip("pop", 6),
			Status: map[bool]topology.Status{true: topology.Offline, false: topology.Online}[flip("offline", 12)],
		})
	}
	for i := range n {
		node(i)
	}
	for range rapid.IntRange(0, 4).Draw(t, "more nodes") {
		node(rapid.IntRange(0, n-1).Draw(t, "site"))
	}
	link := func(a, z int) {
		l := topology.Link{Name: fmt.Sprintf("l%d", len(top.Links)), A: top.Nodes[a].Name, Z: top.Nodes[z].Name,
			Alive: !flip("dead", 15)}
		if a != z {
			top.Links = append(top.Links, l)
		}
	}
	for i := 1; i < n; i++ {
		if !flip("apart", 15) {
			link(i, rapid.IntRange(max(0, i-3), i-1).Draw(t, "to"))
		}
	}
	for range rapid.IntRange(0, n).Draw(t, "chords") {
		link(rapid.IntRange(0, len(top.Nodes)-1).Draw(t, "a"), rapid.IntRange(0, len(top.Nodes)-1).Draw(t, "z"))
	}
	return top
}

func someOf(t *rapid.T, names []string) []string {
	if rapid.Bool().Draw(t, "all pending") {
		return names
	}
	return rapid.SliceOfDistinct(rapid.SampledFrom(names), func(s string) string { return s }).Draw(t, "pending")
}

// The law of batches, over random topologies, judged by its words and not by the walk
// that made the plan.
func TestPropertyEveryPlanKeepsTheLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := anyTopology(t)
		pending := someOf(t, all(top))
		o := Options{AssumeAlive: rapid.Bool().Draw(t, "assume alive"), Limit: rapid.IntRange(0, 4).Draw(t, "limit"),
			First: rapid.IntRange(0, 3).Draw(t, "first")}
		got, faults := Plan(top, pending, o)
		if faults != nil {
			t.Fatal(faults)
		}
		if w := breaches(top, pending, o.AssumeAlive, got); w != nil {
			t.Fatalf("%s\n%s", said(got), strings.Join(w, "\n"))
		}
	})
}

// A batch that was run is no longer pending: what is planned then keeps the law, and ends.
func TestPropertyPlanningAgainAfterEachBatchEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := anyTopology(t)
		pending := all(top)
		for round := 0; ; round++ {
			got, _ := Plan(top, pending, Options{})
			if w := breaches(top, pending, false, got); w != nil || round > len(top.Nodes) {
				t.Fatalf("round %d: %s\n%s", round, said(got), strings.Join(w, "\n"))
			}
			if len(got.Batches) == 0 {
				return
			}
			pending = slices.DeleteFunc(slices.Clone(pending), func(n string) bool { return slices.Contains(got.Batches[0], n) })
		}
	})
}

// A plan depends on names only, not on the order of nodes, links, sites and changed nodes, nor on
// which end of a link is A.
func TestPropertyPlansDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := anyTopology(t)
		pending := someOf(t, all(top))
		got, _ := Plan(top, pending, Options{})
		mixed := &topology.Topology{
			Nodes: rapid.Permutation(top.Nodes).Draw(t, "nodes"),
			Links: rapid.Permutation(top.Links).Draw(t, "links"),
		}
		for i, l := range mixed.Links {
			if rapid.Bool().Draw(t, "turn") {
				mixed.Links[i].A, mixed.Links[i].Z = l.Z, l.A
			}
		}
		again, _ := Plan(mixed, rapid.Permutation(pending).Draw(t, "order"), Options{})
		if !reflect.DeepEqual(got, again) {
			t.Fatalf("%s, and in another order %s", said(got), said(again))
		}
	})
}
