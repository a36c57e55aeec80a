package netinst

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/netinst/netstate"
)

// All adapters together never get more than half of the table, however many there are and whatever their configs
// request.
func TestSharesOfTheFlowTable(t *testing.T) {
	for _, x := range []struct{ table, adapters, share int }{
		{262144, 0, 8192}, {262144, 16, 8192}, {262144, 17, 4096}, {262144, 32, 4096}, {262144, 300, 256}, {262144, 4000, 32},
		{65536, 4, 2048}, {1 << 20, 4, 32768},
	} {
		if got := FlowShare(x.table, Sharers(x.adapters)); got != x.share {
			t.Errorf("%d adapters share %d: %d each, want %d", x.adapters, x.table, got, x.share)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		table, n := rapid.IntRange(4096, 1<<22).Draw(t, "table"), rapid.IntRange(1, 4000).Draw(t, "adapters")
		if n > table/8 {
			t.Skip("fewer than one flow for each")
		}
		nw := network{Input: Input{MaxTracked: table, Config: NetworkInstanceConfig{Sharers: Sharers(n)}}}
		sum := 0
		for range n {
			var a Adapter
			a.Config.Spec.MaxFlows = rapid.SampledFrom([]int{0, 16, 1000, 1000000}).Draw(t, "maxFlows")
			one := nw.flowBound(a)
			if one < 1 {
				t.Fatalf("an adapter may have %d", one)
			}
			sum += one
		}
		if sum > table/2 {
			t.Fatalf("%d adapters may have %d of %d", n, sum, table)
		}
	})
}

// The flows of each family are counted by themselves: with both, each gets half of the adapter's share.
func TestAFamilyGetsHalfOfAShare(t *testing.T) {
	for want, c := range map[int]NetworkInstanceConfig{
		8192: {Type: Local}, 4096: {Type: Local, IPv6: IPv6Config{Mode: SLAAC}},
	} {
		bridge := c
		if bridge.Type = Switch; c.HasIPv6() {
			bridge.IPv6.Mode = Bridged
		}
		for _, x := range []NetworkInstanceConfig{c, bridge} {
			if got := FlowBound(AdapterSpec{MaxFlows: 1000000}, x, 262144); got != want {
				t.Errorf("%s, IPv6 %q: %d, want %d", x.Type, x.IPv6.Mode, got, want)
			}
			if got := FlowBound(AdapterSpec{}, x, 0); got != DefaultMaxFlows {
				t.Errorf("%s, IPv6 %q, a table of unknown size: %d", x.Type, x.IPv6.Mode, got)
			}
		}
	}
}

// A change of rules leaves the counting chain unchanged; a changed limit is written.
func TestTheBoundOfFlowsIsASeparateChain(t *testing.T) {
	at := func(in Input) netstate.State { return DesiredState(in).State }
	in := input(adapter(appA, 0, 1, "10.1.0.128", "a", ACLRule{Direction: Egress, Action: Allow}))
	before := at(in)
	bound := chainID(tableFilter, "ES1-1L")
	in.Adapters[0].Config.Spec.ACL = []ACLRule{{Direction: Both, Action: Allow}}
	for _, op := range netstate.Diff(before, at(in)) {
		for _, it := range op.Items {
			if it.ID() == bound {
				t.Error("a changed rule has its counter written anew")
			}
		}
	}
	for _, x := range []struct{ config, table, sharers, want int }{{0, 0, 0, 8192}, {100, 0, 0, 100},
		{100000, 1 << 20, 0, 32768}, {0, 65536, 64, 512}} {
		in.Adapters[0].Config.Spec.MaxFlows, in.MaxTracked, in.Config.Sharers = x.config, x.table, x.sharers
		if rule := at(in)[bound].(netstate.Chain).Rules[0]; !strings.Contains(rule,
			fmt.Sprintf("--connlimit-above %d ", x.want)) {
			t.Errorf("%+v: %s", x, rule)
		}
	}
}

// The counter of flows ignores closed TCP flows, which fill the table all the same: new TCP flows per second are
// limited, other flows and packets of known flows are not.
func TestFlowsThatAreOpenedAndClosedAreBounded(t *testing.T) {
	for _, x := range []struct {
		flows int
		limit string
	}{{0, "1024/sec --limit-burst 4096"}, {16, "4/sec --limit-burst 64"}, {1000000, "10000/sec --limit-burst 10000"}} {
		in := input(adapter(appA, 0, 1, "10.1.0.128", "a"))
		in.Adapters[0].Config.Spec.MaxFlows = x.flows
		want := []string{"! -p tcp -j RETURN", "-m conntrack --ctstatus CONFIRMED -j RETURN", "-m limit --limit " + x.limit +
			" -j RETURN", "-j DROP"}
		rules := DesiredState(in).State[chainID(tableFilter, "ES1-1L")].(netstate.Chain).Rules
		if !strings.Contains(rules[0], "--connlimit-above") || !slices.Equal(rules[1:], want) {
			t.Errorf("%d flows: %q, want %q behind the counter", x.flows, rules, want)
		}
	}
}

