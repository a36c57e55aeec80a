// Package dump lets many callers share one listing of the host, because a
// listing costs the same whether one network or all of them look at it.
//
// It never answers with a listing that began before the caller asked, so a
// caller always sees its own last change.
package dump

import (
	"context"
	"sync"
	"time"
)

// Shared is one kind of listing; at most one of it runs at a time.
type Shared[T any] struct {
	read    func(context.Context) (T, error)
	timeout time.Duration

	mu      sync.Mutex
	next    *call[T] // not begun yet: whoever asks now may join it
	running bool
}

type call[T any] struct {
	done chan struct{}
	val  T
	err  error
}

// New makes a Shared of a function that lists; each call of it has timeout.
func New[T any](timeout time.Duration, read func(context.Context) (T, error)) *Shared[T] {
	return &Shared[T]{read: read, timeout: timeout}
}

// Get returns a listing that began after Get was called, or the context's error.
// Callers share the value and must not change it.
func (s *Shared[T]) Get(ctx context.Context) (T, error) {
	s.mu.Lock()
	if s.next == nil {
		s.next = &call[T]{done: make(chan struct{})}
	}
	c := s.next
	if !s.running {
		s.running = true
		go s.loop()
	}
	s.mu.Unlock()
	select {
	case <-c.done:
		return c.val, c.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// loop lists until nobody has asked since the last listing began.
func (s *Shared[T]) loop() {
	for {
		s.mu.Lock()
		c := s.next
		s.next = nil
		if c == nil {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		c.val, c.err = s.read(ctx)
		cancel()
		close(c.done)
	}
}
