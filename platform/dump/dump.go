// Package dump lets many callers share one listing of the host, because a
// listing costs the same whether one network or all of them look at it.
//
// It never answers with a listing that began before the caller asked, so a
// caller always sees its own last change.
//
// Callers who come in a crowd, as a thousand networks that start together, are gathered: after
// a listing that many shared the next one rests for up to three times as long as that took, so
// that listings which grow with the host take a bounded share of it and serve the more.
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
	rest    time.Time // until when the next one waits for more to join it
}

type call[T any] struct {
	done    chan struct{}
	callers int
	val     T
	err     error
}

const (
	maxRests    = 3 // times the length of a listing
	longestRest = time.Second
)

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
	c.callers++
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
		rest := time.Until(s.rest)
		if s.next == nil {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		time.Sleep(rest)
		s.list()
	}
}

// list makes one listing for all that have asked by now.
func (s *Shared[T]) list() {
	s.mu.Lock()
	c := s.next
	s.next = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	began := time.Now()
	c.val, c.err = s.read(ctx)
	s.mu.Lock()
	s.rest = time.Time{}
	if c.err == nil {
		s.rest = time.Now().Add(min(time.Since(began)*time.Duration(min(c.callers-1, maxRests)), longestRest))
	}
	s.mu.Unlock()
	close(c.done)
}
