// Package backoff says how long to wait before something is tried again: ever longer, up to a bound. It is pure: the
// caller keeps the count or the last wait, has the clock and draws the random numbers. What is tried, and what counts
// as a failure, it never knows.
package backoff

import "time"

// Backoff is a series of waits: First, doubled each time, up to Max.
type Backoff struct{ First, Max time.Duration }

// After is the wait after so many failures in a row, none before the first.
func (b Backoff) After(failures int) time.Duration {
	var wait time.Duration
	for ; failures > 0 && wait < b.Max; failures-- {
		wait = b.Next(wait)
	}
	return wait
}

// Next is the wait that follows one of the series, or one that another reason has shortened; the first follows 0.
func (b Backoff) Next(wait time.Duration) time.Duration { return min(max(2*wait, b.First), b.Max) }

// Jitter is a random part of a wait, so that what failed together is not tried again together: from the share least to
// the share most of it, by a random number from 0 to 1.
func Jitter(wait time.Duration, least, limit, random float64) time.Duration {
	return time.Duration((least + (limit-least)*random) * float64(wait))
}
