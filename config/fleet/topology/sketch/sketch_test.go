package sketch

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"edgespan/config/fleet/rollout"
	"edgespan/config/fleet/topology"
)

func named(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("sim-%05d", i+1))
	}
	return out
}

// each makes topologies of all kinds and many sizes.
func each(t *testing.T, do func(t *testing.T, p SketchPlan, nodes int, made *topology.Topology)) {
	t.Helper()
	sizes := []int{2000}
	for n := range 64 {
		sizes = append(sizes, n)
	}
	for _, kind := range Kinds {
		for _, n := range sizes {
			for _, per := range []int{LeastPerPop, PerPop} {
				p := SketchPlan{kind, per}
				do(t, p, n, p.Make(named(n), uint64(n)))
			}
		}
	}
}

func TestAMadeTopologyIsOneOfTheSeedsKind(t *testing.T) {
	each(t, func(t *testing.T, p SketchPlan, nodes int, made *topology.Topology) {
		t.Helper()
		read, faults := topology.FromDocument(made.Document())
		if faults != nil || !reflect.DeepEqual(read.NewPaths(), made.NewPaths()) {
			t.Fatalf("%v of %d is not read as it was made: %v", p, nodes, faults)
		}
		var names []string
		pops, kinds := 0, map[topology.NodeType]int{}
		for _, n := range made.Nodes {
			names = append(names, n.Name)
			kinds[n.Type]++
			if n.Pop {
				pops++
				if n.Type != topology.DN {
					t.Errorf("%v of %d: %s is a client node and a point of presence", p, nodes, n.Name)
				}
			}
		}
		if !slices.Equal(names, named(nodes)) || kinds[topology.CN] != nodes/clients {
			t.Errorf("%v of %d: %d names, %v", p, nodes, len(names), kinds)
		}
		relays := nodes - nodes/clients
		if want := min(max(1, min(max(2, (nodes+p.PerPop/2)/p.PerPop), relays)), nodes); p.PerPop == PerPop && relays >= 8 &&
			pops != want {
			t.Errorf("%v of %d: %d points of presence, want %d", p, nodes, pops, want)
		}
		for i, up := range made.NewPaths().Reached(func(int) bool { return false }) {
			if !up {
				t.Fatalf("%v of %d: %s reaches nobody", p, nodes, made.Nodes[i].Name)
			}
		}
	})
}

// Over the air the ends of a link have different polarities, the nodes of one site have the
// same one, and a client node has one link.
func TestLinksAreOfTheSeedsKind(t *testing.T) {
	each(t, func(t *testing.T, p SketchPlan, nodes int, made *topology.Topology) {
		t.Helper()
		by, links := map[string]topology.Node{}, map[string]int{}
		for _, n := range made.Nodes {
			by[n.Name] = n
		}
		for _, l := range made.Links {
			a, z := by[l.A], by[l.Z]
			links[l.A]++
			links[l.Z]++
			wired := a.Site == z.Site
			if wired != (l.Type == topology.Ethernet) || (a.Polarity == z.Polarity) != wired || a.Polarity == 0 ||
				l.Name != topology.LinkName(l.A, l.Z) {
				t.Fatalf("%v of %d: %+v joins %+v and %+v", p, nodes, l, a, z)
			}
		}
		for _, n := range made.Nodes {
			if n.Type == topology.CN && links[n.Name] != 1 {
				t.Fatalf("%v of %d: client node %s has %d links", p, nodes, n.Name, links[n.Name])
			}
		}
	})
}

// degrees are how many sites each site is linked to, sorted.
func degrees(made *topology.Topology) []int {
	site, next := map[string]string{}, map[string]map[string]bool{}
	for _, n := range made.Nodes {
		site[n.Name] = n.Site
	}
	for _, l := range made.Links {
		for _, e := range [][2]string{{site[l.A], site[l.Z]}, {site[l.Z], site[l.A]}} {
			if next[e[0]] == nil {
				next[e[0]] = map[string]bool{}
			}
			if e[0] != e[1] {
				next[e[0]][e[1]] = true
			}
		}
	}
	var out []int
	for _, n := range next {
		out = append(out, len(n))
	}
	slices.Sort(out)
	return out
}

