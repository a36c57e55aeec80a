package addressing

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/dhcpclient"
	"edgespan/netinst/netstate"

	"pgregory.net/rapid"
)

func prefixes(texts ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, t := range texts {
		ps = append(ps, netip.MustParsePrefix(t))
	}
	return ps
}

func static(label, ifName string, cost int, gateway string, addresses ...string) netinst.PortConfig {
	p := netinst.PortConfig{Label: label, IfName: netinst.IfName(ifName), Cost: cost,
		Addressing: netinst.AddressingStatic, Static: prefixes(addresses...)}
	if gateway != "" {
		p.Gateway = netip.MustParseAddr(gateway)
	}
	return p
}

func vlan(p netinst.PortConfig, parent string, id int) netinst.PortConfig {
	p.VLAN = netinst.VLAN{Parent: netinst.IfName(parent), ID: id}
	return p
}

func TestDesired(t *testing.T) {
	external := netinst.PortConfig{Label: "a", IfName: "eth9", Gateway: netip.MustParseAddr("192.0.2.1")}
	for name, c := range map[string]struct {
		ports []netinst.PortConfig
		want  string
	}{
		"no port": {nil, ""},
		"a port that is left to others, although it has a gateway": {[]netinst.PortConfig{external}, ""},
		"one without an address": {[]netinst.PortConfig{static("a", "eth0", 0,
			"192.0.2.1")}, ""},
		"one without a gateway": {[]netinst.PortConfig{static("a", "eth0", 0, "", "192.0.2.2/24")}, `
			address eth0 192.0.2.2/24: foreign
			port eth0: foreign up`},
		"a VLAN that is left to others": {[]netinst.PortConfig{vlan(external, "eth0", 5)}, `
			link eth9: vlan 5 of eth0
			port eth0: foreign up
			port eth9: foreign up`},
		"two VLANs of one port": {[]netinst.PortConfig{static("a", "eth0", 0, "", "192.0.2.2/24"),
			vlan(static("b", "eth0.5", 0, "10.0.0.1", "10.0.0.2/24"), "eth0", 5),
			vlan(static("c", "voice", 0, "", "10.0.1.2/24"), "eth0", 4094)}, `
			address eth0 192.0.2.2/24: foreign
			address eth0.5 10.0.0.2/24: foreign
			address voice 10.0.1.2/24: foreign
			link eth0.5: vlan 5 of eth0
			link voice: vlan 4094 of eth0
			port eth0: foreign up
			port eth0.5: foreign up
			port voice: foreign up
			route 0.0.0.0/0 table 254 metric 1001: unicast via 10.0.0.1 dev eth0.5`},
		"one with a gateway in its second subnet": {
			[]netinst.PortConfig{static("a", "eth0", 3, "198.51.100.1", "192.0.2.2/24", "198.51.100.2/24")}, `
			address eth0 192.0.2.2/24: foreign
			address eth0 198.51.100.2/24: foreign
			port eth0: foreign up
			route 0.0.0.0/0 table 254 metric 1300: unicast via 198.51.100.1 dev eth0`},
		"one with a gateway outside its subnets": {
			[]netinst.PortConfig{static("a", "eth0", 0, "10.0.0.1", "192.0.2.2/32")}, `
			address eth0 192.0.2.2/32: foreign
			port eth0: foreign up
			route 0.0.0.0/0 table 254 metric 1000: unicast via 10.0.0.1 dev eth0 onlink`},
		"two of one cost and one of another, by label": {[]netinst.PortConfig{
			static("c", "eth0", 0, "192.0.2.1", "192.0.2.2/24"), static("b", "eth1", 0, "10.0.0.1", "10.0.0.2/24"),
			static("a", "eth2", 1, "10.0.1.1", "10.0.1.2/24"), external}, `
			address eth0 192.0.2.2/24: foreign
			address eth1 10.0.0.2/24: foreign
			address eth2 10.0.1.2/24: foreign
			port eth0: foreign up
			port eth1: foreign up
			port eth2: foreign up
			route 0.0.0.0/0 table 254 metric 1000: unicast via 10.0.0.1 dev eth1
			route 0.0.0.0/0 table 254 metric 1001: unicast via 192.0.2.1 dev eth0
			route 0.0.0.0/0 table 254 metric 1100: unicast via 10.0.1.1 dev eth2`},
	} {
		if got, want := spell(Desired(c.ports, nil)), unindent(c.want); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// A port with addressing dhcp is set up, and has what its own lease says: that of another interface does not count.
func TestDesiredOfLeases(t *testing.T) {
	port := netinst.PortConfig{Label: "a", IfName: "eth0", Addressing: netinst.AddressingDHCP}
	lease := dhcpclient.Lease{IfName: "eth0", Address: netip.MustParsePrefix("192.0.2.50/24"),
		Gateway: netip.MustParseAddr("192.0.2.1")}
	lease.End = time.Date(2026, 11, 23, 18, 0, 0, 0, time.UTC)
	other, configured := lease, port
	other.IfName, configured.Gateway = "eth1", netip.MustParseAddr("192.0.2.9")
	noRouter := lease
	noRouter.Gateway = netip.Addr{}
	for name, c := range map[string]struct {
		port  netinst.PortConfig
		lease dhcpclient.Lease
		want  string
	}{
		"its own": {port, lease, `
			address eth0 192.0.2.50/24: foreign until 2026-11-23T18:00:00Z
			port eth0: foreign up
			route 0.0.0.0/0 table 254 metric 1000: unicast via 192.0.2.1 dev eth0`},
		"of another interface":    {port, other, "port eth0: foreign up"},
		"without a router":        {port, noRouter, "address eth0 192.0.2.50/24: foreign until 2026-11-23T18:00:00Z\nport eth0: foreign up"},
		"for a gateway, no lease": {configured, other, "port eth0: foreign up"},
		"with a configured gateway": {configured, lease, `
			address eth0 192.0.2.50/24: foreign until 2026-11-23T18:00:00Z
			port eth0: foreign up
			route 0.0.0.0/0 table 254 metric 1000: unicast via 192.0.2.9 dev eth0`},
		"of a port that is static by now": {static("a", "eth0", 0, "", "10.0.0.1/24"), lease,
			"address eth0 10.0.0.1/24: foreign\nport eth0: foreign up"},
		"of a port that is external by now": {netinst.PortConfig{Label: "a", IfName: "eth0"}, lease, ""},
	} {
		got := spell(Desired([]netinst.PortConfig{c.port}, Leases{"a": c.lease}))
		if want := unindent(c.want); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestWithLeases(t *testing.T) {
	port := netinst.PortConfig{Label: "a", IfName: "eth0", Addressing: netinst.AddressingDHCP}
	lease := dhcpclient.Lease{IfName: "eth0", Address: netip.MustParsePrefix("192.0.2.50/24"), MTU: 1400,
		Server: netip.MustParseAddr("192.0.2.1"), DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53")}}
	have := []netstate.Interface{{Name: "eth0", MTU: 1500, DNS: []netstate.DNSSource{{Program: "other"}}}, {Name: "eth1"}}
	text := func(ports []netinst.PortConfig, l dhcpclient.Lease) string {
		var out []string
		for _, i := range WithLeases(have, ports, Leases{"a": l}) {
			s := fmt.Sprintf("%s %d", i.Name, i.MTU)
			for _, d := range i.DNS {
				s += fmt.Sprintf(" %s %s %v %v", d.Program, d.Path, d.Lease, d.Servers)
			}
			out = append(out, s)
		}
		return strings.Join(out, ", ")
	}
	const none = "eth0 1500 other  invalid IP [], eth1 0"
	big, elsewhere, bare := lease, lease, dhcpclient.Lease{IfName: "eth0"}
	big.MTU, elsewhere.IfName = 9000, "eth1"
	for name, c := range map[string]struct {
		ports []netinst.PortConfig
		lease dhcpclient.Lease
		want  string
	}{
		"its own": {[]netinst.PortConfig{port}, lease,
			"eth0 1400 DHCP server 192.0.2.1 192.0.2.50 [192.0.2.53] other  invalid IP [], eth1 0"},
		"a large MTU": {[]netinst.PortConfig{port}, big,
			"eth0 1500 DHCP server 192.0.2.1 192.0.2.50 [192.0.2.53] other  invalid IP [], eth1 0"},
		"of another interface":       {[]netinst.PortConfig{port}, elsewhere, none},
		"of no port":                 {nil, lease, none},
		"of a port that is external": {[]netinst.PortConfig{{Label: "a", IfName: "eth0"}}, lease, none},
		"that says nothing":          {[]netinst.PortConfig{port}, bare, none},
	} {
		if got := text(c.ports, c.lease); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if have[0].MTU != 1500 || len(have[0].DNS) != 1 {
		t.Error("what was observed has changed")
	}
}

func TestLabels(t *testing.T) {
	ports := []netinst.PortConfig{static("a", "eth0", 0, "192.0.2.1", "192.0.2.2/24"),
		vlan(static("d", "eth1.7", 0, "", "10.0.7.2/24"), "eth1", 7),
		vlan(static("c", "eth1.5", 0, "10.0.5.1", "10.0.5.2/24"), "eth1", 5),
		vlan(static("b", "eth0.5", 0, "", "10.0.0.2/24"), "eth0", 5)}
	want := Desired(ports, nil)
	label := Labels(ports, want)
	var got []string
	for _, id := range append(want.IDs(), netstate.ID{Kind: netstate.KindAddress, Name: "eth9 10.9.9.9/32"}) {
		got = append(got, id.String()+": "+label(id))
	}
	if text, want := strings.Join(got, "\n"), unindent(`
			address eth0 192.0.2.2/24: a
			address eth0.5 10.0.0.2/24: b
			address eth1.5 10.0.5.2/24: c
			address eth1.7 10.0.7.2/24: d
			link eth0.5: b
			link eth1.5: c
			link eth1.7: d
			port eth0: a
			port eth0.5: b
			port eth1: c
			port eth1.5: c
			port eth1.7: d
			route 0.0.0.0/0 table 254 metric 1000: a
			route 0.0.0.0/0 table 254 metric 1002: c
			address eth9 10.9.9.9/32:`); text != want+" " {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

func spell(s netstate.State) string {
	var out []string
	for _, id := range s.IDs() {
		out = append(out, id.String()+": "+s[id].Text())
	}
	return strings.Join(out, "\n")
}

func unindent(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\n\t\t\t", "\n")) }

// A default route needs the address by which its gateway is reached, so that it is not added without it.
func TestADefaultRouteNeedsTheAddressOfItsSubnet(t *testing.T) {
	s := Desired([]netinst.PortConfig{static("a", "eth0", 0, "198.51.100.1", "192.0.2.2/24", "198.51.100.2/24")}, nil)
	for id, o := range s {
		if r, ok := o.(netstate.Route); ok && r.After.Name != "eth0 198.51.100.2/24" {
			t.Errorf("%s needs %s", id, r.After)
		}
	}
}

// Whatever the ports: every gateway has a route, no two routes have one metric, and a lower cost has a lower metric.
func TestEachGatewayHasARouteOfItsOwnMetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOfN(rapid.IntRange(0, 255), 0, MaxPorts).Draw(t, "costs")
		var ports []netinst.PortConfig
		for i, cost := range costs {
			at := netip.AddrFrom4([4]byte{10, byte(i), 0, 2})
			p := static(string(rune('a'+i%26))+string(rune('a'+i/26)), "eth"+string(rune('a'+i%26))+string(rune('a'+i/26)),
				cost, "", at.String()+"/24")
			p.Gateway = at.Prev()
			ports = append(ports, p)
		}
		byDev := map[string]int{}
		for _, o := range Desired(ports, nil) {
			if r, ok := o.(netstate.Route); ok {
				byDev[r.Dev] = r.Metric
			}
		}
		if len(byDev) != len(ports) {
			t.Fatalf("%d routes for %d ports", len(byDev), len(ports))
		}
		for _, a := range ports {
			for _, b := range ports {
				if m, n := byDev[string(a.IfName)], byDev[string(b.IfName)]; a.Cost < b.Cost && m >= n {
					t.Errorf("cost %d has metric %d, cost %d %d", a.Cost, m, b.Cost, n)
				}
			}
		}
	})
}
