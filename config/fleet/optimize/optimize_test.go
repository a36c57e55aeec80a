package optimize

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

func name(kind string, i int) string { return fmt.Sprintf("%s%04d", kind, i) }

func mac(a, b int) string { return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", a>>8, a&255, b>>8, b&255) }

// world reads a network of one line per link: "site.radio site.radio", where a node is a
// site's name and its MAC is that of the radio. A site in lower case has a client node.
func world(links ...string) *topology.Topology {
	t := &topology.Topology{}
	node := func(end string) (string, string) {
		site, radio, _ := strings.Cut(end, ".")
		if _, there := t.Site(site); !there {
			t.Sites = append(t.Sites, topology.Site{Name: site})
			kind := topology.DN
			if site == strings.ToLower(site) {
				kind = topology.CN
			}
			t.Nodes = append(t.Nodes, topology.Node{Name: site, Site: site, Type: kind})
		}
		return site, radioMAC(site + "." + radio)
	}
	for _, l := range links {
		a, z, _ := strings.Cut(l, " ")
		link := topology.Link{Name: l, Type: topology.Wireless}
		link.A, link.AMAC = node(a)
		link.Z, link.ZMAC = node(z)
		t.Links = append(t.Links, link)
	}
	return t
}

// radioMAC is the MAC of a radio written as "site.radio".
func radioMAC(radio string) string { return fmt.Sprintf("02:00:00:00:%02x:%02x", radio[0], radio[2]) }

// layer makes overrides of "site.radio" to value: {site: radioParamsOverride: mac: …}.
func layer(p param, values map[string]int64) config.Object {
	o := config.Object{}
	for radio, v := range values {
		o = config.Set(o, []string{radio[:1], p.over, radioMAC(radio), "fwParams", p.name}, v)
	}
	return o
}

// polarities are those of radios, "A.1=1 B.1=2".
func polarities(in Input, t *topology.Topology) string {
	var out []string
	for _, r := range newNetwork(t).radios {
		var a, b byte
		fmt.Sscanf(r.mac[12:], "%02x:%02x", &a, &b)
		out = append(out, fmt.Sprintf("%c.%c=%d", a, b, effective(in, r.node, r.mac, polarity)))
	}
	return strings.Join(out, " ")
}

// The rules of reference §1.17 for polarities.
func TestPolarity(t *testing.T) {
	ring := world("A.1 B.1", "B.2 C.1", "C.2 A.2")
	for _, c := range []struct {
		rule          string
		on            *topology.Topology
		auto, node    map[string]int64
		network       int64
		clear         bool
		want, refused string
	}{
		{rule: "a fresh network begins odd", on: world("A.1 B.1"), want: "A.1=1 B.1=2"},
		{rule: "tie: the old value", on: world("A.1 B.1"), auto: map[string]int64{"A.1": 2}, want: "A.1=2 B.1=1"},
		{rule: "a user's value decides for the whole network", on: world("A.1 B.1", "B.2 C.1"),
			node: map[string]int64{"C.1": 2}, want: "A.1=2 B.1=1 B.2=1 C.1=2"},
		{rule: "a user's hybrid value is one of its oddness, and stays", on: world("A.1 B.1"),
			node: map[string]int64{"A.1": 4}, want: "A.1=4 B.1=1"},
		{rule: "an odd cycle of sites costs one hybrid site", on: ring, want: "A.1=1 A.2=1 B.1=2 B.2=1 C.1=2 C.2=2"},
		{
			rule: "the site that is hybrid already stays the one (99.9 against 100), though that changes more", on: ring,
			auto: map[string]int64{"A.1": 1, "A.2": 1, "B.1": 1, "B.2": 2, "C.2": 2},
			want: "A.1=1 A.2=1 B.1=2 B.2=1 C.1=2 C.2=2",
		},
		{
			rule: "a site whose user mixed it is the one", on: ring, auto: map[string]int64{"B.1": 1, "B.2": 2},
			node: map[string]int64{"C.1": 1, "C.2": 2}, want: "A.1=1 A.2=1 B.1=2 B.2=2 C.1=1 C.2=2",
		},
		{
			rule: "a site with a radio of two links between DNs is not (weight 10000)",
			on:   world("A.1 B.1", "B.2 C.1", "C.2 A.2", "B.1 D.1", "C.2 E.1"),
			want: "A.1=2 A.2=1 B.1=1 B.2=1 C.1=2 C.2=2 D.1=2 E.1=1",
		},
		{
			rule: "links of client nodes make no such radio",
			on:   world("A.1 B.1", "B.2 C.1", "C.2 A.2", "B.1 d.1", "C.2 e.1"),
			want: "A.1=1 A.2=1 B.1=2 B.2=1 C.1=2 C.2=2 d.1=1 e.1=1",
		},
		{rule: "the first radio of a fresh network is odd", on: world("A.1 B.1", "B.2 C.1", "B.2 D.1"),
			want: "A.1=1 B.1=2 B.2=2 C.1=1 D.1=1"},
		{rule: "a site's own radios may be linked", on: world("A.1 A.2"), want: "A.1=1 A.2=2"},
		{
			rule: "clearing: users' values don't count, and give way to fewer changes", on: world("A.1 B.1", "A.2 C.1"),
			clear: true,
			node:  map[string]int64{"A.1": 1, "A.2": 2}, auto: map[string]int64{"B.1": 1, "C.1": 1},
			want: "A.1=2 A.2=2 B.1=1 C.1=1",
		},
		{
			rule: "Unable to respect user polarity config", on: world("A.1 B.1"), node: map[string]int64{"A.1": 1, "B.1": 3},
			refused: "node.B.radioParamsOverride.02:00:00:00:42:31.fwParams.polarity: invalid value 3, which can't be " +
				"respected: links " +
				"join it to 02:00:00:00:41:31, where node.A.radioParamsOverride.02:00:00:00:41:31.fwParams.polarity is 1",
		},
		{rule: "clearing makes that possible", on: world("A.1 B.1"), node: map[string]int64{"A.1": 1, "B.1": 3}, clear: true,
			want: "A.1=1 B.1=2"},
		{
			rule: "a value for all nodes can't be for both ends, and is not one node's to clear", on: world("A.1 B.1"),
			network: 1, clear: true,
			refused: "network.radioParamsBase.fwParams.polarity: invalid value 1, which can't be respected",
		},
		{rule: "the MAC's own value is over that for all", on: world("A.1 B.1"), network: 1, node: map[string]int64{"B.1": 2},
			want: "A.1=1 B.1=2"},
		{
			rule: "not both hybrid", on: world("A.1 B.1"), node: map[string]int64{"A.1": 3, "B.1": 4},
			refused: "node.B.radioParamsOverride.02:00:00:00:42:31.fwParams.polarity: invalid value 4, as hybrid as " +
				"02:00:00:00:41:31",
		},
		{
			rule: "Unsolvable odd cycle exists", on: world("A.1 B.1", "B.1 C.1", "C.1 A.1"),
			refused: "links.\"B.1 C.1\": closes an odd cycle of links, which no polarities solve: 02:00:00:00:42:31, " +
				"02:00:00:00:43:31, 02:00:00:00:41:31",
		},
		{
			rule: "a value that can't be", on: world("A.1 B.1"), node: map[string]int64{"A.1": 5},
			refused: "node.A.radioParamsOverride.02:00:00:00:41:31.fwParams.polarity: invalid value 5: " +
				"must be 1 (odd), 2 (even), 3 (hybrid odd) or 4 (hybrid even)",
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			in := Input{Topology: c.on, Auto: layer(polarity, c.auto), Node: layer(polarity, c.node), ClearUser: c.clear}
			if c.network > 0 {
				in.Network = config.Set(nil, []string{"radioParamsBase", "fwParams", "polarity"}, c.network)
			}
			out, faults := Run(in, Polarity)
			if c.refused != "" {
				if !strings.HasPrefix(told(faults), c.refused) {
					t.Fatalf("faults %v\nwant %s", faults, c.refused)
				}
				return
			}
			if got := polarities(after(in, out), c.on); got != c.want || faults != nil {
				t.Errorf("got %s, %v\nwant %s", got, faults, c.want)
			}
		})
	}
}

