package nodelink

import "time"

// The waits between two attempts to connect.
const (
	firstWait  = 500 * time.Millisecond
	longWait   = 30 * time.Second
	stableLife = time.Minute
)

// backoff is the wait before the next attempt: full jitter below a bound that begins at
// half a second, doubles to half a minute, and begins anew after a stable minute. Full
// jitter spreads a fleet whose controller comes back. It has no clock of its own.
type backoff struct{ bound time.Duration }

// next is the wait after a stream that stood for up (0: none came about); random is from 0
// to 1. A refusal waits the longest at once: asking often changes nobody's mind.
func (b *backoff) next(up time.Duration, refused bool, random float64) time.Duration {
	switch {
	case refused:
		b.bound = longWait
	case up >= stableLife || b.bound == 0:
		b.bound = firstWait
	default:
		b.bound = min(longWait, 2*b.bound)
	}
	return time.Duration(random * float64(b.bound))
}
