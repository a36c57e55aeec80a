package netinst

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// keepInput is a network that may use ports wan, lte and sat, of which wan is in use.
func keepInput(policy FlowPolicy) Input {
	in := input(web())
	in.Config.Flows = policy
	in.Ports = nil
	for i, label := range []string{"wan", "sat", "lte"} {
		p := uplink()
		p.Label, p.IfName = label, IfName(fmt.Sprint("eth", i))
		p.Addresses = []netip.Prefix{prefix(fmt.Sprintf("192.0.%d.10/24", i))}
		p.DefaultRoutes = []netstate.DefaultRoute{netstate.DefaultVia(ip(fmt.Sprintf("192.0.%d.1", i)))}
		in.Ports = append(in.Ports, p)
	}
	in.Chosen = map[string]string{"uplink": "wan"}
	return in
}

// portAt returns the port of keepInput with a label.
func portAt(in *Input, label string) *PortStatus {
	return &in.Ports[slices.IndexFunc(in.Ports, func(p PortStatus) bool { return p.Label == label })]
}

// flowBy is a TCP flow of the app that was translated to an address.
func flowBy(addr string) netstate.Flow {
	return netstate.Flow{Proto: protoTCP, Src: netip.MustParseAddrPort("10.1.0.128:40000"),
		Dst: netip.MustParseAddrPort("198.51.100.9:443"), ReplyDst: netip.AddrPortFrom(ip(addr), 40000)}
}

// keepInput6 is keepInput with IPv6: port i has 2001:db8:i::10, and a router of its own.
func keepInput6(policy FlowPolicy) Input {
	in := keepInput(policy)
	in.Config.IPv6 = input6().Config.IPv6
	for i := range in.Ports {
		p := &in.Ports[i]
		p.Addresses = append(p.Addresses, prefix(fmt.Sprintf("2001:db8:%d::10/64", i)), prefix("fe80::9/64"))
		p.DefaultRoutes = append(p.DefaultRoutes, netstate.DefaultVia(ip(fmt.Sprintf("fe80::%d:1", i))))
	}
	in.Chosen[probe.OfIPv6("uplink")] = "wan"
	return in
}

// flowBy6 is flowBy for IPv6.
func flowBy6(in Input, addr string) netstate.Flow {
	a := in.Adapters[0]
	return netstate.Flow{Proto: protoTCP, Dst: netip.MustParseAddrPort("[2001:db8:77::9]:443"),
		Src:      netip.AddrPortFrom(AdapterIP6(in.Config, a.Config.Spec, a.Lease), 40000),
		ReplyDst: netip.AddrPortFrom(ip(addr), 40000)}
}

// markOf returns the mark of a packet of a known flow, as the chains give it.
func markOf(s netstate.State, f netstate.Flow) (mark uint32) {
	field, part := "ip", "ES1-FLOWS"
	rulesOf := func(part string) []string {
		c, _ := s[netstate.Chain{Family: netstate.InetFamily, Table: GuardTable, Name: part}.ID()].(netstate.Chain)
		return c.Rules
	}
	if rules := rulesOf(part); f.Dst.Addr().Is6() && len(rules) > 0 && rules[0] == "meta nfproto ipv6 goto ES1-FLOWS6" {
		field, part = "ip6", "ES1-FLOWS6"
	}
	for _, r := range rulesOf(part) {
		matched := !strings.HasPrefix(r, "ct ") && !strings.HasPrefix(r, "meta nfproto") ||
			strings.HasPrefix(r, "ct status snat ct reply "+field+" daddr "+f.ReplyDst.Addr().String()+" meta ")
		if matched {
			var mask uint32
			_, _ = fmt.Sscanf(r[strings.Index(r, "meta mark"):], "meta mark set meta mark & %v | %v accept", &mask, &mark)
			return mark
		}
	}
	return 0
}

