package probe

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever is asked for and whenever, no day sends more than its budget, and the shots of all that ask are spread.
func TestNoDayExceedsItsBudget(t *testing.T) {
	for range 20 {
		perDay := 100_000 + rand.N(5_000_000)
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		b, now := NewBudget(perDay, begin), begin
		perHour := map[int]int{}
		for now.Sub(begin) < 3*24*time.Hour {
			bytes := 60 + rand.N(5000)
			var wait time.Duration
			b, wait = b.Take(perDay, bytes, now)
			now = now.Add(wait)
			perHour[int(now.Sub(begin)/time.Hour)] += bytes
			if rand.N(200) == 0 {
				now = now.Add(rand.N(2 * time.Hour))
			}
			now = now.Add(rand.N(time.Millisecond))
		}
		for first := range 48 {
			sum := 0
			for h := range 24 {
				sum += perHour[first+h]
			}
			if sum > perDay+5060 { // the last shot of an hour began in it
				t.Errorf("%d bytes in the 24 hours from %d: %d are allowed", sum, first, perDay)
			}
		}
	}
}

func TestABudgetIsSpreadOverTheDay(t *testing.T) {
	const perDay, shot = 1_000_000, 5_000
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b, now, shots := NewBudget(perDay, begin), begin, 0
	for ; now.Before(begin.Add(24 * time.Hour)); shots++ {
		var wait time.Duration
		if b, wait = b.Take(perDay, shot, now); wait > 8*time.Minute {
			t.Fatalf("after %v a shot waits %v", now.Sub(begin), wait)
		}
		now = now.Add(wait)
	}
	if shots < 190 || shots > 200 {
		t.Errorf("%d shots of %d bytes in a day: %d bytes are allowed", shots, shot, perDay)
	}
	// The default lets the default probes be sent at their interval.
	b, now = NewBudget(DefaultProbeBytes, begin), begin
	for range 5000 {
		for _, bytes := range []int{120, 620, 620} {
			var wait time.Duration
			if b, wait = b.Take(DefaultProbeBytes, bytes, now); wait > 0 {
				t.Fatalf("after %v a shot waits %v", now.Sub(begin), wait)
			}
		}
		now = now.Add(MeteredInterval)
	}
}

func TestABudgetAndTheClock(t *testing.T) {
	const perDay = 2_500_000 // 100,000 an hour
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		left   int
		passed time.Duration
		want   int
	}{
		{0, time.Hour, 100_000}, {0, time.Minute, 1666}, {-1000, time.Minute, 666}, {100_000, time.Minute, 100_000},
		{50_000, 0, 50_000}, {50_000, -time.Hour, 50_000}, {-1_000_000, 365 * 24 * time.Hour, 100_000},
		{-10_000_000, 365 * 24 * time.Hour, -7_600_000}, {900_000, 0, 100_000}, // of a larger budget
	} {
		got := Budget{x.left, at}.Filled(perDay, at.Add(x.passed))
		if got.Left != x.want {
			t.Errorf("%d after %v: %d, want %d", x.left, x.passed, got.Left, x.want)
		}
	}
	b := Budget{0, at}
	for n := range 3600 * 100 { // parts of a byte
		b = b.Filled(perDay, at.Add(time.Duration(n+1)*10*time.Millisecond))
	}
	if b.Left < 99_000 {
		t.Errorf("filled in small steps: %d", b.Left)
	}
}
