package manager

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
)

// If the uplink gets an address in a network's subnet again and again, as a DHCP server can cause, the network comes
// and goes ever more rarely.
func TestAClashThatComesAgainRestsLonger(t *testing.T) {
	free := overlap.Overlap{Subnet: netip.MustParsePrefix("10.1.0.0/24")}
	clash := free
	clash.Clash = "10.1.0.77/24 on eth0"
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	for _, s := range begun() {
		m.Step(s.event)
	}
	n := uint64(1)
	step := func(e Event) (timers []Timer) {
		effs := m.Step(e)
		for _, x := range effs {
			switch x := x.(type) {
			case Timer:
				timers = append(timers, x)
			case Apply:
				n = x.Seq.N
				m.Step(applied(n))
			}
		}
		return timers
	}
	step(OverlapChanged{free})
	var rests []time.Duration
	var calm Timer
	round := func() {
		t.Helper()
		step(OverlapChanged{clash})
		before := n
		ends := step(OverlapChanged{free})
		if len(ends) != 1 {
			t.Fatalf("timers %v at the end of a clash", ends)
		}
		rests = append(rests, ends[0].After)
		after := step(TimerDue{Token: ends[0].Token})
		if n != before+1 {
			t.Fatalf("apply %d after the rest, before it was %d", n, before)
		}
		for _, x := range after {
			if x.After == overlapCalm {
				calm = x
			}
		}
	}
	for range 8 {
		round()
	}
	old := calm
	round()
	step(TimerDue{Token: old.Token}) // it no longer counts
	round()
	step(TimerDue{Token: calm.Token})
	round()
	if got, want := fmt.Sprint(rests), "[1s 2s 4s 8s 16s 32s 1m0s 1m0s 1m0s 1m0s 1s]"; got != want {
		t.Errorf("it rests %s, want %s", got, want)
	}
}

func TestManagerWithdraws(t *testing.T) {
	free := overlap.Overlap{Subnet: netip.MustParsePrefix("10.1.0.0/24")}
	clash, hidden := free, free
	clash.Clash, hidden.Hidden = "10.1.0.77/24 on eth0", "route 10.1.0.0/16 via 192.0.2.1 on eth0"
	other := overlap.Overlap{Subnet: netip.MustParsePrefix("10.2.0.0/24")}
	moved := testNetwork(2)
	moved.IPv4 = netinst.IPv4Config{Subnet: other.Subnet, Gateway: netip.MustParseAddr("10.2.0.1"),
		DHCPFirst: netip.MustParseAddr("10.2.0.128"),
		DHCPLast:  netip.MustParseAddr("10.2.0.254")}
	const away = "ni WaitingForDependencies (subnet 10.1.0.0/24 overlaps 10.1.0.77/24 on eth0)"
	for name, steps := range map[string][]managerStep{
		"a clash counts at once, its end after a rest": {
			{OverlapChanged{clash}, "apply#2 something"},
			{applied(2), away},
			{OverlapChanged{free}, ""},
			{TimerDue{Token: 5}, "apply#3 something"},
			{applied(3), "ni Present"},
		},
		"an address that comes and goes costs nothing": {
			{OverlapChanged{clash}, "apply#2 something"},
			{applied(2), away},
			{OverlapChanged{free}, ""},
			{OverlapChanged{clash}, "apply#3 something"},
			{TimerDue{Token: 5}, ""},
			{applied(3), ""},
		},
		"another change meanwhile does not bring it back": {
			{OverlapChanged{clash}, "apply#2 something"},
			{applied(2), away},
			{OverlapChanged{free}, ""},
			{AdapterChanged{testAdapter(appW, 1, true)}, "apply#3 something"},
			{applied(3), `adapter app1#0 v1 activated=true (network instance "lan" is withdrawn: subnet 10.1.0.0/24 ` +
				`overlaps 10.1.0.77/24 on eth0)`},
		},
		"a new subnet is applied once it was compared": {
			{OverlapChanged{clash}, "apply#2 something"},
			{applied(2), away},
			{ConfigChanged{Config: moved}, ""},
			{OverlapChanged{other}, "apply#3 something"},
			{applied(3), "ni Present"},
		},
		"a route by a gateway is a warning": {
			{OverlapChanged{hidden}, "apply#2 something"},
			{applied(2), "ni Present [subnet 10.1.0.0/24 hides a part of route 10.1.0.0/16 via 192.0.2.1 on eth0]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
			for i, s := range append(begun(managerStep{OverlapChanged{free}, "apply#2 something"}, managerStep{applied(2), ""}),
				shifted(steps)...) {
				if got := text(m.Step(s.event)); got != s.want {
					t.Fatalf("step %d, %T: %q, want %q", i, s.event, got, s.want)
				}
			}
		})
	}
}

// shifted increments the apply numbers in steps by one.
func shifted(steps []managerStep) []managerStep {
	var out []managerStep
	for _, s := range steps {
		if a, ok := s.event.(Applied); ok {
			a.Seq.N++
			s.event = a
		}
		for n := 3; n >= 2; n-- {
			s.want = strings.ReplaceAll(s.want, fmt.Sprintf("apply#%d", n), fmt.Sprintf("apply#%d", n+1))
		}
		out = append(out, s)
	}
	return out
}
