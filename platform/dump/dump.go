// Package dump lets many callers share one listing of the host, because a listing costs the same for one network as
// for all.
//
// It never returns a listing that began before the call, so a caller always sees its own last change.
//
// After a listing that many callers shared, the next one waits for up to three times as long as that took. So when a
// thousand networks start together, listings that grow with the host take a bounded share of the time and serve more
// callers.
//
// A Stamp tells when a file need not be read again.
package dump

import (
	"context"
	"sync"
	"time"
)

// Shared is one kind of listing. At most one listing runs at a time.
type Shared[T any] struct {
	read    func(context.Context) (T, error)
	timeout time.Duration

	mu      sync.Mutex
	next    *call[T] // not begun yet: new callers join it
	running bool
	rest    time.Time // until then the next one waits for more callers
}

type call[T any] struct {
	done    chan struct{}
	callers int
	val     T
	err     error
}

const (
	maxRests    = 3 // multiple of a listing's duration
	longestRest = time.Second
)

// New returns a Shared of a function that lists. timeout bounds each call of the function.
func New[T any](timeout time.Duration, read func(context.Context) (T, error)) *Shared[T] {
	return &Shared[T]{read: read, timeout: timeout}
}

// Get returns a listing that began after Get was called, or the context's error. Callers share the value and must not
// change it.
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

// loop lists until there was no call since the last listing began.
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

// list runs one listing for all present callers.
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
