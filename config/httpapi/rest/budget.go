package rest

import (
	"math"
	"sync"
)

// Budget bounds what is held at a time, bytes or places, in all and of each caller, so that no
// caller holds what all others need.
type Budget struct {
	limit, each int64

	mu  sync.Mutex
	all int64
	of  map[string]int64
}

// NewBudget gives each caller a quarter of all.
func NewBudget(limit int64) *Budget { return newBudget(limit, limit/4) }

func newBudget(limit, each int64) *Budget {
	return &Budget{limit: limit, each: max(each, 1), of: map[string]int64{}}
}

// NewShares gives each caller a quarter of places whose number is bounded elsewhere, and 16 at least.
func NewShares(places int) *Budget {
	return &Budget{limit: math.MaxInt64, each: int64(max(places/4, 16)), of: map[string]int64{}}
}

// Acquire holds n for a caller, if there is room; one that has nothing is let have as much as it needs.
func (b *Budget) Acquire(caller string, n int64) bool { return b.acquireBeside(caller, 0, n) }

// acquireBeside is Take of what comes in the place of something that the caller has still, which does not count as its
// own.
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

// Release lets go of it.
func (b *Budget) Release(caller string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.of[caller] -= n; b.of[caller] <= 0 {
		delete(b.of, caller)
	}
}

// has is how much a caller holds.
func (b *Budget) has(caller string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[caller]
}

// sum is how much all hold.
func (b *Budget) sum() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all
}
