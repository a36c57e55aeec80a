package rollout

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/config/fleet/topology"
)

// sketch is a topology of one node ni on each site si, with the given links "0-1 1-2",
// points of presence "0 3", and nodes that are offline.
func sketch(nodes int, links, pops, offline string) *topology.Topology {
	t := &topology.Topology{}
	has := func(list string, i int) bool { return slices.Contains(strings.Fields(list), fmt.Sprint(i)) }
	for i := range nodes {
		n := topology.Node{Name: fmt.Sprintf("n%d", i), Type: topology.DN, Status: topology.Online,
			Site: fmt.Sprintf("s%d", i), Pop: has(pops, i)}
		if has(offline, i) {
			n.Status = topology.Offline
		}
		t.Nodes = append(t.Nodes, n)
		t.Sites = append(t.Sites, topology.Site{Name: n.Site})
	}
	for _, l := range strings.Fields(links) {
		a, z, _ := strings.Cut(l, "-")
		l := topology.Link{A: "n" + a, Z: "n" + z, Alive: true, Type: topology.Wireless}
		if down := strings.TrimPrefix(l.Z, "n!"); down != l.Z { // "0-!1" is a link that is dead
			l.Z, l.Alive = "n"+down, false
		}
		l.Name = topology.LinkName(l.A, l.Z)
		t.Links = append(t.Links, l)
	}
	return t
}

// all are the names of all nodes.
func all(t *topology.Topology) []string {
	var out []string
	for _, n := range t.Nodes {
		out = append(out, n.Name)
	}
	return out
}

// said is a plan in one line: "n0 n1 | n2; unreachable n3 because it is offline".
func said(r Result) string {
	var batches []string
	for _, b := range r.Batches {
		batches = append(batches, strings.Join(b, " "))
	}
	out := strings.Join(batches, " | ")
	for _, u := range r.Unreachable {
		out += "; " + u.Node + ": " + u.Reason
	}
	return out
}

const (
	line4 = "0-1 1-2 2-3"
	ring4 = line4 + " 3-0"
)

// The worked examples of the original, each to its end. Where it would wait for ever, or
// take two sites that back each other up, ours differs (ADR 0015).
func TestPlansOfTheOriginal(t *testing.T) {
	for _, c := range []struct {
		name        string
		nodes       int
		links, pops string
		pending     string // all where empty
		want        string
	}{
		{"line, one point of presence", 4, line4, "0", "", "n0 n1 n2 n3"},
		{"ring, one point of presence", 4, ring4, "0", "", "n0 n1 n2 n3"},
		{"star around a point of presence", 4, "0-1 0-2 0-3", "0", "", "n0 n1 n2 n3"},
		{"line between two points of presence", 4, line4, "0 3", "", "n0 n1 | n2 n3"},
		{"ring with a tail", 6, ring4 + " 1-4 4-5", "0 3", "", "n0 n1 n4 n5 | n2 n3"},
		{"two points of presence, linked", 2, "0-1", "0 1", "", "n0 | n1"},
		{"two points of presence, not linked", 2, "", "0 1", "", "n0 | n1"},
		{"a site without a link", 2, "", "0", "", "n0; n1: its site has no path to a point of presence"},
		{"no point of presence", 2, "0-1", "", "",
			"; n0: no point of presence is online; n1: no point of presence is online"},
		{"line, the end pending", 4, line4, "0", "n2 n3", "n2 n3"},
		{"line, one in the middle pending", 4, line4, "0", "n2", "n2"},
		{"ring, both neighbours of the point of presence pending", 4, ring4, "0", "n1 n3", "n1 | n3"},
		{"ring, two neighbours pending", 4, ring4, "0", "n1 n2", "n1 n2"},
	} {
		top := sketch(c.nodes, c.links, c.pops, "")
		pending := strings.Fields(c.pending)
		if c.pending == "" {
			pending = all(top)
		}
		got, faults := Plan(top, pending, Options{})
		// Of two that may go first the original takes either.
		if faults != nil || said(got) != c.want && said(got) != turned(c.want) {
			t.Errorf("%s: %s %v, want %s", c.name, said(got), faults, c.want)
		}
	}
}

// turned are the two batches of a plan the other way round.
func turned(plan string) string {
	a, b, _ := strings.Cut(plan, " | ")
	return b + " | " + a
}

