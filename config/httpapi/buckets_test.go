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

func TestGuessesAreCountedByMachine(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	g := NewGuesses()
	for i := range GuessBurst {
		for _, from := range []string{"10.0.0.1:%d", "[2001:db8::%x]:7", "[fe80::1%%eth0]:%d", "@%d"} {
			if from = fmt.Sprintf(from, i+1); g.Wait(from, now) > 0 {
				t.Fatalf("guess %d from %s: no longer listened to", i, from)
			} else {
				g.Failed(from, now)
			}
		}
	}
	for from, waits := range map[string]bool{
		"10.0.0.1:99": true, "[2001:db8::ffff]:7": true, "[fe80::2%eth1]:1": true,
		"10.0.0.2:1": false, "[2001:db8:0:1::1]:7": false, "[::ffff:10.0.0.3]:1": false, "@99": false,
	} {
		if wait := g.Wait(from, now); wait > 0 != waits {
			t.Errorf("%s: has to wait %s", from, wait)
		}
	}
	if wait := g.Wait("10.0.0.1:99", now.Add(3*time.Second)); wait > 0 {
		t.Errorf("three seconds later: %s", wait)
	}
}
