package netinst

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// vpnInput is input for a network whose only way out is a WireGuard tunnel to a peer at an IPv4 address.
func vpnInput(adapters ...Adapter) Input {
	in := input(adapters...)
	in.Config.Type, in.Config.Generation = VPN, 7
	in.Config.VPN = &VPNConfig{Address: []netip.Prefix{prefix("10.9.0.2/24")}, WireGuard: &netstate.WireGuard{
		PrivateKey: "the-private-key", ListenPort: 51820,
		Peers: []netstate.WireGuardPeer{{Name: "hub", PublicKey: "the-public-key", PresharedKey: "the-preshared-key",
			Endpoint: "198.51.100.1:51820", AllowedIPs: []netip.Prefix{prefix("0.0.0.0/0")}}}}}
	in.Ports[0].LinkMTU = 1500
	return in
}

// ipsecInput is the same for IPsec, with addresses that the other end assigns.
func ipsecInput(adapters ...Adapter) Input {
	in := vpnInput(adapters...)
	in.Config.VPN = &VPNConfig{NAT: true, IPsec: &netstate.IPsec{Address: "vpn.example.org", VirtualIP: true,
		Local:  netstate.IPsecEnd{Auth: "psk", Secret: "the-shared-key"},
		Remote: netstate.IPsecEnd{Auth: "psk", Secret: "the-shared-key"}}}
	in.Assigned = Assigned{Addresses: []netip.Prefix{prefix("172.16.5.9/32")}, DNS: []netip.Addr{ip("172.16.0.53")}}
	return in
}

func withIPv6(in Input) Input {
	in.Config.IPv6 = IPv6Config{Subnet: prefix("fd00:1::/64"), Gateway: ip("fd00:1::1"), Mode: SLAAC}
	w := in.Config.VPN.WireGuard
	w.Peers[0].AllowedIPs = append(w.Peers[0].AllowedIPs, prefix("::/0"))
	w.Peers[0].Endpoint = "[2001:db8:5::1]:51820"
	in.Config.VPN.Address = append(in.Config.VPN.Address, prefix("fd00:9::2/64"))
	in.Ports[0].DefaultRoutes = append(in.Ports[0].DefaultRoutes, netstate.DefaultVia(ip("fe80::1:1")))
	return in
}

func TestVPNGolden(t *testing.T) {
	maps := vpnInput(adapter(appA, 0, 1, "10.1.0.128", "web", ACLRule{Name: "http", Direction: Ingress, Action: MapPort,
		Protocol: "tcp", Portmap: Portmap{Ports: PortRange{8080, 8080}, Target: PortRange{80, 80}}}))
	maps.Config.DNS.Servers = []netip.Addr{ip("10.9.0.1")}
	away := vpnInput(web())
	away.Ports[0].Up = false
	for name, in := range map[string]Input{
		"vpn_wireguard": maps, "vpn_ipv6": withIPv6(vpnInput(web())), "vpn_ipsec_nat": ipsecInput(web()),
		"vpn_no_uplink": away,
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, describe(DesiredState(in))) })
	}
	golden(t, "host_vpn", HostState([]HostNetwork{{Number: 1, Subnet: prefix("10.1.0.0/24"), Gateway: ip("10.1.0.1"),
		Subnet6: prefix("fd00:1::/64"), Gateway6: ip("fd00:1::1"), Closed6: true, VPN: true, VPN6: true}}).String())
}

