package nodelink

import (
	"time"

	"edgespan/pubsub/backoff"
)

// connectWaits bounds the waits between two attempts to connect.
var connectWaits = backoff.Backoff{First: 500 * time.Millisecond, Max: 30 * time.Second}

const (
	stableLife = time.Minute
	// nodeSpread is per node of a wave of reconnects: ten thousand nodes are back half a minute after a controller was
	// restarted, also those whose first attempt came too soon. A handshake takes about a millisecond of one core.
	nodeSpread = 1500 * time.Microsecond
)

// reconnectSpread returns the time over which a controller's nodes reconnect after losing it at once: some 667 a
// second, at least half a second and at most half a minute.
func reconnectSpread(nodes int) time.Duration {
	return clampSpread(time.Duration(min(nodes, int(connectWaits.Max/nodeSpread))) * nodeSpread)
}

func clampSpread(d time.Duration) time.Duration {
	return min(connectWaits.Max, max(connectWaits.First, d))
}

// needsNewSpread reports whether a node needs a new spread: as nodes connect one by one, the first of them receive
// the spread of a small wave. Differences within a tenth are ignored, so that a stable fleet gets no messages.
func needsNewSpread(reported, now time.Duration) bool {
	return max(reported, now)-min(reported, now) > reported/10
}

// streamEnd describes an ended stream.
type streamEnd struct {
	up     time.Duration // 0: it was never established
	spread time.Duration // the controller's latest; 0: the controller knows no spread
}

// reconnect computes the wait before the next attempt: full jitter below a bound that starts at half a second, doubles
// to half a minute, and resets after a stable minute. It has no clock of its own.
//
// After a stream, the bound is the controller's spread if that is longer: the cause may have ended the streams of all
// nodes. Until a stream is established again, no wait is shorter than the node's point in that spread. So spread nodes
// stay spread however long their controller is away, while short waits would bunch the failed ones together.
type reconnect struct {
	bound  time.Duration
	spread time.Duration // of the last stream; 0 if its controller knows none
}

// next returns the wait after a stream or an attempt; random is from 0 to 1. After a refusal it is the longest at once:
// retrying soon would not help.
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
