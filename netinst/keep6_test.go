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

func TestWhereKnownFlowsOfIPv6Go(t *testing.T) {
	const wan, lte = "2001:db8:0::10", "2001:db8:2::10"
	six := probe.OfIPv6
	to77 := func(port string) []StaticRoute {
		return []StaticRoute{{Name: "a", Destination: prefix("2001:db8:77::/48"), Port: port}}
	}
	for _, c := range []struct {
		name   string
		policy FlowPolicy
		change func(*Input)
		by     string
		want   string // its way, or "reset"
	}{
		{"on the port in use", FlowsReset, nil, wan, "eth0"},
		{"on another port", FlowsReset, nil, lte, "reset"},
		{"kept", FlowsKeep, nil, lte, "eth2"},
		{"kept on a port whose IPv6 does not work", FlowsKeep, func(in *Input) { in.Broken = map[string]bool{six("lte"): true} },
			lte, "eth2"},
		{"kept on a port without carrier", FlowsKeep, func(in *Input) { portAt(in, "lte").Up = false }, lte, "unreachable"},
		{"kept on a port without a default route of IPv6", FlowsKeep, func(in *Input) {
			p := portAt(in, "lte")
			p.DefaultRoutes = p.DefaultRoutes[:1]
		}, lte, "unreachable"},
		{"its port has another address", FlowsKeep,
			func(in *Input) { portAt(in, "lte").Addresses[1] = prefix("2001:db8:2::11/64") }, lte, "eth0"},
		{"its port has a second address", FlowsKeep, func(in *Input) {
			p := portAt(in, "lte")
			p.Addresses = append(p.Addresses, prefix("2001:db8:2::11/128"))
		}, "2001:db8:2::11", "eth2"},
		{"two ports have its address", FlowsKeep, func(in *Input) { portAt(in, "sat").Addresses = portAt(in, "lte").Addresses },
			lte, "reset"},
		{"its port is another network's now", FlowsKeep, func(in *Input) { portAt(in, "lte").Uplink = false }, lte, "reset"},
		{"drains", FlowsDrain, nil, lte, "eth2"},
		{"drains while IPv4 of its port does not work", FlowsDrain,
			func(in *Input) { in.Broken = map[string]bool{"lte": true} }, lte, "eth2"},
		{"drains while its port has no IPv4", FlowsDrain,
			func(in *Input) { portAt(in, "lte").Addresses = portAt(in, "lte").Addresses[1:] }, lte, "eth2"},
		{"drains from a port whose IPv6 does not work", FlowsDrain,
			func(in *Input) { in.Broken = map[string]bool{six("lte"): true} }, lte, "reset"},
		{"drains from a port without carrier", FlowsDrain, func(in *Input) { portAt(in, "lte").Up = false }, lte, "reset"},
		{"a route by the port", FlowsDrain, func(in *Input) { in.Config.Port, in.Config.Routes = "wan", to77("lte") }, lte, "eth2"},
		{"a route by another port now", FlowsDrain, func(in *Input) { in.Config.Routes = to77("sat") }, lte, "eth2"},
		{"no route leads there by the port any more", FlowsDrain, func(in *Input) {
			in.Config.Port, in.Config.Routes = "wan", to77("lte")
			in.Config.Routes[0].Destination = prefix("2001:db8:78::/48")
		}, lte, "unreachable"},
		{"the network has too small an MTU for IPv6", FlowsKeep, func(in *Input) { in.Config.MTU = 1000 }, lte, "main"},
	} {
		in := keepInput6(c.policy)
		if c.change != nil {
			c.change(&in)
		}
		f, got := flowBy6(in, c.by), "reset"
		if !DeniesFlow(in)(f) || c.want == "main" { // without IPv6, none of its addresses is an app's
			got = wayOf(in, f)
		}
		if got != c.want {
			t.Errorf("%s, %q: %s, want %s", c.name, c.policy, got, c.want)
		}
		if (Resets(in)(f) != "") != (c.want == "reset") {
			t.Errorf("%s: its connection ends in %q", c.name, Resets(in)(f))
		}
	}
}

// A prefix that is routed to the node is the app's own by each port: its flows follow the port in use, and none ends.
func TestFlowsOfARoutedPrefixFollowThePortInUse(t *testing.T) {
	for _, policy := range []FlowPolicy{FlowsReset, FlowsKeep, FlowsDrain} {
		in := keepInput6(policy)
		in.Config.IPv6.NAT, in.Config.Share = false, true
		in.Equals = map[string][]string{"uplink": {"lte", "wan"}, probe.OfIPv6("uplink"): {"lte", "wan"}}
		f := flowBy6(in, AdapterIP6(in.Config, in.Adapters[0].Config.Spec, in.Adapters[0].Lease).String())
		for label, dev := range map[string]string{"wan": "eth0", "lte": "eth2"} {
			in.Chosen[probe.OfIPv6("uplink")] = label
			if way := wayOf(in, f); way != dev || DeniesFlow(in)(f) || Resets(in)(f) != "" {
				t.Errorf("%q, %s in use: a flow goes by %s, or is reset", policy, label, way)
			}
		}
		for id, o := range DesiredState(in).State {
			r, isRule := o.(netstate.Rule)
			route, isRoute := o.(netstate.Route)
			if strings.Contains(id.Name, "FLOWS6") || isRule && r.IPv6 && r.Mask != 0 ||
				isRoute && route.Table >= tableFlowsBase && strings.Contains(route.Dst, ":") {
				t.Errorf("%q: %s", policy, id)
			}
		}
	}
}

