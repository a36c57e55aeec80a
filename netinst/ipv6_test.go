package netinst

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgespan/netinst/netstate"
)

func input6(adapters ...Adapter) Input {
	in := input(adapters...)
	in.Config.IPv6 = IPv6Config{Subnet: prefix("fd00:1::/64"), Gateway: ip("fd00:1::1"), Mode: SLAAC, NAT: true}
	return in
}

func TestAnAppsAddressFollowsFromItsMAC(t *testing.T) {
	for mac, want := range map[string]string{
		"02:f5:e2:e3:2f:a3": "fd00:1::f5:e2ff:fee3:2fa3", "00:16:3e:00:00:01": "fd00:1::216:3eff:fe00:1",
	} {
		if got := EUI64(prefix("fd00:1::5/64"), mac); got != ip(want) {
			t.Errorf("%s: %s, want %s", mac, got, want)
		}
	}
	for _, mac := range []string{"", "02:f5", "02:f5:e2:e3:2f:a3:00:01"} {
		if got := EUI64(prefix("fd00:1::/64"), mac); got.IsValid() {
			t.Errorf("%q: %s", mac, got)
		}
	}
	c, a := input6().Config, web()
	a.Config.Spec.IP6 = ip("fd00:1::7")
	if got := AdapterIP6(c, a.Config.Spec, a.Lease); got != ip("fd00:1::7") {
		t.Errorf("configured: %s", got)
	}
	if c.IPv6.Mode = ""; AdapterIP6(c, a.Config.Spec, a.Lease).IsValid() {
		t.Error("an address without IPv6")
	}
}

func TestRulesForIPv6(t *testing.T) {
	ports := []PortStatus{{PortConfig: PortConfig{Label: "eth", IfName: "eth0"}}}
	rule := func(change func(*ACLRule)) ACLRule {
		r := ACLRule{Direction: Both, Action: Allow}
		change(&r)
		return r
	}
	for _, c := range []struct {
		rule            ACLRule
		egress, ingress string
	}{
		{rule(func(*ACLRule) {}), "ok", "ok"},
		{rule(func(r *ACLRule) { r.Action = Drop }), "drop", "drop"},
		{rule(func(r *ACLRule) { r.Action = "later" }), "", ""},
		{rule(func(r *ACLRule) { r.Action = MapPort }), "", ""},
		{rule(func(r *ACLRule) { r.Direction = Egress }), "ok", ""},
		{rule(func(r *ACLRule) { r.IP = prefix("0.0.0.0/0") }), "", ""},
		{rule(func(r *ACLRule) { r.IP = prefix("10.0.0.0/8") }), "", ""},
		{rule(func(r *ACLRule) { r.IP = prefix("::/0") }), "ok", "ok"},
		{rule(func(r *ACLRule) { r.IP = prefix("2001:db8::/32") }), "ip6 daddr 2001:db8::/32 ok", "ip6 saddr 2001:db8::/32 ok"},
		{rule(func(r *ACLRule) { r.Protocol = "icmp" }), "meta l4proto 58 ok", "meta l4proto 58 ok"},
		{rule(func(r *ACLRule) { r.Protocol = "47" }), "meta l4proto 47 ok", "meta l4proto 47 ok"},
		{rule(func(r *ACLRule) { r.Protocol = "tcp" }), "meta l4proto 6 ok", "meta l4proto 6 ok"},
		{rule(func(r *ACLRule) { r.Protocol, r.Ports = "tcp", []PortRange{{80, 80}, {90, 99}} }),
			"tcp dport 80 ok; tcp dport >= 90 tcp dport <= 99 ok", "tcp sport 80 ok; tcp sport >= 90 tcp sport <= 99 ok"},
		{rule(func(r *ACLRule) { r.LocalPort = []PortRange{{80, 80}} }), "tcp sport 80 ok; udp sport 80 ok",
			"tcp dport 80 ok; udp dport 80 ok"},
		{rule(func(r *ACLRule) {
			r.Protocol, r.Ports, r.LocalPort = "udp", []PortRange{{53, 53}}, []PortRange{{5, 6}}
		}), "udp sport >= 5 udp sport <= 6 udp dport 53 ok", "udp dport >= 5 udp dport <= 6 udp sport 53 ok"},
		{rule(func(r *ACLRule) { r.PortLabel, r.IP = "eth", prefix("2001:db8::1/128") }),
			`ip6 daddr 2001:db8::1/128 oifname "eth0" ok`, `ip6 saddr 2001:db8::1/128 iifname "eth0" ok`},
		{rule(func(r *ACLRule) { r.PortLabel = "none" }), "", ""},
	} {
		for d, want := range map[Direction]string{Egress: c.egress, Ingress: c.ingress} {
			want = strings.TrimPrefix(want+"; drop", "; ")
			to := targets{allow: "ok", drop: "drop"}
			rules := network{}.chain([]ACLRule{c.rule}, d, to, network{}.matching6(d, ports), always)
			if got := strings.Join(ruleTexts(rules), "; "); got != want {
				t.Errorf("%+v, %s: %q, want %q", c.rule, d, got, want)
			}
		}
	}
}