// wayOf follows a packet of a known flow as the kernel does: the chain that marks, the rules in order of priority, and
// the table of the first one that matches, in which a default route that exists counts before unreachable.
func wayOf(in Input, f netstate.Flow) string {
	s := DesiredState(in).State
	mark, six := markOf(s, f), f.Dst.Addr().Is6()
	table := Table(1)
	for _, o := range s {
		if r, is := o.(netstate.Rule); is && r.Mask != 0 && r.Mark == mark && r.Goto == 0 && r.IPv6 == six {
			table = r.Table
		}
	}
	best, way := -1, "main"
	for _, o := range s {
		r, is := o.(netstate.Route)
		if dst, err := netip.ParsePrefix(r.Dst); is && err == nil && r.Table == table && dst.Contains(f.Dst.Addr()) {
			if rank := 2 * dst.Bits(); r.Type == netstate.Unicast && rank+1 > best {
				best, way = rank+1, r.Dev
			} else if rank > best {
				best, way = rank, "unreachable"
			}
		}
	}
	return way
}

func TestWhereKnownFlowsGo(t *testing.T) {
	const wan, sat, lte = "192.0.0.10", "192.0.1.10", "192.0.2.10"
	broken := func(label string) func(*Input) {
		return func(in *Input) {
			in.Broken = map[string]bool{label: true}
			in.Failing = map[string]bool{label: true}
		}
	}
	for _, c := range []struct {
		name   string
		policy FlowPolicy
		change func(*Input)
		by     string // the address of the flow's port
		want   string // its way, or "reset"
	}{
		{"on the port in use", FlowsReset, nil, wan, "eth0"},
		{"on another port", FlowsReset, nil, lte, "reset"},
		{"kept", FlowsKeep, nil, lte, "eth2"},
		{"kept on the port in use", FlowsKeep, nil, wan, "eth0"},
		{"kept on a port that does not work", FlowsKeep, broken("lte"), lte, "eth2"},
		{"kept on a port without carrier", FlowsKeep, func(in *Input) { portAt(in, "lte").Up = false }, lte, "unreachable"},
		{"kept on a port without a default route", FlowsKeep, func(in *Input) { portAt(in, "lte").DefaultRoutes = nil }, lte,
			"unreachable"},
		{"its port is gone", FlowsKeep, func(in *Input) { *portAt(in, "lte") = PortStatus{PortConfig: portAt(in, "lte").PortConfig} },
			lte, "eth0"}, // no port has its address: the kernel drops its packets and the entry
		{"its port has another address", FlowsKeep,
			func(in *Input) { portAt(in, "lte").Addresses = []netip.Prefix{prefix("192.0.2.11/24")} }, lte, "eth0"},
		{"its port is another network's now", FlowsKeep, func(in *Input) { portAt(in, "lte").Uplink = false }, lte, "reset"},
		{"two ports have its address", FlowsKeep, func(in *Input) { portAt(in, "sat").Addresses = portAt(in, "lte").Addresses },
			lte, "reset"},
		{"drains", FlowsDrain, nil, lte, "eth2"},
		{"drains from a port that is held or drained", FlowsDrain,
			func(in *Input) { in.Failing = map[string]bool{"lte": true} }, lte, "eth2"},
		{"drains from a port that does not work", FlowsDrain, broken("lte"), lte, "reset"},
		{"drains from a port without carrier", FlowsDrain, func(in *Input) { portAt(in, "lte").Up = false }, lte, "reset"},
		{"another port does not work", FlowsDrain, broken("sat"), lte, "eth2"},
		{"a route by the port", FlowsDrain, func(in *Input) {
			in.Config.Port = "wan"
			in.Config.Routes = []StaticRoute{{Name: "a", Destination: prefix("198.51.100.0/24"), Port: "lte"}}
		}, lte, "eth2"},
		{"a route by another port now", FlowsDrain, func(in *Input) {
			in.Config.Routes = []StaticRoute{{Name: "a", Destination: prefix("198.51.100.0/24"), Port: "sat"}}
		}, lte, "eth2"},
		{"no route leads there by the port any more", FlowsDrain, func(in *Input) {
			in.Config.Port = "wan"
			in.Config.Routes = []StaticRoute{{Name: "a", Destination: prefix("172.16.0.0/12"), Port: "lte"}}
		}, lte, "unreachable"},
		{"withdrawn", FlowsKeep, func(in *Input) { in.Config.Inactive = true }, lte, "reset"},
	} {
		in := keepInput(c.policy)
		if c.change != nil {
			c.change(&in)
		}
		got := "reset"
		if !DeniesFlow(in)(flowBy(c.by)) {
			got = wayOf(in, flowBy(c.by))
		}
		if got != c.want {
			t.Errorf("%s, %q: %s, want %s", c.name, c.policy, got, c.want)
		}
		if resets := Resets(in); resets != nil && (resets(flowBy(c.by)) != "") != (c.want == "reset" && !in.Config.Inactive) {
			t.Errorf("%s: its connection ends in %q", c.name, resets(flowBy(c.by)))
		}
	}
	if in := keepInput(FlowsDrain); wayOf(in, flowBy(sat)) != "eth1" {
		t.Error("a flow by sat leaves by another port")
	}
}

