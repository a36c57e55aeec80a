package netinst

import (
	"net/netip"
	"slices"
	"testing"

	"edgespan/netinst/netstate"
)

func TestPortsMeant(t *testing.T) {
	ports := []PortConfig{
		{Label: "wan", Uplink: true, Generation: 1},
		{Label: "lte", Uplink: true, Cost: 10, Labels: []string{"mobile"}, Generation: 3},
		{Label: "lab", Generation: 2},
	}
	for _, c := range []struct {
		port, route, want string
	}{
		{"wan", "", "wan@1"},
		{"mobile", "", "lte@3"},
		{"uplink", "", "lte@3 wan@1"},
		{"freeuplink", "", "wan@1"},
		{"all", "", "lab@2 lte@3 wan@1"},
		{"wan", "lab", "lab@2 wan@1"},
		{"", "", ""},
		{"", "lab", "lab@2"},
		{"none", "", ""},
	} {
		conf := NetworkInstanceConfig{Port: c.port, Routes: []StaticRoute{{Port: c.route}}}
		if got := DesiredPorts(conf, ports); got != c.want {
			t.Errorf("port %q, route by %q: %q, want %q", c.port, c.route, got, c.want)
		}
	}
}

func TestChoosePort(t *testing.T) {
	port := func(label string, cost int, up, uplink bool, labels ...string) PortStatus {
		return PortStatus{PortConfig: PortConfig{Label: label, IfName: IfName("if-" + label), Cost: cost, Uplink: uplink,
			Labels: labels}, Exists: true, Up: up}
	}
	ports := []PortStatus{
		port("lte", 10, true, true, "wan"), port("eth1", 0, true, true, "wan"), port("eth0", 0, true, true),
		port("down", 0, false, true, "dark"), port("lan", 0, true, false),
		{PortConfig: PortConfig{Label: "gone", IfName: "if-gone", Labels: []string{"dark"}}},
	}
	for want, sentence := range map[string]string{
		"": "", "lte": "lte", "wan": "eth1", "uplink": "eth0", "freeuplink": "eth0", "all": "eth0", "lan": "lan",
		"nowhere": `no port matches "nowhere"`,
		"dark":    `no usable port for "dark": down (if-down is down), gone (if-gone does not exist)`,
	} {
		p, why := ChoosePort(want, ports)
		if got := p.Label + why; got != sentence {
			t.Errorf("%q: got %q, want %q", want, got, sentence)
		}
	}
	slices.Reverse(ports)
	if p, _ := ChoosePort("uplink", ports); p.Label != "eth0" {
		t.Errorf("order matters: %s", p.Label)
	}
}

// leads returns a port that is up, with addresses and default routes: "192.0.2.1", "192.0.2.1 onlink", "dev" for one
// without gateway, "inet6" for one of IPv6.
func leads(label string, cost int, addresses []string, routes ...string) PortStatus {
	p := PortStatus{PortConfig: PortConfig{Label: label, IfName: IfName("if-" + label), Uplink: true, Cost: cost},
		Exists: true, Up: true}
	for _, a := range addresses {
		p.Addresses = append(p.Addresses, prefix(a))
	}
	for _, r := range routes {
		var d netstate.DefaultRoute
		switch r {
		case "dev":
		case "inet6":
			d = netstate.DefaultVia(ip("fe80::1"))
		case "via inet6":
			d.Gateway = ip("fe80::1")
		case "192.0.2.1 onlink":
			d = netstate.DefaultRoute{Gateway: ip("192.0.2.1"), OnLink: true}
		default:
			d = netstate.DefaultVia(ip(r))
		}
		p.DefaultRoutes = append(p.DefaultRoutes, d)
	}
	return p
}

