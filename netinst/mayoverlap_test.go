package netinst

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// shared is a network whose subnet others may have.
func shared(as ...Adapter) Input {
	in := input(as...)
	in.Config.Port, in.Config.IPv4.MayOverlap = "", true
	return in
}

func TestANetworkWhoseSubnetOthersMayHave(t *testing.T) {
	golden(t, "may_overlap", describe(DesiredState(shared(web()))))
	golden(t, "host_may_overlap", HostState([]HostNetwork{
		{Number: 1, Subnet: prefix("10.1.0.0/24"), Gateway: ip("10.1.0.1"), MayOverlap: true},
		{Number: 2, Subnet: prefix("10.1.0.0/24"), Gateway: ip("10.1.0.1"), Ports: []HostPort{{IfName: "eth0"}}},
		{Number: 300, Subnet: prefix("10.1.0.0/16"), Gateway: ip("10.1.0.1"), MayOverlap: true},
	}).String())
	behind := shared(web())
	behind.Config.Port = "wan"
	golden(t, "may_overlap_nat", describe(DesiredState(behind)))
	golden(t, "host_may_overlap_nat", HostState([]HostNetwork{
		{Number: 1, Subnet: prefix("10.1.0.0/24"), Gateway: ip("10.1.0.1"), MayOverlap: true, Returns: true,
			Ports: []HostPort{{IfName: "eth0"}}},
		{Number: 2, Subnet: prefix("10.1.0.0/24"), Gateway: ip("10.1.0.1"), MayOverlap: true},
	}).String())
}

// What comes back by a port says by its mark which network it is for, and each network has its own.
func TestMarksOfTheWayBack(t *testing.T) {
	for _, bits := range []uint32{PassMark, LocalMark, MapMark, CheckMark, FlowMask} {
		if bits&ReturnMask != 0 {
			t.Errorf("%#x is also of others", bits)
		}
	}
	for n := 1; n <= MaxNumber; n++ {
		if m := returnMark(n); m&^ReturnMask != 0 || m == 0 || n > 1 && m == returnMark(n-1) {
			t.Fatalf("the mark of network %d is %#x", n, m)
		}
	}
	for _, c := range []NetworkInstanceConfig{{Port: "wan"}, {Port: "wan", Type: Switch, IPv4: IPv4Config{MayOverlap: true}},
		{IPv4: IPv4Config{MayOverlap: true}}, {Port: "wan", Inactive: true, IPv4: IPv4Config{MayOverlap: true}}} {
		if NeedsReturns(c) {
			t.Errorf("%+v", c)
		}
	}
}

// A flow that left by another port ends, as in any network, and the same flow of another network is left.
func TestFlowsOfANetworkOfOneSubnetBehindNAT(t *testing.T) {
	in := shared(adapter(appA, 0, 1, "10.1.0.128", "a", ACLRule{Name: "all", Direction: Both, Action: Allow}))
	in.Config.Port = "uplink"
	lte := in.Ports[0]
	lte.PortConfig.Label, lte.PortConfig.IfName, lte.Addresses = "lte", "lte0", []netip.Prefix{prefix("198.51.100.9/24")}
	lte.Cost = 200
	in.Ports = append(in.Ports, lte)
	f := flow(6, "10.1.0.128:5", "203.0.113.9:80")
	for _, x := range []struct {
		by   string
		zone uint16
		want bool
	}{{"192.0.2.7:5", Zone(1), false}, {"198.51.100.9:5", Zone(1), true}, {"198.51.100.9:5", Zone(2), false},
		{"198.51.100.9:5", 0, false}} {
		f.ReplySrc, f.ReplyDst, f.Zone = f.Dst, netip.MustParseAddrPort(x.by), x.zone
		if got := DeniesFlow(in)(f); got != x.want {
			t.Errorf("by %s in zone %d: denied %v", x.by, x.zone, got)
		}
		if got := Resets(in)(f) != ""; got != x.want {
			t.Errorf("by %s in zone %d: reset %v", x.by, x.zone, got)
		}
	}
}

// Nothing that leads packets or filters them on the host is by the subnet alone, but the last policy rule: another
// network may have it. And the policy rules of other networks stand as without it.
func TestNothingOfItMatchesTheSubnetOfOthers(t *testing.T) {
	in := shared(web())
	s := DesiredState(in).State
	for _, o := range s {
		switch o := o.(type) {
		case netstate.Rule:
			if (o.From != "" || o.To != "") && o.From != "169.254.0.1/32" && o.Priority != 22001 {
				t.Errorf("%+v", o)
			}
		case netstate.Chain:
			for _, h := range o.Hooks {
				if o.Table == tableFilter && !strings.Contains(h.Match, "es1") {
					t.Errorf("%s: hook %+v", o.Name, h)
				}
			}
		case netstate.Sysctl:
			if o.Key == netstate.ForwardingOf("es1") {
				t.Errorf("%+v", o)
			}
		}
	}
	if p := s[netstate.ID{Kind: netstate.KindProcess, Name: "ni/1/dnsmasq"}].(netstate.Process); p.Probe.Addr !=
		"169.254.0.1:53" || p.Probe.IP != "10.1.0.1" {
		t.Errorf("%+v", p.Probe)
	}
	own := DesiredState(input(web())).State[netstate.ID{Kind: netstate.KindProcess, Name: "ni/1/dnsmasq"}]
	if netstate.Same(own, s[own.ID()]) {
		t.Error("a dnsmasq that holds the gateway's address is not replaced")
	}
	var many []HostNetwork
	for n := 1; n <= 6; n++ {
		many = append(many, HostNetwork{Number: n, Subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n), 0, 0}), 24)})
	}
	with := append(slices.Clone(many), HostNetwork{Number: 7, Subnet: prefix("10.1.0.0/16"), MayOverlap: true})
	if a, b := ruleTree(many), ruleTree(with); len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("the tree of rules is %v, without it %v", b, a)
	}
}

