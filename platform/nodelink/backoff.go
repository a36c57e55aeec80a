package nodelink

import (
	"time"

	"edgespan/pubsub/backoff"
)

// connectWaits bound the waits between two attempts to connect.
var connectWaits = backoff.Backoff{First: 500 * time.Millisecond, Max: 30 * time.Second}

const (
	stableLife = time.Minute
	nodeSpread = 3 * time.Millisecond // of a wave of reconnects, for each node that comes with it
)

// spread is over how long the nodes of one controller come back that lose it at once:
// some 333 a second, not faster than half a second and not slower than half a minute.
func spread(nodes int) time.Duration {
	return clampSpread(time.Duration(min(nodes, int(connectWaits.Max/nodeSpread))) * nodeSpread)
}

func clampSpread(d time.Duration) time.Duration {
	return min(connectWaits.Max, max(connectWaits.First, d))
}

// outdated says whether a node that was told one spread has to be told another one: as
// nodes come one by one, the first of them were told of a wave of few. Within a tenth it
// stays, so that a fleet at rest hears nothing.
func outdated(reported, now time.Duration) bool {
	return max(reported, now)-min(reported, now) > reported/10
}

// streamEnd is how a stream went.
type streamEnd struct {
	up     time.Duration // 0: none came about
	spread time.Duration // what the controller said last; 0: one that knows no spread
}

// reconnect is the wait before the next attempt: full jitter below a bound that begins at
// half a second, doubles to half a minute, and begins anew after a stable minute. It has no
// clock of its own.
//
// After a stream the bound is what its controller said, if that is longer: whatever ended
// it may have ended those of all nodes. Until a stream stands again no wait is shorter than
// that. So nodes that were spread stay so, however long their controller is away: each
// comes at its own moment of that time, where short waits would bring those that failed
// back together.
type reconnect struct {
	bound  time.Duration
	spread time.Duration // of the last stream; 0 after one whose controller knows none
}

// next is the wait after a stream or an attempt at one; random is from 0 to 1. A refusal
// waits the longest at once: asking often changes nobody's mind.
func (r *reconnect) next(s streamEnd, refused bool, random float64) time.Duration {
	switch {
	case refused:
		r.bound = connectWaits.Max
	case s.up >= stableLife || r.bound == 0:
		r.bound = connectWaits.First
	default:
		r.bound = connectWaits.Next(r.bound)
	}
	part := func(d time.Duration) time.Duration { return backoff.Jitter(d, 0, 1, random) }
	if s.up == 0 {
		return max(r.spread, part(r.bound))
	}
	r.spread = 0
	if s.spread > 0 {
		r.spread = clampSpread(s.spread)
	}
	return part(max(r.bound, r.spread))
}
