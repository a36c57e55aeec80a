package netinst

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

func dnsSource(program string, link bool, servers ...string) netstate.DNSSource {
	s := netstate.DNSSource{Program: program, Path: "/" + program, Link: link}
	for _, a := range servers {
		s.Servers = append(s.Servers, ip(a))
	}
	return s
}

func TestWhichDNSServersAreLearnt(t *testing.T) {
	lease := dnsSource("dhclient", true, "192.0.2.53")
	lease.Lease = ip("192.0.2.2")
	old := dnsSource("dhclient", true, "192.0.2.53")
	old.Lease = ip("192.0.2.99")
	garbage := dnsSource("networkd", true)
	garbage.Skipped = "no IP address: \"x\""
	own := dnsSource("etc", false, "10.1.0.1", "127.0.0.53", "::1", "0.0.0.0", "fe80::1", "9.9.9.9")
	own.Own = []netip.Addr{ip("10.1.0.1")}
	for _, c := range []struct {
		name          string
		wan, lte      []netstate.DNSSource
		want, lteWant string
	}{
		{"nothing", nil, nil, "", ""},
		{"the first source of the link", []netstate.DNSSource{dnsSource("resolved", true, "9.9.9.9", "2001:db8::53"),
			dnsSource("networkd", true, "8.8.8.8")}, nil,
			"9.9.9.9 2001:db8::53 by resolved (/resolved)", ""},
		{"one that is empty is passed over", []netstate.DNSSource{dnsSource("resolved", true),
			dnsSource("networkd", true, "8.8.8.8")}, nil, "8.8.8.8 by networkd (/networkd)", ""},
		{"a lease that holds", []netstate.DNSSource{lease}, nil, "192.0.2.53 by dhclient (/dhclient)", ""},
		{"a lease that is over", []netstate.DNSSource{old}, nil, " skipped /dhclient: the lease of 192.0.2.99 is over", ""},
		{"garbage is told", []netstate.DNSSource{garbage, dnsSource("dhcpcd", true, "8.8.8.8")}, nil,
			"8.8.8.8 by dhcpcd (/dhcpcd) skipped /networkd: no IP address: \"x\"", ""},
		{"the host's servers go by its best default route", []netstate.DNSSource{dnsSource("etc", false, "9.9.9.9")},
			[]netstate.DNSSource{dnsSource("etc", false, "9.9.9.9")}, "9.9.9.9 by etc (/etc)", ""},
		{"or by the subnet that they are in", []netstate.DNSSource{dnsSource("etc", false, "203.0.113.53", "9.9.9.9")},
			[]netstate.DNSSource{dnsSource("etc", false, "203.0.113.53", "9.9.9.9")},
			"9.9.9.9 by etc (/etc)", "203.0.113.53 by etc (/etc)"},
		{"or are another link's own", []netstate.DNSSource{dnsSource("etc", false, "8.8.8.8", "9.9.9.9")},
			[]netstate.DNSSource{dnsSource("networkd", true, "8.8.8.8")},
			"9.9.9.9 by etc (/etc)", "8.8.8.8 by networkd (/networkd)"},
		{"the first of the host's that has any", []netstate.DNSSource{dnsSource("manager", false, "9.9.9.9"),
			dnsSource("etc", false, "8.8.8.8")}, nil, "9.9.9.9 by manager (/manager)", ""},
		{"one of the host's that has none that can be asked is passed over",
			[]netstate.DNSSource{dnsSource("resolved", false, "127.0.0.53"), dnsSource("etc", false, "9.9.9.9")}, nil,
			"9.9.9.9 by etc (/etc) skipped /resolved: server 127.0.0.53 is the host itself", ""},
		{"one of the host's whose servers are another link's own hides those that know less",
			[]netstate.DNSSource{dnsSource("manager", false, "8.8.8.8"), dnsSource("etc", false, "9.9.9.9")},
			[]netstate.DNSSource{dnsSource("networkd", true, "8.8.8.8")}, "", "8.8.8.8 by networkd (/networkd)"},
		{"the host itself and what is no host are none", []netstate.DNSSource{own}, nil,
			"9.9.9.9 by etc (/etc) skipped /etc: server 10.1.0.1 is the host itself; /etc: server 127.0.0.53 is the host " +
				"itself; /etc: server ::1 is the host itself; /etc: server 0.0.0.0 is not a host", ""},
	} {
		ifs := []netstate.Interface{
			{Name: "eth0", Up: true, Addresses: []netip.Prefix{prefix("192.0.2.2/24")},
				DefaultRoutes: []netstate.DefaultRoute{{Gateway: ip("192.0.2.1"), Metric: 50}}, DNS: c.wan},
			{Name: "ppp0", Up: true, Addresses: []netip.Prefix{prefix("203.0.113.2/24")},
				DefaultRoutes: []netstate.DefaultRoute{{Metric: 100}}, DNS: c.lte},
		}
		for i, want := range []string{c.want, c.lteWant} {
			l := learntDNS(ifs[i], ifs)
			var words []string
			for _, a := range l.Servers {
				words = append(words, a.String())
			}
			got := strings.Join(words, " ")
			if l.Source != "" {
				got += " by " + l.Source
			}
			if l.Skipped != "" {
				got += " skipped " + l.Skipped
			}
			if got != want {
				t.Errorf("%s, %s: got %q, want %q", c.name, ifs[i].Name, got, want)
			}
		}
	}
}

