package probe

import "time"

// Budget bounds what all probes of a metered port send and receive, in bytes with all headers. It is a token bucket
// that fills within a day and holds what fills in an hour: the probes of a day never exceed the budget, and those of a
// morning never use up the evening's.
type Budget struct {
	Left int       `json:"left"` // bytes that may be sent at once; less than 0: those of shots that wait
	At   time.Time `json:"at"`
}

// DefaultProbeBytes is the budget of a metered port in bytes per day. Its gateway and two DNS servers can be probed
// each MeteredInterval.
const DefaultProbeBytes = 4 << 20

// Each hour fills hourShare of a day's bytes, and as much is held: a day begins with a full bucket.
const hoursPerDay = 24 + 1

// maxLeft is what the bucket holds.
func maxLeft(perDay int) int { return perDay / hoursPerDay }

// NewBudget returns a full one.
func NewBudget(perDay int, now time.Time) Budget { return Budget{maxLeft(perDay), now} }

// Filled returns the budget at a later time. A clock that was set back fills nothing, and one that was set forward no
// more than an hour's share.
func (b Budget) Filled(perDay int, now time.Time) Budget {
	full := maxLeft(perDay)
	passed := now.Sub(b.At)
	if passed < 0 || passed > 24*time.Hour {
		passed = min(max(passed, 0), 24*time.Hour)
		b.At = now.Add(-passed)
	}
	fills := int(float64(full) * passed.Hours())
	if b.Left += fills; b.Left >= full {
		return Budget{full, now}
	}
	b.At = b.At.Add(timeOf(fills, perDay)) // parts of a byte add up
	return b
}

// timeOf returns how long it takes until so many bytes have filled in.
func timeOf(bytes, perDay int) time.Duration {
	return time.Duration(float64(bytes) / float64(maxLeft(perDay)) * float64(time.Hour))
}

// Take takes the bytes of a shot and returns how long that must wait. Shots that wait are sent in the order in which
// they were taken.
func (b Budget) Take(perDay, bytes int, now time.Time) (Budget, time.Duration) {
	b = b.Filled(perDay, now)
	b.Left -= bytes
	return b, timeOf(max(-b.Left, 0), perDay)
}

// Expected returns about how many bytes a shot sends and receives, before one was counted.
func (id ID) Expected() int {
	switch id.Method {
	case ARP:
		return 2 * 60
	case ND:
		return 2 * 78
	case ICMP:
		return 2 * 58
	case TCP:
		return 420
	case HTTP:
		return 2000
	}
	return 600
}
