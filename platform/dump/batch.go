package dump

import (
	"context"
	"sync"
)

// Batch runs a function once for the items of many callers, where that costs as much as for one item. Items that
// arrive during a run are in the next one.
type Batch[T any] struct {
	gather func() // before each run; nil for none
	do     func([]T)

	mu      sync.Mutex
	waiting []T
	done    chan struct{} // closed when the waiting items are done
	running bool
}

// NewBatch returns a Batch of a function that processes all given items and stores the results in the items.
func NewBatch[T any](do func([]T)) *Batch[T] { return &Batch[T]{do: do} }

// NewGathered returns a Batch that calls gather before each run, to wait for items that are about to come.
func NewGathered[T any](gather func(), do func([]T)) *Batch[T] {
	return &Batch[T]{gather: gather, do: do}
}

// Do adds an item to the next run and returns when that run has ended, or with the context's error before it. After
// that error the run may still process the item.
func (b *Batch[T]) Do(ctx context.Context, item T) error {
	select {
	case <-b.Begin(item):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Begin adds an item to the next run and returns a channel that is closed when the run has ended.
func (b *Batch[T]) Begin(item T) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = make(chan struct{})
	}
	b.waiting = append(b.waiting, item)
	if !b.running {
		b.running = true
		go b.loop()
	}
	return b.done
}

// loop runs until no item waits.
func (b *Batch[T]) loop() {
	for {
		b.mu.Lock()
		if b.done == nil {
			b.running = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		if b.gather != nil {
			b.gather()
		}
		b.mu.Lock()
		items, done := b.waiting, b.done
		b.waiting, b.done = nil, nil
		b.mu.Unlock()
		b.do(items)
		close(done)
	}
}
