package netinst

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edgespan/netinst/netstate"
)

var update = flag.Bool("update", false,
	"write testdata/*.golden from what the code does now; read the difference line by line before you commit it, or the "+
		"golden files prove nothing")

var (
	netID = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	appA  = uuid.MustParse("aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa")
	appB  = uuid.MustParse("bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb")
)

func ip(s string) netip.Addr            { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix      { return netip.MustParsePrefix(s) }
func key(a uuid.UUID, i int) AdapterKey { return AdapterKey{a, i} }

func config() NetworkInstanceConfig {
	return NetworkInstanceConfig{
		UUID: netID, DisplayName: "one", Type: Local, Port: "uplink", SpoofGuard: true,
		IPv4: IPv4Config{
			Subnet: prefix("10.1.0.0/24"), Gateway: ip("10.1.0.1"),
			DHCPFirst: ip("10.1.0.128"), DHCPLast: ip("10.1.0.254"),
		},
		DNS: DNSConfig{Domain: "edge.test"},
	}
}

func uplink() PortStatus {
	return PortStatus{
		PortConfig: PortConfig{
			Label: "eth", IfName: "eth0", Uplink: true,
			DNSServers: []netip.Addr{ip("192.0.2.53")}, NTPServers: []netip.Addr{ip("192.0.2.123")},
		},
		Exists: true, Up: true, LinkMTU: 1450,
		Addresses:     []netip.Prefix{prefix("192.0.2.10/24"), prefix("2001:db8::1/64")},
		DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(ip("192.0.2.1"))},
	}
}

func adapter(app uuid.UUID, index, number int, addr string, name Hostname, acl ...ACLRule) Adapter {
	k := key(app, index)
	return Adapter{
		Config: AppAdapterConfig{
			AppUUID: app, Index: index, TargetVersion: 1, Activate: true,
			Spec: AdapterSpec{
				NetworkInstance: netID, Netns: "app-" + string(name), IfName: "eth0", Hostname: name, ACL: acl,
			},
		},
		Lease: Lease{Number: number, IP: ip(addr), MAC: adapterMAC(k, netID, 0)},
	}
}

func input(adapters ...Adapter) Input {
	return Input{
		Owner: netstate.Owner{Name: netID.String(), Number: 1}, Config: config(),
		Adapters: adapters, Ports: []PortStatus{uplink()}, RunDir: "/run/edgespan",
	}
}

// switchInput is the same for a switch network: its adapters have no address.
func switchInput(adapters ...Adapter) Input {
	in := input(slices.Clone(adapters)...)
	in.Config.Type, in.Config.Port = Switch, ""
	in.Config.IPv4, in.Config.DNS = IPv4Config{}, DNSConfig{}
	for i := range in.Adapters {
		in.Adapters[i].Lease.IP = netip.Addr{}
	}
	return in
}

func web() Adapter {
	return adapter(appA, 0, 1, "10.1.0.128", "web",
		ACLRule{Name: "no-smtp", Direction: Egress, Action: Drop, Protocol: "tcp",
			Ports: []PortRange{{25, 25}, {465, 465}, {587, 590}}},
		ACLRule{Name: "out", Direction: Egress, Action: Allow},
		ACLRule{Name: "http", Direction: Ingress, Action: Allow, Protocol: "tcp", LocalPort: []PortRange{{80, 80}}},
		ACLRule{Name: "node", Direction: Both, Action: Allow, IP: prefix("192.0.2.0/24"), Protocol: "icmp"},
	)
}