func TestWhichNetworksMayBeOnOneNode(t *testing.T) {
	of := func(subnet string, may bool) (c NetworkInstanceConfig) {
		if subnet != "" {
			c.IPv4.Subnet = prefix(subnet)
		}
		c.IPv4.MayOverlap = may
		return c
	}
	for _, x := range []struct {
		a, b NetworkInstanceConfig
		want bool
	}{
		{of("10.1.0.0/24", false), of("10.1.0.0/24", false), false},
		{of("10.1.0.0/24", false), of("10.0.0.0/8", false), false},
		{of("10.1.0.0/24", true), of("10.1.0.0/24", false), true},
		{of("10.1.0.0/24", false), of("10.1.0.0/24", true), true},
		{of("10.1.0.0/24", false), of("10.2.0.0/24", false), true},
		{of("", false), of("10.2.0.0/24", false), true},
		{of("10.2.0.0/24", false), of("", false), true},
	} {
		if got := Apart(x.a, x.b); got != x.want {
			t.Errorf("%v and %v: %v", x.a.IPv4, x.b.IPv4, got)
		}
	}
}

// Flows in the zone of the network are checked, and those of others that look alike are left.
func TestFlowsOfANetworkWhoseSubnetOthersMayHave(t *testing.T) {
	in := shared(adapter(appA, 0, 1, "10.1.0.128", "a", ACLRule{Name: "all", Direction: Both, Action: Allow}),
		adapter(appB, 0, 2, "10.1.0.129", "b", ACLRule{Name: "ssh", Direction: Ingress, Action: Allow, Protocol: "tcp",
			LocalPort: []PortRange{{22, 22}}}))
	denied := DeniesFlow(in)
	led := func(f netstate.Flow, to string) netstate.Flow {
		f.ReplySrc, f.ReplyDst = netip.MustParseAddrPort(to), f.Src
		return f
	}
	for _, x := range []struct {
		name string
		flow netstate.Flow
		want bool
	}{
		{"what its rules allow", flow(6, "10.1.0.128:5", "10.1.0.129:22"), false},
		{"what they deny", flow(6, "10.1.0.128:5", "10.1.0.129:23"), true},
		{"DNS", led(flow(17, "10.1.0.128:5", "10.1.0.1:53"), "169.254.0.1:53"), false},
		{"a ping", led(flow(1, "10.1.0.128:0", "10.1.0.1:0"), "169.254.0.1:0"), false},
		{"DHCP", flow(17, "10.1.0.128:68", "10.1.0.1:67"), false},
		{"another service of the node, whatever the rules", flow(6, "10.1.0.128:5", "10.1.0.1:22"), true},
		{"DNS of an app that has gone", led(flow(17, "10.1.0.130:5", "10.1.0.1:53"), "169.254.0.1:53"), true},
		{"an app that has gone", flow(6, "10.1.0.130:5", "10.1.0.129:22"), true},
	} {
		for zone, want := range map[uint16]bool{0: false, Zone(1): x.want, Zone(2): false} {
			f := x.flow
			if f.Zone = zone; denied(f) != want {
				t.Errorf("%s, zone %d: denied %v, want %v", x.name, zone, denied(f), want)
			}
		}
	}
	own := DeniesFlow(input(adapter(appA, 0, 1, "10.1.0.128", "a")))
	f := flow(6, "10.1.0.128:5", "198.51.100.9:80")
	if f.Zone = Zone(1); own(f) {
		t.Error("an ordinary network ends a flow of a zone")
	}
	six := flow(6, "[fd00:1::5]:5", "[fd00:1::6]:5")
	in.Config.IPv6 = IPv6Config{Subnet: prefix("fd00:1::/64"), Gateway: ip("fd00:1::1"), Mode: SLAAC}
	if !DeniesFlow(in)(six) {
		t.Error("a flow of IPv6, which has no zone, is left though no adapter has the address")
	}
}

// A withdrawn one has its zone and answers nothing.
func TestAWithdrawnNetworkWhoseSubnetOthersMayHave(t *testing.T) {
	s := DesiredState(clashing(shared(web()))).State
	for id, o := range s {
		if a, ok := o.(netstate.Address); ok {
			t.Errorf("%+v", a)
		}
		if id.Kind == netstate.KindSysctl || id.Kind == netstate.KindRule {
			t.Errorf("%v stays", id)
		}
	}
}

// Its questions to DNS servers follow its own table by a rule of a priority that is free.
func TestQuestionsOfANetworkWhoseSubnetOthersMayHave(t *testing.T) {
	for gateway, want := range map[string]string{"192.0.2.1": "", "192.0.2.9": "iif lo oif eth0 dport 53 lookup 20001"} {
		in := shared(web())
		in.Config.Port, in.Ports[0].Gateway = "uplink", ip(gateway)
		got := ""
		for _, o := range DesiredState(in).State {
			if r, is := o.(netstate.Rule); is && r.Priority == ruleBoundBase+1 && r.OIF == "eth0" {
				got = r.Text()
			}
		}
		if got != want {
			t.Errorf("by %s: %q, want %q", gateway, got, want)
		}
	}
}
