package bolt

import (
	"fmt"
	"time"

	"edgespan/config/kv"
	"edgespan/platform/store/backend"
)

// After a commit that wrote nothing, the next one waits: bbolt reads the complete file after a failed commit, and a
// full disk usually remains full for longer.
const (
	leastRest = time.Second
	maxRest   = 10 * time.Second
	restShare = 4 // multiple of the commit's duration
)

// uncommitted handles a failed commit. bbolt first writes pages that nothing refers to, then the page that refers to
// them. As long as that page has the old state, nothing was written, and a power failure does not change that.
func (s *Store) uncommitted(id int, took time.Duration, err error) error {
	tx, look := s.db.Begin(false)
	if look != nil {
		return s.fail(fmt.Errorf("commit: %w: %w", err, look))
	}
	shown := tx.ID()
	if look := tx.Rollback(); look != nil || shown >= id {
		// The disk may have the batch or not, and its next answer may be wrong.
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

// committed handles a successful commit.
func (s *Store) committed() {
	s.mu.Lock()
	was := s.full
	s.full = nil
	s.mu.Unlock()
	if was != nil {
		s.reported(nil)
	}
}

// resting returns the reason why no commit is tried now.
func (s *Store) resting() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil && s.full != nil && s.clock.Now().Before(s.rest) {
		return s.full
	}
	return s.broken
}

// again returns a channel that fires when a commit is to be tried without a writer, so that Sound knows the state.
func (s *Store) again() <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full == nil || s.broken != nil {
		return nil
	}
	return backend.At(s.clock, s.rest)
}

// probe returns a job that changes only an unused number.
func probe() *job {
	return &job{done: make(chan struct{}), do: func(w *write) error {
		w.dirty = true
		return w.meta.Put(metaProbe, number(numberAt(w.meta, metaProbe)+1))
	}}
}

// CheckWritable returns the last known reason why the store refuses writes, or nil.
func (s *Store) CheckWritable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	return s.full
}

// CheckSpace returns nil: only the disk limits a file.
func (s *Store) CheckSpace() error { return nil }

// Broken returns a channel that is closed once the store refuses writes until it is reopened.
func (s *Store) Broken() <-chan struct{} { return s.breaking }

// fail refuses all further writes: after a failed sync, the content of the disk is unknown until another start reads
// the file.
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
