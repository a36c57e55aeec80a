package peer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"edgespan/config/stateloop"
)

func id(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("6f1c9f0e-0000-4000-8000-%012d", n))
}

func peerOf(t *testing.T, name, spec string) Peer {
	t.Helper()
	p, faults := ParsePeer(document(t, "{kind: PeerDescriptor, metadata: {name: "+name+"}, spec: {"+spec+"}}"))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return p
}

func clusterOf(t *testing.T, name, spec string) Cluster {
	t.Helper()
	c, faults := ParseCluster(document(t, "{kind: ClusterDescriptor, metadata: {name: "+name+", id: "+id(900).String()+
		"}, spec: {"+spec+"}}"))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return c
}

// three are peers a, b and c with an interface each, in a deployed cluster.
func three(t *testing.T, topology string) (*Inventory, map[string]Node) {
	peers := map[string]Peer{}
	nodes := map[string]Node{}
	for i, name := range []string{"a", "b", "c"} {
		peers[name] = peerOf(t, name,
			fmt.Sprintf("interfaces: {dut: {ifName: eth%d}}, underlays: {wan: {port: wan0}, low: {address: 198.51.100.%d}}", i+1,
				i+1))
		nodes[name] = Node{ID: id(i + 1),
			Ports: map[string]Port{"wan0": {Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})},
				MTU: 1500}}}
	}
	c := clusterOf(t, "lab", "leader: b, topology: "+topology+
		", members: {a: {interfaces: dut, underlay: wan}, b: {interfaces: dut, underlay: wan}, c: {interfaces: dut, "+
		"underlay: low}}")
	f := NewFleet(peers, map[string]Cluster{"lab": c}, nil)
	d, faults := f.Deploy("lab")
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return NewFleet(peers, f.Clusters, map[string]Deployment{"lab": d}), nodes
}

// show is a configuration in lines.
func show(c Configuration) string {
	var b strings.Builder
	for _, p := range c.Parameters {
		line := string(p.Target) + " " + p.ID
		if len(p.Dependencies) > 0 {
			line += " <- " + strings.Join(p.Dependencies, ", ")
		}
		switch {
		case p.Tunnel != nil:
			line += fmt.Sprintf(": %s vni %d %s > %s mtu %d isolated %v", p.Tunnel.Peer, p.Tunnel.VNI, p.Tunnel.Local,
				p.Tunnel.Remote, p.Tunnel.MTU, p.Tunnel.Isolated)
		case p.Bridge != nil:
			line += fmt.Sprintf(": %s mtu %d", p.Bridge.DisplayName, p.Bridge.MTU)
		case p.Interface != nil:
			line += ": " + p.Interface.IfName
		}
		b.WriteString(line + "\n")
	}
	text := b.String()
	for i, name := range []string{"a", "b", "c"} {
		text = strings.ReplaceAll(text, NetworkOf(id(900), id(i+1)).String(), "net-"+name)
		text = strings.ReplaceAll(text, id(i+1).String(), name)
	}
	return text
}

func TestAStarGoesThroughItsLeader(t *testing.T) {
	f, nodes := three(t, "star")
	for name, want := range map[string]string{
		"a": `present bridge/net-a: lab mtu 1450
present check/net-a/b <- joined/net-a/tunnel/net-a/b
present interface/dut: eth1
present joined/net-a/interface/dut <- bridge/net-a, interface/dut
present joined/net-a/tunnel/net-a/b <- bridge/net-a, tunnel/net-a/b
present ni/net-a <- bridge/net-a
present tunnel/net-a/b: b vni 256 192.0.2.1 > 192.0.2.2 mtu 1450 isolated false
`,
		"b": `present bridge/net-b: lab mtu 1450
present check/net-b/a <- joined/net-b/tunnel/net-b/a
present check/net-b/c <- joined/net-b/tunnel/net-b/c
present interface/dut: eth2
present joined/net-b/interface/dut <- bridge/net-b, interface/dut
present joined/net-b/tunnel/net-b/a <- bridge/net-b, tunnel/net-b/a
present joined/net-b/tunnel/net-b/c <- bridge/net-b, tunnel/net-b/c
present ni/net-b <- bridge/net-b
present tunnel/net-b/a: a vni 256 192.0.2.2 > 192.0.2.1 mtu 1450 isolated false
present tunnel/net-b/c: c vni 257 192.0.2.2 > 198.51.100.3 mtu 1450 isolated false
`,
	} {
		got := show(Derive(Input{Name: name, Nodes: nodes, Fleet: f}))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
	}
}

