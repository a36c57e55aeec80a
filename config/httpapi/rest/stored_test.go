package rest

import (
	"testing"
	"time"
)

// A config of 8 MB that a program writes each minute never waits, nor does one that is written seven times at once.
func TestOrdinaryWritesAreStored(t *testing.T) {
	t.Parallel()
	b, now := NewStored(), time.Unix(1<<30, 0)
	for n := range 24 * 60 {
		size := 17 << 19 // 8.5 MiB
		for range map[bool]int{true: 7, false: 1}[n == 0] {
			if wait := b.AllowN("ci", now, size); wait > 0 {
				t.Fatalf("minute %d: waits %v", n, wait)
			}
		}
		now = now.Add(time.Minute)
	}
	total := 0
	for range 3600 { // a caller that never stops
		if b.AllowN("eve", now, 7<<20) == 0 {
			total += 7 << 20
		}
		now = now.Add(time.Second)
	}
	if total > 1<<30 {
		t.Errorf("%d MB in an hour", total/(1<<20))
	}
}