func TestTheBestDefaultRoute(t *testing.T) {
	via := func(name string, up bool, metrics ...int) netstate.Interface {
		i := netstate.Interface{Name: name, Up: up}
		for _, m := range metrics {
			i.DefaultRoutes = append(i.DefaultRoutes, netstate.DefaultRoute{Metric: m})
		}
		return i
	}
	six := netstate.Interface{Name: "a", Up: true, DefaultRoutes: []netstate.DefaultRoute{{IPv6: true, Metric: 1}}}
	for _, c := range []struct {
		all  []netstate.Interface
		want string
	}{
		{nil, ""},
		{[]netstate.Interface{via("b", true, 100), via("c", true, 50)}, "c"},
		{[]netstate.Interface{via("b", true, 50), via("c", true, 100)}, "b"},
		{[]netstate.Interface{via("c", true, 50), via("b", true, 50)}, "b"},
		{[]netstate.Interface{via("b", true, 50), via("c", true, 50)}, "b"},
		{[]netstate.Interface{via("b", true, 10), via("a", true, 50)}, "b"},
		{[]netstate.Interface{via("b", false, 10), via("c", true, 50)}, "c"},
		{[]netstate.Interface{six, via("c", true, 50)}, "c"},
		{[]netstate.Interface{via("b", true, 100, 20), via("c", true, 50)}, "b"},
	} {
		if got := bestDefault(c.all, false); got != c.want {
			t.Errorf("%+v: %q, want %q", c.all, got, c.want)
		}
	}
}

func TestLearntServersAreBounded(t *testing.T) {
	var many []string
	for n := range 200 {
		many = append(many, fmt.Sprintf("127.0.0.%d", n+1), fmt.Sprintf("9.9.9.%d", n+1))
	}
	i := netstate.Interface{Name: "eth0", DNS: []netstate.DNSSource{dnsSource("x", true, many...)}}
	l := learntDNS(i, []netstate.Interface{i})
	if len(l.Servers) != maxLearnt || len(l.Skipped) > 400 {
		t.Errorf("%d servers, skipped %q", len(l.Servers), l.Skipped)
	}
}

// So are those that the other end of a tunnel assigns.
func TestAssignedServersAreBounded(t *testing.T) {
	in := ipsecInput()
	in.Assigned.DNS = nil
	for n := range maxLearnt + 2 {
		in.Assigned.DNS = append(in.Assigned.DNS, ip(fmt.Sprintf("172.16.0.%d", n+1)))
	}
	if got, why := in.acceptable(in.Assigned); !slices.Equal(got.DNS, in.Assigned.DNS[:maxLearnt]) || why != "" {
		t.Errorf("%v, %q", got.DNS, why)
	}
}

func TestWhomANetworkAsks(t *testing.T) {
	configs := []PortConfig{{Label: "eth", IfName: "eth0", Uplink: true}}
	seen := []netstate.Interface{{
		Name: "eth0", Up: true, Addresses: []netip.Prefix{prefix("192.0.2.2/24")},
		DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(ip("192.0.2.1"))},
	}}
	asks := func() (string, string) {
		in := input()
		in.Ports = PortStatuses(configs, seen)
		d := DesiredState(in)
		return d.State[netstate.ID{Kind: netstate.KindFile, Name: "ni/1/conf/servers"}].Text(), d.Warning
	}
	ok := func(what, want, warning string) {
		t.Helper()
		if got, why := asks(); got != want || why != warning {
			t.Errorf("%s: %q and %q, want %q and %q", what, got, why, want, warning)
		}
	}
	ok("nobody", "", "no DNS server: dns.servers and ports.eth.dnsServers are empty, and none was learned from eth0")
	seen[0].DNS = []netstate.DNSSource{dnsSource("networkd", true, "198.51.100.53")}
	ok("learnt", "server=198.51.100.53@eth0\n", "")
	configs[0].DNSServers = []netip.Addr{ip("9.9.9.9")}
	ok("typed", "server=9.9.9.9@eth0\n", "")
	configs[0].DNSServers, seen[0].DNS = nil, []netstate.DNSSource{dnsSource("etc", false, "127.0.0.53")}
	ok("a stub alone", "",
		"no DNS server: dns.servers and ports.eth.dnsServers are empty, and none was learned from eth0 (/etc: server "+
			"127.0.0.53 is the host itself)")
	seen[0].DefaultRoutes = nil
	ok("no way out", "", "") // which is reported as such
}
