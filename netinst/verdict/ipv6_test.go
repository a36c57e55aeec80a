package verdict

import (
	"fmt"
	"math/rand"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// sixInputs are two networks with IPv6: one is translated, and has an app with a fixed address; the other has a routed
// prefix and DHCPv6. Both use port wan, and the first has a route by lan.
func sixInputs() []netinst.Input {
	list := testInputs()
	for i := range list {
		list[i].Ports = []netinst.PortStatus{port("lan", "198.18.0.2/24", "198.18.0.1"), port("wan", "192.0.2.2/24", "192.0.2.1")}
		for j, n := range []string{"2", "1"} {
			p := &list[i].Ports[j]
			p.Addresses = append(p.Addresses, netip.MustParsePrefix("fe80::9/64"), netip.MustParsePrefix("2001:db8:"+n+"::2/64"))
		}
		list[i].Ports[1].DefaultRoutes = append(list[i].Ports[1].DefaultRoutes, netstate.DefaultVia(addr("fe80::1:1")))
	}
	list[0].Config.IPv6 = netinst.IPv6Config{Subnet: netip.MustParsePrefix("fd00:1::/64"), Gateway: addr("fd00:1::1"),
		Mode: netinst.SLAAC, NAT: true}
	list[0].Config.Routes = append(list[0].Config.Routes, netinst.StaticRoute{Name: "six", Port: "lan",
		Destination: netip.MustParsePrefix("2001:db8:99::/48"), Gateway: addr("2001:db8:2::1")})
	list[2].Config.IPv6 = netinst.IPv6Config{Subnet: netip.MustParsePrefix("fd00:5::/64"), Gateway: addr("fd00:5::1"),
		Mode: netinst.DHCPv6}
	list[2].Config.Port = "wan"
	for i := range list {
		for j := range list[i].Adapters {
			list[i].Adapters[j].Lease.MAC = "02:00:00:00:00:0" + string(rune('1'+j))
		}
	}
	sw := &list[len(list)-1]
	sw.Config.IPv6.Mode = netinst.Bridged
	sw.Adapters[0].ObservedAddresses = append(sw.Adapters[0].ObservedAddresses, addr("2001:db8:9::7"))
	sw.Adapters[1].ObservedAddresses = append(sw.Adapters[1].ObservedAddresses, addr("2001:db8:9::2"), addr("fe80::2"))
	list[0].Adapters[1].Config.Spec.IP6 = addr("fd00:1::20")
	list[0].Adapters[1].Config.Spec.ACL = []netinst.ACLRule{rule("odd", proto("99")), rule("echo", ingress, proto("icmp")),
		rule("node6", to("2001:db8:1::2/128"), egress)}
	return list
}

func kind6(p Packet, kind uint8) Packet { p.ICMPType = kind; return p }

func echo6(p Packet) Packet { return kind6(p, EchoRequest6) }

func TestEvaluateIPv6(t *testing.T) {
	w := New(sixInputs(), nil)
	const web, db, open = "fd00:1::ff:fe00:1", "fd00:1::20", "fd00:5::ff:fe00:1"
	for what, x := range map[string]struct {
		p    Packet
		want string
	}{
		"out, translated":         {app("web", "2001:db8:77::1", UDP, 9), "deny implicit-drop"},
		"out, by a rule":          {app("open", "2001:db8:77::1", TCP, 443), "allow all outside " + open},
		"icmp is ICMPv6 here":     {echo6(app("web", "2001:db8:77::1", ICMP6)), "deny no-ping"},
		"the port of the network": {app("db", "2001:db8:77::1", 99), "translate odd outside wan 2001:db8:1::2"},
		"the port of a route":     {app("db", "2001:db8:99::1", 99), "translate odd outside lan 2001:db8:2::2"},
		"between apps":            {app("db", web, 99), "deny implicit-drop"},
		"between apps, allowed":   {echo6(app("db", db, ICMP6)), "deny own-address"},
		"another network":         {app("open", db, TCP, 22), "deny other-network"},
		"no IPv6":                 {app("air", "2001:db8::1", TCP, 1), "deny no-ipv6"},
		"no port":                 {app("mute", "fd00:1::77", TCP, 1), "deny implicit-drop"},
		"nobody":                  {app("open", "fd00:5::77", TCP, 1), "deny no-adapter"},
		"not active":              {app("off", "2001:db8::1", TCP, 1), "deny not-active"},
		"ping of the gateway":     {echo6(app("mute", "fd00:1::1", ICMP6)), "allow essentials node fd00:1::ff:fe00:3"},
		"and of its link address": {echo6(app("mute", "fe80::1", ICMP6)), "allow essentials node fd00:1::ff:fe00:3"},
		"DNS":                     {app("mute", "fd00:1::1", UDP, 53), "allow essentials node fd00:1::ff:fe00:3"},
		"DNS of another gateway":  {app("mute", "fd00:5::1", UDP, 53), "deny implicit-drop"},
		"the node is named":       {app("db", "2001:db8:1::2", TCP, 22), "allow node6 node " + db},
		"the node is not named":   {app("open", "2001:db8:1::2", TCP, 22), "deny implicit-drop"},
		"DHCPv6":                  {from(app("open", "ff02::1:2", UDP, 547, 546), "fe80::ff:fe00:1"), "allow essentials node fe80::ff:fe00:1"},
		"DHCPv6 without a server": {from(app("web", "ff02::1:2", UDP, 547, 546), "fe80::ff:fe00:1"), "deny multicast"},
		"a DHCPv6 server":         {app("open", "2001:db8::1", UDP, 546), "deny dhcp-guard"},
		"a multicast":             {app("open", "ff02::fb", UDP, 5353), "deny multicast"},
		"a forged source":         {from(app("open", "2001:db8::1", TCP, 1), "fd00:5::9"), "deny spoof-guard"},
		"a link-local source":     {from(app("open", "2001:db8::1", TCP, 1), "fe80::ff:fe00:1"), "deny link-local"},
		"a neighbour's link":      {app("open", "fe80::77", TCP, 1), "deny link-local"},
		"its own link":            {app("open", "fe80::ff:fe00:1", TCP, 1), "deny own-address"},
		"a router advertisement":  {kind6(app("open", "ff02::1", ICMP6), 134), "deny icmpv6-guard"},
		"an error":                {kind6(app("open", "2001:db8::1", ICMP6), 3), "allow all outside " + open},
		"a routing header":        {app("open", "2001:db8::1", 43), "deny hiding-header"},
		"loopback":                {app("open", "::1", TCP, 1), "deny not-routable"},
		"mixed versions":          {from(app("open", "2001:db8::1", TCP, 1), "10.5.0.10"), "deny mixed-versions"},
		"a rule of v4 any":        {app("web", "2001:db8:77::1", TCP, 443), "deny implicit-drop"},

		"from outside":           {echo6(outside("wan", "2001:db8:77::1", db, ICMP6, 0)), "allow echo app db 2001:db8:77::1"},
		"by the port of a route": {echo6(outside("lan", "2001:db8:77::1", db, ICMP6, 0)), "allow echo app db 2001:db8:77::1"},
		"by another port":        {outside("lan", "2001:db8:77::1", open, TCP, 22), "deny port-not-used"},
		"denied":                 {outside("wan", "2001:db8:77::1", db, TCP, 23), "deny implicit-drop"},
		"from a network":         {outside("wan", open, db, TCP, 22), "deny forged-source"},
		"from nowhere":           {outside("wan", "ff02::1", db, TCP, 22), "deny not-routable"},
		"to the gateway":         {outside("wan", "2001:db8:77::1", "fd00:1::1", TCP, 22), "deny hidden-gateway"},
		"to the node":            {outside("wan", "2001:db8:77::1", "2001:db8:1::2", TCP, 22), "allow host node 2001:db8:77::1"},
		"to others":              {outside("wan", "2001:db8:77::1", "2001:db8:88::1", TCP, 22), "deny not-for-networks"},
		"to nobody":              {outside("wan", "2001:db8:77::1", "fd00:5::77", TCP, 22), "deny no-adapter"},
		"by no port":             {outside("dsl", "2001:db8:77::1", db, TCP, 22), "deny port-not-used"},
		"the node to an app":     {echo6(node("", db, ICMP6)), "deny implicit-drop"},
		"the node's DHCPv6":      {node("", db, UDP, 546, 547), "allow essentials app db fd00:1::1"},
		"the node to nobody":     {node("", "fd00:1::77", TCP, 1), "deny no-adapter"},
		"the node to others":     {node("2001:db8:1::2", "2001:db8::1", TCP, 1), "allow host outside 2001:db8:1::2"},
		"the node to itself":     {node("", "2001:db8:1::2", TCP, 1), "allow host node -"},
	} {
		a := w.Evaluate(x.p)
		if got := described(a); got != x.want {
			t.Errorf("%s: %s, want %s", what, got, x.want)
		}
		if c := a.Decided(); c.BuiltIn != "" && c.BuiltIn.Text() == "" {
			t.Errorf("%s: %s has no text", what, c.BuiltIn)
		}
	}
}

// New flows of each family are spread over its own ports, and clients may come by each of them.
func TestSharedUplinksOfIPv6(t *testing.T) {
	six := probe.OfIPv6("uplink")
	for what, x := range map[string]struct {
		change           func(*netinst.Input)
		shared, incoming string
	}{
		"shared": {func(*netinst.Input) {}, "[lan]", "allow echo app db 2001:db8:77::1"},
		"by IPv4 alone": {func(in *netinst.Input) { in.Equals = map[string][]string{"uplink": {"lan", "wan"}} }, "[]",
			"deny port-not-used"},
		"one is left": {func(in *netinst.Input) { in.Equals[six] = []string{"wan"} }, "[]", "deny port-not-used"},
		"one has no IPv6 route": {func(in *netinst.Input) { in.Ports[0].DefaultRoutes = in.Ports[0].DefaultRoutes[:1] }, "[]",
			"deny port-not-used"},
		"one has no IPv6 address": {func(in *netinst.Input) { in.Ports[0].Addresses = in.Ports[0].Addresses[:2] }, "[]",
			"deny port-not-used"},
		"a routed prefix": {func(in *netinst.Input) { in.Config.IPv6.NAT = false }, "[]", "deny port-not-used"},
		"not shared":      {func(in *netinst.Input) { in.Config.Share = false }, "[]", "deny port-not-used"},
	} {
		list := sixInputs()
		in := &list[0]
		in.Config.Share, in.Config.Routes = true, nil
		in.Chosen, in.Equals = map[string]string{six: "wan"}, map[string][]string{six: {"lan", "wan"}}
		in.Ports[0].DefaultRoutes = append(slices.Clone(in.Ports[0].DefaultRoutes), netstate.DefaultVia(addr("fe80::2:1")))
		in.Config.Port = "uplink"
		x.change(in)
		w := New(list, nil)
		a := w.Evaluate(app("db", "2001:db8:77::1", 99))
		got := described(w.Evaluate(echo6(outside("lan", "2001:db8:77::1", "fd00:1::20", ICMP6, 0))))
		if a.Route == nil || a.Route.Port != "wan" || fmt.Sprint(a.Route.Shared) != x.shared || got != x.incoming {
			t.Errorf("%s: %+v, incoming %s", what, a.Route, got)
		}
	}
}

func TestQueriesOfIPv6(t *testing.T) {
	list := sixInputs()
	list[0].Adapters[1].Config.Spec.Hostname = "db"
	w := New(list, nil)
	packets, err := w.Packets(Query{Adapter: key("web"), Remote: "db", Proto: ICMP})
	if err != nil || len(packets) != 2 || packets[0].Proto != ICMP || packets[1].Proto != ICMP6 ||
		packets[1].ICMPType != EchoRequest6 || packets[1].Src != addr("fd00:1::ff:fe00:1") ||
		packets[1].Dst != addr("fd00:1::20") {
		t.Errorf("by name: %+v, %v", packets, err)
	}
	packets, err = w.Packets(Query{Adapter: key("db"), Remote: "2001:db8:99::1", Incoming: true, Proto: TCP, DstPort: 22})
	if err != nil || len(packets) != 1 || packets[0].Port != "lan" || packets[0].Dst != addr("fd00:1::20") {
		t.Errorf("from outside: %+v, %v", packets, err)
	}
}

// A network has no IPv6 with an MTU below 1280, nor while it is withdrawn.
func TestNetworksWithoutIPv6(t *testing.T) {
	for what, change := range map[string]func(*netinst.Input){
		"a small MTU":           func(in *netinst.Input) { in.Config.MTU = 1279 },
		"a port's small MTU":    func(in *netinst.Input) { in.Ports[1].LinkMTU = 1000 },
		"withdrawn":             func(in *netinst.Input) { in.Overlap.Clash = "10.5.0.9/24" },
		"without configuration": func(in *netinst.Input) { in.Config.IPv6 = netinst.IPv6Config{} },
	} {
		list := sixInputs()
		change(&list[2])
		if got := described(New(list, nil).Evaluate(app("open", "2001:db8::1", TCP, 1))); got != "deny no-ipv6" {
			t.Errorf("%s: %s", what, got)
		}
	}
}

func TestIPv6OnASwitch(t *testing.T) {
	list := testInputs()
	sw := &list[len(list)-1]
	left, right := &sw.Adapters[0], &sw.Adapters[1]
	left.Config.Spec.ACL = []netinst.ACLRule{rule("six", to("2001:db8:9::/48"))}
	left.ObservedAddresses = append(left.ObservedAddresses, addr("fe80::7"), addr("2001:db8:9::7"), addr("2001:db8:9::8"))
	right.ObservedAddresses = append(right.ObservedAddresses, addr("2001:db8:9::2"))
	const own = "2001:db8:9::7"
	segment := func(dst string, proto uint8, port uint16) Packet {
		return outside("bare", "2001:db8:9::99", dst, proto, port)
	}
	router := kind6(app("left", "ff02::1", ICMP6), 134)
	for what, x := range map[string]struct {
		p    Packet
		want string
	}{
		"to the segment":      {app("left", "2001:db8:9::99", TCP, 1), "allow six segment " + own},
		"by no rule":          {app("left", "2001:db8:77::1", TCP, 1), "deny implicit-drop"},
		"any own address":     {from(app("left", "2001:db8:9::99", TCP, 1), "fe80::1"), "allow six segment fe80::1"},
		"between apps":        {app("left", "2001:db8:9::2", TCP, 22), "allow ssh app right " + own},
		"another port":        {app("left", "2001:db8:9::2", TCP, 23), "deny implicit-drop"},
		"to itself":           {app("left", "2001:db8:9::8", TCP, 1), "deny own-address"},
		"a hidden protocol":   {app("left", "2001:db8:9::2", 60), "deny hiding-header"},
		"DHCPv6":              {app("left", "ff02::1:2", UDP, 547, 546), "allow essentials segment " + own},
		"a DHCPv6 server":     {app("left", "2001:db8:9::2", UDP, 546, 547), "deny dhcp-guard"},
		"a router":            {router, "deny icmpv6-guard"},
		"neighbour discovery": {kind6(app("left", "ff02::1:ff00:2", ICMP6), 135), "allow essentials segment " + own},
		"from the segment":    {segment("2001:db8:9::2", TCP, 22), "allow ssh app right 2001:db8:9::99"},
		"from it, denied":     {segment("2001:db8:9::2", TCP, 23), "deny implicit-drop"},
		"from it, to nobody":  {segment("2001:db8:9::3", TCP, 22), "deny no-adapter"},
	} {
		sw.Config.IPv6.Mode = netinst.Bridged
		if got := described(New(list, nil).Evaluate(x.p)); got != x.want {
			t.Errorf("%s: %s, want %s", what, got, x.want)
		}
		sw.Config.IPv6.Mode = ""
		if got := described(New(list, nil).Evaluate(x.p)); got != "deny no-ipv6" {
			t.Errorf("%s without IPv6: %s", what, got)
		}
	}
	left.Config.Spec.DHCPServer, sw.Config.IPv6.Mode = true, netinst.Bridged
	left.Config.Spec.ACL[0].IP = netip.Prefix{}
	w := New(list, nil)
	if got := described(w.Evaluate(router)); got != "allow essentials segment "+own {
		t.Errorf("the segment's router: %s", got)
	}
	packets, err := w.Packets(Query{Adapter: key("right"), Remote: "2001:db8:9::99", Proto: TCP, DstPort: 22, Incoming: true})
	if err != nil || len(packets) != 1 || packets[0].Dst != addr("2001:db8:9::2") || packets[0].Port != "bare" {
		t.Errorf("a query: %+v, %v", packets, err)
	}
	if a := w.AddressOf(key("left")); a != addr("10.9.0.1") {
		t.Errorf("the IPv4 address is %s", a)
	}
}

// drawn6 changes the rules of the apps of sixInputs at random.
func drawn6(d *rand.Rand, list []netinst.Input) []netinst.Input {
	names := []string{"::/0", "fd00:1::/64", "fd00:1::20/128", "fd00:1::1/128", "2001:db8:1::/48", "2001:db8:99::/48",
		"2001:db8:1::2/128", "10.0.0.0/8", "8000::/1"}
	numbers := []uint16{1, 22, 53, 80, 546, 547, 1024, 65535}
	for i := range list {
		list[i].Adapters = slices.Clone(list[i].Adapters)
		for j := range list[i].Adapters {
			var acl []netinst.ACLRule
			for k := range d.Intn(5) {
				r := netinst.ACLRule{Name: fmt.Sprint(k),
					Direction: []netinst.Direction{netinst.Egress, netinst.Ingress, netinst.Both}[d.Intn(3)],
					Action:    []netinst.Action{netinst.Allow, netinst.Allow, netinst.Drop}[d.Intn(3)],
					Protocol:  []string{"", "tcp", "udp", "icmp", "99", "58", "1"}[d.Intn(7)],
					PortLabel: []string{"", "", "", "wan", "lan", "uplink"}[d.Intn(6)]}
				if d.Intn(3) > 0 {
					r.IP = netip.MustParsePrefix(names[d.Intn(len(names))])
				}
				if a, b := numbers[d.Intn(8)], numbers[d.Intn(8)]; r.Protocol == "tcp" || r.Protocol == "udp" {
					r.Ports = []netinst.PortRange{{First: min(a, b), Last: max(a, b)}}
				}
				acl = append(acl, r)
			}
			list[i].Adapters[j].Config.Spec.ACL = acl
		}
	}
	return list
}

func (p Packet) valid() bool { return p.Src.IsValid() && p.Dst.IsValid() }

// Of random IPv6 packets in random changes, those whose verdict changes are in exactly one class, and no others in any.
func TestCompareOfIPv6IsExact(t *testing.T) {
	d := rand.New(rand.NewSource(5))
	addrs := []string{"fd00:1::20", "fd00:1::ff:fe00:1", "fd00:1::ff:fe00:3", "fd00:1::1", "fd00:1::77", "fd00:5::ff:fe00:1",
		"fd00:5::1", "2001:db8:1::2", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:99::5", "9000::1", "::1", "2001:db8:9::7",
		"2001:db8:9::2", "2001:db8:9::99"}
	changes, rounds := 0, drawnRounds(20)
	for round := range rounds {
		before, after := drawn6(d, sixInputs()), drawn6(d, sixInputs())
		switch round % 5 {
		case 1:
			after[0].Config.IPv6 = netinst.IPv6Config{}
		case 2:
			before[2].Config.IPv6.NAT = true
			after[0].Config.Routes = nil
		case 3:
			after[0].Config.Inactive = true
		}
		x, y := New(before, nil), New(after, nil)
		classes, _ := Compare(x, y)
		c := &comparison{before: x, after: y, six: true}
		for range 3000 {
			p := Packet{Dst: addr(addrs[d.Intn(len(addrs))]), Proto: []uint8{ICMP6, TCP, UDP, 99, 254}[d.Intn(5)]}
			switch p.Proto {
			case TCP, UDP:
				p.SrcPort, p.DstPort = []uint16{40000, 546, 547, 548}[d.Intn(4)], []uint16{1, 2, 22, 53, 54, 80, 545, 547, 548, 1024, 65535}[d.Intn(11)]
			case ICMP6:
				p.ICMPType = EchoRequest6
			}
			switch d.Intn(4) {
			case 0, 1:
				p.From, p.Adapter = App, key([]string{"web", "db", "mute", "open", "air", "left", "right"}[d.Intn(7)])
			case 2:
				p.From, p.Src, p.Port = Outside, addr(addrs[d.Intn(len(addrs))]), []string{"wan", "lan", "bare"}[d.Intn(3)]
			case 3:
				p.From, p.Src = Node, addr([]string{"fd00:1::1", "2001:db8:1::2", "2001:db8:2::2"}[d.Intn(3)])
			}
			if p.From != App && (x.byAddress(p.Dst) != y.byAddress(p.Dst) || y.byAddress(p.Dst) == (netinst.AdapterKey{})) {
				continue
			}
			if p.From == Node && !strings.HasPrefix(p.Dst.String(), "fd00:1:") {
				continue // by the gateway of another network
			}
			if p.From == Outside && c.before.forgedFor(y.byAddress(p.Dst), p.Src) {
				continue // such packets do not separate ranges
			}
			named, px, py := map[string]bool{}, p, p
			if p.From == App {
				px.Src, py.Src = x.Address6Of(p.Adapter), y.Address6Of(p.Adapter)
			}
			for _, r := range append(x.rulesFor(px), y.rulesFor(py)...) {
				named[r.Protocol] = true
			}
			had, has := x.Evaluate(px).Allowed() && px.valid(), y.Evaluate(py).Allowed() && py.valid()
			found := 0
			for _, k := range classes {
				if k.Opens == has && inClass(c, k, p, named) {
					found++
				}
			}
			if to, _ := c.destination(p); p.From == App && to == "" {
				continue
			}
			if (found == 1) != (had != has) {
				t.Fatalf("round %d: %+v: before %v, after %v, in %d classes\n%+v", round, p, had, has, found, classes)
			}
			changes += found
		}
	}
	if changes < 50*rounds {
		t.Errorf("only %d packets changed", changes)
	}
}

// IPv6 leaves by the port that was chosen for it, and arrives by that alone.
func TestIPv6ByAPortOfItsOwn(t *testing.T) {
	list := sixInputs()
	list[0].Config.Port, list[0].Config.Routes = "all", nil
	list[0].Ports[0].DefaultRoutes = append(list[0].Ports[0].DefaultRoutes, netstate.DefaultVia(addr("fe80::2:1")))
	for label, chosen := range map[string]map[string]string{
		"lan": {"all": "wan", "all (IPv6)": "lan"}, "wan": {"all": "lan", "all (IPv6)": "wan"},
	} {
		list[0].Chosen = chosen
		w := New(list[:1], nil)
		out := w.Evaluate(app("db", "2001:db8:77::1", 99))
		if out.Route == nil || out.Route.Port != label || out.NATPort != label {
			t.Errorf("chosen %v: %+v", chosen, out)
		}
		for _, by := range []string{"lan", "wan"} {
			in := w.Evaluate(Packet{From: Outside, Port: by, Src: addr("2001:db8:77::1"), Dst: addr("fd00:1::20"), Proto: ICMP6,
				ICMPType: EchoRequest6})
			if used := in.Decided().BuiltIn != PortNotUsed; used != (by == label) {
				t.Errorf("chosen %v, by %s: %+v", chosen, by, in)
			}
		}
	}
}
