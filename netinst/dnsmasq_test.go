package netinst

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// The range of generated addresses is ours to give from: dnsmasq is told the subnet
// alone, and leases only what a file of dhcp-hosts/ names.
func TestDnsmasqServesSubnetsOfAnySize(t *testing.T) {
	for subnet, want := range map[string]string{
		"10.0.0.0/8":       "10.0.0.0,static,255.0.0.0,1h",
		"10.50.0.0/23":     "10.50.0.0,static,255.255.254.0,1h",
		"10.50.2.128/25":   "10.50.2.128,static,255.255.255.128,1h",
		"192.168.7.240/28": "192.168.7.240,static,255.255.255.240,1h",
		"172.16.0.4/30":    "172.16.0.4,static,255.255.255.252,1h",
	} {
		p := netip.MustParsePrefix(subnet)
		gw := p.Addr().Next()
		for name, pool := range map[string][2]netip.Addr{
			"a range of one": {gw.Next(), gw.Next()},
			"the rest":       {gw.Next(), lastAddress(p).Prev()},
		} {
			in := input()
			in.Config.IPv4 = IPv4Config{Subnet: p, Gateway: gw, DHCPFirst: pool[0], DHCPLast: pool[1]}
			nw, _ := newNetwork(in)
			conf := strings.Split(nw.dnsmasqConf(), "\n")
			for _, line := range []string{"dhcp-range=" + want, "host-record=gateway,gateway.edge.test," + gw.String()} {
				if !slices.Contains(conf, line) {
					t.Errorf("%s of %s: %q is missing in\n%s", name, subnet, line, nw.dnsmasqConf())
				}
			}
		}
	}
}

// An option that is named without a value is held back.
func TestDnsmasqGivesNoRouterWhereThereIsNoWayOut(t *testing.T) {
	for port, want := range map[string]string{"uplink": "option:router,10.1.0.1", "": "option:router"} {
		in := input()
		in.Config.Port = port
		nw, _ := newNetwork(in)
		if got := strings.Split(nw.dhcpOptions(), "\n"); !slices.Contains(got, want) {
			t.Errorf("with port %q the options are %q, want %q", port, got, want)
		}
	}
}
