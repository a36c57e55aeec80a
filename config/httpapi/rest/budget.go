package rest

import (
	"math"
	"sync"
)

// Budget bounds what is held at a time, bytes or places, in all and of each caller, so that no
// caller holds what all others need.
type Budget struct {
	most, each int64

	mu  sync.Mutex
	all int64
	of  map[string]int64
}

// NewBudget gives each caller a quarter of all.
func NewBudget(most int64) *Budget { return newBudget(most, most/4) }

func newBudget(most, each int64) *Budget {
	return &Budget{most: most, each: max(each, 1), of: map[string]int64{}}
}

// NewShares gives each caller a quarter of places whose number is bounded elsewhere, and 16 at least.
func NewShares(places int) *Budget {
	return &Budget{most: math.MaxInt64, each: int64(max(places/4, 16)), of: map[string]int64{}}
}

// Take holds n for a caller, if there is room; one that has nothing is let have as much as it needs.
func (b *Budget) Take(caller string, n int64) bool { return b.takeBeside(caller, 0, n) }

// takeBeside is Take of what comes in the place of something that the caller has still, which does not count as its
// own.
func (b *Budget) takeBeside(caller string, had, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	has := b.of[caller]
	if besides := has - had; b.all+n > b.most || besides > 0 && besides+n > b.each {
		return false
	}
	b.all += n
	if n != 0 {
		b.of[caller] = has + n
	}
	return true
}

// Give lets go of it.
func (b *Budget) Give(caller string, n int64) {
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
