package registry

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

func TestOthersReachNeighboursInAWithdrawnSubnet(t *testing.T) {
	r := New(nil)
	r.Step(OwnersFound{})
	r.Step(HostApplierReady{})
	r.Step(NetworkDesired{lan(1)})
	drops := func(effs []Effect) string {
		for _, e := range effs {
			if a, ok := e.(ApplyHost); ok {
				return strings.Join(guardSubnets(a.Want), ", ")
			}
		}
		return "no apply"
	}
	for i, c := range []struct {
		event Event
		want  string
	}{
		{ConfigKnown{}, "10.1.0.0/24"},
		{NetworkWithdrawn{netA, true}, ""},
		{NetworkWithdrawn{netA, true}, "no apply"},
		{NetworkWithdrawn{netA, false}, "10.1.0.0/24"},
	} {
		if got := drops(r.Step(c.event)); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
		r.Step(HostApplied{Seq: r.seq})
	}
}

// The guard names the gateways that belong to the node; that of a withdrawn network may be the host's.
func TestTheARPGuardNamesTheGatewaysOfNetworks(t *testing.T) {
	r := New(nil)
	second := lan(1)
	second.UUID = netB
	second.IPv4.Subnet, second.IPv4.Gateway = netip.MustParsePrefix("10.2.0.0/24"), netip.MustParseAddr("10.2.0.1")
	for _, e := range []Event{OwnersFound{}, HostApplierReady{}, NetworkDesired{lan(1)},
		NetworkDesired{second}} {
		r.Step(e)
	}
	for i, c := range []struct {
		event Event
		want  string
	}{
		{ConfigKnown{}, "{ 10.1.0.1, 10.2.0.1 }\n{ \"es1\", \"es2\" }\n"},
		{NetworkWithdrawn{netA, true}, "{ 10.2.0.1 }\n{ \"es2\" }\n"},
		{NetworkWithdrawn{netB, true}, ""},
	} {
		got := ""
		for _, e := range r.Step(c.event) {
			if a, ok := e.(ApplyHost); ok {
				if g, ok := a.Want[netstate.Chain{Family: netstate.ARPFamily, Name: netinst.GuardTable}.ID()]; ok {
					for line := range strings.Lines(g.Text()) {
						if list, ok := strings.CutPrefix(line, "elements = "); ok {
							got += list
						}
					}
				}
				r.Step(HostApplied{Seq: a.Seq})
			}
		}
		if got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}

// The host state is reapplied when a port is to be opened, at most once a second for external changes of it, and not
// for foreign links.
func TestForwardingIsTakenUpWithARest(t *testing.T) {
	r := New(nil)
	port := []netinst.PortConfig{{Label: "wan", IfName: "eth0", Uplink: true}}
	on := netstate.Forwarding{On: []string{"eth0"}, Opened: []string{"eth0"}}
	off := netstate.Forwarding{Off: []string{"eth0"}, Opened: []string{"eth0"}}
	all := netstate.Forwarding{All: true, On: []string{"eth0"}, Opened: []string{"eth0"}}
	say := func(effs []Effect) string {
		var out []string
		for _, e := range effs {
			switch e := e.(type) {
			case ApplyHost:
				chain := e.Want[netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/" + netinst.RootForward}].Text()
				out = append(out, fmt.Sprint("apply, closed: ", strings.Contains(chain, "-i eth0")))
				r.Step(HostApplied{Seq: e.Seq})
			case HostRetry:
				out = append(out, fmt.Sprint("timer ", e.After))
			}
		}
		return strings.Join(out, ", ")
	}
	for _, e := range []Event{OwnersFound{}, HostApplierReady{}, NetworkDesired{lan(1)},
		ForwardingChanged{off, port}, ConfigKnown{}} {
		say(r.Step(e))
	}
	rest := func() Event { return HostRetryDue{r.forward.restTok} }
	say(r.Step(rest()))
	for i, c := range []struct {
		event Event
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
		if waits := i == 4 || i == 5; r.IsSettled() == waits {
			t.Errorf("%d: settled %v, while a change waits for the end of the rest: %v", i, r.IsSettled(), waits)
		}
		if rest := r.forward.restTok; r.token != before && rest != 0 && rest <= before {
			t.Errorf("%d: the rest's timer %d comes after %d", i, rest, before)
		}
	}
	if got := say(r.Step(ForwardingChanged{all, port})); got != "timer 1s, apply, closed: false" {
		t.Errorf("the host forwards by itself: %q", got)
	}
}

func TestARegistryHasSettledOnlyWhileNothingIsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Registry)
		settled bool
	}{
		"nothing is under way":    {func(*Registry) {}, true},
		"the host is not known":   {func(r *Registry) { r.found = false }, false},
		"an apply is under way":   {func(r *Registry) { r.inFlight = true }, false},
		"an apply is to begin":    {func(r *Registry) { r.dirty = true }, false},
		"a change waits":          {func(r *Registry) { r.forward.changedInRest = true }, false},
		"what failed is to retry": {func(r *Registry) { r.backoff = hostRetries.First }, false},
	} {
		r := Registry{found: true}
		c.change(&r)
		if got := r.IsSettled(); got != c.settled {
			t.Errorf("%s: settled %v", name, got)
		}
	}
}