// A network that resets flows has nothing of this on the host, and a host with only such networks neither.
func TestResetAddsNothing(t *testing.T) {
	with, without := DesiredState(keepInput(FlowsDrain)).State, DesiredState(keepInput(FlowsReset)).State
	for id, o := range with {
		r, isRule := o.(netstate.Rule)
		route, isRoute := o.(netstate.Route)
		added := strings.Contains(id.Name, "FLOWS") || isRule && r.Mask != 0 || isRoute && route.Table >= tableFlowsBase
		if _, there := without[id]; there == added {
			t.Errorf("%s: there without it: %v", id, there)
		}
	}
	host := func(flows bool) netstate.State {
		return HostState([]HostNetwork{{Number: 1, Subnet: prefix("10.1.0.0/24"), Flows: flows}})
	}
	guardID := netstate.Chain{Family: netstate.InetFamily, Name: GuardTable}.ID()
	if on, off := host(true), host(false); len(on) != len(off)+2 || strings.Contains(off[guardID].Text(), flowsMap) ||
		!strings.Contains(on[guardID].Text(), "iifname vmap @"+flowsMap) {
		t.Error("the host's part differs in something else than the gate and the map")
	}
}

// Whatever the ports, the policy and the choice, a known flow leaves by its own port, or by none, or is reset: it never
// leaves by another port with the address of its own.
func TestAKnownFlowNeverLeavesByAnotherPort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := keepInput(rapid.SampledFrom([]FlowPolicy{FlowsReset, FlowsKeep, FlowsDrain}).Draw(t, "policy"))
		in.Broken, in.Failing = map[string]bool{}, map[string]bool{}
		devs := map[string]string{}
		for i := range in.Ports {
			p := &in.Ports[i]
			draw := func(what string, of int) bool { return rapid.IntRange(0, of).Draw(t, p.Label+" "+what) == 0 }
			devs[p.Addresses[0].Addr().String()] = string(p.IfName)
			p.Up = !draw("down", 3)
			p.Uplink = !draw("no uplink", 5)
			in.Broken[p.Label] = draw("broken", 2)
			in.Failing[p.Label] = in.Broken[p.Label] || draw("failing", 2)
			if draw("no route", 4) {
				p.DefaultRoutes = nil
			}
		}
		in.Chosen["uplink"] = rapid.SampledFrom([]string{"wan", "sat", "lte"}).Draw(t, "chosen")
		if rapid.Bool().Draw(t, "route") {
			in.Config.Routes = []StaticRoute{{Name: "a", Destination: prefix("198.51.100.0/24"),
				Port: rapid.SampledFrom([]string{"", "wan", "sat"}).Draw(t, "its port")}}
		}
		denies, inUse := DeniesFlow(in), DesiredState(in).Port
		for addr, dev := range devs {
			f := flowBy(addr)
			way := wayOf(in, f)
			if !denies(f) && way != dev && way != "unreachable" {
				t.Errorf("a flow with address %s, which is of %s, leaves by %s; in use is %q", addr, dev, way, inUse)
			}
		}
	})
}

// shareInput is keepInput with load sharing over wan and lte.
func shareInput(policy FlowPolicy) Input {
	in := keepInput(policy)
	in.Config.Share = true
	in.Equals = map[string][]string{"uplink": {"lte", "wan"}}
	return in
}

