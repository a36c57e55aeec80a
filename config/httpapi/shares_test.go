package httpapi

import "testing"

func TestACallerHasAShareOfAllPlaces(t *testing.T) {
	for places, each := range map[int]int{1: 16, 64: 16, 256: 64, 1024: 256} {
		s := NewShares(places)
		var leave []func()
		for range each {
			done, ok := s.Enter("a")
			if !ok {
				t.Fatalf("of %d places only %d are a caller's: want %d", places, len(leave), each)
			}
			leave = append(leave, done)
		}
		if _, ok := s.Enter("a"); ok {
			t.Errorf("of %d places one caller has more than %d", places, each)
		}
		if _, ok := s.Enter("b"); !ok {
			t.Error("another caller pays for it")
		}
		leave[0]()
		if _, ok := s.Enter("a"); !ok {
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