// A limit has buckets of IPv6, which a packet of a known flow reaches again, unless it is a reply.
func TestLimitsOfIPv6(t *testing.T) {
	limit := func(l RateLimit) ACLRule { return ACLRule{Direction: Both, Action: Limit, Protocol: "udp", Limit: l} }
	s := DesiredState(input6(adapter(appA, 0, 1, "10.1.0.128", "a", limit(RateLimit{10, "sec", 20}),
		limit(RateLimit{7, "hour", 1}), ACLRule{Direction: Egress, Action: Allow}))).State
	for part, want := range map[string]string{
		"1E": "meta l4proto 17 counter jump ES1-1EB0\nmeta l4proto 17 counter goto ES1-1C\nmeta l4proto 17 counter jump ES1-1EB1\n" +
			"meta l4proto 17 counter goto ES1-1C\ncounter goto ES1-1C\ncounter drop",
		"1EB0": "limit rate 10/second burst 20 packets return\ncounter drop",
		"1IB1": "limit rate 7/hour burst 1 packets return\ncounter drop",
	} {
		c := s[netstate.Chain{Family: netstate.IP6Family, Table: GuardTable, Name: "ES1-" + part}.ID()]
		if c == nil || c.Text() != want {
			t.Errorf("%s is %v, want %s", part, c, want)
		}
	}
	for _, part := range []string{"FWD", "INP"} {
		text := s[netstate.Chain{Family: netstate.IP6Family, Table: GuardTable, Name: "ES1-" + part}.ID()].Text()
		if !strings.Contains(text, "ct direction reply ct state established accept") || strings.Contains(text, knownFlows6) {
			t.Errorf("%s accepts known flows: %s", part, text)
		}
	}
}

func TestFlowsOfIPv6AreValidated(t *testing.T) {
	web := adapter(appA, 0, 1, "10.1.0.128", "web", ACLRule{Direction: Egress, Action: Allow, Protocol: "tcp"},
		ACLRule{Direction: Ingress, Action: Allow, IP: prefix("2001:db8::/32"), Protocol: "icmp"})
	in := input6(web)
	own := AdapterIP6(in.Config, web.Config.Spec, web.Lease).String()
	denied := DeniesFlow(in)
	for _, c := range []struct {
		proto    uint8
		src, dst string
		dport    uint16
		want     bool
	}{
		{protoTCP, own, "2001:db8:9::1", 80, false},
		{protoTCP, own, "2001:db8::1", 80, true}, // an address of the node
		{protoUDP, own, "2001:db8::1", 80, true},
		{protoUDP, own, "fd00:1::1", 53, false},
		{protoICMP6, own, "fd00:1::1", 0, false},
		{protoTCP, own, "fd00:1::1", 80, true}, // the node, which no rule names
		{protoICMP6, "2001:db8::9", own, 0, false},
		{protoICMP6, "2001:db9::9", own, 0, true},
		{protoTCP, "fd00:1::77", "2001:db8::1", 80, true}, // of no adapter
		{protoTCP, "fd00:2::77", "2001:db8::1", 80, false},
		{protoTCP, "fe80::1", "fe80::2", 80, false},
	} {
		f := flow(c.proto, fmt.Sprintf("[%s]:1000", c.src), fmt.Sprintf("[%s]:%d", c.dst, c.dport))
		if got := denied(f); got != c.want {
			t.Errorf("%d from %s to %s port %d: denied is %t", c.proto, c.src, c.dst, c.dport, got)
		}
		if DeniesFlow(input(web))(f) {
			t.Errorf("a network without IPv6 denies %s", c.src)
		}
	}
}

func TestWhereIPv6IsNotToBeHad(t *testing.T) {
	small := input6(web())
	small.Config.MTU = 1279
	noRoute, least := input6(web()), input6(web())
	least.Config.MTU = 1280
	alone := input6(web())
	alone.Config.Port = ""
	withdrawn := input6(web())
	withdrawn.Overlap.Clash = "the host's"
	switched := switchInput(web())
	switched.Config.IPv6 = small.Config.IPv6
	for name, c := range map[string]struct {
		in      Input
		warning string
		has     bool
	}{
		"a small MTU":   {small, "no IPv6: the network's MTU is 1279, and IPv6 needs 1280", false},
		"the least MTU": {least, "IPv6 stays on the node: port eth (eth0) has no IPv6 default route", true},
		"no way out":    {noRoute, "IPv6 stays on the node: port eth (eth0) has no IPv6 default route", true},
		"air-gapped":    {alone, "", true},
		"withdrawn":     {withdrawn, "", false},
		"a switch":      {switched, "", false},
	} {
		d := DesiredState(c.in)
		if diff := cmp.Diff(c.warning, d.Warning); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		_, has := d.State[netstate.Address{Link: "es1", Prefix: "fd00:1::1/64"}.ID()]
		if six := strings.Contains(d.State.String(), "ip6"); has != c.has || six != c.has {
			t.Errorf("%s: an address %t, words of IPv6 %t, want %t", name, has, six, c.has)
		}
	}
	if text := DesiredState(alone).State.String(); !strings.Contains(text, "ra-param=es1,mtu:1500,60,0") ||
		strings.Contains(text, "route ::/0 table 20001 metric 1024") {
		t.Error("a network without a port advertises itself as a way out")
	}
}