// Distribution nodes alone: as many as the original's file has sites.
func TestTheShapesAreThoseOfTheOriginal(t *testing.T) {
	for file, of := range map[string]struct {
		kind  Kind
		nodes int
	}{"topology_lab_f8_b.conf": {FigureEight, 15}, "topology_figure0.conf": {Ring, 9}} {
		text, err := os.ReadFile("../../../testdata/terragraph/topology_conf/" + file)
		if err != nil {
			t.Fatal(err)
		}
		real, faults := topology.Parse(text)
		if faults != nil {
			t.Fatal(faults)
		}
		made := SketchPlan{of.kind, PerPop}.Make(named(of.nodes), 1)
		made.Nodes = slices.DeleteFunc(made.Nodes, func(n topology.Node) bool { return n.Type == topology.CN })
		made.Links = slices.DeleteFunc(made.Links, func(l topology.Link) bool {
			return !slices.ContainsFunc(made.Nodes, func(n topology.Node) bool { return n.Name == l.A }) ||
				!slices.ContainsFunc(made.Nodes, func(n topology.Node) bool { return n.Name == l.Z })
		})
		if want, got := degrees(real), degrees(made); !slices.Equal(got, want) {
			t.Errorf("%s: sites have %v others beside them, made ones %v", file, want, got)
		}
	}
}

func TestTheSameSeedMakesTheSame(t *testing.T) {
	for _, kind := range Kinds {
		p := SketchPlan{kind, PerPop}
		a := p.Make(named(200), 3)
		if !reflect.DeepEqual(a, p.Make(named(200), 3)) {
			t.Errorf("%s: another one for the same seed", kind)
		}
		if reflect.DeepEqual(a, p.Make(named(200), 4)) {
			t.Errorf("%s: the same one for another seed", kind)
		}
	}
}

// No node outside of a batch loses its last path, on any of them.
func TestPlansKeepEveryPath(t *testing.T) {
	each(t, func(t *testing.T, p SketchPlan, nodes int, made *topology.Topology) {
		t.Helper()
		plan, faults := rollout.Plan(made, named(nodes), rollout.Options{AssumeAlive: true})
		if faults != nil || len(plan.Unreachable) > 0 {
			t.Fatalf("%v of %d: %v, unreachable %v", p, nodes, faults, plan.Unreachable)
		}
		w, reported := made.NewPaths(), 0
		for _, b := range plan.Batches {
			down := map[string]bool{}
			for _, name := range b {
				down[name] = true
			}
			reported += len(down)
			for i, up := range w.Reached(func(i int) bool { return down[made.Nodes[i].Name] }) {
				if !up && !down[made.Nodes[i].Name] {
					t.Fatalf("%v of %d: %s is cut off by %v", p, nodes, made.Nodes[i].Name, slices.Sorted(maps.Keys(down)))
				}
			}
		}
		if reported != nodes {
			t.Errorf("%v of %d: %d in batches", p, nodes, reported)
		}
	})
}

func TestPlansAreRead(t *testing.T) {
	if p, err := ParsePlan("grid"); err != nil || p != (SketchPlan{Grid, PerPop}) {
		t.Errorf("%v, %v", p, err)
	}
	if p, err := ParsePlan("figure-eight:7"); err != nil || p != (SketchPlan{FigureEight, 7}) {
		t.Errorf("%v, %v", p, err)
	}
	for text, want := range map[string]string{
		"star": "must be figure-eight, line, ring, grid, tree", "grid:1": `invalid size "1": must be 2 or more`,
		"grid:x": `invalid size "x"`, "": `invalid value ""`, "grid:": `invalid size ""`,
	} {
		if _, err := ParsePlan(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
