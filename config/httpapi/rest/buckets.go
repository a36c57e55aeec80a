package rest

import (
	"math"
	"sync"
	"time"
)

// maxBuckets bounds what is remembered of callers; the tokens are as many as an admin makes,
// addresses are not.
const maxBuckets = 4096

// Buckets are one token bucket for each name: burst tokens at first, rate more a second.
type Buckets struct {
	rate  float64
	burst float64
	most  int // that are remembered

	mu   sync.Mutex
	have map[string]bucket
}

// bucket is how much was there at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

// NewBuckets are full ones.
func NewBuckets(rate float64, burst int) *Buckets {
	return &Buckets{rate: rate, burst: float64(burst), most: maxBuckets, have: map[string]bucket{}}
}

// What a caller who is no admin may have stored, at each replica: a config of 8 MB that is written each minute takes
// 140 KB a second, and one of 2 GiB is full after two hours at least, not two minutes.
const (
	StoredRate  = 256 << 10 // bytes a second, in the long run
	StoredBurst = 64 << 20  // and at once
)

// NewStored are the budgets of bytes that callers may have stored.
func NewStored() *Buckets { return NewBuckets(StoredRate, StoredBurst) }

// Of says how many names are remembered at most.
func (b *Buckets) Of(most int) *Buckets {
	b.most = most
	return b
}

// Spend takes any number of tokens if there is one at least: what is not there is owed, and nothing is to be had
// before it has come back. Less than none gives tokens back.
func (b *Buckets) Spend(name string, now time.Time, tokens float64) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	have := b.tokens(name, now)
	if have < 1 && tokens > 0 {
		return b.wait(have)
	}
	b.have[name] = bucket{math.Min(b.burst, have-tokens), now}
	return 0
}

// Take takes one token, or says how long to wait for one.
func (b *Buckets) Take(name string, now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tokens := b.tokens(name, now)
	if tokens < 1 {
		return b.wait(tokens)
	}
	b.have[name] = bucket{tokens - 1, now}
	return 0
}

// Left is Take that takes none.
func (b *Buckets) Left(name string, now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if tokens := b.tokens(name, now); tokens < 1 {
		return b.wait(tokens)
	}
	return 0
}

// Owe takes one token that need not be there, up to a debt.
func (b *Buckets) Owe(name string, now time.Time, most float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.have[name] = bucket{max(b.tokens(name, now)-1, -most), now}
}

// wait is how long it takes until there is a token: never 0, which would be one that was not taken.
func (b *Buckets) wait(tokens float64) time.Duration {
	return max(time.Duration((1-tokens)/b.rate*float64(time.Second)), 1)
}

// tokens are those of a name.
func (b *Buckets) tokens(name string, now time.Time) float64 {
	is, known := b.have[name]
	if !known {
		if len(b.have) >= b.most {
			b.forget(now)
		}
		return b.burst
	}
	return b.filled(is, now)
}

func (b *Buckets) filled(is bucket, now time.Time) float64 {
	return math.Min(b.burst, is.tokens+b.rate*math.Max(0, now.Sub(is.at).Seconds()))
}

// forget drops the full ones, which say nothing, and all of them where none is full: that
// forgives somebody, and costs no memory.
func (b *Buckets) forget(now time.Time) {
	for name, is := range b.have {
		if b.filled(is, now) >= b.burst {
			delete(b.have, name)
		}
	}
	if len(b.have) >= b.most {
		clear(b.have)
	}
}