// A route is left out while its gateway is no neighbour, and one to a destination of the port's wins over the port's own.
func TestStaticRoutesOfIPv6(t *testing.T) {
	in := input6(web())
	in.Ports[0].Addresses = append(in.Ports[0].Addresses, prefix("2001:db8:9::2/64"))
	in.Ports = append(in.Ports, PortStatus{PortConfig: PortConfig{Label: "lan", IfName: "eth1"}, Exists: true, Up: true,
		Addresses: []netip.Prefix{prefix("2001:db8:a::2/64")}})
	in.Config.Routes = []StaticRoute{
		{Name: "a", Destination: prefix("2001:db8:1::/48"), Gateway: ip("2001:db8:9::1")},
		{Name: "b", Destination: prefix("2001:db8:2::/48"), Gateway: ip("fe80::7"), Port: "lan"},
		{Name: "c", Destination: prefix("2001:db8:9::/64"), Gateway: ip("2001:db8:a::1"), Port: "lan"},
		{Name: "d", Destination: prefix("2001:db8:4::/48"), Gateway: ip("2001:db8:b::1"), Port: "lan"},
		{Name: "e", Destination: prefix("2001:db8:5::/48"), Gateway: ip("2001:db8:a::2"), Port: "lan"},
		{Name: "f", Destination: prefix("2001:db8:6::/48"), Port: "lan"},
	}
	d := DesiredState(in)
	got := map[string]string{}
	for _, o := range d.State {
		if r, ok := o.(netstate.Route); ok && strings.HasPrefix(r.Dst, "2001:db8:") && r.Dst != "2001:db8::/64" {
			got[r.Dst] = o.Text()
		}
	}
	if diff := cmp.Diff(map[string]string{
		"2001:db8:1::/48": "unicast via 2001:db8:9::1 dev eth0", "2001:db8:2::/48": "unicast via fe80::7 dev eth1",
		"2001:db8:9::/64": "unicast via 2001:db8:a::1 dev eth1", "2001:db8:6::/48": "unicast dev eth1",
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, why := range []string{"route d is left out: gateway 2001:db8:b::1 is on no subnet of port lan (eth1)",
		"route e is left out: gateway 2001:db8:a::2 is on no subnet"} {
		if !strings.Contains(d.Warning, why) {
			t.Errorf("no %q in %q", why, d.Warning)
		}
	}
	for _, want := range []string{`iifname "es1" oifname "eth1" accept`, `oifname "eth1" masquerade`} {
		if !strings.Contains(d.State.String(), want) {
			t.Errorf("no rule %s", want)
		}
	}
	in.Config.MTU = 1279
	if d := DesiredState(in); !strings.Contains(d.Warning, "route a is left out: the network has no IPv6") {
		t.Errorf("without IPv6: %q", d.Warning)
	}
}

// The routes of a port may be of IPv6 alone, or of both, in any order.
func TestTheDefaultRouteOfIPv6(t *testing.T) {
	for want, routes := range map[string][]string{"": {"192.0.2.1"}, "fe80::1": {"inet6"}, "fe80::1 ": {"192.0.2.1", "inet6"},
		"fe80::1  ": {"inet6", "192.0.2.1"}} {
		r, out := leads("wan", 0, nil, routes...).DefaultRoute6()
		if want = strings.TrimSpace(want); out != (want != "") || out && r.Gateway != ip(want) {
			t.Errorf("%q: %v, %v", routes, r, out)
		}
	}
}

// A network without IPv6 uses no port for it.
func TestANetworkWithoutIPv6LeavesByOnePort(t *testing.T) {
	in := input(web())
	lte := leads("lte", 9, []string{"203.0.113.2/24", "2001:db8:9::2/64"}, "203.0.113.1", "inet6")
	in.Ports = append(in.Ports, lte)
	nw, _ := newNetwork(in)
	if nw.port6 == nil || nw.port6.Label != "eth" || len(nw.onlyIPv6()) != 0 {
		t.Errorf("%+v, IPv6 alone by %v", nw.port6, nw.onlyIPv6())
	}
	for id, o := range DesiredState(in).State {
		if strings.Contains(o.Text(), "if-lte") {
			t.Errorf("%s: %s", id, o.Text())
		}
	}
}