func TestDesiredGolden(t *testing.T) {
	db := adapter(appB, 1, 2, "10.1.0.7", "db",
		ACLRule{Name: "sql", Direction: Ingress, Action: Allow, IP: prefix("10.1.0.128/32"), Protocol: "tcp",
			LocalPort: []PortRange{{5432, 5432}}})
	routes := input(web())
	routes.Config.Routes = []StaticRoute{
		{Name: "b-inside", Destination: prefix("10.9.0.0/16"), Gateway: ip("10.1.0.7")},
		{Name: "a-lab", Destination: prefix("198.51.100.0/24"), Gateway: ip("203.0.113.1"), Port: "lab"},
		{Name: "c-missing", Destination: prefix("198.18.0.0/15"), Gateway: ip("203.0.113.9"), Port: "absent"},
		{Name: "d-beyond", Destination: prefix("100.64.0.0/10"), Gateway: ip("203.0.113.9")},
		{Name: "e-link", Destination: prefix("100.128.0.0/16")},
	}
	lab := PortStatus{
		PortConfig: PortConfig{Label: "lab", IfName: "eth1"}, Exists: true, Up: true, LinkMTU: 1500,
		Addresses: []netip.Prefix{prefix("203.0.113.2/24")},
	}
	routes.Ports = append(routes.Ports, lab)
	labels := input(adapter(appA, 0, 1, "10.1.0.128", "web",
		ACLRule{Name: "lab", Direction: Both, Action: Allow, IP: prefix("203.0.113.0/24"), Protocol: "tcp",
			Ports: []PortRange{{443, 443}}, PortLabel: "lab"},
		ACLRule{Name: "each", Direction: Egress, Action: Drop, PortLabel: "all"},
		ACLRule{Name: "none", Direction: Both, Action: Allow, PortLabel: "absent"}))
	labels.Ports = append(labels.Ports, lab)
	limits := input(adapter(appA, 0, 1, "10.1.0.128", "web",
		ACLRule{Name: "few", Direction: Both, Action: Limit, IP: prefix("192.0.2.0/24"), LocalPort: []PortRange{{53, 53}},
			Limit: RateLimit{10, "sec", 30}},
		ACLRule{Name: "none", Direction: Egress, Action: Drop, Protocol: "icmp"},
		ACLRule{Name: "rare", Direction: Egress, Action: Limit, Limit: RateLimit{1, "hour", 5}}), db)
	portmaps := input(adapter(appA, 0, 1, "10.1.0.128", "web",
		ACLRule{Name: "http", Direction: Ingress, Action: MapPort, Protocol: "tcp",
			Portmap: Portmap{Ports: PortRange{8080, 8080}, Target: PortRange{80, 80}}},
		ACLRule{Name: "no", Direction: Ingress, Action: Drop, IP: prefix("198.51.100.0/24")},
		ACLRule{Name: "range", Direction: Ingress, Action: MapPort, Protocol: "udp", IP: prefix("192.0.2.0/24"),
			Portmap: Portmap{Ports: PortRange{9000, 9010}, Target: PortRange{7000, 7010}}},
		ACLRule{Name: "same", Direction: Ingress, Action: MapPort, Protocol: "udp", PortLabel: "lab",
			Portmap: Portmap{Ports: PortRange{53, 53}, Target: PortRange{53, 53}}}), db)
	portmaps.Config.Mapped = true
	portmaps.Config.Routes = routes.Config.Routes[1:2]
	portmaps.Ports = append(portmaps.Ports, lab)
	airgapped := input(web())
	airgapped.Config.Port = ""
	airgapped.Config.DNS.Domain = ""
	airgapped.Config.SpoofGuard = false
	down := input()
	down.Ports[0].Up = false
	hosts := input(adapter(appA, 0, 1, "10.1.0.128", "120"), adapter(appA, 1, 2, "10.1.0.129", "120"))
	hosts.Config.MTU = 1300
	hosts.Config.NTPServers = []netip.Addr{ip("10.0.0.9")}
	hosts.Config.DNS.Servers = []netip.Addr{ip("9.9.9.9")}
	hosts.Config.DNS.Hosts = map[Hostname][]netip.Addr{"printer": {ip("10.1.0.9"), ip("10.1.0.8")}}
	inactive := input(web())
	inactive.Config.Inactive = true
	alone := switchInput(web(), db)
	lent := switchInput(web())
	lent.Config.Port = "lab"
	lent.Ports = append(lent.Ports,
		PortStatus{PortConfig: PortConfig{Label: "lab", IfName: "eth1"}, Exists: true, Up: true, LinkMTU: 1400})
	several := switchInput(web())
	several.Config.Port, several.Config.ForwardLLDP = "lab", true
	for _, name := range []string{"eth1", "eth2"} {
		several.Ports = append(several.Ports, PortStatus{PortConfig: PortConfig{Label: name, IfName: IfName(name),
			Labels: []string{"lab"}}, Exists: true, Up: true, LinkMTU: 1500})
	}
	vm, theirs, own := web(), adapter(appB, 1, 2, "10.1.0.7", "db"), adapter(appB, 2, 3, "10.1.0.8", "db")
	vm.Config.Spec.Kind, vm.Config.Spec.HostIfName = Tap, "vm0"
	theirs.Config.Spec.Kind, theirs.Config.Spec.HostIfName = External, "vnet7"
	own.Config.Spec.Kind = Tap
	six := input(web(), db)
	six.Config.IPv6 = IPv6Config{Subnet: prefix("fd00:1::/64"), Gateway: ip("fd00:1::1"), Mode: SLAAC, NAT: true}
	six.Ports[0].Addresses = append(six.Ports[0].Addresses, prefix("2001:db8:9::2/64"), prefix("fe80::9/64"))
	six.Ports[0].DefaultRoutes = append(six.Ports[0].DefaultRoutes, netstate.DefaultVia(ip("fe80::1:1")))
	routed := input(web())
	routed.Config.IPv6 = IPv6Config{Subnet: prefix("2001:db8:1::/64"), Gateway: ip("2001:db8:1::1"), Mode: DHCPv6}
	routed.Adapters[0].Config.Spec.IP6 = ip("2001:db8:1::80")
	for name, in := range map[string]Input{
		"ipv6_slaac_nat": six, "flow_log": logging(six), "observed": observing(six), "ipv6_dhcp_routed": routed, "switch_port": lent, "switch_ports": several, "taps_and_external": input(vm, theirs, own),
		"switch_alone": alone, "inactive": inactive, "port_labels": labels, "limits": limits, "port_maps": portmaps,
		"one_app": input(web()), "two_apps": input(web(), db), "static_routes": routes,
		"air_gapped": airgapped, "no_port": down, "names_and_options": hosts,
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, describe(DesiredState(in))) })
	}
	t.Run("host_ipv6", func(t *testing.T) {
		golden(t, "host_ipv6", HostState([]HostNetwork{{Number: 1, Subnet: prefix("10.1.0.0/24"),
			Subnet6: prefix("fd00:1::/64"), Gateway6: ip("fd00:1::1"), Closed6: true, Ports: []HostPort{{IfName: "eth0"}}}}).String())
	})
	t.Run("host", func(t *testing.T) {
		golden(t, "host", HostState([]HostNetwork{
			{Number: 10, Subnet: prefix("10.2.0.0/16"), Gateway: ip("10.2.0.1"), Mapped: true,
				Ports: []HostPort{{IfName: "eth1"}, {IfName: "eth0", Opened: true, HostForwards: []string{"lan0"}}}},
			{Number: 1, Subnet: prefix("10.1.0.0/24"),
				Ports: []HostPort{{IfName: "eth0", Opened: true, HostForwards: []string{"lan0"}}}},
		}).String())
	})
}