func TestInAMeshEachTwoHaveATunnelAndNoFrameGoesOn(t *testing.T) {
	f, nodes := three(t, "mesh")
	numbers := map[uint32]int{}
	for _, name := range []string{"a", "b", "c"} {
		networks := Derive(Input{Name: name, Nodes: nodes, Fleet: f}).Networks()
		n := networks[NetworkOf(id(900), nodes[name].ID)]
		if len(networks) != 1 || len(n.Config.Tunnels) != 2 || len(n.Config.Members) != 1 || n.Config.MTU != 1450 {
			t.Fatalf("%s: %+v", name, networks)
		}
		for _, tunnel := range n.Config.Tunnels {
			numbers[tunnel.VNI]++
			if !tunnel.Isolated {
				t.Errorf("%s: tunnel to %s forwards to tunnels", name, tunnel.Name)
			}
		}
	}
	if d := cmp.Diff(map[uint32]int{256: 2, 257: 2, 258: 2}, numbers); d != "" {
		t.Errorf("numbers (-want +got)\n%s", d)
	}
}

func TestAMemberThatHasNotJoinedHasNoPartYet(t *testing.T) {
	f, nodes := three(t, "star")
	delete(nodes, "c")
	if got := show(Derive(Input{Name: "b", Nodes: nodes, Fleet: f})); strings.Contains(got, "/c") ||
		!strings.Contains(got, "tunnel/net-b/a") {
		t.Error(got)
	}
	if got := Derive(Input{Name: "c", Nodes: nodes, Fleet: f}); len(got.Parameters) != 0 {
		t.Error(show(got))
	}
}

func TestATunnelWithoutAddressesIsThereAndHasNone(t *testing.T) {
	f, nodes := three(t, "star")
	nodes["a"] = Node{ID: id(1)}
	for _, p := range Derive(Input{Name: "b", Nodes: nodes, Fleet: f}).Parameters {
		if p.Tunnel != nil && p.Tunnel.Peer == "a" && (p.Tunnel.Local.IsValid() || p.Tunnel.Remote.IsValid()) {
			t.Errorf("%+v", p.Tunnel)
		}
	}
}

