package nodelink

import (
	"math"
	"sync"
	"time"

	"edgespan/config"
)

// bucket lets so many things pass at once and so many a second after that. The clock is
// passed in.
type bucket struct {
	perSecond, burst float64

	left float64
	last time.Time
}

func newBucket(perSecond, burst float64) *bucket {
	return &bucket{perSecond: perSecond, burst: burst, left: burst}
}

// take counts one thing and says how long it has to wait for its turn.
func (b *bucket) take(now time.Time) time.Duration {
	b.refill(now)
	b.left--
	if b.left >= 0 {
		return 0
	}
	return time.Duration(math.Ceil(-b.left / b.perSecond * float64(time.Second)))
}

// try counts one thing if it may pass now.
func (b *bucket) try(now time.Time) bool {
	b.refill(now)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (b *bucket) refill(now time.Time) {
	if !b.last.IsZero() && now.After(b.last) {
		b.left = min(b.burst, b.left+now.Sub(b.last).Seconds()*b.perSecond)
	}
	b.last = now
}

// mostSources bounds the addresses that a joinGate remembers.
const mostSources = 4096

// joinGate bounds Join calls, which anybody may make: by address, and all together. Those whose token is known
// have a share of their own, which others with many addresses do not take.
type joinGate struct {
	mu      sync.Mutex
	all     map[bool]*bucket // by whether the token is known
	sources *crowd
}

func newJoinGate(perSecond float64) *joinGate {
	all := map[bool]*bucket{true: newBucket(100*perSecond, 200*perSecond), false: newBucket(100*perSecond, 200*perSecond)}
	return &joinGate{all: all, sources: newCrowd(perSecond, 20*perSecond, mostSources)}
}

// hear says whether a call from an address may be looked at.
func (g *joinGate) hear(from string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sources.try(config.Source(from), now) == 0
}

// pass says whether a call that was looked at may go on.
func (g *joinGate) pass(known bool, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all[known].try(now)
}