func describe(d Desired) string {
	s := fmt.Sprintf("port %q %s\n%s", d.Port, d.PortError, d.State)
	if d.Warning != "" {
		s += "warning " + d.Warning + "\n"
	}
	for _, id := range d.State.IDs() {
		for _, n := range d.State[id].Needs() {
			if id.Kind == netstate.KindPort || id.Kind == netstate.KindProcess {
				s += fmt.Sprintf("%s needs %s\n", id, n)
			}
		}
	}
	return s
}

func TestPortOfASwitchNetwork(t *testing.T) {
	free := PortStatus{PortConfig: PortConfig{Label: "lab", IfName: "eth1"}, Exists: true, Up: true}
	change := func(f func(*PortStatus)) PortStatus { p := free; f(&p); return p }
	for _, c := range []struct {
		want  string
		port  PortStatus
		taken string
		why   string
	}{
		{"", free, "", ""},
		{"lab", free, "lab", ""},
		{"uplink", free, "", `no port matches "uplink"`},
		{"lab", change(func(p *PortStatus) { p.Exists = false }), "", "port lab: eth1 does not exist"},
		{"lab", change(func(p *PortStatus) { p.Up = false }), "lab", "port lab: eth1 is down"},
		{"lab", change(func(p *PortStatus) { p.Addresses = []netip.Prefix{prefix("fe80::1/64")} }), "lab", ""},
		{"lab", change(func(p *PortStatus) {
			p.Addresses = []netip.Prefix{prefix("fe80::1/64"), prefix("2001:db8::1/64"), prefix("169.254.1.1/16")}
		}), "", "port lab: eth1 holds the host's address 2001:db8::1/64, 169.254.1.1/16, which would be cut off in a " +
			"bridge: remove it or choose another port"},
	} {
		ps, why := switchPorts(c.want, []PortStatus{c.port})
		if labels := labelsOf(ps); labels != c.taken || strings.Join(why, "; ") != c.why {
			t.Errorf("%q of %+v: %q, %q, want %q, %q", c.want, c.port, labels, why, c.taken, c.why)
		}
	}
}

