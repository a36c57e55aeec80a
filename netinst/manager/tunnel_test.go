package manager

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

func vpnNetwork(virtualIP bool) netinst.NetworkInstanceConfig {
	c := testNetwork(1)
	c.Type = netinst.VPN
	c.VPN = &netinst.VPNConfig{IPsec: &netinst.IPsec{Address: "192.0.2.7", VirtualIP: virtualIP}}
	return c
}

// A manager waits for the first status of a tunnel whose addresses are assigned, shows why a tunnel is down without an
// apply, and applies what the other end assigns.
func TestATunnelsStatusIsShownAndItsAddressesAreApplied(t *testing.T) {
	down := netstate.TunnelStatus{Kind: "ipsec", Error: "the pre-shared key differs"}
	up := netstate.TunnelStatus{Kind: "ipsec", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("172.16.0.1/32")}}
	counted := up
	counted.Peers = []netstate.TunnelPeer{{Name: "peer", Received: 7}}
	begin := func(c netinst.NetworkInstanceConfig) (*Manager, string) {
		m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run", 1, nil)
		out := m.Step(ConfigChanged{Config: c})
		for _, e := range []Event{OverlapChanged{}, PortsChanged{Ports: testPort()}, Synchronized{}, AdaptersKnown{},
			ApplierReady{}} {
			if x, is := e.(OverlapChanged); is {
				x.Overlap.Subnet = c.IPv4.Subnet
				e = x
			}
			out = append(out, m.Step(e)...)
		}
		return m, text(out)
	}
	if _, said := begin(vpnNetwork(false)); !strings.Contains(said, "apply#1") {
		t.Errorf("without assigned addresses: %s", said)
	}
	m, said := begin(vpnNetwork(true))
	if strings.Contains(said, "apply") {
		t.Errorf("before the first status: %s", said)
	}
	said = text(m.Step(TunnelSeen{netstate.TunnelStatus{}}))
	if !strings.Contains(said, "apply#1") {
		t.Errorf("the first status: %s", said)
	}
	m.Step(Applied{Seq: ApplySeq{1, 1}})
	if said = text(m.Step(TunnelSeen{down})); said != "ni Present [no DNS server: dns.servers is empty, and the other end of "+
		"the tunnel has assigned none; the tunnel is down: the pre-shared key differs]" {
		t.Errorf("down: %s", said)
	}
	if said = text(m.Step(TunnelSeen{up})); !strings.Contains(said, "apply#2") {
		t.Errorf("up with an address: %s", said)
	}
	if want := fmt.Sprint(m.flight.desired.State[netstate.ID{Kind: netstate.KindAddress, Name: "evpn1 172.16.0.1/32"}] != nil); want != "true" {
		t.Error("the address is not desired")
	}
	m.Step(Applied{Seq: ApplySeq{1, 2}})
	if said = text(m.Step(TunnelSeen{counted})); strings.Contains(said, "apply") {
		t.Errorf("counters alone: %s", said)
	}
}

func TestTunnelEvents(t *testing.T) {
	peer := func(up bool, at string) netstate.TunnelPeer {
		return netstate.TunnelPeer{Name: "hub", Up: up, Endpoint: at, Error: "no answer"}
	}
	of := func(up bool, why string, peers ...netstate.TunnelPeer) netstate.TunnelStatus {
		return netstate.TunnelStatus{Kind: "wireguard", Up: up, Error: why, Peers: peers}
	}
	other := netstate.TunnelPeer{Name: "spare", Up: true}
	for _, c := range []struct {
		was, now netstate.TunnelStatus
		want     string
	}{
		{netstate.TunnelStatus{}, of(true, ""), "up"},
		{of(true, ""), netstate.TunnelStatus{}, ""},
		{of(true, ""), of(true, ""), ""},
		{of(true, ""), of(false, "peer silent"), "down: peer silent"},
		{of(true, ""), of(false, ""), "down: no peer answers"},
		{of(false, "a"), of(false, "b"), "still down: b"},
		{of(false, "a"), of(false, ""), ""},
		{of(true, "", peer(true, "a:1")), of(true, "", peer(true, "b:1")), "peer hub moved from a:1 to b:1"},
		{of(true, "", peer(true, "a:1"), other), of(true, "", peer(false, "a:1"), other), "peer hub is down: no answer"},
		{of(true, "", peer(false, "a:1"), other), of(true, "", peer(true, "a:1"), other), "peer hub is up"},
		{of(true, ""), of(true, "", peer(false, "a:1"), other), ""},
	} {
		if got := strings.Join(TunnelEvents(c.was, c.now), "; "); got != c.want {
			t.Errorf("from %+v to %+v: %q, want %q", c.was, c.now, got, c.want)
		}
	}
}