func TestThePortThatLeadsOutIsChosen(t *testing.T) {
	lan := leads("lan", 0, []string{"10.0.0.2/24"})
	lan.Uplink = false
	set := leads("set", 7, []string{"192.0.2.2/24"})
	set.Gateway = ip("192.0.2.1")
	own := leads("own", 0, []string{"192.0.2.2/24"}, "192.0.2.1")
	own.Gateway = ip("192.0.2.2")
	good := []string{"192.0.2.2/24", "fe80::2/64"}
	for _, c := range []struct {
		name  string
		ports []PortStatus
		want  string
	}{
		{"the cheaper of two that lead out", []PortStatus{leads("b", 0, good, "192.0.2.1"), leads("a", 1, good, "192.0.2.1")},
			"b"},
		{"the first by label of two that cost the same",
			[]PortStatus{leads("b", 0, good, "192.0.2.1"), leads("a", 0, good, "192.0.2.1")}, "a"},
		{"one without a default route comes after one with",
			[]PortStatus{leads("a", 0, good), leads("b", 9, good, "192.0.2.1")}, "b"},
		{"one without an address too", []PortStatus{leads("a", 0, nil, "192.0.2.1"), leads("b", 9, good, "192.0.2.1")}, "b"},
		{"addresses of IPv6 don't count",
			[]PortStatus{leads("a", 0, []string{"2001:db8::2/64"}, "inet6"), leads("b", 9, good, "192.0.2.1")}, "b"},
		{"a default route without gateway counts", []PortStatus{leads("a", 0, good, "dev"), leads("b", 9, good, "192.0.2.1")},
			"a"},
		{"but for link-local addresses",
			[]PortStatus{leads("a", 0, []string{"169.254.7.7/16"}, "dev"), leads("b", 9, good, "192.0.2.1")}, "b"},
		{"a link-local address with a gateway counts", []PortStatus{leads("a", 0, []string{"169.254.7.7/16"}, "169.254.0.1"),
			leads("b", 9, good, "192.0.2.1")}, "a"},
		{"a gateway of IPv6 counts", []PortStatus{leads("a", 0, good, "via inet6"), leads("b", 9, good, "192.0.2.1")}, "a"},
		{"a configured gateway counts", []PortStatus{set, leads("a", 0, good)}, "set"},
		{"but for one that is the port's own address", []PortStatus{own, leads("z", 9, good, "192.0.2.1")}, "z"},
		{"the first of the ways that can be used",
			[]PortStatus{leads("a", 0, good, "inet6", "192.0.2.2", "192.0.2.1"), leads("b", 0, good)}, "a"},
		{"without any that leads out one with an address", []PortStatus{leads("a", 0, nil), leads("b", 9, good)}, "b"},
		{"and else the cheapest all the same", []PortStatus{leads("b", 0, nil), leads("a", 9, nil)}, "b"},
		{"a port that is no uplink gives way to one that leads out", []PortStatus{lan, leads("wan", 9, good, "192.0.2.1")},
			"wan"},
		{"and stands where none does", []PortStatus{lan, leads("wan", 9, good)}, "lan"},
	} {
		for range 2 {
			if p, why := ChoosePort("all", c.ports); p.Label != c.want || why != "" {
				t.Errorf("%s: %s %s, want %s", c.name, p.Label, why, c.want)
			}
			slices.Reverse(c.ports)
		}
	}
}

