package rest

import (
	"math"
	"sync"
)

// Budget bounds what callers hold at a time, bytes or slots, for each caller and for all together, so that no caller
// can use it all.
type Budget struct {
	limit, each int64

	mu  sync.Mutex
	all int64
	of  map[string]int64
}

// NewBudget allows each caller a quarter of the limit.
func NewBudget(limit int64) *Budget { return newBudget(limit, limit/4) }

func newBudget(limit, each int64) *Budget {
	return &Budget{limit: limit, each: max(each, 1), of: map[string]int64{}}
}

// NewShares returns a Budget without a total limit, for slots that are bounded elsewhere: each caller may hold a
// quarter of them, and at least 16.
func NewShares(places int) *Budget {
	return &Budget{limit: math.MaxInt64, each: int64(max(places/4, 16)), of: map[string]int64{}}
}

// Acquire reserves n for a caller, if there is room. A caller that holds nothing may exceed its own share.
func (b *Budget) Acquire(caller string, n int64) bool { return b.acquireBeside(caller, 0, n) }

// acquireBeside is Acquire for something that replaces had, which the caller still holds and which does not count
// against its share.
func (b *Budget) acquireBeside(caller string, had, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	has := b.of[caller]
	if besides := has - had; b.all+n > b.limit || besides > 0 && besides+n > b.each {
		return false
	}
	b.all += n
	if n != 0 {
		b.of[caller] = has + n
	}
	return true
}

// Release returns n of a caller.
func (b *Budget) Release(caller string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.of[caller] -= n; b.of[caller] <= 0 {
		delete(b.of, caller)
	}
}

// has returns what a caller holds.
func (b *Budget) has(caller string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[caller]
}

// sum returns what all callers hold.
func (b *Budget) sum() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all
}