// The rules of reference §1.17 for control superframes. A user's values are by the link's
// end: the node, and the MAC of its peer.
func TestSuperframe(t *testing.T) {
	chain := world("A.1 B.1", "B.1 C.1", "C.1 D.1", "A.2 e.1")
	for _, c := range []struct {
		rule    string
		on      *topology.Topology
		auto    map[string]int64 // by link name
		node    map[string]int64
		clear   bool
		want    string
		refused string
	}{
		{rule: "0 or 1, different for links sharing a radio; any CN end: 255", on: chain, want: "0 255 1 0"},
		{rule: "a fresh chain's first link gets 0", on: world("A.1 F.1", "B.1 C.1", "C.1 D.1", "D.1 F.1"), want: "0 1 0 1"},
		{rule: "an auto value that the ends don't share is none", on: world("A.1 B.1"),
			auto: map[string]int64{"A.1 B.1": 1, "B.1 A.1": 0}, want: "0"},
		{rule: "else auto", on: chain, auto: map[string]int64{"A.1 B.1": 1, "B.1 C.1": 0}, want: "1 255 0 1"},
		{rule: "the user's first", on: chain, auto: map[string]int64{"A.1 B.1": 1, "B.1 C.1": 0},
			node: map[string]int64{"C.1 D.1": 0}, want: "0 255 1 0"},
		{
			rule: "Unable to respect user configured control superframe", on: chain,
			node: map[string]int64{"A.1 B.1": 0, "C.1 D.1": 1},
			refused: "node.C.linkParamsOverride.02:00:00:00:44:31.fwParams.controlSuperframe: invalid value 1, which can't be " +
				"respected: " +
				"node.A.linkParamsOverride.02:00:00:00:42:31.fwParams.controlSuperframe is 0",
		},
		{rule: "cleared", on: chain, node: map[string]int64{"A.1 B.1": 0, "C.1 D.1": 1}, clear: true, want: "0 255 1 0"},
		{rule: "a CN's link has no other", on: chain, node: map[string]int64{"A.2 e.1": 1},
			refused: "node.A.linkParamsOverride.02:00:00:00:65:31.fwParams.controlSuperframe: invalid value 1, for link A.2 " +
				"e.1: " +
				"must be 255"},
		{rule: "nor a DN's", on: chain, node: map[string]int64{"A.1 B.1": 255},
			refused: "node.A.linkParamsOverride.02:00:00:00:42:31.fwParams.controlSuperframe: invalid value 255, for link A.1 " +
				"B.1: " +
				"must be 0 or 1"},
		{rule: "Impossible to allocate control superframe", on: world("A.1 B.1", "A.1 C.1", "A.1 D.1"),
			refused: `links."A.1 D.1": shares radio 02:00:00:00:41:31 with A.1 B.1, A.1 C.1: must be at most two links`},
		{rule: "nor around an odd cycle", on: world("A.1 B.1", "B.1 C.1", "C.1 A.1"),
			refused: `links."C.1 A.1": closes an odd cycle of links that share radios`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			in := Input{Topology: c.on, Auto: atLinks(c.auto, true), Node: atLinks(c.node, false), ClearUser: c.clear}
			out, faults := Run(in, Superframe)
			if c.refused != "" {
				if !strings.HasPrefix(told(faults), c.refused) {
					t.Fatalf("faults %v\nwant %s", faults, c.refused)
				}
				return
			}
			var got []string
			net := newNetwork(c.on)
			for _, l := range net.links {
				got = append(got, fmt.Sprint(effective(after(in, out), net.radios[l.ends[0]].node, net.radios[l.ends[1]].mac,
					superframe)))
			}
			if strings.Join(got, " ") != c.want || faults != nil {
				t.Errorf("got %v, %v, want %s", got, faults, c.want)
			}
		})
	}
}

