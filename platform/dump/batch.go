package dump

import (
	"context"
	"sync"
)

// Batch does what many callers want in one turn where that costs the same as for one
// of them. What comes while a turn is under way goes together in the next.
type Batch[T any] struct {
	do func([]T)

	mu      sync.Mutex
	waiting []T
	done    chan struct{} // closed when what waits is done
	running bool
}

// NewBatch makes a Batch of a function that does all that it is given. What became of
// each it notes in the items themselves.
func NewBatch[T any](do func([]T)) *Batch[T] { return &Batch[T]{do: do} }

// Do gives an item to the next turn and returns when that has ended, or with the
// context's error before: the item may still be done then, and belongs to the turn.
func (b *Batch[T]) Do(ctx context.Context, item T) error {
	b.mu.Lock()
	if b.done == nil {
		b.done = make(chan struct{})
	}
	b.waiting = append(b.waiting, item)
	done := b.done
	if !b.running {
		b.running = true
		go b.loop()
	}
	b.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loop takes turns until nothing waits.
func (b *Batch[T]) loop() {
	for {
		b.mu.Lock()
		items, done := b.waiting, b.done
		b.waiting, b.done = nil, nil
		if done == nil {
			b.running = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		b.do(items)
		close(done)
	}
}
