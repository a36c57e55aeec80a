package fleetapi

import (
	"math"
	"sync"
	"time"
)

// maxBuckets bounds what is remembered of callers; the tokens are as many as an admin makes,
// addresses are not.
const maxBuckets = 4096

// buckets are one token bucket for each name: burst tokens at first, rate more a second.
type buckets struct {
	rate  float64
	burst float64

	mu   sync.Mutex
	have map[string]bucket
}

// bucket is how much was there at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

func newBuckets(rate float64, burst int) *buckets {
	return &buckets{rate: rate, burst: float64(burst), have: map[string]bucket{}}
}

// take takes one token, or says how long to wait for one.
func (b *buckets) take(name string, now time.Time) (wait time.Duration) { return b.ask(name, now, 1) }

// left takes none.
func (b *buckets) left(name string, now time.Time) (wait time.Duration) { return b.ask(name, now, 0) }

func (b *buckets) ask(name string, now time.Time, cost float64) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	is, known := b.have[name]
	if !known {
		if len(b.have) >= maxBuckets {
			b.forget(now)
		}
		is = bucket{b.burst, now}
	}
	tokens := b.filled(is, now)
	if tokens < 1 {
		return time.Duration((1 - tokens) / b.rate * float64(time.Second))
	}
	if cost > 0 {
		b.have[name] = bucket{tokens - cost, now}
	}
	return 0
}

func (b *buckets) filled(is bucket, now time.Time) float64 {
	return math.Min(b.burst, is.tokens+b.rate*math.Max(0, now.Sub(is.at).Seconds()))
}

// forget drops the full ones, which say nothing, and all of them where none is full: that
// forgives somebody, and costs no memory.
func (b *buckets) forget(now time.Time) {
	for name, is := range b.have {
		if b.filled(is, now) >= b.burst {
			delete(b.have, name)
		}
	}
	if len(b.have) >= maxBuckets {
		clear(b.have)
	}
}
