package netinst

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

func TestPortsThatForward(t *testing.T) {
	ports := []PortConfig{
		{Label: "lte", IfName: "wwan0", Uplink: true, Cost: 9}, {Label: "shop", IfName: "lan0"},
		{Label: "wan", IfName: "eth0", Uplink: true},
	}
	local := func(port string, routes ...StaticRoute) NetworkInstanceConfig {
		return NetworkInstanceConfig{Type: Local, Port: port, Routes: routes}
	}
	opened := func(name string, beside ...string) HostPort {
		return HostPort{IfName: name, Opened: true, HostForwards: beside}
	}
	for name, c := range map[string]struct {
		config NetworkInstanceConfig
		f      netstate.Forwarding
		want   []HostPort
	}{
		"nothing exists": {local("uplink"), netstate.Forwarding{}, nil},
		"every port that it may use": {local("uplink"), netstate.Forwarding{Off: []string{"eth0", "lan0", "wwan0"}},
			[]HostPort{opened("wwan0"), opened("eth0")}},
		"opened before": {local("wan"), netstate.Forwarding{On: []string{"eth0"},
			Off: []string{"lan0"}, Opened: []string{"eth0"}}, []HostPort{opened("eth0")}},
		"the host forwards by it": {local("wan"),
			netstate.Forwarding{On: []string{"eth0"}, Off: []string{"lan0"}}, []HostPort{{IfName: "eth0"}}},
		"the host forwards by all": {local("wan"), netstate.Forwarding{All: true,
			On: []string{"eth0", "lan0"}, Opened: []string{"eth0"}}, []HostPort{{IfName: "eth0"}}},
		"the host forwards by all, not by it": {local("wan"),
			netstate.Forwarding{All: true, On: []string{"lan0"}, Off: []string{"eth0"}}, []HostPort{{IfName: "eth0"}}},
		"the host opened another": {local("wan"), netstate.Forwarding{On: []string{"eth0", "lan0"},
			Opened: []string{"eth0"}}, []HostPort{opened("eth0", "lan0")}},
		"two that we opened": {local("uplink"), netstate.Forwarding{On: []string{"eth0", "wwan0"},
			Opened: []string{"eth0", "wwan0"}}, []HostPort{opened("wwan0"), opened("eth0")}},
		"a route's": {local("wan", StaticRoute{Port: "shop"}),
			netstate.Forwarding{Off: []string{"eth0", "lan0"}}, []HostPort{opened("lan0"), opened("eth0")}},
		"air-gapped": {local(""), netstate.Forwarding{Off: []string{"eth0"}}, nil},
		"a switch network forwards nothing": {NetworkInstanceConfig{Type: Switch, Port: "wan"},
			netstate.Forwarding{Off: []string{"eth0"}}, nil},
		"what was opened and that others shut": {local("wan"),
			netstate.Forwarding{Off: []string{"eth0"}, Opened: []string{"eth0"}}, []HostPort{opened("eth0")}},
	} {
		if got := HostPorts(c.config, ports, c.f); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A link is opened only after the rules that close it for others exist, and closed before they are removed; the switch
// for all links changes just before the switches of single links.
func TestForwardingIsNeverOpenerThanItsRules(t *testing.T) {
	state := func(ports ...HostPort) netstate.State {
		return HostState([]HostNetwork{{Number: 1, Subnet: prefix("10.1.0.0/24"), Ports: ports}})
	}
	request := func(have, want netstate.State) string {
		var ops []string
		for _, op := range netstate.Diff(have, want) {
			name := "chains"
			if op.Kind == netstate.KindSysctl {
				name = op.Items[0].ID().Name
			}
			ops = append(ops, string(op.Verb)+" "+name)
		}
		return strings.Join(ops, ", ")
	}
	eth0 := HostPort{IfName: "eth0", Opened: true}
	former := state()
	former.Add(netstate.Sysctl{Key: netstate.ForwardAll, Value: "1"})
	for _, c := range []struct{ got, want string }{
		{request(state(), state(eth0)), "change chains, add net/ipv4/conf/eth0/forwarding"},
		{request(state(eth0), state()), "remove net/ipv4/conf/eth0/forwarding, change chains"},
		{request(state(eth0), netstate.State{}), "remove net/ipv4/conf/eth0/forwarding, remove chains"},
		{request(former, state(eth0)), "change chains, remove net/ipv4/ip_forward, add net/ipv4/conf/eth0/forwarding"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// A foreign link may have any name: one that a rule could not contain stays closed, and breaks none.
func TestOddNamesOfLinksReachNoRule(t *testing.T) {
	f := netstate.Forwarding{On: []string{"+", "a\"b", "lan+", "!", "lan0", "eth0.5"}, Off: []string{"eth0"}}
	if got := hostForwardingLinks(f); !slices.Equal(got, []string{"lan0", "eth0.5"}) {
		t.Errorf("links beside: %q", got)
	}
}

// TCP connections are told of the smallest MTU that their network knows, and only of one that is smaller than apps may
// expect.
func TestSegmentsFitTheWay(t *testing.T) {
	const four, six = "meta nfproto ipv4 tcp option maxseg size set ", "meta nfproto ipv6 tcp option maxseg size set "
	for name, c := range map[string]struct {
		network, port int
		six           bool
		want          []string
	}{
		"as everywhere":              {0, 1500, true, nil},
		"a larger port":              {1500, 9000, false, nil},
		"all is large":               {0, 9000, false, nil},
		"the port's":                 {0, 1280, false, []string{four + "1240"}},
		"the network's own":          {1400, 1500, true, []string{four + "1360", six + "1340"}},
		"a port of unknown MTU":      {9000, 0, false, nil},
		"a port behind a larger one": {9000, 1500, false, []string{`iifname "eth0" ` + four + "1460", `oifname "eth0" ` + four + "1460"}},
		"a small port": {1500, 1280, true, []string{`iifname "eth0" ` + four + "1240", `iifname "eth0" ` + six + "1220",
			`oifname "eth0" ` + four + "1240", `oifname "eth0" ` + six + "1220"}},
	} {
		in := input()
		in.Ports[0].MTU, in.Ports[0].LinkMTU, in.Config.MTU = 0, c.port, c.network
		if c.six {
			in.Config.IPv6 = IPv6Config{Subnet: prefix("2001:db8:7:1::/64"), Gateway: ip("2001:db8:7:1::1"), Mode: SLAAC}
		}
		o, _ := DesiredState(in).State[netstate.ID{Kind: netstate.KindChain, Name: "inet/edgespan/ES1-SIZE"}].(netstate.Chain)
		if !slices.Equal(o.Rules, c.want) {
			t.Errorf("%s: %q, want %q", name, o.Rules, c.want)
		}
	}
}
