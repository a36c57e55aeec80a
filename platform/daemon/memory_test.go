package daemon

import "testing"

func TestMemoryIsGivenBackOnceAfterABurst(t *testing.T) {
	var b burst
	var total uint64
	const kib, mib = 1 << 10, 1 << 20
	for i, c := range []struct {
		allocated uint64 // since the last look
		over      bool
	}{
		{0, false},
		{3 * mib, false},
		{kib, false}, // too little to be worth it
		{10 * mib, false},
		{2 * mib, false},
		{kib, true},
		{kib, false}, // it goes on, ends, and is told once
		{800 * kib, false},
		{800 * kib, false},
		{800 * kib, false},
		{800 * kib, false},
		{800 * kib, false},
		{800 * kib, true}, // what trickles adds up
		{5 * mib, false},
		{0, true},
	} {
		total += c.allocated
		if got := b.over(total); got != c.over {
			t.Errorf("look %d: over %v, want %v", i, got, c.over)
		}
	}
	for i := range 3 * burstLooks { // it never ends
		total += 5 * mib
		if got, want := b.over(total), i%burstLooks == burstLooks-1; got != want {
			t.Errorf("look %d at work that goes on: over %v, want %v", i, got, want)
		}
	}
}

func TestTheMemoryLimitLeavesRoomForWhatLives(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int64{0: 212 * mib, 100 * mib: 212 * mib, 200 * mib: 280 * mib, 1000 * mib: 1400 * mib} {
		if got := limit(live); got != want {
			t.Errorf("%d octets live: limit %d, want %d", live, got, want)
		}
	}
}
