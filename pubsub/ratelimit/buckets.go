// Package ratelimit owns the token buckets of many callers: one golang.org/x/time/rate.Limiter per name, up to a
// maximum number of names. A single one is a Bucket. It never waits, and reads no clock.
package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxNames bounds the remembered names: an admin limits the number of tokens, but not that of addresses.
const maxNames = 4096

// Buckets are one token bucket per name: burst tokens at first, refilled at rate tokens a second.
type Buckets struct {
	rate  float64
	burst int
	limit int // how many names are remembered

	mu   sync.Mutex
	have map[string]*rate.Limiter
}

// NewBuckets returns full buckets. A bucket holds at least one token.
func NewBuckets(rate float64, burst int) *Buckets {
	return &Buckets{rate: rate, burst: max(1, burst), limit: maxNames, have: newLimiters()}
}

func newLimiters() map[string]*rate.Limiter { return map[string]*rate.Limiter{} }

// SetMaxNames sets how many names are remembered.
func (b *Buckets) SetMaxNames(limit int) *Buckets {
	b.limit = limit
	return b
}

// Allow takes one token, or returns how long to wait for one.
func (b *Buckets) Allow(name string, now time.Time) (wait time.Duration) {
	return b.AllowN(name, now, 1)
}

// AllowN takes any number of tokens if there is at least one: it may leave a debt, and nothing more is available until
// that is refilled. A negative number returns tokens.
func (b *Buckets) AllowN(name string, now time.Time, tokens int) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.limiter(name, now)
	if wait := b.wait(l, now); wait > 0 && tokens > 0 {
		return wait
	}
	for ; tokens > b.burst; tokens -= b.burst { // a limiter reserves at most burst tokens at once
		l.ReserveN(now, b.burst)
	}
	l.ReserveN(now, tokens)
	return 0
}

// WaitTime returns how long to wait for a token, without taking one.
func (b *Buckets) WaitTime(name string, now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l, known := b.have[name]; known {
		return b.wait(l, now)
	}
	return 0
}

// AllowDebt takes one token, even if there is none, up to a debt of limit tokens.
func (b *Buckets) AllowDebt(name string, now time.Time, limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.limiter(name, now); l.TokensAt(now) >= float64(1-limit) {
		l.ReserveN(now, 1)
	}
}

// wait returns how long it takes until there is a token: never 0 if there is none.
func (b *Buckets) wait(l *rate.Limiter, now time.Time) time.Duration {
	tokens := l.TokensAt(now)
	if tokens >= 1 {
		return 0
	}
	return max(time.Duration((1-tokens)/b.rate*float64(time.Second)), 1)
}

// limiter returns the limiter of a name.
func (b *Buckets) limiter(name string, now time.Time) *rate.Limiter {
	l, known := b.have[name]
	if !known {
		if len(b.have) >= b.limit {
			b.forget(now)
		}
		l = rate.NewLimiter(rate.Limit(b.rate), b.burst)
		b.have[name] = l
	}
	return l
}

// forget drops full buckets, which carry no information. If none is full, it drops all: that forgives some callers, and
// costs no memory.
func (b *Buckets) forget(now time.Time) {
	for name, l := range b.have {
		if l.TokensAt(now) >= float64(b.burst) {
			delete(b.have, name)
		}
	}
	if len(b.have) >= b.limit {
		clear(b.have)
	}
}

// Bucket is a token bucket by itself.
type Bucket struct{ l *rate.Limiter }

// NewBucket returns a full bucket.
func NewBucket(perSecond float64, burst int) Bucket {
	return Bucket{rate.NewLimiter(rate.Limit(perSecond), max(1, burst))}
}

// Set changes what the bucket holds and how fast it is refilled.
func (b Bucket) Set(perSecond float64, burst int, now time.Time) {
	b.l.SetLimitAt(now, rate.Limit(perSecond))
	b.l.SetBurstAt(now, max(1, burst))
}

// Allow takes a token, if there is one.
func (b Bucket) Allow(now time.Time) bool { return b.l.AllowN(now, 1) }
