package optimize

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

// sets are what is run: each kind alone, and all.
func sets(t *rapid.T) []Kind {
	return rapid.SampledFrom([][]Kind{{Polarity}, {Channel}, {Golay}, {Superframe}, All}).Draw(t, "kinds")
}

// "user values respected or cleared as asked": what users set is in force afterwards, or,
// when clearing was asked for, gone from the node layer, the network layer's still in force.
func TestAUserValueIsNeverBroken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		in.ClearUser = rapid.Bool().Draw(t, "clear")
		kinds := sets(t)
		out, faults := Run(in, kinds...)
		if faults != nil {
			return
		}
		now := after(in, out)
		for _, p := range paramsOf(kinds) {
			for node, mac := range linked(in, p) {
				want, set := byUser(in, node, mac, p)
				got := effective(now, node, mac, p)
				if set && got != want {
					t.Errorf("%s of %s at %s: users set %d, now %d", p.name, mac, node, want, got)
				}
				if v, there := byUser(Input{Node: out.Node}, node, mac, p); in.ClearUser && there {
					t.Errorf("%s of %s at %s: %d is still in the node layer", p.name, mac, node, v)
				}
			}
		}
		if !in.ClearUser && text(in.Node) != text(out.Node) {
			t.Errorf("the node layer changed though nobody asked for it:\n%s\n%s", text(in.Node), text(out.Node))
		}
	})
}

// linked are the keys of a value that links make use of.
func linked(in Input, p param) func(func(string, string) bool) {
	net := newNetwork(in.Topology)
	net.halves = nil
	return func(yield func(string, string) bool) {
		for node, mac := range net.keys(p) {
			at := slices.IndexFunc(net.radios, func(r radio) bool { return r.mac == mac })
			if (p.name != channel.name || len(net.radios[at].links) > 0) && !yield(node, mac) {
				return
			}
		}
	}
}

func paramsOf(kinds []Kind) []param {
	all := map[Kind][]param{Polarity: {polarity}, Channel: {channel}, Golay: {txGolay, rxGolay}, Superframe: {superframe}}
	var out []param
	for _, k := range kinds {
		out = append(out, all[k]...)
	}
	return out
}

// Enum values: ODD=1, EVEN=2, HYBRID_ODD=3, HYBRID_EVEN=4. "Valid link: one odd-ish and one
// even-ish end, not both hybrid".
func TestEveryLinkIsValidAfterwards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		out, faults := Run(in, All...)
		if faults != nil {
			return
		}
		now := after(in, out)
		for _, l := range newNetwork(in.Topology).links {
			checkLink(t, now, l)
		}
	})
}

func checkLink(t *rapid.T, in Input, l link) {
	net := newNetwork(in.Topology)
	a, z := net.radios[l.ends[0]], net.radios[l.ends[1]]
	x, y := effective(in, a.node, a.mac, polarity), effective(in, z.node, z.mac, polarity)
	if x < 1 || y < 1 || x > 4 || y > 4 || x%2 == y%2 || x > 2 && y > 2 {
		t.Errorf("%s: polarities %d and %d", l.name, x, y)
	}
	colour := effective(in, a.node, z.mac, txGolay)
	for _, got := range []int64{effective(in, a.node, z.mac, rxGolay), effective(in, z.node, a.mac, txGolay),
		effective(in, z.node, a.mac, rxGolay)} {
		if got != colour || colour < 1 || colour > 3 {
			t.Errorf("%s: golay codes %d and %d", l.name, colour, got)
		}
	}
	enabled := in.Channels
	if enabled == nil {
		enabled = []int64{2}
	}
	x, y = effective(in, a.node, a.mac, channel), effective(in, z.node, z.mac, channel)
	if x != y || !slices.Contains(enabled, x) {
		t.Errorf("%s: channels %d and %d of %v", l.name, x, y, enabled)
	}
	x, y = effective(in, a.node, z.mac, superframe), effective(in, z.node, a.mac, superframe)
	if x != y || (x == 255) == (a.dn && z.dn) || x != 255 && x != 0 && x != 1 {
		t.Errorf("%s: superframes %d and %d", l.name, x, y)
	}
	for i, other := range net.links {
		shared := other.ends[0] == l.ends[0] || other.ends[1] == l.ends[0] || other.ends[0] == l.ends[1] ||
			other.ends[1] == l.ends[1]
		b, c := net.radios[other.ends[0]], net.radios[other.ends[1]]
		if net.links[i].name != l.name && shared && x != 255 && effective(in, b.node, c.mac, superframe) == x {
			t.Errorf("%s and %s share a radio and superframe %d", l.name, other.name, x)
		}
	}
}

func TestASecondRunChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		in.ClearUser = rapid.Bool().Draw(t, "clear")
		kinds := sets(t)
		out, faults := Run(in, kinds...)
		if faults != nil {
			return
		}
		again, faults := Run(after(in, out), kinds...)
		if faults != nil || len(again.Changes) > 0 || text(again.Auto) != text(out.Auto) ||
			text(again.Node) != text(out.Node) {
			t.Fatalf("%v again: %v, %v", kinds, again.Changes, faults)
		}
	})
}

func TestTheOrderOfTheFileDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		kinds := sets(t)
		out, faults := Run(in, kinds...)
		same, others := Run(shuffled(t, in), kinds...)
		if told(faults) != told(others) {
			t.Fatalf("faults\n%v\nand\n%v", faults, others)
		}
		if text(out.Auto) != text(same.Auto) {
			t.Fatalf("auto layers\n%s\nand\n%s", text(out.Auto), text(same.Auto))
		}
	})
}

// Only what is assigned changes, Changes tells all of it, and nobody's document is touched.
func TestOnlyWhatIsAssignedChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		in.ClearUser = rapid.Bool().Draw(t, "clear")
		was := text(in.Auto) + text(in.Node) + text(in.Network)
		kinds := sets(t)
		out, faults := Run(in, kinds...)
		if now := text(in.Auto) + text(in.Node) + text(in.Network); was != now {
			t.Fatalf("the input changed:\n%s\n%s", was, now)
		}
		if faults != nil {
			return
		}
		auto, node := in.Auto, in.Node
		names := map[string]bool{}
		for _, p := range paramsOf(kinds) {
			names[p.name] = true
		}
		for _, c := range out.Changes {
			if !names[c.Path[len(c.Path)-1]] {
				t.Errorf("changed %v, which is not of %v", c, kinds)
			}
			doc := map[string]*config.Object{"auto": &auto, "node": &node}[c.Layer]
			if old, _ := config.Lookup(*doc, c.Path); !config.Equal(old, c.Old) {
				t.Errorf("%v: was %v", c, old)
			}
			if *doc = config.Unset(*doc, c.Path); c.New != nil {
				*doc = config.Set(*doc, c.Path, c.New)
			}
		}
		if text(config.DropEmpty(auto)) != text(config.DropEmpty(out.Auto)) ||
			text(config.DropEmpty(node)) != text(config.DropEmpty(out.Node)) {
			t.Errorf("the changes made of the input\n%s\nbut the result is\n%s", text(auto), text(out.Auto))
		}
	})
}

