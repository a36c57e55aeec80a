package httpapi

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
