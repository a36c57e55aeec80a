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
	for i := range 3 * burstChecks { // it never ends
		total += 5 * mib
		if got, want := b.over(total), i%burstChecks == burstChecks-1; got != want {
			t.Errorf("look %d at work that goes on: over %v, want %v", i, got, want)
		}
	}
}

func TestTheMemoryLimitLeavesRoomForWhatLives(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, stacks uint64
		want         int64
	}{
		{0, 0, 212 * mib},
		{100 * mib, 50 * mib, 212 * mib},
		{200 * mib, 0, 280 * mib},
		{200 * mib, 90 * mib, 370 * mib},
		{1000 * mib, 100 * mib, 1500 * mib},
	} {
		if got := limit(NodeMemory, c.live, c.stacks); got != c.want {
			t.Errorf("%d octets live and %d of stacks: limit %d, want %d", c.live, c.stacks, got, c.want)
		}
	}
}