// In no state of a vpn network do its routes, rules and chains name a port of the host: only the table of the tunnel's
// own packets does. So nothing of an app leaves but through the tunnel, whatever the tunnel's process does.
func TestNothingOfAVPNNetworkLeavesByAPort(t *testing.T) {
	second := uplink()
	second.Label, second.IfName, second.Cost = "lte", "wwan0", 1
	var states []Input
	for _, in := range []Input{vpnInput(web()), withIPv6(vpnInput(web())), ipsecInput(web())} {
		in.Ports = append(in.Ports, second)
		down, unassigned, inactive, withdrawn, chosen := in, in, in, in, in
		down.Ports = []PortStatus{in.Ports[0], second}
		down.Ports[0].Up, down.Ports[1].Up = false, false
		unassigned.Assigned = Assigned{}
		inactive.Config.Inactive = true
		withdrawn.Overlap.Clash = "the address 10.1.0.9/24 of eth0"
		chosen.Chosen = map[string]string{"uplink": "lte"}
		states = append(states, in, down, unassigned, inactive, withdrawn, chosen)
	}
	for i, in := range states {
		d := DesiredState(in)
		for _, id := range d.State.IDs() {
			o := d.State[id]
			r, isRoute := o.(netstate.Route)
			text := o.Text()
			if f, is := o.(netstate.File); is && strings.HasSuffix(f.Path, "/servers") {
				text = f.Content
			}
			if isRoute && r.Table == UnderlayTable(1) || id.Kind == netstate.KindLink { // whose mark has the app's eth0
				continue
			}
			for _, name := range []string{"eth0", "wwan0"} {
				if strings.Contains(text, name) {
					t.Errorf("state %d: %s names a port:\n%s", i, id, text)
				}
			}
		}
		if in.Config.Inactive || in.Overlap.Clash != "" {
			for _, kind := range []netstate.Kind{netstate.KindVPN, netstate.KindRule, netstate.KindRoute} {
				for _, id := range d.State.IDs() {
					if id.Kind == kind {
						t.Errorf("state %d has %s", i, id)
					}
				}
			}
		}
		end := netstate.Route{Table: Table(1), Dst: "0.0.0.0/0", Metric: unreachableMetric}.ID()
		if d.State[netstate.ID{Kind: netstate.KindVPN, Name: "ni/1/vpn"}] != nil && d.State[end] == nil {
			t.Errorf("state %d: its table does not end", i)
		}
	}
}

// When the choice of the uplink moves, only the table of the tunnel's own packets changes.
func TestAnotherUplinkChangesOnlyTheUnderlay(t *testing.T) {
	in := withIPv6(vpnInput(web()))
	second := uplink()
	second.Label, second.IfName, second.Cost, second.LinkMTU = "lte", "wwan0", 1, 1500
	second.Addresses = []netip.Prefix{prefix("100.64.0.9/10")}
	second.DefaultRoutes = []netstate.DefaultRoute{netstate.DefaultVia(ip("100.64.0.1"))}
	in.Ports = append(in.Ports, second)
	before := DesiredState(in)
	in.Chosen = map[string]string{"uplink": "lte"}
	after := DesiredState(in)
	if before.Port != "eth" || after.Port != "lte" {
		t.Fatalf("ports %q and %q", before.Port, after.Port)
	}
	plan := netstate.Diff(before.State, after.State)
	if len(plan) == 0 {
		t.Fatal("nothing changes")
	}
	for _, op := range plan {
		for _, it := range op.Items {
			if op.Kind != netstate.KindRoute || !strings.Contains(it.ID().Name, "table 50001 ") {
				t.Errorf("it changes %s", op)
			}
		}
	}
}

// The tunnel's own IPv6 packets leave by the port that probing chooses, also where the network itself has no IPv6: unless
// each end is called at an IPv4 address.
func TestTheIPv6UplinkOfATunnelIsChosen(t *testing.T) {
	for endpoint, want := range map[string]string{"vpn.example.org:51820": "lte", "[2001:db8:5::1]:51820": "lte",
		"198.51.100.1:51820": "eth"} {
		in := vpnInput(web())
		in.Config.Port = "all"
		in.Config.VPN.WireGuard.Peers[0].Endpoint = endpoint
		second := uplink()
		second.Label, second.IfName, second.Cost = "lte", "wwan0", 1
		for i, p := range []*PortStatus{&in.Ports[0], &second} {
			p.Addresses = append(p.Addresses, prefix(fmt.Sprintf("2001:db8:%d::2/64", i)))
			p.DefaultRoutes = append(p.DefaultRoutes, netstate.DefaultVia(ip(fmt.Sprintf("fe80::%d", i+1))))
		}
		in.Ports = append(in.Ports, second)
		in.Chosen = map[string]string{}
		for _, s := range Selectors(in.Config) {
			if in.Chosen[s] = "eth"; strings.HasSuffix(s, "(IPv6)") { // the first port's IPv6 is dead
				in.Chosen[s] = "lte"
			}
		}
		probed := 0
		for _, p := range ProbePorts(in.Config, in.Ports) {
			if p.IPv6 {
				probed++
			}
		}
		if want == "lte" && probed != 2 || want == "eth" && probed != 0 {
			t.Errorf("%s: IPv6 of %d ports is probed", endpoint, probed)
		}
		_, u := throughTunnel(in)
		if got := u.ports[true]; got == nil || got.Label != want || u.port().Label != "eth" {
			t.Errorf("%s: IPv6 leaves by %+v", endpoint, got)
		}
	}
}