func TestPlans(t *testing.T) {
	for _, c := range []struct {
		name                 string
		nodes                int
		links, pops, offline string
		pending              string
		o                    Options
		want                 string
	}{
		{"what is behind a site that isn't pending goes together with others", 5, "0-1 1-2 1-3 0-4", "0", "", "n2 n3 n4",
			Options{}, "n2 n3 n4"},
		{"who is offline waits, and nobody goes over it", 4, ring4, "0", "1", "n1 n2 n3", Options{},
			"n2 n3; n1: it is offline"},
		{"a dead link is no path", 3, "0-1 1-!2", "0", "", "n1 n2", Options{},
			"n1; n2: its site has no path to a point of presence"},
		{"all links are assumed to be up", 3, "0-1 1-!2", "0", "", "n1 n2", Options{AssumeAlive: true}, "n1 n2"},
		{"the only point of presence is offline", 2, "0-1", "0", "0", "n0 n1", Options{},
			"; n0: it is offline; n1: no point of presence is online"},
		{"nothing pending", 2, "0-1", "0", "", "", Options{}, ""},
		{"at most two nodes at a time", 5, "0-1 0-2 0-3 0-4", "0", "", "n1 n2 n3 n4", Options{Limit: 2}, "n1 n2 | n3 n4"},
		{"a canary of one", 5, "0-1 0-2 0-3 0-4", "0", "", "n1 n2 n3 n4", Options{First: 1}, "n1 | n2 n3 n4"},
		{"a canary is no larger than a batch", 5, "0-1 0-2 0-3 0-4", "0", "", "n1 n2 n3 n4", Options{First: 3, Limit: 2},
			"n1 n2 | n3 n4"},
		{"a site and what is behind it stay together, over the limit too", 5, "0-1 1-2 0-3 3-4", "0", "", "n1 n2 n3 n4",
			Options{Limit: 1}, "n1 n2 | n3 n4"},
		{"the smallest is the canary", 5, "0-1 1-2 0-3", "0", "", "n1 n2 n3", Options{First: 1}, "n3 | n1 n2"},
		{"three points of presence go one by one", 3, "0-1 1-2", "0 1 2", "", "n0 n1 n2", Options{}, "n0 | n1 | n2"},
		{"a name twice is one node", 2, "0-1", "0", "", "n1 n1", Options{}, "n1"},
	} {
		got, faults := Plan(sketch(c.nodes, c.links, c.pops, c.offline), strings.Fields(c.pending), c.o)
		if faults != nil || said(got) != c.want {
			t.Errorf("%s: %s %v, want %s", c.name, said(got), faults, c.want)
		}
	}
}

func TestASiteGoesAsAWhole(t *testing.T) {
	top := sketch(4, line4, "0", "")
	top.Nodes[2].Site = "s1" // n1 and n2 stand together
	got, _ := Plan(top, []string{"n2", "n1"}, Options{Limit: 1})
	if said(got) != "n1 n2" {
		t.Errorf("%s", said(got))
	}
	top.Nodes[1].Status = topology.Offline // its links are gone with it: n2 and n3 are cut off
	got, _ = Plan(top, all(top), Options{})
	if want := "n0; n1: it is offline; n2: its site has no path to a point of presence; n3: its site has no path to a " +
		"point of presence"; said(got) != want {
		t.Errorf("%s, want %s", said(got), want)
	}
}

func TestPendingNamesThatAreNoNodesAreFaults(t *testing.T) {
	_, faults := Plan(sketch(2, "0-1", "0", ""), []string{"n9", "n1", "n8", "n9"}, Options{})
	want := "pending: invalid value \"n8\", which is not a node of the topology: must be names of its nodes\n" +
		"pending: invalid value \"n9\", which is not a node of the topology: must be names of its nodes"
	if faults.Error() != want {
		t.Errorf("%v, want %s", faults, want)
	}
}

// The stored topologies, whose links are dead mostly, as they are and with all links up.
func TestPlansOfTheStoredTopologies(t *testing.T) {
	names, err := filepath.Glob("../../testdata/terragraph/topology_conf/*.conf")
	if err != nil || len(names) == 0 {
		t.Fatalf("no topologies: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		top, faults := topology.Parse(text)
		if faults != nil {
			t.Fatal(faults)
		}
		for _, assume := range []bool{false, true} {
			got, faults := Plan(top, all(top), Options{AssumeAlive: assume})
			if faults != nil {
				t.Fatal(faults)
			}
			for _, w := range breaches(top, all(top), assume, got) {
				t.Errorf("%s: %s", filepath.Base(name), w)
			}
			if alone := len(got.Unreachable) == 0; alone != assume {
				t.Errorf("%s, all links up %v: unreachable are %v", filepath.Base(name), assume, got.Unreachable)
			}
			t.Logf("%s, all links up %v: %s", filepath.Base(name), assume, said(got))
		}
	}
}

// TestTheFirstBatchAloneIsThatOfTheWholePlan: a rollout asks for no more than the next batch.
func TestTheFirstBatchAloneIsThatOfTheWholePlan(t *testing.T) {
	for _, o := range []Options{{Limit: 3}, {Limit: 3, First: 1}, {First: 4}} {
		top, pending := star(10)
		whole, _ := Plan(top, pending, o)
		first, faults := planCanary(1, top, pending, o)
		if faults != nil || len(whole.Batches) < 2 || len(first.Batches) != 1 ||
			!slices.Equal(first.Batches[0], whole.Batches[0]) {
			t.Errorf("%+v: %v of %v", o, first.Batches, whole.Batches)
		}
	}
}