// As for IPv4: a known flow leaves by its own port, or by none, or is reset. The ports of the two families differ.
func TestAKnownFlowOfIPv6NeverLeavesByAnotherPort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := keepInput6(rapid.SampledFrom([]FlowPolicy{FlowsReset, FlowsKeep, FlowsDrain}).Draw(t, "policy"))
		in.Config.Share = rapid.Bool().Draw(t, "share")
		in.Broken, in.Failing, in.Equals = map[string]bool{}, map[string]bool{}, map[string][]string{}
		devs := map[string]string{}
		for i := range in.Ports {
			p := &in.Ports[i]
			draw := func(what string, of int) bool { return rapid.IntRange(0, of).Draw(t, p.Label+" "+what) == 0 }
			devs[p.Addresses[0].Addr().String()], devs[p.Addresses[1].Addr().String()] = string(p.IfName), string(p.IfName)
			p.Up = !draw("down", 3)
			p.Uplink = !draw("no uplink", 5)
			for _, name := range []string{p.Label, probe.OfIPv6(p.Label)} {
				in.Broken[name] = draw("broken "+name, 2)
				in.Failing[name] = in.Broken[name] || draw("failing "+name, 2)
			}
			p.DefaultRoutes = slices.DeleteFunc(p.DefaultRoutes, func(r netstate.DefaultRoute) bool {
				return draw(fmt.Sprint("no route of IPv6: ", r.IPv6), 4)
			})
		}
		labels := []string{"wan", "sat", "lte"}
		for _, selector := range []string{"uplink", probe.OfIPv6("uplink")} {
			in.Chosen[selector] = rapid.SampledFrom(labels).Draw(t, "chosen by "+selector)
			in.Equals[selector] = append(rapid.SliceOfNDistinct(rapid.SampledFrom(labels), 0, 2, rapid.ID[string]).
				Draw(t, "equals of "+selector), in.Chosen[selector])
		}
		if rapid.Bool().Draw(t, "route") {
			for _, to := range []string{"2001:db8:77::/48", "198.51.100.0/24"} {
				in.Config.Routes = append(in.Config.Routes, StaticRoute{Name: to, Destination: prefix(to),
					Port: rapid.SampledFrom([]string{"", "wan", "sat"}).Draw(t, "its port")})
			}
		}
		denies, s := DeniesFlow(in), DesiredState(in).State
		for addr, dev := range devs {
			f := flowBy(addr)
			if ip(addr).Is6() {
				f = flowBy6(in, addr)
			}
			way := wayOf(in, f)
			if !denies(f) && way != dev && way != "unreachable" {
				t.Errorf("a flow with address %s, which is of %s, leaves by %s", addr, dev, way)
			}
		}
		// Each mark of a first packet leads to a table of its own port.
		for part, six := range map[string]bool{"ES1-FLOWS": false, "ES1-FLOWS6": true} {
			c, _ := s[netstate.Chain{Family: netstate.InetFamily, Table: GuardTable, Name: part}.ID()].(netstate.Chain)
			for _, r := range c.Rules {
				if i := strings.Index(r, " | "); i >= 0 && strings.Contains(r, "ct state new") {
					var mark uint32
					_, _ = fmt.Sscanf(r[i:], " | %v", &mark)
					if !leadsMarked(s, mark, six) {
						t.Errorf("%s: nothing leads packets with mark %#x: %s", part, mark, r)
					}
				}
			}
		}
	})
}

// leadsMarked reports whether a rule leads packets with a mark to a table with a default route.
func leadsMarked(s netstate.State, mark uint32, six bool) bool {
	for _, o := range s {
		r, is := o.(netstate.Rule)
		if !is || r.Mask == 0 || r.Mark != mark || r.IPv6 != six {
			continue
		}
		for _, o := range s {
			route, is := o.(netstate.Route)
			dst, err := netip.ParsePrefix(route.Dst)
			if is && err == nil && route.Table == r.Table && route.Type == netstate.Unicast && dst.Bits() == 0 &&
				dst.Addr().Is6() == six {
				return true
			}
		}
	}
	return false
}

