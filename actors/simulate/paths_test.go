package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"edgespan/config/fleet/rollout"
	"edgespan/config/fleet/topology"
	"edgespan/config/fleet/topology/sketch"
)

func nameList(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint("sim-", i))
	}
	return out
}

func watched(t testing.TB, p sketch.SketchPlan, nodes int) (*paths, *topology.Topology) {
	t.Helper()
	made := p.Make(nameList(nodes), 1)
	w, err := newPaths(nameList(nodes), made)
	if err != nil {
		t.Fatal(err)
	}
	w.watch()
	return w, made
}

// batch takes nodes down one after the other, and brings all of them up.
func (p *paths) batch(nodes []string) {
	for _, n := range nodes {
		p.takeDown(slices.Index(p.names, n))
	}
	for _, n := range nodes {
		p.done(slices.Index(p.names, n))
	}
}

// The batches of a plan break nothing, in any order within them; a planner that takes all at
// once does, in any network of some size.
func TestAPlanThatTakesAllAtOnceIsSeen(t *testing.T) {
	for _, kind := range sketch.Kinds {
		p := sketch.SketchPlan{Kind: kind, PerPop: 25}
		good, made := watched(t, p, 100)
		plan, faults := rollout.Plan(made, nameList(100), rollout.Options{AssumeAlive: true, Limit: 10, First: 1})
		if faults != nil {
			t.Fatal(faults)
		}
		for _, b := range plan.Batches {
			good.batch(b)
			slices.Reverse(b)
			good.batch(b)
		}
		if got := good.observed(); got.Broken != 0 || got.Looks < 60 {
			t.Errorf("%s: the plan broke %d: %+v", kind, got.Broken, got)
		}
		bad, _ := watched(t, p, 100)
		all := nameList(100)
		rand.New(rand.NewPCG(1, 1)).Shuffle(100, func(i, j int) { all[i], all[j] = all[j], all[i] })
		bad.batch(all)
		if got := bad.observed(); got.Broken == 0 || len(got.Named) != min(got.Broken, someNames) ||
			len(got.Named[0].By) == 0 {
			t.Errorf("%s: all at once broke nothing: %+v", kind, got)
		}
	}
}

// ring is a ring of six sites, one node on each, whose first one is a point of presence.
func ring(t *testing.T) *paths {
	t.Helper()
	made := &topology.Topology{}
	for i, name := range nameList(6) {
		made.Nodes = append(made.Nodes, topology.Node{Name: name, Site: name, Pop: i == 0})
		made.Links = append(made.Links, topology.Link{A: name, Z: fmt.Sprint("sim-", (i+1)%6)})
	}
	p, err := newPaths(nameList(6), made)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWhoIsToBlame(t *testing.T) {
	for _, c := range []struct {
		what           string
		do             func(p *paths)
		broken, behind int
		by             string
	}{
		{"one site", func(p *paths) { p.takeDown(2) }, 0, 0, ""},
		{"the only point of presence", func(p *paths) { p.takeDown(0) }, 0, 5, ""},
		{"both sides of two", func(p *paths) { p.takeDown(2); p.takeDown(5) }, 2, 0, "[sim-2 sim-5]"},
		{"the same twice", func(p *paths) { p.takeDown(2); p.takeDown(5); p.done(5); p.takeDown(5) }, 2, 0, "[sim-2 sim-5]"},
		{"one after the other", func(p *paths) { p.takeDown(2); p.done(2); p.takeDown(5) }, 0, 0, ""},
		{"what a fault took", func(p *paths) { p.takeLinks(2); p.takeDown(5) }, 0, 2, ""}, // it is behind 5 then, in any plan
		{"what a fault cut off", func(p *paths) { p.takeLinks(2); p.takeLinks(5); p.takeDown(1) }, 0, 0, ""},
		{"what came back", func(p *paths) { p.takeLinks(2); p.restoreLinks(2); p.takeDown(2); p.takeDown(5) }, 2, 0,
			"[sim-2 sim-5]"},
	} {
		p := ring(t)
		p.watch()
		c.do(p)
		got := p.observed()
		by := ""
		if len(got.Named) > 0 {
			by = fmt.Sprint(got.Named[0].By)
		}
		if got.Broken != c.broken || got.Behind != c.behind || by != c.by {
			t.Errorf("%s: %+v, want %d by %s, %d behind", c.what, got, c.broken, c.by, c.behind)
		}
	}
	p := ring(t)
	p.takeDown(2)
	p.takeDown(5)
	if got := p.observed(); got.Looks != 0 {
		t.Errorf("nobody is to look yet: %+v", got)
	}
}

func TestATopologyIsOneOfTheNodes(t *testing.T) {
	for want, names := range map[string][]string{"of 6 nodes for 2 names": {"a", "b"},
		"z: not in the topology": {"sim-0", "sim-1", "sim-2", "sim-3", "sim-4", "z"}} {
		t.Run(want, func(t *testing.T) {
			made := &topology.Topology{}
			for _, name := range nameList(6) {
				made.Nodes = append(made.Nodes, topology.Node{Name: name, Site: name})
			}
			if _, err := newPaths(names, made); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func BenchmarkPathsOfABatch(b *testing.B) {
	p, made := watched(b, sketch.SketchPlan{Kind: sketch.Grid, PerPop: 25}, 2000)
	plan, _ := rollout.Plan(made, nameList(2000), rollout.Options{AssumeAlive: true})
	for b.Loop() {
		for _, batch := range plan.Batches {
			p.batch(batch)
		}
	}
}
