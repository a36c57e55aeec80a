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
	select {
	case <-b.Begin(item):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Begin gives an item to the next turn, and returns what is closed when that has ended.
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