// A tunnel is made before what is on its link, and removed while its own packets still leave.
func TestTheOrderOfATunnel(t *testing.T) {
	s := DesiredState(withIPv6(vpnInput(web()))).State
	place := func(plan netstate.Plan, kind netstate.Kind, part string) (first int) {
		for i, op := range plan {
			if op.Kind == kind && strings.Contains(op.Objects(), part) {
				return i
			}
		}
		t.Fatalf("no op for %s %s in %v", kind, part, plan)
		return -1
	}
	made := netstate.Diff(netstate.State{}, s)
	tunnel := place(made, netstate.KindVPN, "ni/1/vpn")
	for _, later := range []int{place(made, netstate.KindAddress, "evpn1"), place(made, netstate.KindSysctl, "evpn1"),
		place(made, netstate.KindRoute, "0.0.0.0/0 table 20001 metric 0")} {
		if later < tunnel {
			t.Errorf("op %d is before the tunnel, %d:\n%v", later, tunnel, made)
		}
	}
	gone := netstate.Diff(s, netstate.State{})
	if tunnel := place(gone, netstate.KindVPN, "ni/1/vpn"); tunnel > place(gone, netstate.KindRule, "14001") {
		t.Errorf("the tunnel goes after the rule for its packets:\n%v", gone)
	}
}

// The MTU of a tunnel is the underlay's less what the tunnel may add at most, by the family of its own packets.
func TestTheMTUOfATunnel(t *testing.T) {
	for _, c := range []struct {
		method, endpoint string
		underlay, want   int
	}{
		{"wireguard", "198.51.100.1:51820", 1500, 1440},
		{"wireguard", "[2001:db8::1]:51820", 1500, 1420},
		{"wireguard", "hub.example.org:51820", 1500, 1420},
		{"wireguard", "", 1500, 1420},
		{"wireguard", "198.51.100.1:51820", 1280, 1220},
		{"ipsec", "198.51.100.1", 1500, 1406},
		{"ipsec", "2001:db8::1", 1500, 1390},
		{"ipsec", "hub.example.org", 1500, 1390},
		{"ipsec", "198.51.100.1", 1492, 1406},
		{"ipsec", "198.51.100.1", 1491, 1390},
	} {
		in := vpnInput()
		in.Ports[0].LinkMTU = c.underlay
		in.Config.VPN.WireGuard.Peers[0].Endpoint = c.endpoint
		if c.method == "ipsec" {
			in.Config.VPN.WireGuard, in.Config.VPN.IPsec = nil, &netstate.IPsec{Address: c.endpoint}
		}
		d := DesiredState(in)
		v := d.State[netstate.ID{Kind: netstate.KindVPN, Name: "ni/1/vpn"}].(netstate.VPN)
		if v.MTU != c.want || d.MTU != c.want {
			t.Errorf("%s to %q over %d: tunnel %d, network %d, want %d", c.method, c.endpoint, c.underlay, v.MTU, d.MTU, c.want)
		}
	}
	in := vpnInput()
	in.Config.VPN.MTU = 1300
	if d := DesiredState(in); d.MTU != 1300 {
		t.Errorf("a configured MTU: %d", d.MTU)
	}
	in = vpnInput()
	in.MTU, in.Ports[0].Up = 1340, false
	if d := DesiredState(in); d.MTU != 1340 {
		t.Errorf("without an uplink it changes to %d", d.MTU)
	}
}