// atLinks sets superframes at the first end of links, or at both.
func atLinks(values map[string]int64, both bool) config.Object {
	o := config.Object{}
	for l, v := range values {
		a, z, _ := strings.Cut(l, " ")
		o = config.Set(o, []string{a[:1], superframe.over, radioMAC(z), "fwParams", superframe.name}, v)
		if _, turned := values[z+" "+a]; both && !turned {
			o = config.Set(o, []string{z[:1], superframe.over, radioMAC(a), "fwParams", superframe.name}, v)
		}
	}
	return o
}

// "wireless links lacking MACs get it cleared", and what is empty by that goes.
func TestSuperframeOfALinkWithoutMACIsCleared(t *testing.T) {
	on := world("A.1 B.1")
	in := Input{Topology: on, Auto: config.Object{
		"A": config.Object{superframe.over: config.Object{radioMAC("B.1"): config.Object{"fwParams": config.Object{superframe.name: int64(1)}}}},
		"B": config.Object{"b": true},
	}}
	on.Links[0].AMAC = ""
	if got := must(t, in, Superframe); text(got.Auto) != text(config.Object{"B": config.Object{"b": true}}) {
		t.Errorf("auto layer %s", text(got.Auto))
	}
}

// "MAC keys standardised to lowercase": a key of the auto layer is spelt anew, with all that is
// below it; one MAC in two spellings is a fault.
func TestMACsAreStandardised(t *testing.T) {
	other := config.Object{"laMaxMcs": int64(9), "polarity": int64(2)}
	in := Input{Topology: world("J.1 K.1"), Auto: config.Object{"J": config.Object{
		polarity.over: config.Object{"02-00-00-00-4A-31": config.Object{"fwParams": other, "x": true}},
	}}}
	out := must(t, in, Polarity)
	if want := (config.Object{"02:00:00:00:4a:31": config.Object{"fwParams": other,
		"x": true}}); !config.Equal(object(object(out.Auto, "J"), polarity.over), want) {
		t.Errorf("auto layer %s", text(out.Auto))
	}
	in.Node = config.Object{"J": config.Object{polarity.over: config.Object{"02:00:00:00:4a:31": config.Object{},
		"02:00:00:00:4A:31": config.Object{}}}}
	_, faults := Run(in, Polarity)
	if want := "node.J.radioParamsOverride.02:00:00:00:4a:31: duplicate of the MAC 02:00:00:00:4A:31: " +
		"must be one spelling of a MAC"; told(faults) != want {
		t.Errorf("faults %v", faults)
	}
}

