package rest

import "testing"

func TestACallerHasAShareOfAllPlaces(t *testing.T) {
	for places, each := range map[int]int{1: 16, 64: 16, 256: 64, 1024: 256} {
		s := NewShares(places)
		var leave []func()
		for range each {
			if !s.Acquire("a", 1) {
				t.Fatalf("of %d places only %d are a caller's: want %d", places, len(leave), each)
			}
			leave = append(leave, func() { s.Release("a", 1) })
		}
		if s.Acquire("a", 1) {
			t.Errorf("of %d places one caller has more than %d", places, each)
		}
		if !s.Acquire("b", 1) {
			t.Error("another caller pays for it")
		}
		leave[0]()
		if !s.Acquire("a", 1) {
			t.Error("a place that was left is not free")
		}
		for _, done := range leave[1:] {
			done()
		}
		if len(s.of) != 2 {
			t.Errorf("remembers %d callers", len(s.of))
		}
	}
}

// Answers that are not read are held up to a limit, those of one caller up to a quarter of it.
func TestABudgetOfBytes(t *testing.T) {
	b := NewBudget(100)
	for _, c := range []struct {
		caller string
		n      int64
		is     bool
	}{{"ann", 20, true}, {"ann", 6, false}, {"ann", 5, true}, {"bob", 70, true}, {"bob", 1, false}, {"eve", 6, false},
		{"eve", 5, true}, {"ann", 0, true}} {
		if ok := b.Acquire(c.caller, c.n); ok != c.is {
			t.Errorf("%+v: %v", c, ok)
		}
	}
	b.Release("ann", 25)
	b.Release("bob", 70)
	if b.Release("eve", 5); b.all != 0 || len(b.of) != 0 {
		t.Errorf("%+v is held", b.of)
	}
}
