package fake

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"edgespan/config/kv"
)

// Store is a controller's store in memory, on the model that the real stores are checked against.
type Store struct {
	mu      sync.Mutex
	model   *kv.Model
	moved   chan struct{} // closed by the next transaction
	commits atomic.Int64  // commits that changed something
	bytes   int64         // what Size returns
	fault   error         // the error of every call
	refuse  func(kv.Txn) error
	lists   atomic.Int64 // calls of List
}

// Size returns the size of all current values.
func (m *Store) Size(context.Context) (size int64, err error) {
	err = m.do(func() error { size = m.bytes; return nil })
	return size, err
}

// CheckWritable never fails by itself.
func (m *Store) CheckWritable() error { return nil }

// CheckSpace never fails by itself.
func (m *Store) CheckSpace() error { return nil }

// NewStore returns an empty store.
func NewStore() *Store { return &Store{model: kv.NewModel(), moved: make(chan struct{})} }

// ID is the same for all of them.
func (m *Store) ID() string { return "6b1e0c1a-0000-4000-8000-000000000001" }

// do executes one call at the current time.
func (m *Store) do(f func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil {
		return m.fault
	}
	_, before, _ := m.model.Get("x")
	m.model.Expire(time.Now())
	err := f()
	if _, after, _ := m.model.Get("x"); after != before {
		close(m.moved)
		m.moved = make(chan struct{})
	}
	return err
}

// Get reads a value.
func (m *Store) Get(_ context.Context, k kv.Key) (e kv.Entry, r kv.Revision, err error) {
	err = m.do(func() error { e, r, err = m.model.Get(k); return err })
	return e, r, err
}

// List reads a page.
func (m *Store) List(_ context.Context, p kv.Prefix, o kv.ListOptions) (page kv.Page, err error) {
	m.lists.Add(1)
	err = m.do(func() error { page, err = m.model.List(p, o); return err })
	return page, err
}

// Commit carries out a transaction, unless Refuse or Fail say otherwise.
func (m *Store) Commit(_ context.Context, t kv.Txn) (o kv.TxnResult, err error) {
	err = m.do(func() error {
		if m.refuse != nil {
			if err := m.refuse(t); err != nil {
				return err
			}
		}
		_, before, _ := m.model.Get("x")
		if o, err = m.model.Commit(t); o.Revision > before {
			m.commits.Add(1)
		}
		return err
	})
	return o, err
}

// Compact forgets revisions.
func (m *Store) Compact(_ context.Context, at kv.Revision) error {
	return m.do(func() error { return m.model.Compact(at) })
}

// Grant makes a lease.
func (m *Store) Grant(_ context.Context, ttl time.Duration) (id kv.LeaseID, err error) {
	err = m.do(func() error { id, err = m.model.Grant(time.Now(), ttl); return err })
	return id, err
}

// KeepAlive renews a lease.
func (m *Store) KeepAlive(_ context.Context, id kv.LeaseID) (ttl time.Duration, err error) {
	err = m.do(func() error { ttl, err = m.model.KeepAlive(time.Now(), id); return err })
	return ttl, err
}

// Revoke ends a lease.
func (m *Store) Revoke(_ context.Context, id kv.LeaseID) error {
	return m.do(func() error { return m.model.Revoke(id) })
}

// Watch delivers changes until ctx ends or the store fails.
func (m *Store) Watch(ctx context.Context, p kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error {
	for {
		var batches []kv.Batch
		var moved chan struct{}
		var now kv.Revision
		if err := m.do(func() error { return nil }); err != nil { // leases expire
			return err
		}
		err := m.do(func() (err error) {
			moved = m.moved
			_, now, _ = m.model.Get("x")
			batches, err = m.model.Since(p, after)
			return err
		})
		if err != nil {
			return err
		}
		for _, b := range batches {
			after = b.Revision
			if err := deliver(b); err != nil {
				return err
			}
		}
		if now > after && len(batches) == 0 {
			after = now
		}
		if len(batches) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-time.After(time.Second): // leases expire
		}
	}
}

// Fail makes every call fail with err; nil for none.
func (m *Store) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = err
}

// Refuse sets what refuses transactions, by its error; nil: none are refused.
func (m *Store) Refuse(why func(kv.Txn) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = why
}

// Grow adds to what Size returns.
func (m *Store) Grow(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes += bytes
}

// Commits returns how many transactions have changed something.
func (m *Store) Commits() int64 { return m.commits.Load() }

// Lists returns how often List was called.
func (m *Store) Lists() int64 { return m.lists.Load() }

// Model returns the model, for values that are there before the store is used.
func (m *Store) Model() *kv.Model { return m.model }
