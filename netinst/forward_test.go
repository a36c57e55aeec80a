package netinst

import (
	"fmt"
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
		return HostPort{IfName: name, Opened: true, Beside: beside}
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
		if got := hostPorts(c.config, ports, c.f); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// The ground is applied anew when a port is to be opened, at most once a second for whatever
// others do to it, and for no link that is none of ours.
func TestForwardingIsTakenUpWithARest(t *testing.T) {
	r := NewRegistry(nil)
	port := []PortConfig{{Label: "wan", IfName: "eth0", Uplink: true}}
	on := netstate.Forwarding{On: []string{"eth0"}, Opened: []string{"eth0"}}
	off := netstate.Forwarding{Off: []string{"eth0"}, Opened: []string{"eth0"}}
	all := netstate.Forwarding{All: true, On: []string{"eth0"}, Opened: []string{"eth0"}}
	say := func(effs []RegistryEffect) string {
		var out []string
		for _, e := range effs {
			switch e := e.(type) {
			case ApplyHost:
				chain := e.Want[netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/" + RootForward}].Text()
				out = append(out, fmt.Sprint("apply, closed: ", strings.Contains(chain, "-i eth0")))
				r.Step(HostApplied{Seq: e.Seq})
			case HostRetry:
				out = append(out, fmt.Sprint("timer ", e.After))
			}
		}
		return strings.Join(out, ", ")
	}
	for _, e := range []RegistryEvent{OwnersFound{}, HostApplierReady{}, NetworkWanted{testNetwork(1)},
		ForwardingChanged{off, port}, ConfigKnown{}} {
		say(r.Step(e))
	}
	rest := func() RegistryEvent { return HostRetryDue{r.forward.restTok} }
	say(r.Step(rest()))
	for i, c := range []struct {
		event RegistryEvent
		want  string
	}{
		{ForwardingChanged{on, port}, ""},
		{ForwardingChanged{netstate.Forwarding{On: on.On, Off: []string{"br1", "br2"}, Opened: on.Opened}, port}, ""},
		{ForwardingChanged{off, port}, "timer 1s, apply, closed: true"},
		{ForwardingChanged{on, port}, ""},
		{ForwardingChanged{off, port}, ""},
		{ForwardingChanged{on, port}, ""},
		{rest(), ""},
	} {
		if i == 6 {
			c.event, c.want = rest(), "apply, closed: true"
		}
		before := r.token
		if got := say(r.Step(c.event)); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
		if waits := i == 4 || i == 5; r.Settled() == waits {
			t.Errorf("%d: settled %v, while a change waits for the end of the rest: %v", i, r.Settled(), waits)
		}
		if rest := r.forward.restTok; r.token != before && rest != 0 && rest <= before {
			t.Errorf("%d: the rest's timer %d comes after %d", i, rest, before)
		}
	}
	if got := say(r.Step(ForwardingChanged{all, port})); got != "timer 1s, apply, closed: false" {
		t.Errorf("the host forwards by itself: %q", got)
	}
}

// A link is opened only behind the rules that close it for others, and closed before they go;
// the switch of all links goes just before its successors.
func TestForwardingIsNeverOpenerThanItsRules(t *testing.T) {
	state := func(ports ...HostPort) netstate.State {
		return HostState([]HostNetwork{{Number: 1, Subnet: prefix("10.1.0.0/24"), Ports: ports}})
	}
	order := func(have, want netstate.State) string {
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
		{order(state(), state(eth0)), "change chains, add net/ipv4/conf/eth0/forwarding"},
		{order(state(eth0), state()), "remove net/ipv4/conf/eth0/forwarding, change chains"},
		{order(state(eth0), netstate.State{}), "remove net/ipv4/conf/eth0/forwarding, remove chains"},
		{order(former, state(eth0)), "change chains, remove net/ipv4/ip_forward, add net/ipv4/conf/eth0/forwarding"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// A link of others may have any name: one that a rule could not spell stays closed, and breaks none.
func TestOddNamesOfLinksReachNoRule(t *testing.T) {
	f := netstate.Forwarding{On: []string{"+", "a\"b", "lan+", "!", "lan0", "eth0.5"}, Off: []string{"eth0"}}
	if got := beside(f); !slices.Equal(got, []string{"lan0", "eth0.5"}) {
		t.Errorf("links beside: %q", got)
	}
}

func TestARegistryHasSettledOnlyWhileNothingIsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Registry)
		settled bool
	}{
		"nothing is under way":    {func(*Registry) {}, true},
		"the host is not known":   {func(r *Registry) { r.found = false }, false},
		"an apply is under way":   {func(r *Registry) { r.flying = true }, false},
		"an apply is to begin":    {func(r *Registry) { r.dirty = true }, false},
		"a change waits":          {func(r *Registry) { r.forward.again = true }, false},
		"what failed is to retry": {func(r *Registry) { r.backoff = hostRetries.First }, false},
	} {
		r := Registry{found: true}
		c.change(&r)
		if got := r.Settled(); got != c.settled {
			t.Errorf("%s: settled %v", name, got)
		}
	}
}