func labelsOf(ps []PortStatus) string {
	var labels []string
	for _, p := range ps {
		labels = append(labels, p.Label)
	}
	return strings.Join(labels, " ")
}

// A switch with several ports works while one of them does, and says what is wrong with the others.
func TestPortsOfASwitchNetwork(t *testing.T) {
	in := switchInput(web())
	in.Config.Port = "lab"
	for _, name := range []string{"eth1", "eth2"} {
		in.Ports = append(in.Ports, PortStatus{PortConfig: PortConfig{Label: "lab" + name, IfName: IfName(name),
			Labels: []string{"lab"}}, Exists: true, Up: true, LinkMTU: 1500})
	}
	attrs := func(d Desired) string {
		l := d.State[netstate.ID{Kind: netstate.KindLink, Name: "es1"}].(netstate.Link)
		return fmt.Sprint(l.MTU, l.Attrs)
	}
	lab1, lab2 := &in.Ports[len(in.Ports)-2], &in.Ports[len(in.Ports)-1]
	const both = "1500 map[priority:61440 stp_state:1]"
	for _, c := range []struct {
		name                 string
		change               func()
		port, fault, warning string
		attrs                string
	}{
		{"both", func() {}, "labeth1", "", "", both},
		{"one is down", func() { lab1.Up = false }, "labeth2", "", "port labeth1: eth1 is down", both},
		{"and the other is gone", func() { lab2.Exists = false }, "labeth1", "",
			"port labeth1: eth1 is down; port labeth2: eth2 does not exist", both},
		{"none is left", func() { lab1.Exists = false }, "",
			"port labeth1: eth1 does not exist; port labeth2: eth2 does not exist", "", both},
		{"a smaller one", func() { lab1.Exists, lab2.Exists, lab1.Up, lab2.LinkMTU = true, true, true, 1400 }, "labeth1", "", "",
			"1400 map[priority:61440 stp_state:1]"},
		{"only one in the config", func() { lab2.Labels = nil }, "labeth1", "", "", "1500 map[]"},
	} {
		c.change()
		d := DesiredState(in)
		if got := attrs(d); d.Port != c.port || d.PortError != c.fault || d.Warning != c.warning || got != c.attrs {
			t.Errorf("%s: %q, %q, %q, %s", c.name, d.Port, d.PortError, d.Warning, got)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-golden +got):\n%s", path, d)
	}
}

func TestHostWithoutNetworksIsEmpty(t *testing.T) {
	if s := HostState(nil); len(s) != 0 {
		t.Errorf("got %s", s)
	}
}

func TestDesiredDoesNotDependOnOrder(t *testing.T) {
	a, b := web(), adapter(appB, 0, 2, "10.1.0.129", "db")
	one, two := input(a, b), input(b, a)
	one.Config.Routes = []StaticRoute{
		{Name: "a", Destination: prefix("10.9.0.0/16"), Gateway: ip("10.1.0.7")},
		{Name: "b", Destination: prefix("10.9.0.0/16"), Gateway: ip("10.1.0.8")},
	}
	two.Config.Routes = slices.Clone(one.Config.Routes)
	slices.Reverse(two.Config.Routes)
	if d := cmp.Diff(describe(DesiredState(one)), describe(DesiredState(two))); d != "" {
		t.Error(d)
	}
}

