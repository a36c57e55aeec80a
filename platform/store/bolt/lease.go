package bolt

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"edgespan/config/kv"
	"edgespan/platform/store/backend"
)

// lease is the time to live and the end of a lease. The end is only in memory: keeping a lease alive needs no sync,
// and a restart starts its time again, so no lease ends early.
type lease struct {
	ttl  time.Duration
	ends time.Time
}

func (s *Store) loadLeases(b *bbolt.Bucket) error {
	now := s.clock.Now()
	return b.ForEach(func(id, ttl []byte) error {
		if len(id) != 8 || len(ttl) != 8 {
			return fmt.Errorf("lease %x is damaged", id)
		}
		d := time.Duration(binary.BigEndian.Uint64(ttl))
		s.leases[kv.LeaseID(binary.BigEndian.Uint64(id))] = &lease{ttl: d, ends: now.Add(d)}
		return nil
	})
}

func (s *Store) Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error) {
	if err := kv.CheckTTL(ttl); err != nil {
		return 0, fmt.Errorf("grant lease: %w", err)
	}
	var id kv.LeaseID
	err := s.submit(ctx, 0, func(w *write) error {
		n := numberAt(w.meta, metaLease) + 1
		if err := w.meta.Put(metaLease, number(n)); err != nil {
			return err
		}
		id, w.dirty = kv.LeaseID(n), true
		// Runs before Grant returns: if the caller has gone away, the lease still ends.
		w.after = append(w.after, func() {
			s.mu.Lock()
			s.leases[id] = &lease{ttl: ttl, ends: s.clock.Now().Add(ttl)}
			s.mu.Unlock()
		})
		return w.leases.Put(number(n), number(uint64(ttl)))
	})
	if err != nil {
		return 0, fmt.Errorf("grant lease: %w", err)
	}
	if _, err := s.KeepAlive(ctx, id); err != nil { // its time starts when the caller knows it
		return 0, err
	}
	s.listen()
	return id, nil
}

func (s *Store) KeepAlive(ctx context.Context, id kv.LeaseID) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	select {
	case <-s.closing:
		return 0, kv.ErrClosed
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, granted := s.leases[id]
	if !granted {
		return 0, fmt.Errorf("keep lease %d alive: %w", id, kv.ErrNoLease)
	}
	l.ends = s.clock.Now().Add(l.ttl)
	return l.ttl, nil
}

func (s *Store) Revoke(ctx context.Context, id kv.LeaseID) error {
	if err := s.submit(ctx, 0, func(w *write) error { return s.revoke(w, id) }); err != nil {
		return fmt.Errorf("revoke lease %d: %w", id, err)
	}
	return nil
}

func (s *Store) revoke(w *write, id kv.LeaseID) error {
	if w.leases.Get(number(uint64(id))) == nil {
		return refusal{kv.ErrNoLease}
	}
	w.after = append(w.after, func() {
		s.mu.Lock()
		delete(s.leases, id)
		s.mu.Unlock()
	})
	w.dirty = true
	c := change{write: w, revision: w.revision + 1}
	if _, err := c.remove(w.keysOf(id)...); err != nil {
		return err
	}
	if err := c.record(); err != nil {
		return err
	}
	return w.leases.Delete(number(uint64(id)))
}

func (s *Store) Keys(ctx context.Context, id kv.LeaseID) (keys []kv.Key, err error) {
	err = s.readFile(ctx, func(v view) error {
		if v.leases.Get(number(uint64(id))) == nil {
			return kv.ErrNoLease
		}
		keys = v.keysOf(id)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at lease %d: %w", id, err)
	}
	return keys, nil
}

// listen makes expire compute the next end again.
func (s *Store) listen() {
	select {
	case s.relisten <- struct{}{}:
	default:
	}
}

// idle is how long expire sleeps while there is no lease.
const idle = time.Hour

// expire is the goroutine that ends leases.
func (s *Store) expire() {
	defer s.ended.Done()
	for {
		select {
		case <-s.closing:
			return
		default:
		}
		now := s.clock.Now()
		over, next := s.over(now)
		for _, id := range over {
			s.end(id)
		}
		if len(over) > 0 {
			if s.CheckWritable() == nil {
				continue
			}
			next = min(next, leastRest) // they end once the store accepts writes
		}
		select {
		case <-s.closing:
			return
		case <-s.relisten:
		case <-backend.At(s.clock, now.Add(next)):
		}
	}
}

// over returns the leases whose time has ended, and the time until the next one ends.
func (s *Store) over(now time.Time) (ids []kv.LeaseID, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = idle
	for id, l := range s.leases {
		if left := l.ends.Sub(now); left <= 0 {
			ids = append(ids, id)
		} else {
			next = min(next, left)
		}
	}
	return ids, next
}

// end revokes a lease, unless it was kept alive meanwhile.
func (s *Store) end(id kv.LeaseID) {
	// A refusal means that the lease is alive or was revoked; any other error stops the store.
	_ = s.submit(context.Background(), 0, func(w *write) error {
		s.mu.Lock()
		l, granted := s.leases[id]
		lives := granted && l.ends.After(s.clock.Now())
		s.mu.Unlock()
		if lives || !granted {
			return refusal{kv.ErrNoLease}
		}
		return s.revoke(w, id)
	})
}
