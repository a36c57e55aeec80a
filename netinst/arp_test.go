package netinst

import (
	"net/netip"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// The guard names the gateways that are the node's; that of a withdrawn network may be the host's.
func TestTheARPGuardNamesTheGatewaysOfNetworks(t *testing.T) {
	r := NewRegistry(nil)
	second := testNetwork(1)
	second.UUID = appX
	second.IPv4.Subnet, second.IPv4.Gateway = netip.MustParsePrefix("10.2.0.0/24"), ip("10.2.0.1")
	for _, e := range []RegistryEvent{OwnersFound{}, HostApplierReady{}, NetworkWanted{testNetwork(1)},
		NetworkWanted{second}} {
		r.Step(e)
	}
	for i, c := range []struct {
		event RegistryEvent
		want  string
	}{
		{ConfigKnown{}, "{ 10.1.0.1, 10.2.0.1 }\n{ \"es1\", \"es2\" }\n"},
		{NetworkWithdrawn{niA, true}, "{ 10.2.0.1 }\n{ \"es2\" }\n"},
		{NetworkWithdrawn{appX, true}, ""},
	} {
		got := ""
		for _, e := range r.Step(c.event) {
			if a, is := e.(ApplyHost); is {
				if g, is := a.Want[netstate.Chain{Family: netstate.ARPFamily, Name: GuardTable}.ID()]; is {
					for line := range strings.Lines(g.Text()) {
						if list, is := strings.CutPrefix(line, "elements = "); is {
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

// A set without elements has no line for them: nft refuses an empty one.
func TestASetWithoutElements(t *testing.T) {
	if got := strings.Join(nftSet("links", "type ifname;", nil), " "); got != "set links { type ifname; }" {
		t.Errorf("%q", got)
	}
	if got := strings.Join(nftSet("links", "type ifname;", []string{"a", "b"}),
		" "); got != "set links { type ifname; elements = { a, b } }" {
		t.Errorf("%q", got)
	}
}
