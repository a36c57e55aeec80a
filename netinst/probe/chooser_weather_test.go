package probe

import (
	"net/netip"
	"testing"
	"time"
)

// restart replaces the chooser by one that knows what was journalled.
func (w *town) restart(now time.Time) {
	w.c, w.now, w.timers = New(w.record), now, map[uint64]time.Time{}
	w.step(Configured{Selectors: []string{"uplink"}, At: now})
	w.see()
}

// A node without a battery for its clock begins each boot in the past; and a clock that was far ahead is corrected.
func TestAClockThatWasAheadHoldsNoPortForLonger(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, 50 * 365 * 24 * time.Hour} {
		w := newTown(t, Config{})
		w.seconds(20)
		w.ports["wan"].Reach = Down
		w.see()
		w.ports["wan"].Reach = Out
		w.see()
		w.seconds(1)
		w.pass(journalEvery)
		w.uses("lte", "wan is held")
		w.restart(w.now.Add(-ahead))
		w.uses("lte", "after a restart in the past")
		w.seconds(int(DefaultHold/time.Second) + 1)
		w.uses("wan", "its hold-down by the clock of today")
		w.ports["wan"].Reach = Down
		w.see()
		if last := w.record.Holds["wan"].Last; last.After(w.now) {
			t.Errorf("failed last at %v, after %v", last, w.now)
		}
	}
}

func TestAConfigThatChangesForgetsNoOutcome(t *testing.T) {
	w := newTown(t, Config{MaxLoss: 20})
	w.seconds(40)
	w.losesHalf("wan")
	w.uses("lte", "wan loses half")
	w.moves = 0
	w.step(Configured{Config: Config{MaxLoss: 25}, Selectors: []string{"uplink"}, At: w.now})
	w.uses("lte", "wan loses half, which another limit forbids as well")
	w.step(Configured{Config: Config{MaxLoss: 80}, Selectors: []string{"uplink"}, At: w.now})
	w.uses("wan", "the limit allows it")
	w.seconds(4, "lte far")
	w.seconds(4, "wan far")
	w.step(Configured{Config: Config{FailAfter: 3}, Selectors: []string{"uplink"}, At: w.now})
	w.uses("lte", "four failures in a row are too many now")
}

func TestANetworkThatLosesItsPortNeedsNoProbes(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	w.step(Configured{At: w.now})
	if len(w.watch) > 0 || w.choice.Port != "" || len(w.record.Chosen) > 0 {
		t.Errorf("%v, %+v, %+v", w.watch, w.choice, w.record)
	}
	none := New(Record{})
	if out := append(none.Step(Configured{At: w.now}), none.Step(PortsSeen{At: w.now})...); len(out) > 0 {
		t.Errorf("an air-gapped network wants %v", out)
	}
}

// A DHCP server may name its DNS servers in any order.
func TestTheOrderOfServersRevivesNoPort(t *testing.T) {
	w := newTown(t, Config{})
	servers := []netip.Addr{}
	for _, s := range []string{"198.51.100.1", "198.51.100.2", "198.51.100.3"} {
		servers = append(servers, netip.MustParseAddr(s))
	}
	w.ports["wan"].Servers = servers
	w.see()
	w.seconds(20)
	w.seconds(8, "wan far")
	w.uses("lte", "wan's far side is dead")
	w.moves = 0
	for i := range 30 {
		w.ports["wan"].Servers = []netip.Addr{servers[i%3], servers[(i+1)%3], servers[(i+2)%3]}
		w.see()
		w.seconds(1, "wan far")
	}
	if w.moves > 0 {
		t.Errorf("%d moves", w.moves)
	}
}
