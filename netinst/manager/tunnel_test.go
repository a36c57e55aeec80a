package manager

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

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

// What is heard of a tunnel before there is anything to show, or of one whose addresses are fixed, changes nothing.
func TestATunnelsStatusAloneAppliesNothing(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run", 1, nil)
	m.Step(ConfigChanged{Config: vpnNetwork(false)})
	if said := text(m.Step(TunnelSeen{netstate.TunnelStatus{Kind: "ipsec", Error: "the pre-shared key differs"}})); said != "" {
		t.Errorf("before the first apply: %s", said)
	}
	cluster := netinst.NetworkInstanceConfig{Type: netinst.Switch, Tunnels: []netinst.Tunnel{{Encrypted: &netinst.TunnelKey{}}}}
	if (&Manager{config: cluster}).awaitsTunnel(tunnelState{}) {
		t.Error("an encrypted cluster waits for addresses")
	}
}

func TestWhatIsWarnedOfATunnel(t *testing.T) {
	of := func(kind string, up bool, why string) netstate.TunnelStatus {
		return netstate.TunnelStatus{Kind: kind, Up: up, Error: why}
	}
	for _, c := range []struct {
		config netinst.NetworkInstanceConfig
		seen   netstate.TunnelStatus
		want   string
	}{
		{vpnNetwork(false), of("", false, "x"), ""},
		{testNetwork(1), of("ipsec", false, "x"), ""},
		{vpnNetwork(false), of("ipsec", true, ""), ""},
		{vpnNetwork(false), of("ipsec", true, "x"), "tunnel: x"},
		{vpnNetwork(false), of("ipsec", false, "x"), "the tunnel is down: x"},
		{vpnNetwork(false), of("ipsec", false, ""), "the tunnel is down: no peer has answered yet"},
	} {
		m := &Manager{config: c.config, tunnel: tunnelState{true, c.seen}}
		if got := m.tunnelWarning(); got != c.want {
			t.Errorf("%s, %+v: %q, want %q", c.config.Type, c.seen, got, c.want)
		}
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
		{of(true, "a"), of(true, "b"), ""},
		{of(true, "", peer(true, "a:1")), of(false, "x", peer(false, "a:1")), "down: x"},
		{of(false, "", peer(false, "a:1")), of(true, "", peer(true, "a:1")), "up"},
		{of(true, "", peer(true, "")), of(true, "", peer(true, "b:1")), ""},
		{of(true, "", peer(true, "a:1")), of(true, "", peer(true, "")), ""},
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

// A tunnel is silent since it has asked without an answer: WireGuard's by what it has sent beyond its keepalives, an
// IPsec one by its own word.
func TestSinceWhenATunnelIsSilent(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	network := func(keepalives ...int) netinst.NetworkInstanceConfig {
		c := testNetwork(1)
		c.Type, c.VPN = netinst.VPN, &netinst.VPNConfig{WireGuard: &netinst.WireGuard{}}
		for _, k := range keepalives {
			c.VPN.WireGuard.Peers = append(c.VPN.WireGuard.Peers, netinst.WireGuardPeer{Keepalive: k})
		}
		return c
	}
	type seen struct {
		at             int // seconds
		sent, received uint64
		handshake      int // seconds; 0 for none
		silent         int // the seconds since when; -1 for not
	}
	for name, c := range map[string]struct {
		of   netinst.NetworkInstanceConfig
		seen []seen
	}{
		"idle":             {network(0), []seen{{0, 148, 92, 1, -1}, {60, 148, 92, 1, -1}, {600, 148, 92, 1, -1}}},
		"just as much":     {network(0), []seen{{0, 0, 0, 1, -1}, {2, 296, 0, 1, -1}, {4, 297, 0, 1, 4}}},
		"a pause":          {network(25), []seen{{0, 0, 0, 1, -1}, {100, 0, 0, 1, -1}, {130, 400, 0, 1, -1}}},
		"keepalives alone": {network(25), []seen{{0, 0, 0, 1, -1}, {50, 64, 0, 1, -1}, {110, 128, 0, 1, -1}}},
		"every second":     {network(1), []seen{{0, 0, 0, 1, -1}, {50, 1600, 0, 1, -1}, {110, 3520, 0, 1, -1}}},
		"an answer to data": {network(0), []seen{{0, 0, 0, 1, -1}, {2, 9000, 0, 1, 2}, {10, 9000, 0, 1, 2}, {12, 9000, 32, 1, -1},
			{14, 9200, 32, 1, -1}, {16, 9400, 32, 1, 16}}},
		"handshakes without an answer": {network(25), []seen{{0, 0, 0, 1, -1}, {120, 280, 0, 1, -1}, {130, 576, 0, 1, 130},
			{200, 2648, 0, 1, 130}, {210, 2800, 0, 209, -1}}},
		"handshakes of the other end alone": {network(0), []seen{{0, 0, 0, 1, -1}, {2, 900, 0, 1, 2}, {8, 1100, 148, 1, 2},
			{14, 1300, 444, 1, 2}, {20, 1500, 524, 1, -1}}},
		"one of two peers":   {network(25, 25), []seen{{0, 0, 0, 1, -1}, {10, 900, 0, 1, 10}, {12, 900, 40, 1, -1}}},
		"a process anew":     {network(0), []seen{{0, 9000, 900, 1, -1}, {2, 148, 0, 0, -1}, {4, 700, 0, 0, 4}}},
		"no tunnel any more": {testNetwork(1), []seen{{0, 9000, 900, 1, -1}, {2, 99000, 900, 1, -1}}},
	} {
		var q Silence
		for _, x := range c.seen {
			s := netstate.TunnelStatus{Kind: "wireguard", Peers: []netstate.TunnelPeer{{Identity: "a", Sent: x.sent,
				Received: x.received}, {Identity: "b"}}}
			if x.handshake > 0 {
				s.Peers[0].LastHandshake = began.Add(time.Duration(x.handshake) * time.Second)
			}
			got, want := q.See(c.of, s, began.Add(time.Duration(x.at)*time.Second)).Silent, time.Time{}
			if x.silent >= 0 {
				want = began.Add(time.Duration(x.silent) * time.Second)
			}
			if !got.Equal(want) {
				t.Errorf("%s: after %d s silent since %v, want %v", name, x.at, got, want)
			}
		}
	}
	var q Silence
	for i, silent := range []bool{false, true, true, false} {
		got := q.See(vpnNetwork(true), netstate.TunnelStatus{Kind: "ipsec", Silent: silent},
			began.Add(time.Duration(i)*time.Second)).Silent
		if silent != got.Equal(began.Add(time.Second)) || silent == got.IsZero() {
			t.Errorf("IPsec %d: %v", i, got)
		}
	}
}

// An answer is what a peer has sent since the last look, or a handshake: not what is seen first, nor what another process
// has counted, nor handshakes that the other end begins.
func TestWhatIsAnAnswerOfATunnel(t *testing.T) {
	wireguard := testNetwork(1)
	wireguard.Type, wireguard.VPN = netinst.VPN, &netinst.VPNConfig{WireGuard: &netinst.WireGuard{}}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		of       netinst.NetworkInstanceConfig
		received []uint64
		shakes   []int // seconds, 0 for none
		want     string
	}{
		"WireGuard":                  {wireguard, []uint64{500, 532, 532, 700}, nil, "[false true false true]"},
		"a handshake":                {wireguard, []uint64{500, 500, 500}, []int{1, 1, 121}, "[false false true]"},
		"handshakes of the other":    {wireguard, []uint64{500, 648, 944}, nil, "[false false false]"},
		"a process anew":             {wireguard, []uint64{500, 60, 92}, nil, "[false false true]"},
		"IPsec":                      {vpnNetwork(false), []uint64{500, 648, 648}, nil, "[false true false]"},
		"a network without a tunnel": {testNetwork(1), []uint64{500, 648, 648}, nil, "[false false false]"},
	} {
		var q Silence
		var got []bool
		for i, n := range c.received {
			s := netstate.TunnelStatus{Peers: []netstate.TunnelPeer{{Identity: "a", Received: n}}}
			if i < len(c.shakes) {
				s.Peers[0].LastHandshake = began.Add(time.Duration(c.shakes[i]) * time.Second)
			}
			got = append(got, q.See(c.of, s, began.Add(time.Duration(i)*time.Second)).Answered)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func TestTheFamiliesByWhichATunnelCalls(t *testing.T) {
	for ends, want := range map[string]string{"": "false false", "192.0.2.1:500": "true false", "[2001:db8::1]:500": "false true",
		"192.0.2.1:500 [2001:db8::1]:4500": "true true", "[::ffff:192.0.2.1]:500": "true false", "hub": "false false"} {
		var q Silence
		var s netstate.TunnelStatus
		for i, end := range strings.Fields(ends) {
			s.Peers = append(s.Peers, netstate.TunnelPeer{Identity: fmt.Sprint(i), Endpoint: end})
		}
		if h := q.See(vpnNetwork(false), s, time.Unix(1e9, 0)); fmt.Sprint(h.IPv4, h.IPv6) != want {
			t.Errorf("%q: %v %v, want %s", ends, h.IPv4, h.IPv6, want)
		}
	}
}

// Packets of a certain size have octets in the same number as messages of handshakes that are not answered.
func TestPacketsOfTheSizeOfCallsAreHeard(t *testing.T) {
	c := testNetwork(1)
	c.Type, c.VPN = netinst.VPN, &netinst.VPNConfig{WireGuard: &netinst.WireGuard{}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for packets, want := range map[uint64]bool{20: false, 0: true} { // of 560 octets, in each 2 s
		var q Silence
		p, silent := netstate.TunnelPeer{Identity: "a", LastHandshake: now}, false
		for i := range 100 {
			p.Received += packets * 4 * initiation
			if i%3 == 0 { // it calls
				p.Received += initiation
			}
			p.Sent += 20 * 592
			now = now.Add(2 * time.Second)
			h := q.See(c, netstate.TunnelStatus{Peers: []netstate.TunnelPeer{p}}, now)
			silent = silent || !h.Silent.IsZero() && now.Sub(h.Silent) > 10*time.Second
		}
		if silent != want {
			t.Errorf("%d packets: silent is %v", packets, silent)
		}
	}
}

// The time of an SA is known to the second, and not always to the same one.
func TestTheAgeOfAnSAIsNoAnswer(t *testing.T) {
	c := netinst.NetworkInstanceConfig{Type: netinst.VPN, VPN: &netinst.VPNConfig{IPsec: &netinst.IPsec{Address: "vpn"}}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	made := now
	var q Silence
	answers := 0
	see := func(shown time.Time) {
		now = now.Add(2 * time.Second)
		p := netstate.TunnelPeer{Identity: "hub", LastHandshake: shown, Received: 1000}
		if q.See(c, netstate.TunnelStatus{Kind: "ipsec", Up: true, Peers: []netstate.TunnelPeer{p}}, now).Answered {
			answers++
		}
	}
	for i := range 60 {
		see(made.Add(time.Duration(i%2) * time.Second))
	}
	if answers > 0 {
		t.Errorf("%d answers of a peer that has sent nothing", answers)
	}
	if see(now); answers != 1 {
		t.Errorf("%d answers after another handshake", answers)
	}
}