// A network asks the servers of its config, else those that the other end assigns, through the tunnel, and those of the
// uplink only if the config allows it.
func TestTheServersOfAVPNNetwork(t *testing.T) {
	servers := func(change func(*Input)) string {
		in := vpnInput()
		change(&in)
		d := DesiredState(in)
		f := d.State[netstate.ID{Kind: netstate.KindFile, Name: "ni/1/conf/servers"}].(netstate.File)
		return strings.TrimSpace(f.Content) + "; " + d.Warning
	}
	assigned := func(in *Input) { in.Assigned.DNS = []netip.Addr{ip("10.9.0.53")} }
	const none = "; no DNS server: dns.servers is empty, and the other end of the tunnel has assigned none"
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   string
	}{
		{"nothing is known", func(*Input) {}, none},
		{"assigned", assigned, "server=10.9.0.53@evpn1; "},
		{"configured", func(in *Input) { assigned(in); in.Config.DNS.Servers = []netip.Addr{ip("9.9.9.9")} },
			"server=9.9.9.9@evpn1; "},
		{"outside", func(in *Input) { in.Config.VPN.DNSOutside = true }, "server=192.0.2.53@eth0; "},
		{"outside is the last choice", func(in *Input) { assigned(in); in.Config.VPN.DNSOutside = true },
			"server=10.9.0.53@evpn1; "},
		{"outside, where none is known", func(in *Input) { in.Config.VPN.DNSOutside, in.Ports[0].DNSServers = true, nil }, none},
		{"outside without an uplink", func(in *Input) { in.Config.VPN.DNSOutside, in.Ports[0].Up = true, false }, none},
		{"not active", func(in *Input) { assigned(in); in.Config.Inactive = true }, "; "},
	} {
		if got := servers(c.change); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Neither the text of a tunnel nor any other text of a state has a secret.
func TestNoTextOfAStateHasASecret(t *testing.T) {
	for _, in := range []Input{vpnInput(web()), ipsecInput(web())} {
		d := DesiredState(in)
		text := describe(d) + fmt.Sprintf("%v %+v", d.State, in.Config)
		for _, secret := range []string{"the-private-key", "the-preshared-key", "the-shared-key"} {
			if strings.Contains(text, secret) {
				t.Errorf("a text has %s:\n%s", secret, text)
			}
		}
	}
}

// The other end of a tunnel can assign an address and servers, but none that is another's.
func TestWhatATunnelMayAssign(t *testing.T) {
	in := ipsecInput()
	in.Config.DNS.Servers = []netip.Addr{ip("198.51.100.9")}
	in.Config.VPN.Elsewhere = []netip.Prefix{prefix("10.77.0.0/24")}
	own := in.Ports[0].Addresses[0].Addr()
	prefixes := func(words ...string) (list []netip.Prefix) {
		for _, w := range words {
			list = append(list, netip.PrefixFrom(ip(w), ip(w).BitLen()))
		}
		return list
	}
	for name, c := range map[string]struct {
		addresses []netip.Prefix
		dns       []netip.Addr
		want, why string
	}{
		"one of each family": {prefixes("172.16.9.9", "fd00:9::9"), []netip.Addr{ip("172.16.9.1")},
			"[172.16.9.9/32 fd00:9::9/128] [172.16.9.1]", ""},
		"more": {prefixes("172.16.9.9", "172.16.9.10"), nil, "[172.16.9.9/32] []", "172.16.9.10 is one too many"},
		"the node's own": {prefixes(own.String()), []netip.Addr{own}, "[] []",
			own.String() + " is an address, a gateway or a server of port"},
		"a server":          {prefixes("198.51.100.9"), nil, "[] []", "198.51.100.9 is a server's"},
		"an app's":          {prefixes(in.Config.IPv4.Gateway.Next().String()), nil, "[] []", "is in the network's own subnet"},
		"another network's": {prefixes("10.77.0.9"), nil, "[] []", "10.77.0.9 is of another network"},
		"none":              {prefixes("127.0.0.1", "224.0.0.1", "0.0.0.0"), nil, "[] []", "224.0.0.1 is no unicast address"},
		"its resolver":      {nil, []netip.Addr{ip("127.0.0.53"), ip("ff02::1")}, "[] []", "127.0.0.53 is the host itself"},
	} {
		got, why := in.acceptable(Assigned{c.addresses, c.dns})
		s := fmt.Sprint(got.Addresses, " ", got.DNS)
		if s != c.want || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: %s, %q; want %s, %q", name, s, why, c.want, c.why)
		}
	}
	in.Assigned = Assigned{Addresses: prefixes(own.String())}
	if d := DesiredState(in); !strings.Contains(d.Warning, "not taken of what the tunnel assigns: "+own.String()) {
		t.Errorf("the warning is %q", d.Warning)
	}
}