func TestATunnelIsOfOneFamilyAndAsLargeAsItsUnderlayLets(t *testing.T) {
	f, nodes := three(t, "star")
	six := func(n byte) netip.Addr { return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: n}) }
	nodes["a"] = Node{ID: id(1), Ports: map[string]Port{"wan0": {Addresses: []netip.Addr{six(1)}, MTU: 9000}}}
	nodes["b"] = Node{ID: id(2),
		Ports: map[string]Port{"wan0": {Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2"), six(2)}, MTU: 1400}}}
	got := show(Derive(Input{Name: "a", Nodes: nodes, Fleet: f}))
	if !strings.Contains(got, "tunnel/net-a/b: b vni 256 2001:db8::1 > 2001:db8::2 mtu 1330") {
		t.Error(got)
	}
}

// One member's word about its port is no end of the tunnels of all others.
func TestAMemberThatSaysNonsenseOfItsPortTakesNobodysTunnel(t *testing.T) {
	for said, want := range map[int]int{1: 1230, 68: 1230, 1279: 1230, 1300: 1250, 1500: 1450, 1 << 31: 1450, -5: 1450} {
		f, nodes := three(t, "mesh")
		nodes["b"] = Node{ID: nodes["b"].ID,
			Ports: map[string]Port{"wan0": {Addresses: nodes["b"].Ports["wan0"].Addresses, MTU: said}}}
		got := show(Derive(Input{Name: "a", Nodes: nodes, Fleet: f}))
		if n := strings.Count(got, fmt.Sprintf("mtu %d", want)); n != 3 { // two tunnels and the bridge
			t.Errorf("b says %d: %d with %d:\n%s", said, n, want, got)
		}
	}
	for mtu, ok := range map[int]bool{0: true, 67: false, 68: true, 1450: true, -49: false, 65536: false} {
		c := Configuration{Parameters: []DeclaredParameter{{ID: "b", Target: stateloop.ToBePresent, Kind: KindBridge,
			Bridge: &BridgeValue{Network: id(7), MTU: mtu}}}}
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, faults := Decode(text); (len(faults) == 0) != ok {
			t.Errorf("a bridge with %d: %v", mtu, faults)
		}
	}
}

func TestATunnelKeepsItsNumberAndANewOneTakesTheLowest(t *testing.T) {
	f, _ := three(t, "star")
	was := f.Deployments["lab"].VNIs
	other := Cluster{Name: "two", ID: id(901), Leader: "a", Topology: Star,
		Members: map[string]MemberDescriptor{"a": {Underlay: "wan"}, "c": {Underlay: "wan"}}}
	mesh := f.Clusters["lab"]
	mesh.Topology = Mesh
	f = NewFleet(f.Peers, map[string]Cluster{"lab": mesh, "two": other}, f.Deployments)
	two, faults := f.Deploy("two")
	if len(faults) > 0 || two.VNIs["a c"] != 258 {
		t.Fatal(two, faults)
	}
	f = NewFleet(f.Peers, f.Clusters, map[string]Deployment{"lab": f.Deployments["lab"], "two": two})
	lab, _ := f.Deploy("lab")
	if lab.VNIs["a b"] != was["a b"] || lab.VNIs["b c"] != was["b c"] || lab.VNIs["a c"] != 259 {
		t.Errorf("%v after %v", lab.VNIs, was)
	}
	back, faults := ParseDeployment(lab.Document())
	if len(faults) > 0 || !maps.Equal(back.VNIs, lab.VNIs) || back.Cluster != "lab" {
		t.Error(back, faults)
	}
}

func TestWhatCannotBeDeployedIsSaidAtOnce(t *testing.T) {
	f, _ := three(t, "star")
	c := clusterOf(t, "bad", "leader: a, members: {a: {interfaces: 'dut,no', underlay: lte}, z: {underlay: wan}}")
	f.Clusters["bad"] = c
	_, faults := f.Deploy("bad")
	want := `spec.members.a.underlay: invalid value "lte", which peer a does not have: must be low or wan
spec.members.a.interfaces: has "dut" (eth1), which cluster lab has: must be an interface that no deployed cluster has
spec.members.a.interfaces: has "no", which peer a does not have: must be dut
spec.members.z: unknown peer: must be a described peer`
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(faults.Error(), "\n")); d != "" {
		t.Error(d)
	}
	if _, faults := f.Deploy("none"); len(faults) != 1 {
		t.Error(faults)
	}
}

// TestRemovalGoesBackwardsAndBlocksNothing: what is gone keeps what it needed, which is removed
// after it, and nothing that is to be present waits for what is gone (reference §5.1: 1, 2, 4, 5).
func TestRemovalGoesBackwardsAndBlocksNothing(t *testing.T) {
	f, nodes := three(t, "star")
	before := Derive(Input{Name: "a", Nodes: nodes, Fleet: f})
	none := NewFleet(f.Peers, f.Clusters, nil)
	gone := left(nil, before, Derive(Input{Name: "a", Nodes: nodes, Fleet: none}), func(string) bool { return false })
	after := Derive(Input{Name: "a", Nodes: nodes, Fleet: none, Gone: gone})
	want := `absent bridge/net-a
absent check/net-a/b <- joined/net-a/tunnel/net-a/b
absent interface/dut
absent joined/net-a/interface/dut <- bridge/net-a, interface/dut
absent joined/net-a/tunnel/net-a/b <- bridge/net-a, tunnel/net-a/b
absent ni/net-a <- bridge/net-a
absent tunnel/net-a/b
`
	if d := cmp.Diff(want, show(after)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	// A→B→A: what comes back is present and waits for nothing that is gone.
	again := Derive(Input{Name: "a", Nodes: nodes, Fleet: f,
		Gone: left(gone, after, before, func(string) bool { return false })})
	if d := cmp.Diff(show(before), show(again)); d != "" {
		t.Errorf("back again (-before +after)\n%s", d)
	}
}

// TestRandomFleets: whatever is described, deployed, edited and taken back, and whatever of it
// a node was seen to have removed, each configuration has a graph that is right, both ends of a
// tunnel agree, and the bytes that a node gets are what was derived.
func TestRandomFleets(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f, nodes := three2(r)
		conf := map[string]Configuration{}
		gone := map[string][]Leftover{}
		for range 8 {
			f = mutate(r, f)
			for _, name := range slices.Sorted(maps.Keys(nodes)) {
				bare := Derive(Input{Name: name, Nodes: nodes, Fleet: f})
				gone[name] = left(gone[name], conf[name], bare, func(string) bool { return rapid.Bool().Draw(r, "absent") })
				c := Derive(Input{Name: name, Nodes: nodes, Fleet: f, Gone: gone[name]})
				text, err := c.Encode()
				if err != nil {
					r.Fatal(err)
				}
				back, faults := Decode(text)
				if len(faults) > 0 || show(back) != show(c) || back.Digest() != bare.Digest() ||
					DigestOf(string(text)) != bare.Digest() {
					r.Fatalf("%s: %v\n%s", name, faults, show(c))
				}
				conf[name] = c
			}
			agree(r, nodes, conf)
		}
	})
}