// A new app changes nothing that another app's DNS or DHCP depends on.
func TestAnAppNeverReplacesDnsmasq(t *testing.T) {
	before, after := DesiredState(input(web())), DesiredState(input(web(), adapter(appB, 0, 2, "10.1.0.129", "db")))
	for _, plan := range []netstate.Plan{
		netstate.Diff(before.State, after.State), netstate.Diff(after.State, before.State),
	} {
		reloads := 0
		for i, op := range plan {
			switch {
			case op.Kind == netstate.KindProcess && op.Verb == netstate.Reload:
				reloads++
				for _, later := range plan[i:] {
					if later.Kind == netstate.KindFile {
						t.Errorf("%s stands after the reload", later)
					}
				}
			case op.Kind == netstate.KindProcess, op.Verb == netstate.Change && op.Kind != netstate.KindChain:
				t.Errorf("unexpected %s", op)
			}
		}
		if reloads != 1 {
			t.Errorf("%d reloads in %v", reloads, plan)
		}
	}
}

// A port that appears or disappears changes files and causes a reload, not a restart.
func TestAPortNeverReplacesDnsmasq(t *testing.T) {
	without := input(web())
	without.Ports = nil
	for _, op := range netstate.Diff(DesiredState(without).State, DesiredState(input(web())).State) {
		if op.Kind == netstate.KindProcess && op.Verb != netstate.Reload {
			t.Errorf("unexpected %s", op)
		}
	}
}

func TestAStaticRouteIsAppliedWhereItsGatewayIsReachable(t *testing.T) {
	for _, tc := range []struct {
		name, port, gateway, warning string
	}{
		{"a neighbour of the port", "", "192.0.2.77", ""},
		{"the port's default gateway", "", "192.0.2.1", ""},
		{"a default gateway that is on link by a route alone", "narrow", "172.31.1.1", ""},
		{"no gateway", "", "", ""},
		{"a host of the network", "", "10.1.0.9", ""},
		{"beyond the port's subnet", "", "203.0.113.9", "gateway 203.0.113.9 is on no subnet of port eth (eth0)"},
		{"beyond a named port's subnet", "narrow", "192.0.2.77", "gateway 192.0.2.77 is on no subnet of port narrow (eth1)"},
		{"the port itself", "", "192.0.2.10", "gateway 192.0.2.10 is on no subnet of port eth (eth0)"},
		{"the broadcast address", "", "192.0.2.255", "gateway 192.0.2.255 is on no subnet of port eth (eth0)"},
		{"through a port that nothing is", "absent", "192.0.2.77", "no port matches \"absent\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := input(web())
			in.Ports = append(in.Ports, PortStatus{
				PortConfig: PortConfig{Label: "narrow", IfName: "eth1"}, Exists: true, Up: true,
				Addresses:     []netip.Prefix{prefix("100.64.0.5/32")},
				DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(ip("172.31.1.1"))},
			})
			r := StaticRoute{Name: "r", Destination: prefix("198.18.0.0/15"), Port: tc.port}
			if tc.gateway != "" {
				r.Gateway = ip(tc.gateway)
			}
			in.Config.Routes = []StaticRoute{r}
			d := DesiredState(in)
			want := ""
			if tc.warning != "" {
				want = "route r is left out: " + tc.warning
			}
			if d.Warning != want {
				t.Errorf("got  %q\nwant %q", d.Warning, want)
			}
			if got := d.State[netstate.Route{Table: 20001, Dst: "198.18.0.0/15"}.ID()] != nil; got != (want == "") {
				t.Errorf("the route stands: %v", got)
			}
		})
	}
}

// A network without its own port reports that once, not again for each route.
func TestRoutesOfANetworkWithoutPortAreNoWarning(t *testing.T) {
	in := input(web())
	in.Ports = nil
	in.Config.Routes = []StaticRoute{{Name: "r", Destination: prefix("198.18.0.0/15"), Gateway: ip("192.0.2.77")}}
	if d := DesiredState(in); d.Warning != "" || d.PortError == "" {
		t.Errorf("warning %q, port %q", d.Warning, d.PortError)
	}
}

