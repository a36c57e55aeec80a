package peer

import (
	"encoding/base64"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/config"
)

func wireGuardKey(n byte) string {
	return base64.StdEncoding.EncodeToString(append(make([]byte, 31), n))
}

// encrypted is the star of three with encryption, and the nodes with their keys.
func encrypted(t *testing.T) (*Inventory, map[string]Node) {
	t.Helper()
	f, nodes := three(t, "star")
	c := f.Clusters["lab"]
	c.Encryption = EncryptionWireGuard
	f = NewFleet(f.Peers, map[string]Cluster{"lab": c}, f.Deployments)
	d, faults := f.Deploy("lab")
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for i, name := range []string{"a", "b", "c"} {
		nodes[name].Ports[KeyLabel] = Port{PublicKey: wireGuardKey(byte(i + 1))}
	}
	return NewFleet(f.Peers, f.Clusters, map[string]Deployment{"lab": d}), nodes
}

// Each tunnel of an encrypted cluster lies between addresses inside WireGuard, which both ends compute alike, and names
// the key and the place of the other end.
func TestTheTunnelsOfAnEncryptedClusterLieInsideWireGuard(t *testing.T) {
	f, nodes := encrypted(t)
	tunnel := func(from, to string) TunnelValue {
		t.Helper()
		for _, p := range Derive(Input{Name: from, Nodes: nodes, Fleet: f}).Parameters {
			if p.Tunnel != nil && p.Tunnel.Peer == to {
				if p.Tunnel.Encrypted == nil {
					t.Fatalf("%s to %s is not encrypted", from, to)
				}
				return *p.Tunnel
			}
		}
		t.Fatalf("no tunnel from %s to %s", from, to)
		return TunnelValue{}
	}
	ab, ba, bc := tunnel("a", "b"), tunnel("b", "a"), tunnel("b", "c")
	if ab.Local != ba.Remote || ab.Remote != ba.Local || ba.Local != bc.Local || ab.Local == bc.Remote {
		t.Errorf("addresses %s > %s, %s > %s, %s > %s", ab.Local, ab.Remote, ba.Local, ba.Remote, bc.Local, bc.Remote)
	}
	if inside := netip.PrefixFrom(ab.Local, 64).Masked(); !ab.Local.IsPrivate() || !inside.Contains(bc.Remote) {
		t.Errorf("%s and %s are not of one unique local /64", ab.Local, bc.Remote)
	}
	if e := ab.Encrypted; e.PublicKey != wireGuardKey(2) || e.Endpoint.String() != "192.0.2.2" ||
		e.ListenPort != FirstWireGuardPort {
		t.Errorf("the other end of a is %+v", e)
	}
	if want := 1500 - overheadWireGuard4 - overhead6; ab.MTU != want || bc.MTU != want {
		t.Errorf("MTUs %d and %d, want %d", ab.MTU, bc.MTU, want)
	}
	n := Derive(Input{Name: "b", Nodes: nodes, Fleet: f}).Networks()[NetworkOf(id(900), nodes["b"].ID)].Config
	if n.WireGuardPort != FirstWireGuardPort || len(n.Tunnels) != 2 ||
		n.Tunnels[0].Encrypted.Endpoint.String() != "192.0.2.1:21821" {
		t.Errorf("the network of b: %+v", n)
	}
	for name, text := range map[string]string{
		"a":             "to b: vxlan 256 " + ab.Local.String() + " > " + ab.Remote.String() + ", MTU 1370, by WireGuard to 192.0.2.2:21821",
		"without a key": "whose key at the other end is not known yet",
		"no address":    "which the other end begins",
	} {
		v := ab
		e := *ab.Encrypted
		v.Encrypted = &e
		switch name {
		case "without a key":
			e.PublicKey = ""
		case "no address":
			e.Endpoint = netip.Addr{}
		}
		if got := (DeclaredParameter{Tunnel: &v}).Describe(); !strings.HasSuffix(got, text) {
			t.Errorf("%s: %q, want %q", name, got, text)
		}
	}
}