// No packet that an adapter's rules allow, nor one that is always allowed, bypasses the adapter's counter.
func TestEveryAllowedPacketIsCounted(t *testing.T) {
	acl := []ACLRule{{Direction: Both, Action: Allow, IP: prefix("192.0.2.0/24")}, {Direction: Both, Action: Allow}}
	for _, typ := range []Type{Local, Switch} {
		in := input(adapter(appA, 0, 1, "10.1.0.128", "a", acl...))
		in.Config.Type = typ
		for _, o := range DesiredState(in).State {
			c, ok := o.(netstate.Chain)
			if !ok || c.Table != tableFilter || !ofAdapter(c.Name) || strings.HasSuffix(c.Name, "-1A") ||
				strings.HasSuffix(c.Name, "-1L") {
				continue
			}
			for i, r := range c.Rules {
				asked := i > 0 && c.Rules[i-1] == "-j ES1-1E" // which counts
				if (strings.HasSuffix(r, "ACCEPT") || strings.HasSuffix(r, "RETURN")) && !asked {
					t.Errorf("%s: %s: %s", typ, c.Name, r)
				}
			}
		}
	}
}

// What is reported as dropped by limits are the drops of limits, in each kind of network, and all of them.
func TestTheDropsOfLimitsAreCounted(t *testing.T) {
	in := input(adapter(appA, 0, 1, "10.1.0.128", "a", ACLRule{Name: "no", Direction: Both, Action: Drop}),
		adapter(appB, 0, 12, "10.1.0.129", "b"))
	in.Config.IPv6 = IPv6Config{Subnet: netip.MustParsePrefix("2001:db8:1::/64"), Mode: DHCPv6, NAT: true,
		Gateway: netip.MustParseAddr("2001:db8:1::1")}
	s := DesiredState(in).State
	got := map[string]string{}
	for _, id := range CountingChains(s) {
		c := s[id].(netstate.Chain)
		text := ""
		for i, of := range LimitsOf(c) {
			if of == 0 {
				continue
			}
			if r := c.Rules[i]; !strings.HasSuffix(r, "counter drop") && !strings.HasSuffix(r, "-j DROP") {
				t.Errorf("%s: %q is no drop", id, r)
			}
			text += fmt.Sprint(of)
		}
		got[c.Name+" "+string(c.Family)] = text
	}
	want := map[string]string{}
	for _, n := range []string{"1", "12"} {
		want["ES1-"+n+"L ipv4"], want["ES1-"+n+"C ip6"] = "11", "11"
		want["ES1-"+n+"H inet"] = "5"
		want["ES1-"+n+"F bridge"], want["ES1-"+n+"S bridge"] = "423", "423"
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for id, o := range s { // no limit is left out
		c, is := o.(netstate.Chain)
		for _, r := range c.Rules {
			if is && strings.Contains(r, "limit rate over") && !strings.Contains(r, "icmpv6") && LimitsOf(c) == nil {
				t.Errorf("%s: %s", id, r)
			}
		}
	}
	if x := LimitsOf(netstate.Chain{Family: netstate.IPv4, Table: tableFilter, Name: "ES1-POOL", Rules: []string{"-j DROP"}}); x != nil {
		t.Errorf("%v", x)
	}
}

// Fragments are limited before anything else about them is decided, in every kind of network, and by default in relation
// to the memory that one takes. Only what is none passes before.
func TestFragmentsAreLimited(t *testing.T) {
	for _, x := range []struct{ config, mtu, want int }{{0, 1500, 10}, {0, 0, 10}, {0, 1280, 10}, {0, 3000, 5}, {0, 9000, 1},
		{0, 65535, 1}, {7, 1500, 7}, {5000, 9000, 5000}} {
		if got := FragmentBound(AdapterSpec{MaxFragments: x.config}, x.mtu); got != x.want {
			t.Errorf("%+v: %d", x, got)
		}
	}
	for _, typ := range []Type{Local, Switch} {
		in := input(adapter(appA, 0, 1, "10.1.0.128", "a"))
		in.Config.Type, in.Adapters[0].Config.Spec.MaxFragments = typ, 33
		s := DesiredState(in).State
		f, _ := s[netstate.Chain{Family: netstate.BridgeFamily, Table: GuardTable, Name: "ES1-1F"}.ID()].(netstate.Chain)
		want := fragment4 + " rate over 33/second burst 528 packets counter drop"
		if len(f.Rules) < 2 || !strings.Contains(f.Rules[0], "@nh,48,16 & 0x3fff == 0 ") || f.Rules[1] != want {
			t.Errorf("%s: %q", typ, f.Rules)
		}
	}
}

// Neighbours are limited on the links that have some, but for the gateways, and only there. A switch has no path on
// which the node looks for any.
func TestNeighboursAreLimited(t *testing.T) {
	in := input(adapter(appA, 0, 1, "10.1.0.128", "a"), adapter(appB, 0, 12, "10.1.0.129", "b"))
	in.Adapters[1].Config.Spec.MaxNeighbours = 300
	for i, mac := range []string{"02:00:00:00:00:01", "02:00:00:00:00:0c"} {
		in.Adapters[i].Lease.MAC = mac
	}
	rules := func(name string) []string {
		c, _ := DesiredState(in).State[netstate.Chain{Family: netstate.InetFamily, Table: GuardTable, Name: name}.ID()].(netstate.Chain)
		return c.Rules
	}
	for name, want := range map[string][]string{
		"ES1-1H":  {"meter size 64 { rt ip nexthop timeout 5s } return", "counter drop"},
		"ES1-12H": {"meter size 300 { rt ip nexthop timeout 5s } return", "counter drop"},
		"ES1-NEIGH": {`oifname "eth0" rt ip nexthop 192.0.2.1 return`,
			"ether saddr 02:00:00:00:00:01 goto ES1-1H", "ether saddr 02:00:00:00:00:0c goto ES1-12H"},
	} {
		if got := rules(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	in.Config.SpoofGuard = false
	if got := rules("ES1-NEIGH"); got[len(got)-1] != "goto ES1-H" || !slices.Equal(rules("ES1-H"), rules("ES1-1H")) {
		t.Errorf("frames with any MAC: %q, %q", got, rules("ES1-H"))
	}
	in.Ports[0].PointToPoint = true
	if got := rules("ES1-NEIGH"); len(got) != 4 || got[0] != `oifname "eth0" return` {
		t.Errorf("a link without neighbours: %q", got)
	}
	in.Config.Type = Switch
	if got := append(rules("ES1-NEIGH"), rules("ES1-1H")...); got != nil {
		t.Errorf("a switch: %q", got)
	}
}

// So are those in the tagged frames of a trunk.
func TestTaggedFragmentsAreLimited(t *testing.T) {
	for _, rule := range tagged([]string{fragment4 + " rate over 10/second burst 160 packets counter drop",
		fragment6 + " rate over 10/second burst 160 packets counter drop"}) {
		for _, name := range []string{"ES1-3T", "ES1-3ST"} {
			c := netstate.Chain{Family: netstate.BridgeFamily, Table: GuardTable, Name: name, Rules: []string{rule}}
			if got := LimitsOf(c); len(got) != 1 || got[0] != LimitedFragments || !strings.Contains(rule, "vlan type ip") {
				t.Errorf("%s: %q: %v", name, rule, got)
			}
		}
	}
}

func TestTheTextOfDrops(t *testing.T) {
	for want, s := range map[string]AdapterLink{
		"": {MaxFlows: 7},
		"9 DHCP requests dropped: more than 8 a second; 3 DNS queries dropped: more than 512 a second (maxFlows/16)": {
			MaxFlows: 8192, Dropped: Drops{LimitedDHCP: 9, LimitedDNS: 3}},
		"1 packets of new flows dropped: more than 16 flows, or too many TCP connections a second (maxFlows)": {
			MaxFlows: 16, Dropped: Drops{LimitedFlows: 1}},
		"2 fragments dropped: more than 33 a second (maxFragments)": {MaxFragments: 33, Dropped: Drops{LimitedFragments: 2}},
		"4 packets to neighbours of a port dropped: more than 9 without an answer in 5 s (maxNeighbours)": {
			MaxNeighbours: 9, Dropped: Drops{LimitedNeighbours: 4}},
	} {
		if got := s.DroppedText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if d := s.Dropped; d.Any() != (want != "") || d.Any() != (d.Sum() > 0) {
			t.Errorf("%v: any is %v, their sum %d", d, d.Any(), d.Sum())
		}
	}
}

// logging is a network with a flow log.
func logging(in Input) Input {
	in.Config.FlowLog = true
	return in
}

func TestTheChainThatDeniedNamesItsAdapter(t *testing.T) {
	for name, want := range map[string]string{
		"ES1-2XE": "1 2 egress", "ES1-1XI": "1 1 ingress", "ES999-12XI": "999 12 ingress",
		"ES0-2XE": "", "ES1-0XE": "", "ES-1-2XE": "", "ES1--2XE": "", "ES01-2XE": "", "ES1-2E": "", "ES1-2X": "", "ES1-2XF": "",
		"ES1-2XEE": "", "ES1-2XE x": "", "": "",
	} {
		n, k, d, ok := DeniedBy(name)
		if got := fmt.Sprint(n, k, " ", d); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %s, %v, want %q", name, got, ok, want)
		}
	}
}