func TestTheDigestOfAnEncodedConfigurationStandsFirst(t *testing.T) {
	for text, want := range map[string]string{
		`{"digest":"ab","parameters":[`: "ab", `{"parameters":[{"digest":"ab"}]}`: "", `{"digest":7}`: "", "": "", "[": "",
	} {
		if got := DigestOf(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func three2(r *rapid.T) (*Inventory, map[string]Node) {
	peers, nodes := map[string]Peer{}, map[string]Node{}
	for i, name := range []string{"a", "b", "c", "d"} {
		peers[name] = Peer{
			Name: name, Interfaces: map[string]Interface{"x": {"eth1", "ethernet"}, "y": {"eth2", "ethernet"}},
			Underlays: map[string]Underlay{"u": {Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})}, "v": {Port: "wan"}},
		}
		nodes[name] = Node{ID: id(i + 1)}
		if rapid.Bool().Draw(r, "port") {
			nodes[name] = Node{ID: id(i + 1),
				Ports: map[string]Port{"wan": {Addresses: []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})},
					MTU: 1400}}}
		}
	}
	return NewFleet(peers, map[string]Cluster{}, map[string]Deployment{}), nodes
}

// mutate describes a cluster anew and deploys it, or takes one back.
func mutate(r *rapid.T, f *Inventory) *Inventory {
	clusters, deployments := maps.Clone(f.Clusters), maps.Clone(f.Deployments)
	n := rapid.IntRange(0, 2).Draw(r, "cluster")
	name := fmt.Sprint("k", n)
	if rapid.IntRange(0, 3).Draw(r, "what") == 0 {
		delete(deployments, name)
		return NewFleet(f.Peers, clusters, deployments)
	}
	c := Cluster{Name: name, ID: id(900 + n), Topology: rapid.SampledFrom([]Topology{Star, Mesh}).Draw(r, "topology"),
		Members: map[string]MemberDescriptor{}}
	for _, m := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 2, 4, rapid.ID).Draw(r,
		"members") {
		c.Leader = m
		c.Members[m] = MemberDescriptor{
			Interfaces: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y"}), 0, 2, rapid.ID).Draw(r, "interfaces"),
			Underlay:   rapid.SampledFrom([]string{"u", "v"}).Draw(r, "underlay"),
		}
	}
	clusters[name] = c
	next := NewFleet(f.Peers, clusters, deployments)
	d, faults := next.Deploy(name)
	if len(faults) > 0 {
		return f // another has its interface
	}
	deployments[name] = d
	return NewFleet(f.Peers, clusters, deployments)
}

