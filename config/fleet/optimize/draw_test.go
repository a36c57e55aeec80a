package optimize

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

// draw makes a small network with a bit of everything: radios of several links, links within
// a site, ethernet, ends without a MAC, sites without a place, and layers that say some of
// what is to be assigned, and other things.
func draw(t *rapid.T) Input {
	top := &topology.Topology{Name: "drawn"}
	node, network, auto := config.Object{}, config.Object{}, config.Object{}
	for s := range rapid.IntRange(1, 6).Draw(t, "sites") {
		site := topology.Site{Name: fmt.Sprint("s", s), Located: rapid.IntRange(0, 5).Draw(t, "located") > 0}
		site.Latitude = float64(rapid.IntRange(-30, 30).Draw(t, "lat")) * 1e-4
		site.Longitude = float64(rapid.IntRange(-30, 30).Draw(t, "lon")) * 1e-4
		top.Sites = append(top.Sites, site)
		for n := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			name := fmt.Sprintf("n%d.%d", s, n)
			kind := topology.DN
			if rapid.IntRange(0, 4).Draw(t, "cn") == 0 {
				kind = topology.CN
			}
			top.Nodes = append(top.Nodes, topology.Node{
				Name: name, Type: kind, Site: site.Name, Polarity: rapid.IntRange(0, 2).Draw(t, "old"),
				WlanMACs: []string{fmt.Sprintf("02:00:00:00:%02x:%02x", s, n)},
			})
		}
	}
	for i := range rapid.IntRange(0, 9).Draw(t, "links") {
		a, z := rapid.IntRange(0, len(top.Nodes)-1).Draw(t, "a"), rapid.IntRange(0, len(top.Nodes)-1).Draw(t, "z")
		if a == z {
			continue
		}
		l := topology.Link{Name: fmt.Sprint("l", i), A: top.Nodes[a].Name, Z: top.Nodes[z].Name, Type: topology.Wireless}
		l.AMAC, l.ZMAC = radioOf(t, &top.Nodes[a], i), radioOf(t, &top.Nodes[z], i)
		switch rapid.IntRange(0, 15).Draw(t, "odd link") {
		case 0:
			l.Type = topology.Ethernet
		case 1:
			l.ZMAC = ""
		}
		top.Links = append(top.Links, l)
	}
	in := Input{Topology: top,
		Channels: rapid.SampledFrom([][]int64{nil, {1}, {1, 2}, {2, 4}, {1, 3, 4}}).Draw(t, "channels")}
	net := newNetwork(top)
	users := rapid.IntRange(0, 4).Draw(t, "users")
	for _, p := range []param{polarity, channel, txGolay, rxGolay, superframe} {
		for on, mac := range net.keys(p) {
			auto = value(t, auto, p, on, mac, 2)
			node = value(t, node, p, on, mac, 12-2*users)
		}
		if rapid.IntRange(0, 9).Draw(t, "network") == 0 {
			network = config.Set(network, []string{p.base, "fwParams", p.name}, rapid.SampledFrom(p.allowed).Draw(t, "for all"))
		}
	}
	in.Auto, in.Node, in.Network = auto, node, network
	return in
}

// radioOf is a new radio of a node, or one that it has.
func radioOf(t *rapid.T, n *topology.Node, link int) string {
	if rapid.IntRange(0, 3).Draw(t, "shared") > 0 {
		n.WlanMACs = append(n.WlanMACs,
			fmt.Sprintf("02:00:%02x:00:0%s:%02x", link+1, n.Name[1:2], len(n.WlanMACs)+16*int(n.Name[3]-'0')))
		return n.WlanMACs[len(n.WlanMACs)-1]
	}
	return rapid.SampledFrom(n.WlanMACs).Draw(t, "radio")
}

// value sets a value for one MAC, one time in some, and something else beside it.
func value(t *rapid.T, doc config.Object, p param, node, mac string, oneIn int) config.Object {
	if rapid.IntRange(0, oneIn).Draw(t, "set") > 0 {
		return doc
	}
	path := []string{node, p.over, mac, "fwParams"}
	if rapid.IntRange(0, 3).Draw(t, "beside") == 0 {
		doc = config.Set(doc, config.Below(path, "laMaxMcs"), int64(9))
	}
	return config.Set(doc, config.Below(path, p.name), rapid.SampledFrom(p.allowed).Draw(t, p.name))
}

// must runs kinds that are expected to do.
func must(t testing.TB, in Input, kinds ...Kind) Result {
	t.Helper()
	out, faults := Run(in, kinds...)
	if faults != nil {
		t.Fatalf("run %v: %v", kinds, faults)
	}
	return out
}

// after is an input as it is once the result was written.
func after(in Input, r Result) Input {
	in.Auto, in.Node = r.Auto, r.Node
	return in
}

// effective is a value as a node gets it.
func effective(in Input, node, mac string, p param) int64 {
	o, _ := config.Merge(object(in.Auto, node), in.Network)
	o, _ = config.Merge(o, object(in.Node, node))
	v, found := config.Lookup(o, []string{p.over, mac, "fwParams", p.name})
	if !found {
		v, _ = config.Lookup(o, []string{p.base, "fwParams", p.name})
	}
	i, _ := v.(int64)
	return i
}

// byUser is a value as users set it, and whether they did.
func byUser(in Input, node, mac string, p param) (int64, bool) {
	own := object(in.Node, node)
	if in.ClearUser {
		own = nil
	}
	o, _ := config.Merge(in.Network, own)
	v, found := config.Lookup(o, []string{p.over, mac, "fwParams", p.name})
	if !found {
		v, found = config.Lookup(o, []string{p.base, "fwParams", p.name})
	}
	i, _ := v.(int64)
	return i, found
}

func object(o config.Object, key string) config.Object {
	below, _ := o[key].(config.Object)
	return below
}

func text(o config.Object) string { return string(config.AppendCanonical(nil, o)) }

// shuffled is the same network in another order, some links the other way round.
func shuffled(t *rapid.T, in Input) Input {
	top := *in.Topology
	top.Nodes = rapid.Permutation(top.Nodes).Draw(t, "nodes")
	top.Sites = rapid.Permutation(top.Sites).Draw(t, "sites")
	top.Links = slices.Clone(rapid.Permutation(top.Links).Draw(t, "links"))
	for i, l := range top.Links {
		if rapid.Bool().Draw(t, "turned") {
			top.Links[i].A, top.Links[i].Z, top.Links[i].AMAC, top.Links[i].ZMAC = l.Z, l.A, l.ZMAC, l.AMAC
		}
	}
	in.Topology = &top
	return in
}
