package nodeside

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// Of each kind a node tells the latest only, by number, and nothing where it has no type for its board.
func TestWhatThereIsToBeLearntOfANode(t *testing.T) {
	t.Parallel()
	m, faults := metadata.Parse(schema.NodeMetadata(), metadata.Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	bases := map[string]config.Object{"V_9": {}, "V_10": {}, "V_2": {}}
	b := BaseConfig(m, bases, nil)
	if got := slices.Collect(maps.Keys(b.Base)); !slices.Equal(got, []string{"V_10"}) || b.Hardware != nil ||
		len(b.Metadata) == 0 {
		t.Errorf("base %q, hardware %v, %d of metadata", got, b.Hardware, len(b.Metadata))
	}
}

// Addresses that lead nowhere but to the link are of no use to others, and neither is a port that is missing.
func TestThePortsThatOthersNeed(t *testing.T) {
	t.Parallel()
	all := map[string]netinst.PortStatus{"b": {Exists: true}, "a": {Exists: true}, "gone": {}}
	for label, s := range all {
		s.Label, s.LinkMTU = label, 1400
		s.Addresses = []netip.Prefix{netip.MustParsePrefix("fe80::1/64"), netip.MustParsePrefix("192.0.2.1/24")}
		all[label] = s
	}
	got := Ports(all)
	for i, label := range []string{"a", "b"} {
		if len(got) != 2 || got[i].Label != label || got[i].MTU != 1400 ||
			strings.Join(got[i].Addresses, " ") != "192.0.2.1" {
			t.Fatalf("ports %+v", got)
		}
	}
	other := got[0]
	for name, c := range map[string]struct {
		change func(*nodeproto.Port)
		same   bool
	}{
		"nothing": {func(*nodeproto.Port) {}, true},
		"label":   {func(p *nodeproto.Port) { p.Label = "x" }, false},
		"MTU":     {func(p *nodeproto.Port) { p.MTU++ }, false},
		"address": {func(p *nodeproto.Port) { p.Addresses = nil }, false},
	} {
		p := other
		if c.change(&p); SamePort(p, other) != c.same {
			t.Errorf("where %s is another the ports are the same: %v", name, !c.same)
		}
	}
}

// A node tells others of the addresses and the size of its tunnels, and of its key: each under a label that no port of a
// config can have.
func TestWhatOthersAreToldOfTunnels(t *testing.T) {
	over := uuid.MustParse("0a000000-0000-4000-8000-000000000001")
	idle := uuid.MustParse("0a000000-0000-4000-8000-000000000002")
	vpn := netinst.VPNConfig{Address: []netip.Prefix{netip.MustParsePrefix("10.99.0.1/24")},
		WireGuard: &netinst.WireGuard{Peers: []netinst.WireGuardPeer{{Endpoint: "192.0.2.7:51820"}}}}
	f := TunnelFacts{
		Networks: map[string]netinst.NetworkInstanceConfig{
			over.String(): {UUID: over, Type: netinst.VPN, VPN: &vpn},
			idle.String(): {UUID: idle, Type: netinst.VPN, VPN: &vpn, Inactive: true},
			"local":       {Type: netinst.Local},
		},
		Networked: map[string]netinst.NetworkInstanceStatus{over.String(): {Port: "wan"}},
		Tunnels: map[string]netstate.TunnelStatus{
			over.String(): {Addresses: []netip.Prefix{netip.MustParsePrefix("fd00::7/128")}},
		},
		Ports: map[string]netinst.PortStatus{"wan": {LinkMTU: 1492}},
		Link:  Link{Key: "key", NextKey: "next"},
	}
	got := fmt.Sprint(Tunnels(f))
	if want := "[{vpn/" + over.String() + " [10.99.0.1 fd00::7] 1432 } {key/clusters [] 0 key} {key/clusters/next [] 0 next}]"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := Tunnels(TunnelFacts{}); got != nil {
		t.Errorf("without anything: %v", got)
	}
}

// Only what depends on the link is other when the link is.
func TestWhatALinkChanges(t *testing.T) {
	at := netip.MustParseAddr("192.0.2.1")
	cluster := netinst.NetworkInstanceConfig{Tunnels: []netinst.Tunnel{{Encrypted: &netinst.TunnelKey{}}}}
	assigned := netinst.NetworkInstanceConfig{VPN: &netinst.VPNConfig{IPsec: &netinst.IPsec{VirtualIP: true}}}
	fixed := netinst.NetworkInstanceConfig{VPN: &netinst.VPNConfig{IPsec: &netinst.IPsec{}}}
	l := Link{Key: "key", NextKey: "next", Controllers: []netip.Addr{at}}
	for name, c := range map[string]struct {
		of    netinst.NetworkInstanceConfig
		other bool
	}{"cluster": {cluster, true}, "assigned": {assigned, true}, "fixed": {fixed, false}, "plain": {other: false}} {
		got, other := l.Apply(c.of)
		if other != c.other {
			t.Errorf("%s: other is %v", name, other)
		}
		if _, again := l.Apply(got); again {
			t.Errorf("%s: is other again", name)
		}
		if gone, _ := (Link{}).Apply(got); gone.ClusterKey != "" || gone.VPN != nil && gone.VPN.Controllers != nil {
			t.Errorf("%s: without a link: %+v", name, gone)
		}
	}
	if assigned.VPN.Controllers != nil {
		t.Error("the config itself is changed")
	}
	if l.Same(Link{Key: "key", NextKey: "next"}) || l.Same(Link{Key: "key", Controllers: l.Controllers}) || !l.Same(l) {
		t.Error("links that differ are the same")
	}
	if got := l.Describe(Link{Key: "old"}); got != "key for encrypted clusters: old -> key" || l.Describe(Link{}) != "" {
		t.Errorf("described as %q", got)
	}
}
