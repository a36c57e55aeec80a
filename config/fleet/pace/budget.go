package pace

import (
	"math"
	"time"
)

// Rate is what may be spent: so much at once, and so much a second after that.
type Rate struct{ Burst, PerSecond float64 }

// Limit is what one of many may have written.
type Limit struct {
	Writes, Bytes Rate
	// Small is the most bytes of a write that waits for no bytes, only for its turn among the writes: what is
	// small is not late because something large was written before it.
	Small int
}

// Budget is what is left of a Limit. The zero value has all of it.
type Budget struct {
	writes, bytes counter
}

// Wait is how long the next write, of so many bytes, has to wait; 0: it may go now. A write goes as long as anything
// is left, however large it is: what it takes beyond that is waited for before the next one.
func (b *Budget) Wait(now time.Time, l Limit, bytes int) time.Duration {
	wait := b.writes.wait(now, l.Writes, 1)
	if bytes <= l.Small {
		return wait
	}
	return max(wait, b.bytes.wait(now, l.Bytes, 0))
}

// Spend counts a write of so many bytes.
func (b *Budget) Spend(now time.Time, l Limit, bytes int) {
	b.writes.spend(now, l.Writes, 1)
	b.bytes.spend(now, l.Bytes, float64(bytes))
}

// counter is what was spent of one Rate and has not come back.
type counter struct {
	spent float64
	at    time.Time // of spent
}

// refill gives back what the time since the last look is worth. A clock that was set back gives
// nothing, and takes nothing.
func (a *counter) refill(now time.Time, r Rate) {
	if d := now.Sub(a.at); d > 0 {
		a.spent = max(0, a.spent-d.Seconds()*r.PerSecond)
	}
	a.at = now
}

// wait is how long it takes until more than nothing, or at least so much, is left.
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
