package backoff

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// waits are a series as its user sees it.
func waits(n int, next func(i int, last time.Duration) time.Duration) string {
	var out []string
	var last time.Duration
	for i := range n {
		last = next(i, last)
		out = append(out, last.String())
	}
	return strings.Join(out, " ")
}

func TestWaits(t *testing.T) {
	t.Parallel()
	b := Backoff{100 * time.Millisecond, time.Second}
	for _, c := range []struct {
		sentence string
		got      any
		want     string
	}{
		{"by the last wait it doubles, up to the bound", waits(6, func(_ int, last time.Duration) time.Duration {
			return b.Next(last)
		}), "100ms 200ms 400ms 800ms 1s 1s"},
		{"by the number of failures it is the same, and none before the first", waits(7,
			func(i int, _ time.Duration) time.Duration { return b.After(i) }), "0s 100ms 200ms 400ms 800ms 1s 1s"},
		{"a wait that was shortened goes on from there", b.Next(300 * time.Millisecond), "600ms"},
		{"one below the first is the first", b.Next(time.Millisecond), "100ms"},
		{"any number of failures waits for the bound", b.After(math.MaxInt), "1s"},
		{"a negative number is none", b.After(-1), "0s"},
		{"a first one above the bound is the bound", Backoff{time.Minute, time.Second}.Next(0), "1s"},
		{"without waits there is none", Backoff{}.After(7), "0s"},
		{"jitter begins with the least", Jitter(10*time.Second, 0.5, 1, 0), "5s"},
		{"and ends with the most", Jitter(10*time.Second, 1, 1.2, 1), "12s"},
		{"between them it is even", Jitter(10*time.Second, 0, 1, 0.25), "2.5s"},
		{"what does not wait has none", Jitter(0, 1, 1.2, 0.7), "0s"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.sentence, got, c.want)
		}
	}
}
