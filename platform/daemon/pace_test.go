package daemon

import "testing"

func TestTheCollectorIsPacedByWhatIsAllocated(t *testing.T) {
	const busy = 8 << 20
	p := pace{from: busy}
	allocs := uint64(0)
	check := func(when string, bytes uint64, want bool) {
		t.Helper()
		allocs += bytes
		if got := p.isBusy(allocs); got != want {
			t.Errorf("%s: busy %v", when, got)
		}
	}
	check("little at the start", busy-1, false)
	check("much", busy, true)
	for range paceRest - 1 {
		check("it may go on", 0, true)
	}
	check("it has ended", busy-1, false)
	check("it begins anew", 3*busy, true)
	check("and goes on", busy, true)
	for range paceRest - 1 {
		check("again", 1, true)
	}
	check("ended again", 1, false)
}