func TestEveryAdapterObjectIsInTheState(t *testing.T) {
	d := DesiredState(input(web()))
	ids := d.ByAdapter[key(appA, 0)]
	if len(ids) != 13 {
		t.Errorf("got %v", ids)
	}
	logged, both := DesiredState(logging(input(web()))), DesiredState(logging(input6(web())))
	for _, d := range []Desired{d, logged, both} {
		for _, id := range d.ByAdapter[key(appA, 0)] {
			if d.State[id] == nil {
				t.Errorf("%s is not in the state", id)
			}
		}
	}
	for id, o := range d.State {
		for _, n := range o.Needs() {
			if n.Name != "eth0" && d.State[n] == nil {
				t.Errorf("%s needs %s, which is not in the state", id, n)
			}
		}
	}
}

func TestVethAliasFitsTheKernel(t *testing.T) {
	a := web()
	a.Config.Spec.Netns = "/" + strings.Repeat("long/", 60)
	b := a
	b.Config.Spec.Netns += "x"
	name := netstate.ID{Kind: netstate.KindLink, Name: "es1a1"}
	one := DesiredState(input(a)).State[name].(netstate.Link).Alias
	two := DesiredState(input(b)).State[name].(netstate.Link).Alias
	if len(one) > maxAlias || one == two {
		t.Errorf("%d octets: %q and %q", len(one), one, two)
	}
}

func TestOption121NeverOverflows(t *testing.T) {
	in := input()
	for i := range 60 {
		in.Config.Routes = append(in.Config.Routes, StaticRoute{
			Name: fmt.Sprintf("r%02d", i), Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i), 1}), 32),
			Gateway: ip("10.1.0.7"),
		})
	}
	nw, _ := newNetwork(in)
	words, _ := nw.classlessRoutes(netip.Addr{}, 0)
	size := 0
	for i := 0; i < len(words); i += 2 {
		size += 1 + (prefix(words[i]).Bits()+7)/8 + 4
	}
	if size > 255 || size < 240 {
		t.Errorf("option 121 has %d octets: %v", size, words)
	}
}

// Of two routes to one destination the earlier wins, and a route through the bridge needs the network's address.
func TestTheEarlierOfTwoRoutesWins(t *testing.T) {
	in := input()
	route := func(dst, via, port string) StaticRoute {
		return StaticRoute{Name: dst, Destination: prefix(dst), Gateway: ip(via), Port: port}
	}
	in.Config.Routes = []StaticRoute{
		route("203.0.113.0/24", "10.1.0.7", ""), route("203.0.113.9/24", "10.1.0.8", ""),
		route("10.1.0.0/24", "10.1.0.9", ""), route("2001:db8::/32", "10.1.0.7", ""),
	}
	nw, _ := newNetwork(in)
	to := map[string][]string{}
	for _, o := range nw.routes() {
		r := o.(netstate.Route)
		to[r.Dst] = append(to[r.Dst], r.Via)
		if byBridge := slices.Contains(r.Needs(), nw.address().ID()); byBridge != (r.Dev == "es1") {
			t.Errorf("%s by %s needs %v", r.Dst, r.Dev, r.Needs())
		}
	}
	if got := to["203.0.113.0/24"]; !slices.Equal(got, []string{"10.1.0.7"}) {
		t.Errorf("by %q", got)
	}
	if got := to["10.1.0.0/24"]; !slices.Equal(got, []string{""}) || to["2001:db8::/32"] != nil {
		t.Errorf("the subnet by %q, and %v", got, to)
	}
}

