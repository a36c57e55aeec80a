// Package ratelimit owns the token buckets of many callers: one golang.org/x/time/rate.Limiter for each name, as many
// as it may remember. A caller that needs one bucket takes a rate.Limiter itself. It never waits, and reads no clock.
package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxNames bounds what is remembered of callers: the tokens are as many as an admin makes, addresses are not.
const maxNames = 4096

// Buckets are one token bucket for each name: burst tokens at first, rate more a second.
type Buckets struct {
	rate  float64
	burst int
	limit int // that are remembered

	mu   sync.Mutex
	have map[string]*rate.Limiter
}

// NewBuckets are full ones. A bucket holds one token at least.
func NewBuckets(rate float64, burst int) *Buckets {
	return &Buckets{rate: rate, burst: max(1, burst), limit: maxNames, have: empty()}
}

func empty() map[string]*rate.Limiter { return map[string]*rate.Limiter{} }

// Of says how many names are remembered at most.
func (b *Buckets) Of(limit int) *Buckets {
	b.limit = limit
	return b
}

// Take takes one token, or says how long to wait for one.
func (b *Buckets) Take(name string, now time.Time) (wait time.Duration) { return b.Spend(name, now, 1) }

// Spend takes any number of tokens if there is one at least: what is not there is owed, and nothing is to be had
// before it has come back. Less than none gives tokens back.
func (b *Buckets) Spend(name string, now time.Time, tokens int) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of(name, now)
	if wait := b.wait(l, now); wait > 0 && tokens > 0 {
		return wait
	}
	for ; tokens > b.burst; tokens -= b.burst { // a limiter lends no more at a time
		l.ReserveN(now, b.burst)
	}
	l.ReserveN(now, tokens)
	return 0
}

// Left is Take that takes none.
func (b *Buckets) Left(name string, now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l, known := b.have[name]; known {
		return b.wait(l, now)
	}
	return 0
}

// Owe takes one token that need not be there, up to a debt.
func (b *Buckets) Owe(name string, now time.Time, limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.of(name, now); l.TokensAt(now) >= float64(1-limit) {
		l.ReserveN(now, 1)
	}
}

// wait is how long it takes until there is a token: never 0 where there is none.
func (b *Buckets) wait(l *rate.Limiter, now time.Time) time.Duration {
	tokens := l.TokensAt(now)
	if tokens >= 1 {
		return 0
	}
	return max(time.Duration((1-tokens)/b.rate*float64(time.Second)), 1)
}

// of is the limiter of a name.
func (b *Buckets) of(name string, now time.Time) *rate.Limiter {
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

// forget drops the full ones, which say nothing, and all of them where none is full: that
// forgives somebody, and costs no memory.
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
