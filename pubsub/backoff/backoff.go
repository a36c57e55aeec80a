// Package backoff computes how long to wait before a retry: ever longer, up to a bound. It is pure: the caller keeps
// the count or the last delay, reads the clock and draws the random numbers. It never knows what is retried, or what
// counts as a failure.
package backoff

import "time"

// Backoff is a series of delays: First, doubled each time, up to Max.
type Backoff struct{ First, Max time.Duration }

// After returns the delay after a number of failures in a row, 0 for none.
func (b Backoff) After(failures int) time.Duration {
	var wait time.Duration
	for ; failures > 0 && wait < b.Max; failures-- {
		wait = b.Next(wait)
	}
	return wait
}

// Next returns the delay that follows one of the series, or one that was shortened; First follows 0.
func (b Backoff) Next(wait time.Duration) time.Duration { return min(max(2*wait, b.First), b.Max) }

// Jitter returns a random fraction of a delay, so that operations that failed together are not retried together: from
// least to limit times the delay, by a random number from 0 to 1.
func Jitter(wait time.Duration, least, limit, random float64) time.Duration {
	return time.Duration((least + (limit-least)*random) * float64(wait))
}
