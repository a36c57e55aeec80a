package registry

import (
	"net/netip"
	"strings"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// The host state has IPv6 with the first network that has it; forwarding that somebody turns off is turned on again.
func TestTheHostHasIPv6AsItsNetworksDo(t *testing.T) {
	r := New(nil)
	r.Step(OwnersFound{})
	r.Step(HostApplierReady{})
	six := lan(1)
	six.IPv6 = netinst.IPv6Config{Subnet: netip.MustParsePrefix("fd00:1::/64"), Gateway: netip.MustParseAddr("fd00:1::1"),
		Mode: netinst.SLAAC}
	state := func(effs []Effect) string {
		for _, e := range effs {
			a, ok := e.(ApplyHost)
			if !ok {
				continue
			}
			c, has := a.Want[netstate.Chain{Family: netstate.IP6Family, Name: netinst.GuardTable}.ID()].(netstate.Chain)
			_, forwards := a.Want[netstate.Sysctl{Key: netstate.ForwardAll6}.ID()]
			switch {
			case has != forwards:
				return "half"
			case !has:
				return "none"
			case strings.Contains(c.Text(), "meta iifkind \"bridge\" accept\ndrop"):
				return "closed"
			}
			return "open"
		}
		return "no apply"
	}
	r.Step(NetworkDesired{lan(1)})
	for i, c := range []struct {
		event Event
		want  string
	}{
		{ConfigKnown{}, "none"},
		{NetworkDesired{six}, "closed"},
		{NetworkDesired{six}, "no apply"},
		{ForwardingChanged{Forwarding: netstate.Forwarding{All6: true, Opened6: true}}, "no apply"},
		{ForwardingChanged{Forwarding: netstate.Forwarding{Opened6: true}}, "closed"}, // turned off by others
		{HostRetryDue{r.forward.restTok}, "no apply"},
		{NetworkWithdrawn{netA, true}, "none"},
		{NetworkWithdrawn{netA, false}, "closed"},
		{NetworkDesired{lan(1)}, "none"},
	} {
		if got := state(r.Step(c.event)); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
		r.Step(HostApplied{Seq: r.seq})
	}

	by := New(nil)
	by.Step(OwnersFound{})
	by.Step(HostApplierReady{})
	by.Step(NetworkDesired{six})
	by.Step(ForwardingChanged{Forwarding: netstate.Forwarding{All6: true}})
	if got := state(by.Step(ConfigKnown{})); got != "open" {
		t.Errorf("a router: %q", got)
	}
	none := New(nil)
	none.Step(OwnersFound{})
	none.Step(HostApplierReady{})
	none.Step(NetworkDesired{six})
	none.Step(ForwardingChanged{Forwarding: netstate.Forwarding{No6: true}})
	if got := state(none.Step(ConfigKnown{})); got != "none" {
		t.Errorf("a kernel without IPv6: %q", got)
	}
}
