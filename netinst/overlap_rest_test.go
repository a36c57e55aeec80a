package netinst

import (
	"fmt"
	"testing"
	"time"

	"edgespan/netinst/netstate"
)

// Who hands the uplink an address of a network's subnet again and again, as a DHCP server may, has
// the network come and go ever more seldom.
func TestAClashThatComesAgainRestsLonger(t *testing.T) {
	free := SubnetOverlap{Subnet: prefix("10.1.0.0/24")}
	clash := free
	clash.Clash = "10.1.0.77/24 on eth0"
	m := NewManager(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
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
	step(TimerDue{Token: old.Token}) // it counts no more
	round()
	step(TimerDue{Token: calm.Token})
	round()
	if got, want := fmt.Sprint(rests), "[1s 2s 4s 8s 16s 32s 1m0s 1m0s 1m0s 1m0s 1s]"; got != want {
		t.Errorf("it rests %s, want %s", got, want)
	}
}
