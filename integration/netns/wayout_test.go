package netns_test

import (
	"strings"
	"testing"
)

// TestEachDefaultRouteIsObservedAsDesired checks law 11 for default routes of every form, and that one form replaces
// another.
func TestEachDefaultRouteIsObservedAsDesired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ns.Exec(t, "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "far1")
	l.ns.Exec(t, "ip", "link", "set", "eth1", "up")
	l.ns.Exec(t, "ip", "link", "set", "far1", "up")
	doc := "ports:\n" + wanDoc + "networkInstances:\n  " + owner(1).Name + ": {ipv4: {subnet: 10.1.0.0/24}}\n"
	before := desiredStates{}
	for _, c := range []struct{ do, want string }{
		{"", "default via 192.0.2.1 dev eth0 proto 101"},
		{"ip route replace default dev eth0", "default dev eth0 proto 101 scope link"},
		{"ip -4 route replace default via inet6 fe80::1 dev eth0", "default via inet6 fe80::1 dev eth0 proto 101"},
		{"ip route replace default nexthop via 192.0.2.7 dev eth0 nexthop dev eth1",
			"default via 192.0.2.7 dev eth0 proto 101"},
		{"ip route replace default via 203.0.113.1 dev eth0 onlink", "default via 203.0.113.1 dev eth0 proto 101 onlink"},
		{"ip addr del 192.0.2.2/24 dev eth0; ip addr add 192.0.2.2/32 dev eth0; ip route replace default via 192.0.2.1 dev " +
			"eth0 onlink", "default via 192.0.2.1 dev eth0 proto 101 onlink"},
		{"ip addr add 192.0.2.3/24 dev eth0; ip route replace default via 192.0.2.1 dev eth0",
			"default via 192.0.2.1 dev eth0 proto 101"},
	} {
		if c.do != "" {
			l.ns.Exec(t, "sh", "-ec", c.do)
		}
		want := l.desiredStates(doc, before)
		l.turn(before, want)
		before = want
		if got := strings.TrimSpace(l.ns.Exec(t, "ip", "route", "show", "default", "table", "20001", "type",
			"unicast")); got != c.want {
			t.Errorf("after %q the route is %q, want %q", c.do, got, c.want)
		}
	}
}

// TestTheRuleOfAPortsGatewayIsObservedAsDesired checks law 11 for the rule of an interface.
func TestTheRuleOfAPortsGatewayIsObservedAsDesired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	doc := "ports:\n" + strings.Replace(wanDoc, "uplink: true", "uplink: true, gateway: 192.0.2.7", 1) +
		"networkInstances:\n  " + owner(1).Name + ": {ipv4: {subnet: 10.1.0.0/24}}\n"
	by := l.desiredStates(doc, desiredStates{})
	l.turn(desiredStates{}, by)
	rules := func() string { return l.ns.Exec(t, "ip", "rule", "show", "priority", "22001") }
	const want = "22001:\tfrom all oif eth0 dport 53 lookup 20001 proto 101\n"
	if got := rules(); got != want {
		t.Errorf("the rule is %q, want %q", got, want)
	}
	// A crash in the middle of a change, or another program, left other rules of the same priority.
	for _, more := range []string{"oif eth0 dport 53-54 lookup 20001", "oif eth1 dport 53 lookup 20001"} {
		l.ns.Exec(t, strings.Fields("ip rule add priority 22001 protocol 101 "+more)...)
		l.turn(by, by)
		if got := rules(); got != want {
			t.Errorf("beside %q the rules are %q, want %q", more, got, want)
		}
	}
	l.turn(by, l.desiredStates(strings.Replace(doc, ", gateway: 192.0.2.7", "", 1), by))
	if got := rules(); got != "" {
		t.Errorf("the rule stays: %q", got)
	}
}