// agree: what is one tunnel at one end is the same at the other, and no other.
func agree(r *rapid.T, nodes map[string]Node, conf map[string]Configuration) {
	ends := map[uint32][]string{}
	for name, c := range conf {
		for _, p := range c.Parameters {
			if p.Tunnel == nil {
				continue
			}
			v := p.Tunnel
			a, b := name+" "+v.Local.String(), v.Peer+" "+v.Remote.String()
			if b < a {
				a, b = b, a
			}
			ends[v.VNI] = append(ends[v.VNI], fmt.Sprint(a, " ", b, " ", v.MTU, v.Isolated))
		}
	}
	for vni, e := range ends {
		if len(e) != 2 || e[0] != e[1] {
			r.Fatalf("tunnel %d: %q", vni, e)
		}
	}
	_ = nodes
}

func TestWhoIsTouched(t *testing.T) {
	f, _ := three(t, "star")
	peers := maps.Clone(f.Peers)
	p := peers["c"]
	p.Executors = map[string]Executor{"x": {Unit: "x.service"}}
	peers["c"] = p
	if got := ChangedNodes(f, NewFleet(peers, f.Clusters, f.Deployments)); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Error(got)
	}
	if got := ChangedNodes(f, NewFleet(f.Peers, f.Clusters, nil)); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Error(got)
	}
	if got := ChangedNodes(f, f); len(got) > 0 {
		t.Error(got)
	}
	loner := maps.Clone(f.Peers)
	loner["z"] = Peer{Name: "z"}
	if got := ChangedNodes(f, NewFleet(loner, f.Clusters, f.Deployments)); !slices.Equal(got, []string{"z"}) {
		t.Error(got)
	}
}

func TestDecodeTellsEveryFault(t *testing.T) {
	_, faults := Decode([]byte(`{"parameters":[
 {"id":"tunnel/x","kind":"tunnel","target":"present"},
 {"id":"wormhole/x","kind":"wormhole","target":"present"},
 {"id":"bridge/y","kind":"ethernet-bridge","target":"maybe"},
 {"id":"bridge/y","kind":"ethernet-bridge","target":"absent"},
 {"id":"ni/a","kind":"network-instance","target":"present","dependencies":["ni/b"]},
 {"id":"ni/b","kind":"network-instance","target":"present","dependencies":["ni/a","ni/c"]},
 {"kind":"executor","target":"absent"}]}`))
	got := faults.Error()
	for _, want := range []string{"tunnel/x: no value", `"wormhole": must be a kind that this version knows`,
		`"maybe": must be present or absent`, "parameters.6: no id", `"ni/a" -> "ni/b" -> "ni/a"`,
		`"ni/b" depends on "ni/c"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if _, faults := Decode([]byte("{")); len(faults) != 1 {
		t.Error(faults)
	}
	if c, faults := Decode(nil); len(faults) > 0 || len(c.Parameters) > 0 || c.Digest() != "" {
		t.Error(c, faults)
	}
	if len(Configuration{Parameters: []DeclaredParameter{{ID: "ni/x", Kind: KindNetwork,
		Target: stateloop.ToBePresent}}}.Digest()) > 0 {
		t.Error("what the layers declare has a digest of its own")
	}
}

// left is what of a configuration and of what was gone before it is gone in the next one, but
// for what was seen to be absent since: it may still be on the node.
func left(was []Leftover, before, now Configuration, absent func(id string) bool) []Leftover {
	has := map[string]bool{}
	for _, p := range now.Parameters {
		has[p.ID] = p.Target == stateloop.ToBePresent
	}
	out := map[string]Leftover{}
	for _, g := range was {
		out[g.ID] = g
	}
	for _, p := range before.Parameters {
		if p.Target == stateloop.ToBePresent {
			out[p.ID] = Leftover{ID: p.ID, Kind: p.Kind, Needs: p.Dependencies}
		}
	}
	maps.DeleteFunc(out, func(id string, _ Leftover) bool { return has[id] || absent(id) })
	return slices.SortedFunc(maps.Values(out), func(a, b Leftover) int { return strings.Compare(a.ID, b.ID) })
}