// The cover is the least: no assignment of polarities has hybrid sites of less weight, and
// where Run finds none there is none.
func TestNoAssignmentHasLessHybridWeight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		in.ClearUser = rapid.Bool().Draw(t, "clear")
		out, faults := Run(in, Polarity)
		c := colouring{run: &run{in: in, net: newNetwork(in.Topology)}}
		c.view = newView(in.Topology, in.Auto, in.Network, in.Node, in.ClearUser)
		for _, r := range c.net.radios {
			c.user = append(c.user, c.view.user(r.node, r.mac, polarity))
			now, known := c.view.now(r.node, r.mac, polarity)
			if !known {
				now = int64(r.polarity)
			}
			c.now = append(c.now, parityOf(now))
		}
		if len(c.net.groups) > 14 {
			t.Skip("too many to try all")
		}
		least := c.bruteForce()
		if faults != nil {
			if least < math.MaxInt64 && !hybridPair(c) {
				t.Fatalf("there is an assignment of weight %d, but: %v", least, faults)
			}
			return
		}
		var got []int
		for _, r := range c.net.radios {
			got = append(got, parityOf(effective(after(in, out), r.node, r.mac, polarity)))
		}
		if w := weigh(c, got); w != least {
			t.Fatalf("weight %d, but %d is possible", w, least)
		}
	})
}

func weigh(c colouring, polarities []int) int64 {
	var sum int64
	weights := c.weights(true)
	for s, ok := range c.mixed(polarities) {
		if ok {
			sum += weights[s]
		}
	}
	return sum
}

// bruteForce tries all values of the groups.
func (c *colouring) bruteForce() int64 {
	least := int64(math.MaxInt64)
	for bits := range 1 << len(c.net.groups) {
		polarities := make([]int, len(c.net.radios))
		fits := true
		for i, r := range c.net.radios {
			polarities[i] = odd
			if (bits>>r.group&1 == 1) != r.differs {
				polarities[i] = even
			}
			fits = fits && (!c.user[i].given() || parityOf(c.user[i].value) == polarities[i])
		}
		for _, l := range c.net.links {
			fits = fits && polarities[l.ends[0]] != polarities[l.ends[1]]
		}
		if fits {
			least = min(least, weigh(*c, polarities))
		}
	}
	return least
}

func hybridPair(c colouring) bool {
	return slices.ContainsFunc(c.net.links, func(l link) bool {
		return c.user[l.ends[0]].value > 2 && c.user[l.ends[1]].value > 2
	})
}

// A network that is too wide for an exact cover gets a good one in bounded work, says so, and
// keeps it.
func TestAWideNetworkIsDoneInBoundedWork(t *testing.T) {
	in := Input{Topology: &topology.Topology{}}
	const n = 40
	for s := range n {
		in.Topology.Sites = append(in.Topology.Sites, topology.Site{Name: name("s", s)})
		in.Topology.Nodes = append(in.Topology.Nodes,
			topology.Node{Name: name("n", s), Type: topology.DN, Site: name("s", s)})
		for z := range s {
			in.Topology.Links = append(in.Topology.Links, topology.Link{
				Name: name("l", s*n+z), A: name("n", s), Z: name("n", z), AMAC: mac(s, z), ZMAC: mac(z, s), Type: topology.Wireless,
			})
		}
	}
	out := must(t, in, Polarity)
	if len(out.Notes) != 1 {
		t.Errorf("notes: %v", out.Notes)
	}
	hybrids := 0
	for s := range n {
		seen := int64(0)
		for z := range n {
			if z != s {
				seen |= effective(after(in, out), name("n", s), mac(s, z), polarity)
			}
		}
		if seen == 3 {
			hybrids++
		}
	}
	if hybrids != n-2 { // two sites of a complete graph can be left
		t.Errorf("%d hybrid sites, want %d", hybrids, n-2)
	}
	if again := must(t, after(in, out), Polarity); len(again.Changes) > 0 {
		t.Errorf("again: %v", again.Changes)
	}
	// Another assignment that is as good stays: the first two sites are the ones left.
	in.Auto = config.Object{}
	for s := range n {
		for z := range n {
			if v := int64(1); z != s {
				if s == 1 || s > 1 && (z == 0 || z > 1 && s > z) {
					v = 2
				}
				in.Auto = config.Set(in.Auto, []string{name("n", s), polarity.over, mac(s, z), "fwParams", polarity.name}, v)
			}
		}
	}
	if other := must(t, in, Polarity); len(other.Changes) > 0 {
		t.Errorf("one as good: %d changes", len(other.Changes))
	}
}
