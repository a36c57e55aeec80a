package netinst

import (
	"fmt"
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
			a.Config.UnderlayConfig.MaxFlows = rapid.SampledFrom([]int{0, 16, 1000, 1000000}).Draw(t, "maxFlows")
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

// A change of rules leaves the counting chain unchanged; a changed limit is written.
func TestTheBoundOfFlowsStandsApart(t *testing.T) {
	at := func(in Input) netstate.State { return DesiredState(in).State }
	in := input(adapter(appA, 0, 1, "10.1.0.128", "a", ACLRule{Direction: Egress, Action: Allow}))
	before := at(in)
	bound := chainID(tableFilter, "ES1-1L")
	in.Adapters[0].Config.UnderlayConfig.ACL = []ACLRule{{Direction: Both, Action: Allow}}
	for _, op := range netstate.Diff(before, at(in)) {
		for _, it := range op.Items {
			if it.ID() == bound {
				t.Error("a changed rule has its counter written anew")
			}
		}
	}
	for _, x := range []struct{ config, table, sharers, want int }{{0, 0, 0, 8192}, {100, 0, 0, 100},
		{100000, 1 << 20, 0, 32768}, {0, 65536, 64, 512}} {
		in.Adapters[0].Config.UnderlayConfig.MaxFlows, in.MaxTracked, in.Config.Sharers = x.config, x.table, x.sharers
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
		in.Adapters[0].Config.UnderlayConfig.MaxFlows = x.flows
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
			c, is := o.(netstate.Chain)
			if !is || c.Table != tableFilter || !ofAdapter(c.Name) || strings.HasSuffix(c.Name, "-1A") ||
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

func TestOnlyBoundsAreCounted(t *testing.T) {
	s := netstate.State{}
	for _, name := range []string{"ES1-1L", "ES1-12L", "ES1-1E", "ES1-1A", "ES1-POOL"} {
		s.Add(netstate.Chain{Family: netstate.IPv4, Table: tableFilter, Name: name})
	}
	s.Add(netstate.Link{Name: "es1-1L"})
	if got := fmt.Sprint(CountingChains(s)); got != "[chain ipv4/filter/ES1-12L chain ipv4/filter/ES1-1L]" {
		t.Errorf("%s", got)
	}
}