// The key that a node has announced goes to the other ends, unless it is the one in use.
func TestTheNextKeyOfANodeIsTold(t *testing.T) {
	f, nodes := encrypted(t)
	next := func() string {
		t.Helper()
		c := Derive(Input{Name: "a", Nodes: nodes, Fleet: f})
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, faults := Decode(text)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		for _, k := range again.Networks()[NetworkOf(id(900), nodes["a"].ID)].Config.Tunnels {
			if k.Name == "b" {
				return k.Encrypted.NextKey
			}
		}
		t.Fatal("no tunnel to b")
		return ""
	}
	if got := next(); got != "" {
		t.Errorf("without an announcement: %q", got)
	}
	before := Derive(Input{Name: "a", Nodes: nodes, Fleet: f}).Digest()
	nodes["b"].Ports[NextKeyLabel] = Port{PublicKey: wireGuardKey(7)}
	if got := next(); got != wireGuardKey(7) || Derive(Input{Name: "a", Nodes: nodes, Fleet: f}).Digest() == before {
		t.Errorf("announced: %q", got)
	}
	nodes["b"].Ports[KeyLabel] = Port{PublicKey: wireGuardKey(7)}
	if got := next(); got != "" {
		t.Errorf("in use: %q", got)
	}
	c := Derive(Input{Name: "c", Nodes: nodes, Fleet: f}) // has no tunnel to a
	for _, p := range c.Parameters {
		if p.Tunnel != nil && p.Tunnel.Encrypted.NextKey != "" {
			t.Errorf("told of a key of another tunnel: %s", p.Describe())
		}
	}
	nodes["b"].Ports[NextKeyLabel] = Port{PublicKey: wireGuardKey(8)}
	text, err := Derive(Input{Name: "a", Nodes: nodes, Fleet: f}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, faults := Decode([]byte(strings.ReplaceAll(string(text), wireGuardKey(8), "rubbish"))); len(faults) == 0 {
		t.Error("a next key that is none is accepted")
	}
}

// What is sent is what is read, and a key that is none is refused.
func TestAnEncryptedTunnelIsSentWhole(t *testing.T) {
	f, nodes := encrypted(t)
	c := Derive(Input{Name: "a", Nodes: nodes, Fleet: f})
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, faults := Decode(text)
	if len(faults) > 0 || again.Digest() != c.Digest() {
		t.Errorf("%v, digest %s, want %s", faults, again.Digest(), c.Digest())
	}
	for _, key := range []string{"short", wireGuardKey(2) + "x", wireGuardKey(2) + "\\n",
		wireGuardKey(0)} {
		bad := strings.ReplaceAll(string(text), wireGuardKey(2), key)
		if _, faults := Decode([]byte(bad)); len(faults) == 0 {
			t.Errorf("the key %q is accepted", key)
		}
	}
}

// The UDP port of an encrypted cluster is its own in the fleet, stays over edits, and survives its document.
func TestEachEncryptedClusterHasAPortOfItsOwn(t *testing.T) {
	f, _ := encrypted(t)
	first := f.Deployments["lab"]
	other := f.Clusters["lab"]
	other.Name = "other"
	other.Members = map[string]MemberDescriptor{"a": {Underlay: "wan"}, "b": {Underlay: "wan"}}
	f = NewFleet(f.Peers, map[string]Cluster{"lab": f.Clusters["lab"], "other": other}, f.Deployments)
	second, faults := f.Deploy("other")
	if len(faults) > 0 || second.WireGuardPort != FirstWireGuardPort+1 {
		t.Fatalf("%+v, %v", second, faults)
	}
	again, faults := f.Deploy("lab")
	if len(faults) > 0 || again.WireGuardPort != first.WireGuardPort {
		t.Errorf("an edit changes the port: %+v, %v", again, faults)
	}
	parsed, faults := ParseDeployment(second.Document())
	if len(faults) > 0 || parsed.WireGuardPort != second.WireGuardPort {
		t.Errorf("%+v, %v", parsed, faults)
	}
	if _, faults := ParseDeployment(config.Object{"cluster": "x", "vnis": config.Object{}, "wireGuardPort": int64(22)}); len(
		faults) != 1 {
		t.Errorf("port 22: %v", faults)
	}
	full := map[string]Deployment{}
	for p := FirstWireGuardPort; p <= LastWireGuardPort; p++ {
		full[uuid.NewString()] = Deployment{WireGuardPort: p}
	}
	if _, faults := NewFleet(f.Peers, f.Clusters, full).Deploy("lab"); len(faults) != 1 {
		t.Errorf("without a free port: %v", faults)
	}
}

// A change of the port alone concerns all members.
func TestAnotherPortOfACluster(t *testing.T) {
	f, _ := encrypted(t)
	d := f.Deployments["lab"]
	d.WireGuardPort++
	g := NewFleet(f.Peers, f.Clusters, map[string]Deployment{"lab": d})
	if got := ChangedNodes(f, g); len(got) != 3 {
		t.Errorf("changed: %v", got)
	}
}

// An underlay may be the tunnel of a network of type vpn: the node reports its address and MTU.
func TestANetworkOfTypeVPNIsAnUnderlay(t *testing.T) {
	f, nodes := three(t, "star")
	over := id(700)
	peers := map[string]Peer{}
	for name, p := range f.Peers {
		p.Underlays = map[string]Underlay{"wan": {Network: over}, "low": {Network: over}}
		peers[name] = p
	}
	f = NewFleet(peers, f.Clusters, f.Deployments)
	for i, name := range []string{"a", "b"} {
		nodes[name].Ports[TunnelLabel(over)] = Port{
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 99, 0, byte(i + 1)})}, MTU: 1420}
	}
	if n := Derive(Input{Name: "a", Nodes: nodes, Fleet: f}).Networks()[NetworkOf(id(900), nodes["a"].ID)]; n.Config.Over !=
		uuid.Nil {
		t.Errorf("what is not encrypted goes over %s", n.Config.Over)
	}
	c := f.Clusters["lab"]
	c.Encryption = EncryptionWireGuard
	g := NewFleet(f.Peers, map[string]Cluster{"lab": c}, map[string]Deployment{"lab": {Cluster: "lab",
		VNIs: f.Deployments["lab"].VNIs, WireGuardPort: FirstWireGuardPort}})
	if n := Derive(Input{Name: "a", Nodes: nodes, Fleet: g}).Networks()[NetworkOf(id(900), nodes["a"].ID)]; n.Config.Over !=
		over {
		t.Errorf("what is encrypted goes over %s, want %s", n.Config.Over, over)
	}
	for _, p := range Derive(Input{Name: "a", Nodes: nodes, Fleet: f}).Parameters {
		if v := p.Tunnel; v != nil && (v.Local.String() != "10.99.0.1" || v.Remote.String() != "10.99.0.2" || v.MTU != 1370) {
			t.Errorf("%s", p.Describe())
		}
	}
}