func TestWhyAPortLeadsNowhere(t *testing.T) {
	own := leads("wan", 0, []string{"192.0.2.2/24"}, "192.0.2.1")
	own.Gateway = ip("192.0.2.2")
	lan := leads("wan", 0, nil)
	lan.Uplink = false
	for want, p := range map[string]PortStatus{
		"": leads("wan", 0, []string{"192.0.2.2/24"}, "192.0.2.1"),
		"uplink wan (if-wan) has no IPv4 address":                   leads("wan", 0, []string{"fe80::2/64"}, "dev"),
		"uplink wan (if-wan) has no default route":                  leads("wan", 0, []string{"192.0.2.2/24"}, "inet6"),
		"uplink wan (if-wan): gateway 192.0.2.2 is its own address": own,
	} {
		if got := p.UnusableReason(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := lan.UnusableReason(); got != "" {
		t.Errorf("of a port that is no uplink: %q", got)
	}
}

// The default route is in the network's table in the form that the kernel accepts.
func TestTheDefaultRouteOfANetwork(t *testing.T) {
	with := func(p PortStatus, gateway string) PortStatus {
		p.Gateway = ip(gateway)
		return p
	}
	for _, c := range []struct {
		name string
		port PortStatus
		want string
	}{
		{"a gateway in the subnet", leads("wan", 0, []string{"192.0.2.2/24"}, "192.0.2.1"),
			"unicast via 192.0.2.1 dev if-wan"},
		{"one that the host has on link", leads("wan", 0, []string{"192.0.2.2/24"}, "192.0.2.1 onlink"),
			"unicast via 192.0.2.1 dev if-wan onlink"},
		{"an address of /32", leads("wan", 0, []string{"192.0.2.2/32"}, "192.0.2.1"),
			"unicast via 192.0.2.1 dev if-wan onlink"},
		{"a gateway of IPv6", leads("wan", 0, []string{"192.0.2.2/32"}, "via inet6"), "unicast via fe80::1 dev if-wan"},
		{"the link alone", leads("wan", 0, []string{"192.0.2.2/32"}, "dev"), "unicast dev if-wan"},
		{"a configured gateway before the host's", with(leads("wan", 0, []string{"192.0.2.2/24"}, "192.0.2.1"), "192.0.2.9"),
			"unicast via 192.0.2.9 dev if-wan"},
		{"a configured gateway on no subnet", with(leads("wan", 0, []string{"192.0.2.2/24"}), "203.0.113.1"),
			"unicast via 203.0.113.1 dev if-wan onlink"},
		{"none", leads("wan", 0, []string{"192.0.2.2/24"}, "inet6"), ""},
	} {
		in := input()
		in.Ports = []PortStatus{c.port}
		got := ""
		if o := DesiredState(in).State[netstate.Route{Table: 20001, Dst: "0.0.0.0/0"}.ID()]; o != nil {
			got = o.Text()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Of several ports with one label a static route uses the port that reaches its gateway.
func TestAStaticRouteTakesThePortOfItsGateway(t *testing.T) {
	near, far := leads("a", 0, []string{"192.0.2.2/24"}, "192.0.2.1"), leads("b", 9, []string{"203.0.113.2/24"})
	near.Labels, far.Labels = []string{"both"}, []string{"both"}
	for _, c := range []struct{ gateway, want string }{
		{"203.0.113.1", "unicast via 203.0.113.1 dev if-b"}, {"192.0.2.7", "unicast via 192.0.2.7 dev if-a"},
		{"", "unicast dev if-a"},
	} {
		in := input()
		in.Ports = []PortStatus{near, far}
		r := StaticRoute{Name: "r", Destination: prefix("198.18.0.0/15"), Port: "both"}
		if c.gateway != "" {
			r.Gateway = ip(c.gateway)
		}
		in.Config.Routes, in.Config.DNS.Servers = []StaticRoute{r}, []netip.Addr{ip("192.0.2.53")}
		d := DesiredState(in)
		o := d.State[netstate.Route{Table: 20001, Dst: "198.18.0.0/15"}.ID()]
		if o == nil || o.Text() != c.want || d.Warning != "" {
			t.Errorf("by %q: %v %q, want %q", c.gateway, o, d.Warning, c.want)
		}
	}
}

// The node's own DNS server queries by the main table: a rule directs its queries to the port's gateway if the main
// table has another route, or none.
func TestQuestionsOfDNSTakeThePortsGateway(t *testing.T) {
	const rule = "oif if-wan dport 53 lookup 20001"
	good := []string{"192.0.2.2/24"}
	for _, c := range []struct {
		name, gateway, want string
		port                PortStatus
		dns                 bool
	}{
		{"no other way", "192.0.2.9", rule, leads("wan", 0, good), true},
		{"another way of the host's", "192.0.2.9", rule, leads("wan", 0, good, "192.0.2.1"), true},
		{"a way of IPv6 alone", "192.0.2.9", rule, leads("wan", 0, good, "inet6"), true},
		{"the host's way itself", "192.0.2.1", "", leads("wan", 0, good, "192.0.2.1"), true},
		{"the host's second way", "192.0.2.9", rule, leads("wan", 0, good, "192.0.2.1", "192.0.2.9"), true},
		{"the host's way has the port's own address", "", rule, leads("wan", 0, good, "192.0.2.2", "192.0.2.9"), true},
		{"nothing is configured", "", "", leads("wan", 0, good, "192.0.2.1"), true},
		{"no way out", "", "", leads("wan", 0, good), true},
		{"nobody to ask", "192.0.2.9", "", leads("wan", 0, good), false},
	} {
		in := input()
		if c.gateway != "" {
			c.port.Gateway = ip(c.gateway)
		}
		if c.dns {
			c.port.DNSServers = []netip.Addr{ip("198.51.100.53")}
		}
		in.Ports = []PortStatus{c.port}
		s, got := DesiredState(in).State, ""
		if o := s[netstate.Rule{Priority: 22001}.ID()]; o != nil {
			got = o.Text()
			for _, need := range o.Needs() {
				if s[need] == nil {
					t.Errorf("%s: the rule needs %s, which is not wanted", c.name, need)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWhatAPortIsJoinedFrom(t *testing.T) {
	seen := []netstate.Interface{{Name: "eth0", Up: true}, {Name: "eth1"}, {Name: netstate.Loopback, Up: true}}
	got := PortStatuses([]PortConfig{{Label: "a", IfName: "eth0"}, {Label: "b", IfName: "eth1"},
		{Label: "c", IfName: "eth2"}, {Label: "d", IfName: netstate.Loopback}}, seen)
	vlan := func(label string, parent IfName) PortConfig {
		return PortConfig{Label: label, IfName: "eth7." + IfName(label), VLAN: VLAN{parent, 7}}
	}
	for _, p := range PortStatuses([]PortConfig{{Label: "a", IfName: "eth7"}, vlan("b", "eth0"), vlan("c", "eth8"),
		vlan("d", netstate.Loopback)}, seen) {
		if p.NoParent != (p.Label == "c" || p.Label == "d") {
			t.Errorf("%s has no parent: %v", p.Label, p.NoParent)
		}
	}
	for i, want := range []struct{ exists, up bool }{{true, true}, {true, false}, {false, false}, {false, false}} {
		if got[i].Exists != want.exists || got[i].Up != want.up {
			t.Errorf("%s exists %v, is up %v", got[i].Label, got[i].Exists, got[i].Up)
		}
	}
}

func TestGatewaysOfAPort(t *testing.T) {
	routes := []netstate.DefaultRoute{netstate.DefaultVia(ip("192.0.2.1")), {}, netstate.DefaultVia(ip("192.0.2.2")),
		netstate.DefaultVia(ip("192.0.2.1"))}
	p := PortStatus{DefaultRoutes: routes}
	if got := p.Gateways(); !slices.Equal(got, []netip.Addr{ip("192.0.2.1"), ip("192.0.2.2")}) {
		t.Errorf("of its routes: %v", got)
	}
	p.Gateway = ip("192.0.2.2")
	if got := p.Gateways(); !slices.Equal(got, []netip.Addr{ip("192.0.2.2"), ip("192.0.2.1")}) {
		t.Errorf("the configured one first: %v", got)
	}
}

// The MTU of a switch follows its port, whether the port has an address or not; a network keeps its MTU while its port
// can't be used.
func TestTheMTUOfAPortWithoutAnAddress(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		mtu  int // current
		want int
	}{
		"a switch":                    {switchInput(), 1500, 1400},
		"a network with an MTU":       {input(), 1500, 1500},
		"a network that has none yet": {input(), 0, 1400},
	} {
		nw, _ := newNetwork(c.in)
		nw.Config.MTU, nw.MTU, nw.port = 0, c.mtu, &PortStatus{Exists: true, Up: true, LinkMTU: 1400}
		if got := nw.chooseMTU(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// A short description of what networks can do with a port.
func TestAPortInAFewWords(t *testing.T) {
	t.Parallel()
	addrs := func(all ...string) (out []netip.Prefix) {
		for _, a := range all {
			out = append(out, netip.MustParsePrefix(a))
		}
		return out
	}
	for want, p := range map[string]PortStatus{
		"missing":            {Up: true},
		"down":               {Exists: true, Addresses: addrs("192.0.2.1/24")},
		"up without address": {Exists: true, Up: true, Addresses: addrs("fe80::1/64")},
		"up with 192.0.2.1/24,2001:db8::1/64, without default route": {Exists: true, Up: true,
			Addresses: addrs("192.0.2.1/24", "fe80::1/64", "2001:db8::1/64")},
	} {
		if got := p.Describe(); got != want {
			t.Errorf("%+v is %q, want %q", p, got, want)
		}
	}
}

// A tap device limits the MTU of all links of its network to less than other links can have.
func TestATapLimitsTheMTU(t *testing.T) {
	for _, c := range []struct {
		kind      AttachKind
		mtu, want int
	}{{Veth, 65535, 65535}, {External, 65535, 65535}, {Tap, 65535, 65521}, {Tap, 65521, 65521}, {Tap, 1400, 1400}} {
		other := adapter(appB, 0, 2, "10.1.0.129", "b")
		other.Config.Spec.Kind = c.kind
		in := input(web(), other)
		if in.Config.MTU = c.mtu; DesiredState(in).MTU != c.want {
			t.Errorf("%s, %d: %d, want %d", c.kind, c.mtu, DesiredState(in).MTU, c.want)
		}
	}
}

func TestTheProblemOfAPort(t *testing.T) {
	vlan := PortConfig{Label: "wan", IfName: "eth0.7", VLAN: VLAN{"eth0", 7}}
	for want, p := range map[string]PortStatus{
		"no interface eth0, of which eth0.7 would be VLAN 7": {PortConfig: vlan, NoParent: true},
		"no interface eth0.7":                                {PortConfig: vlan},
		"interface eth0.7 is down":                           {PortConfig: vlan, Exists: true, NoParent: true},
		"":                                                   {PortConfig: vlan, Exists: true, Up: true},
		"uplink eth (eth0) has no IPv4 address":              {PortConfig: uplink().PortConfig, Exists: true, Up: true},
	} {
		if got := p.Problem(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What probing has chosen for a label stands for a static route by that label, if it reaches the gateway.
func TestAStaticRouteTakesTheChosenPort(t *testing.T) {
	port := func(label string, cost int, addr string) PortStatus {
		p := leads(label, cost, []string{addr})
		p.Labels = []string{"both"}
		return p
	}
	for _, c := range []struct{ gateway, second, want string }{
		{"", "203.0.113.2/24", "unicast dev if-b"},
		{"192.0.2.7", "192.0.2.3/24", "unicast via 192.0.2.7 dev if-b"},
		{"192.0.2.7", "203.0.113.2/24", "unicast via 192.0.2.7 dev if-a"},
	} {
		in := input()
		in.Ports = []PortStatus{port("a", 0, "192.0.2.2/24"), port("b", 9, c.second)}
		in.Chosen = map[string]string{"both": "b"}
		r := StaticRoute{Name: "r", Destination: prefix("198.18.0.0/15"), Port: "both"}
		if c.gateway != "" {
			r.Gateway = ip(c.gateway)
		}
		in.Config.Routes = []StaticRoute{r}
		o := DesiredState(in).State[netstate.Route{Table: 20001, Dst: "198.18.0.0/15"}.ID()]
		if o == nil || o.Text() != c.want {
			t.Errorf("by %q with %s: %v, want %q", c.gateway, c.second, o, c.want)
		}
	}
}