// Each family is spread over its own equal ports.
func TestNewFlowsOfIPv6AreSpreadByWeight(t *testing.T) {
	six := probe.OfIPv6("uplink")
	shares := func(change func(*Input)) string {
		in := keepInput6(FlowsReset)
		in.Config.Share = true
		in.Equals = map[string][]string{"uplink": {"wan"}, six: {"lte", "wan"}}
		change(&in)
		s, found := DesiredState(in).State, []string{}
		for _, part := range []string{"ES1-FLOWS", "ES1-FLOWS6"} {
			c, _ := s[netstate.Chain{Family: netstate.InetFamily, Table: GuardTable, Name: part}.ID()].(netstate.Chain)
			for _, r := range c.Rules {
				if strings.Contains(r, " ct state new ") {
					found = append(found, strings.Replace(r, "meta mark set meta mark & 0xf0ffffff | ", "-> ", 1))
				}
			}
		}
		return strings.ReplaceAll(strings.Join(found, "; "), "meta nfproto ", "")
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   string // indexes by label: lte 1, sat 2, wan 3
	}{
		{"IPv6 alone", func(*Input) {}, "ipv6 ct state new meta random < 2147483648 -> 0x1000000 accept; " +
			"ipv6 ct state new -> 0x3000000 accept"},
		{"weights", func(in *Input) { portAt(in, "wan").Weight = 3 }, "ipv6 ct state new meta random < 1073741824 -> 0x1000000 " +
			"accept; ipv6 ct state new -> 0x3000000 accept"},
		{"other ports than those of IPv4", func(in *Input) { in.Equals["uplink"] = []string{"sat", "wan"} },
			"ipv4 ct state new meta random < 2147483648 -> 0x2000000 accept; ipv4 ct state new -> 0x3000000 accept; " +
				"ipv6 ct state new meta random < 2147483648 -> 0x1000000 accept; ipv6 ct state new -> 0x3000000 accept"},
		{"one has no IPv6 address", func(in *Input) { portAt(in, "lte").Addresses = portAt(in, "lte").Addresses[:1] }, ""},
		{"one has no default route of IPv6", func(in *Input) {
			p := portAt(in, "lte")
			p.DefaultRoutes = p.DefaultRoutes[:1]
		}, ""},
		{"the chosen port is none of them", func(in *Input) { in.Chosen[six] = "sat" }, ""},
		{"one is that of a former config, and of a route", func(in *Input) {
			portAt(in, "lte").Uplink = false
			in.Config.Routes = []StaticRoute{{Name: "a", Destination: prefix("2001:db8:77::/48"), Port: "lte"}}
		}, ""},
		{"a routed prefix", func(in *Input) { in.Config.IPv6.NAT = false }, ""},
		{"too small an MTU", func(in *Input) { in.Config.MTU = 1000 }, ""},
	} {
		if got := shares(c.change); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	in := keepInput6(FlowsReset)
	in.Config.Share, in.Equals = true, map[string][]string{six: {"lte", "wan"}}
	nat := DesiredState(in).State[netstate.Chain{Family: netstate.IP6Family, Table: GuardTable, Name: "ES1-POST"}.ID()].Text()
	if !strings.Contains(nat, `"eth0" masquerade`) || !strings.Contains(nat, `"eth2" masquerade`) {
		t.Errorf("translation: %s", nat)
	}
}

// Where each packet meets the rules of its adapter, those of known flows pass the port that was left, and no new ones.
func TestKnownFlowsOfANetworkWithLimitsPassThePortThatWasLeft(t *testing.T) {
	in := keepInput6(FlowsDrain)
	in.Adapters[0].Config.Spec.ACL = []ACLRule{{Name: "slow", Direction: Egress, Action: Limit,
		Limit: RateLimit{Packets: 10, Per: "sec", Burst: 20}}}
	s := DesiredState(in).State
	for id, want := range map[netstate.ID]string{
		chainID(tableFilter, "ES1-FWD"): "-i es1 -o eth2 -m conntrack --ctstate RELATED,ESTABLISHED -j ES-EXIT",
		netstate.Chain{Family: netstate.IP6Family, Table: GuardTable, Name: "ES1-FWD"}.ID(): `iifname "es1" oifname "eth2" ` +
			knownFlows6,
	} {
		if text := s[id].Text(); !strings.Contains(text, want+"\n") && !strings.HasSuffix(text, want) {
			t.Errorf("%s lacks %q:\n%s", id, want, text)
		}
	}
}

// The host leads packets without a mark past the rules of IPv6 only where a network has some.
func TestTheGateOfIPv6IsThereWhereItIsNeeded(t *testing.T) {
	of := func(six bool) (n int) {
		for _, o := range HostState([]HostNetwork{{Number: 1, Subnet: prefix("10.1.0.0/24"), Flows: true, Flows6: six}}) {
			if r, is := o.(netstate.Rule); is && r.IPv6 && (r.Priority == ruleFlowsBase || r.Priority == treeFromBase) {
				n++
			}
		}
		return n
	}
	if of(false) != 0 || of(true) != 2 {
		t.Errorf("%d rules without, %d with a network that needs them", of(false), of(true))
	}
}

// Both families are shared, over other ports: IPv4 over lte and wan, IPv6 over sat and wan.
func TestTheStateOfANetworkThatSharesItsUplinks(t *testing.T) {
	in := keepInput6(FlowsDrain)
	in.Config.Share = true
	in.Equals = map[string][]string{"uplink": {"lte", "wan"}, probe.OfIPv6("uplink"): {"sat", "wan"}}
	golden(t, "shared_uplinks", describe(DesiredState(in)))
}