func flowRulesOf(in Input) []string {
	o := DesiredState(in).State[netstate.Chain{Family: netstate.InetFamily, Table: GuardTable, Name: "ES1-FLOWS"}.ID()]
	c, _ := o.(netstate.Chain)
	return c.Rules
}

func TestNewFlowsAreSpreadByWeight(t *testing.T) {
	chances := func(in Input) (found []string) {
		for _, r := range flowRulesOf(in) {
			if rest, is := strings.CutPrefix(r, "meta nfproto ipv4 ct state new "); is {
				chance, mark, _ := strings.Cut(rest, "meta mark set meta mark & 0xf0ffffff | ")
				found = append(found, strings.TrimSpace(chance)+"->"+strings.TrimSuffix(mark, " accept"))
			}
		}
		return found
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   string // indexes by label: lte 1, sat 2, wan 3
	}{
		{"two equal ones", func(*Input) {}, "[meta random < 2147483648->0x1000000 ->0x3000000]"},
		{"weights", func(in *Input) { portAt(in, "lte").Weight = 3 }, "[meta random < 3221225472->0x1000000 ->0x3000000]"},
		{"three", func(in *Input) { in.Equals["uplink"] = []string{"lte", "sat", "wan"} },
			"[meta random < 1431655765->0x1000000 meta random < 2147483648->0x2000000 ->0x3000000]"},
		{"one is left", func(in *Input) { in.Equals["uplink"] = []string{"wan"} }, "[]"},
		{"one has no address", func(in *Input) { portAt(in, "lte").Addresses = nil }, "[]"},
		{"both have one address", func(in *Input) { portAt(in, "lte").Addresses = portAt(in, "wan").Addresses }, "[]"},
		{"the chosen port is none of them", func(in *Input) { in.Chosen["uplink"] = "sat" }, "[]"},
		{"not shared", func(in *Input) { in.Config.Share = false }, "[]"},
	} {
		in := shareInput(FlowsReset)
		c.change(&in)
		if got := fmt.Sprint(chances(in)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A flow stays on its port; one over a port that leaves the set is reset, and the others are not touched. Rules of
// translation, DNS servers and static routes follow.
func TestASharedFlowStays(t *testing.T) {
	const wan, lte = "192.0.0.10", "192.0.2.10"
	in := shareInput(FlowsReset)
	in.Config.Routes = []StaticRoute{{Name: "a", Destination: prefix("172.16.0.0/12"), Port: "sat"}}
	for addr, dev := range map[string]string{wan: "eth0", lte: "eth2"} {
		if way := wayOf(in, flowBy(addr)); way != dev || DeniesFlow(in)(flowBy(addr)) {
			t.Errorf("a flow with %s goes by %s, or is reset", addr, way)
		}
		toSat := flowBy(addr) // a first packet has the mark of any of them
		toSat.Dst = netip.MustParseAddrPort("172.16.0.9:443")
		if way := wayOf(in, toSat); way != "eth1" {
			t.Errorf("with the mark of %s, the static route by sat is not used, but %s", dev, way)
		}
	}
	to, host := in, flowBy(wan) // the narrowest of the routes is looked at first
	host.Dst = netip.MustParseAddrPort("172.16.0.9:443")
	to.Config.Routes = []StaticRoute{{Name: "a", Destination: prefix("172.16.0.9/32"), Port: "sat"}}
	if !DeniesFlow(to)(host) {
		t.Error("a flow to a host that is reached by sat now stays on wan")
	}
	s := DesiredState(in).State
	text := func(id netstate.ID) string { return s[id].Text() }
	if nat := text(chainID(tableNAT, "ES1-POST")); !strings.Contains(nat, "-o eth0 -j MASQ") || !strings.Contains(nat, "-o eth2 -j MASQ") {
		t.Errorf("translation: %s", nat)
	}
	if dns := text(netstate.File{Path: "ni/1/conf/servers"}.ID()); !strings.Contains(dns, "@eth0") || !strings.Contains(dns, "@eth2") {
		t.Errorf("DNS servers: %s", dns)
	}

	in.Equals["uplink"] = []string{"lte"}
	in.Chosen["uplink"] = "lte"
	in.Broken, in.Failing = map[string]bool{"wan": true}, map[string]bool{"wan": true}
	if !DeniesFlow(in)(flowBy(wan)) || Resets(in)(flowBy(wan)) == "" {
		t.Error("a flow over the port that died lives")
	}
	if way := wayOf(in, flowBy(lte)); way != "eth2" || DeniesFlow(in)(flowBy(lte)) {
		t.Errorf("a flow over the other port goes by %s, or is reset", way)
	}
	// Its mark remains, so that no moment of the change routes it by the port that died.
	if rules := strings.Join(flowRulesOf(in), "\n"); !strings.Contains(rules, "daddr "+lte) || strings.Contains(rules, "daddr "+wan) {
		t.Errorf("marks:\n%s", rules)
	}
}

func TestWhichNetworksMarkFlows(t *testing.T) {
	six := IPv6Config{Mode: SLAAC, NAT: true}
	for name, c := range map[string]struct {
		config     NetworkInstanceConfig
		four, both bool
	}{
		"resets":                {NetworkInstanceConfig{Type: Local, IPv6: six}, false, false},
		"keeps":                 {NetworkInstanceConfig{Type: Local, Flows: FlowsKeep}, true, false},
		"drains, with IPv6":     {NetworkInstanceConfig{Type: Local, Flows: FlowsDrain, IPv6: six}, true, true},
		"shares, with IPv6":     {NetworkInstanceConfig{Type: Local, Share: true, IPv6: six}, true, true},
		"keeps, IPv6 is routed": {NetworkInstanceConfig{Type: Local, Flows: FlowsKeep, IPv6: IPv6Config{Mode: SLAAC}}, true, false},
		"not active":            {NetworkInstanceConfig{Type: Local, Flows: FlowsKeep, IPv6: six, Inactive: true}, false, false},
		"a switch":              {NetworkInstanceConfig{Type: Switch, Flows: FlowsKeep, IPv6: six}, false, false},
	} {
		if four, both := MarksFlows(c.config), MarksFlows6(c.config); four != c.four || both != c.both {
			t.Errorf("%s: %v, of IPv6 %v", name, four, both)
		}
	}
}

// A mark has room for fifteen ports: the flows of those after them begin anew.
func TestAMarkNamesFifteenPorts(t *testing.T) {
	in := keepInput(FlowsKeep)
	for i := range maxFlowPorts {
		p := in.Ports[0]
		p.Label, p.IfName = fmt.Sprintf("z%02d", i), IfName(fmt.Sprint("if", i))
		p.Addresses = []netip.Prefix{prefix(fmt.Sprintf("198.18.%d.10/24", i))}
		in.Ports = append(in.Ports, p)
	}
	nw, _ := newNetwork(in)
	ports := nw.flowPorts(false)
	if last := ports[len(ports)-1]; len(ports) != maxFlowPorts || last.index != maxFlowPorts || last.Label != "z11" ||
		flowMark(last.index) != FlowMask {
		t.Errorf("%d ports, the last is %s with index %d", len(ports), last.Label, last.index)
	}
	for addr, want := range map[string]bool{"198.18.11.10": false, "198.18.12.10": true} {
		if got := DeniesFlow(in)(flowBy(addr)); got != want {
			t.Errorf("a flow by %s begins anew: %v", addr, got)
		}
	}
}

// A route through the bridge needs the bridge's address of its family; one by a port needs none.
func TestWhatARouteNeeds(t *testing.T) {
	nw, _ := newNetwork(input6())
	four, six := nw.address().ID(), nw.addresses6()[0].ID()
	for dst, bridged := range map[string]netstate.ID{"10.8.0.0/16": four, "2001:db8:1::/48": six} {
		for dev, want := range map[string]netstate.ID{"es1": bridged, "eth0": {}} {
			if r := nw.unicast(prefix(dst), netstate.Route{Dev: dev}); r.After != want || r.Dst != dst {
				t.Errorf("%s by %s: %+v", dst, dev, r)
			}
		}
	}
}
