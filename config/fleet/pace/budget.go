package pace

import (
	"math"
	"time"
)

// Rate is a rate limit: Burst at once, and PerSecond after that.
type Rate struct{ Burst, PerSecond float64 }

// Limit is what one of many clients may have written.
type Limit struct {
	Writes, Bytes Rate
	// Small is the largest write, in bytes, that does not wait for the byte limit: a small write is not delayed by a large
	// one before it.
	Small int
}

// Budget is what is left of a Limit. The zero value is full.
type Budget struct {
	writes, bytes counter
}

// Wait returns how long the next write of this size has to wait; 0: it may go now. A write of any size may go while
// anything is left; the excess delays the next one.
func (b *Budget) Wait(now time.Time, l Limit, bytes int) time.Duration {
	wait := b.writes.wait(now, l.Writes, 1)
	if bytes <= l.Small {
		return wait
	}
	return max(wait, b.bytes.wait(now, l.Bytes, 0))
}

// Spend counts a write of this size.
func (b *Budget) Spend(now time.Time, l Limit, bytes int) {
	b.writes.spend(now, l.Writes, 1)
	b.bytes.spend(now, l.Bytes, float64(bytes))
}

// counter is what was spent of a Rate and is not refilled.
type counter struct {
	spent float64
	at    time.Time // when spent was computed
}

// refill credits the time since the last call. A clock that was set back credits nothing and costs nothing.
func (a *counter) refill(now time.Time, r Rate) {
	if d := now.Sub(a.at); d > 0 {
		a.spent = max(0, a.spent-d.Seconds()*r.PerSecond)
	}
	a.at = now
}

// wait returns how long it takes until something, or at least least, is left.
func (a *counter) wait(now time.Time, r Rate, least float64) time.Duration {
	a.refill(now, r)
	over := a.spent + least - r.Burst
	if over <= 0 {
		return 0
	}
	return time.Duration(math.Ceil(over / r.PerSecond * float64(time.Second)))
}

func (a *counter) spend(now time.Time, r Rate, n float64) {
	a.refill(now, r)
	a.spent += n
}
