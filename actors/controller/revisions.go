package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"edgespan/config/fleet/history"
	"edgespan/config/httpapi/fleetapi"
)

// appliedRevision is the newest revision of the layers that this replica has applied completely.
type appliedRevision struct {
	mu     sync.Mutex
	number uint64
	moved  chan struct{} // closed by the next revision; nil: no waiter
}

// to advances it and wakes the waiters.
func (s *appliedRevision) to(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number <= s.number {
		return
	}
	s.number = number
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// knows reports whether a revision has been applied.
func (s *appliedRevision) knows(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number >= number
}

// await waits for a revision and reports whether it was applied before ctx ended.
func (s *appliedRevision) await(ctx context.Context, number uint64) bool {
	for {
		s.mu.Lock()
		if s.number >= number {
			s.mu.Unlock()
			return true
		}
		if s.moved == nil {
			s.moved = make(chan struct{})
		}
		moved := s.moved
		s.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// How long a write waits until it is readable here, and a reader for a write of another replica.
const (
	ownWriteTimeout    = 2 * time.Second
	othersWriteTimeout = 10 * time.Second
)

// waitReadable waits until this replica's write is readable here, at most ownWriteTimeout. The write is stored in any
// case.
func (d *deps) waitReadable(ctx context.Context, number uint64) {
	if d.Offline {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ownWriteTimeout)
	defer cancel()
	d.dir.seen.await(ctx, number)
}

// Await waits until this replica knows a revision, which another replica may have written. It refuses a revision that
// is not in the store at once, so that a waiter for it holds no place that others need.
func (c *Controller) Await(ctx context.Context, number uint64) error {
	ctx, cancel := context.WithTimeout(ctx, othersWriteTimeout)
	defer cancel()
	if c.d.dir.seen.knows(number) {
		return nil
	}
	if head, err := history.Head(c.d.Reader(ctx)); err == nil && number > head.Number {
		return fmt.Errorf("%w: %d is the newest", fleetapi.ErrNoRevision, head.Number)
	}
	if !c.d.dir.seen.await(ctx, number) {
		return fmt.Errorf("%w: revision %d has not arrived yet", fleetapi.ErrBusy, number)
	}
	return nil
}