func TestWhoIsANeighbourOfAPort(t *testing.T) {
	for own, neighbours := range map[string]map[string]bool{
		"192.0.2.5/30": {"192.0.2.4": false, "192.0.2.5": false, "192.0.2.6": true, "192.0.2.7": false, "192.0.2.8": false},
		"192.0.2.4/31": {"192.0.2.4": false, "192.0.2.5": true, "192.0.2.6": false},
	} {
		for a, want := range neighbours {
			if got := reaches(PortStatus{Addresses: []netip.Prefix{prefix(own)}}, ip(a)); got != want {
				t.Errorf("%s from %s: %v", a, own, got)
			}
		}
	}
	nw, _ := newNetwork(input())
	for _, r := range []struct {
		port, via string
		want      bool
	}{{"", "10.1.0.7", true}, {"lab", "10.1.0.7", false}, {"", "10.9.0.7", false}, {"", "", false}} {
		s := StaticRoute{Port: r.port}
		if r.via != "" {
			s.Gateway = ip(r.via)
		}
		if got := nw.inside(s); got != r.want {
			t.Errorf("%+v is inside: %v", r, got)
		}
	}
}

// A mark that just fits is written in full.
func TestMarksOfJustTheKernelsLength(t *testing.T) {
	nw, _ := newNetwork(input())
	for _, n := range []int{maxAlias, maxAlias + 1} {
		room := n - len(aliasPrefix+nw.uuid()+tunnelWord)
		if got := nw.tunnelAlias(strings.Repeat("n", room)); strings.Contains(got, "sha256:") != (n > maxAlias) ||
			len(got) > maxAlias {
			t.Errorf("a tunnel's of %d octets: %s", n, got)
		}
		p := netstate.Peer{Name: "eth0", MAC: "02:00:00:00:00:01", MTU: 1500}
		p.Netns = strings.Repeat("n", n-len(nw.vethAlias(key(appA, 0), p)))
		if got := nw.vethAlias(key(appA, 0), p); strings.Contains(got, "sha256:") != (n > maxAlias) || len(got) > maxAlias {
			t.Errorf("an adapter's of %d octets: %s", n, got)
		}
	}
}

func TestAnOptionOfDHCPTakesWhatJustFits(t *testing.T) {
	in := input()
	in.Config.Port = ""
	for i := range 29 { // 23 of 9 octets and 6 of 8 are 255
		bits := 32
		if i >= 23 {
			bits = 24
		}
		in.Config.Routes = append(in.Config.Routes, StaticRoute{
			Name: fmt.Sprint(i), Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i), 1}), bits),
			Gateway: ip("10.1.0.7"),
		})
	}
	nw, _ := newNetwork(in)
	if words, _ := nw.classlessRoutes(netip.Addr{}, 0); len(words) != 2*29 {
		t.Errorf("%d words of 29 routes", len(words))
	}
	addrs := []netip.Addr{ip("192.0.2.1"), ip("2001:db8::1"), ip("192.0.2.2"), ip("192.0.2.3")}
	if got := ipv4Words(addrs, 2); !slices.Equal(got, []string{"192.0.2.1", "192.0.2.2"}) {
		t.Errorf("two of them: %q", got)
	}
}

func TestNamesThatDnsmasqReadsOtherwise(t *testing.T) {
	for name, want := range map[string]bool{"infinite": true, "ignore": true, "9": true, "0": true, "90m": true,
		"smh": true, "web": false, "9a": false, "infinitely": false, "w1": false} {
		if got := isTimeLike(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// The guard's mark is set where filter accepts; other tables accept by themselves.
func TestOnlyFilterAcceptsByTheGuardsChain(t *testing.T) {
	chain := func(f netstate.Family, table string) netstate.Chain {
		return netstate.Chain{Family: f, Table: table, Name: "X", Rules: []string{"-s 10.1.0.1/32 -j ACCEPT", "-j DROP"}}
	}
	got := passing([]netstate.Chain{chain(netstate.IPv4, tableFilter), chain(netstate.IPv4, "nat"),
		chain(netstate.BridgeFamily, tableFilter), chain(netstate.BridgeFamily, "")})
	for i, want := range []string{"-s 10.1.0.1/32 -j " + PassChain, "-s 10.1.0.1/32 -j ACCEPT", "-s 10.1.0.1/32 -j ACCEPT",
		"-s 10.1.0.1/32 -j ACCEPT"} {
		if got[i].Rules[0] != want || got[i].Rules[1] != "-j DROP" {
			t.Errorf("%s %s: %q", got[i].Family, got[i].Table, got[i].Rules)
		}
	}
}