// Two links between the same radios are one, and one without a MAC takes nothing from one
// that has it.
func TestLinksBesideEachOther(t *testing.T) {
	on := world("A.1 B.1")
	again, half := on.Links[0], on.Links[0]
	again.Name, half.Name, half.AMAC = "again", "half", ""
	on.Links = append(on.Links, again, half)
	in := Input{Topology: on}
	out := must(t, in, All...)
	if got := effective(after(in, out), "A", radioMAC("B.1"), superframe); got != 0 || len(out.Changes) != 2*(1+1+2+1) {
		t.Errorf("superframe %d, changes %v", got, out.Changes)
	}
}

// Every stored topology has a solution, keeps the polarities that its file has, and is left
// alone by a second run.
func TestRealTopologies(t *testing.T) {
	files, err := filepath.Glob("../../testdata/terragraph/topology_conf/*.conf")
	if err != nil || len(files) < 8 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		top, faults := topology.Parse(raw)
		if faults != nil {
			t.Fatal(faults)
		}
		in := Input{Topology: top, Channels: []int64{1, 2}}
		out := must(t, in, All...)
		now := after(in, out)
		for _, r := range newNetwork(top).radios {
			n, _ := top.Node(r.node)
			if got := effective(now, r.node, r.mac, polarity); got != int64(n.Polarity) {
				t.Errorf("%s: %s is %d, was %d", filepath.Base(file), r.node, got, n.Polarity)
			}
			if got := effective(now, r.node, r.mac, channel); !slices.Contains(in.Channels, got) {
				t.Errorf("%s: %s has channel %d", filepath.Base(file), r.node, got)
			}
		}
		if again := must(t, now, All...); len(again.Changes) > 0 {
			t.Errorf("%s: again %v", filepath.Base(file), again.Changes)
		}
	}
}

// What can't be assigned names all the nodes that are in conflict.
func TestAConflictNamesItsNodes(t *testing.T) {
	triangle := world("A.1 B.1", "B.1 C.1", "C.1 A.1", "A.2 D.1")
	for _, c := range []struct {
		rule string
		on   *topology.Topology
		kind Kind
		node config.Object
		want string // the nodes of each fault
	}{
		{"an odd cycle", triangle, Polarity, nil, "A,B,C"},
		{"two users' polarities", world("A.1 B.1", "B.1 C.1", "C.1 D.1"), Polarity,
			layer(polarity, map[string]int64{"A.1": 1, "D.1": 1}), "A,D"},
		{"both hybrid", world("A.1 B.1"), Polarity, layer(polarity, map[string]int64{"A.1": 3, "B.1": 4}), "A,B"},
		{"a value that can't be", world("A.1 B.1"), Polarity, layer(polarity, map[string]int64{"A.1": 5}), "A"},
		{"three links on a radio", world("A.1 B.1", "A.1 C.1", "A.1 D.1", "D.2 F.1"), Superframe, nil, "A,B,C,D"},
		{"an odd cycle of superframes", triangle, Superframe, nil, "A,B,C"},
		{"two users' channels", world("A.1 B.1"), Channel, layer(channel, map[string]int64{"A.1": 1, "B.1": 2}), "A,B"},
	} {
		_, faults := Run(Input{Topology: c.on, Node: c.node, Channels: []int64{1, 2}}, c.kind)
		var got []string
		for _, f := range faults {
			got = append(got, strings.Join(f.Nodes, ","))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q: %v", c.rule, got, c.want, faults)
		}
	}
}

// told are all faults, one a line.
func told(faults LayerFaults) string {
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}
