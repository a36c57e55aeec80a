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

// joinGate bounds Join calls, which anybody may make: by address, and all together.
type joinGate struct {
	perSecond float64 // from one address

	mu      sync.Mutex
	all     *bucket
	sources map[string]*bucket
}

func newJoinGate(perSecond float64) *joinGate {
	return &joinGate{perSecond: perSecond, all: newBucket(100*perSecond, 200*perSecond), sources: map[string]*bucket{}}
}

// pass says whether a call from an address may go on.
func (g *joinGate) pass(from string, now time.Time) bool {
	from = config.Source(from)
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.sources[from]
	if b == nil {
		if len(g.sources) >= mostSources {
			g.forget(now)
		}
		if len(g.sources) >= mostSources { // all of them are busy: that forgives some, and keeps nobody new out
			clear(g.sources)
		}
		b = newBucket(g.perSecond, 20*g.perSecond)
		g.sources[from] = b
	}
	return b.try(now) && g.all.try(now)
}

// forget drops the addresses that may do all again.
func (g *joinGate) forget(now time.Time) {
	for from, b := range g.sources {
		if b.refill(now); b.left >= b.burst {
			delete(g.sources, from)
		}
	}
}
