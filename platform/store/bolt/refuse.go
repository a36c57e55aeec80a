package bolt

import (
	"fmt"
	"time"

	"edgespan/config/kv"
	"edgespan/platform/store/backend"
)

// After a commit that left nothing on the disk the next one is tried after a while: bbolt looks
// through the whole file after a failed one, and a disk stays full for longer.
const (
	leastRest = time.Second
	maxRest   = 10 * time.Second
	restShare = 4 // times as long as the commit took
)

// uncommitted is the end of a commit that bbolt could not do. What it writes first are pages that
// nothing points to, then the page that points to them: as long as that one shows the state
// before, nothing was written, and a power cut does not change that.
func (s *Store) uncommitted(id int, took time.Duration, err error) error {
	tx, look := s.db.Begin(false)
	if look != nil {
		return s.fail(fmt.Errorf("commit: %w: %w", err, look))
	}
	shown := tx.ID()
	if look := tx.Rollback(); look != nil || shown >= id {
		// The disk may hold the batch or not, and what it says next may be either.
		return s.fail(fmt.Errorf("commit: %w", err))
	}
	s.mu.Lock()
	first := s.full == nil
	s.full = fmt.Errorf("%w: %w", kv.ErrUnwritten, err)
	s.rest = s.clock.Now().Add(min(max(leastRest, restShare*took), maxRest))
	err = s.full
	s.mu.Unlock()
	if first {
		s.reported(err)
	}
	return err
}

// committed is the end of one that bbolt did.
func (s *Store) committed() {
	s.mu.Lock()
	was := s.full
	s.full = nil
	s.mu.Unlock()
	if was != nil {
		s.reported(nil)
	}
}

// resting says why no commit is tried now.
func (s *Store) resting() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil && s.full != nil && s.clock.Now().Before(s.rest) {
		return s.full
	}
	return s.broken
}

// again sends when a commit is tried although nobody writes, so that Sound knows.
func (s *Store) again() <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full == nil || s.broken != nil {
		return nil
	}
	return backend.At(s.clock, s.rest)
}

// probe is a commit that changes nothing that anybody reads.
func probe() *job {
	return &job{done: make(chan struct{}), do: func(w *write) error {
		w.dirty = true
		return w.meta.Put(metaProbe, number(numberAt(w.meta, metaProbe)+1))
	}}
}

// Sound says why the store takes no writes, as far as it knows; nil if it does.
func (s *Store) Sound() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	return s.full
}

// Scarce is nil: a file has no limit but its disk's.
func (s *Store) Scarce() error { return nil }

// Broken is closed once the store takes no more writes until it is opened again.
func (s *Store) Broken() <-chan struct{} { return s.breaking }

// fail refuses all further writes: after a failed sync nobody knows what was kept
// until the file is read anew by another start.
func (s *Store) fail(err error) error {
	s.mu.Lock()
	first := s.broken == nil
	if first {
		s.broken = fmt.Errorf("%w: %w", kv.ErrBroken, err)
		close(s.breaking)
	}
	err = s.broken
	s.mu.Unlock()
	if first {
		s.reported(err)
	}
	return err
}
