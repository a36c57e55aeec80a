package rest

import (
	"fmt"
	"testing"
	"time"
)

func TestBucketsAreBounded(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := NewBuckets(1, 2)
	for i := range 3 * maxBuckets {
		b.Take(fmt.Sprint(i), now)
	}
	if len(b.have) > maxBuckets {
		t.Errorf("%d are remembered", len(b.have))
	}
	b = NewBuckets(1, 2)
	b.Take("busy", now)
	b.Take("busy", now)
	for i := range maxBuckets - 1 {
		b.Take(fmt.Sprint(i), now.Add(-time.Hour))
	}
	if b.Take("new", now); b.Take("busy", now) == 0 {
		t.Error("one who has nothing left is forgotten while others are full")
	}
}

// A config of 8 MB that a program writes each minute never waits, nor does one that is written anew seven times at
// once.
func TestOrdinaryWritesAreStored(t *testing.T) {
	t.Parallel()
	b, now := NewStored(), time.Unix(1<<30, 0)
	for n := range 24 * 60 {
		size := 8.5 * (1 << 20)
		for range map[bool]int{true: 7, false: 1}[n == 0] {
			if wait := b.Spend("ci", now, size); wait > 0 {
				t.Fatalf("minute %d: waits %v", n, wait)
			}
		}
		now = now.Add(time.Minute)
	}
	total := 0.0
	for range 3600 { // one who never stops
		if b.Spend("eve", now, 7<<20) == 0 {
			total += 7 << 20
		}
		now = now.Add(time.Second)
	}
	if total > 1<<30 {
		t.Errorf("%.0f MB in an hour", total/(1<<20))
	}
}
