package storage

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"edgespan/config/kv"
)

// Store is what the controller uses of its store; platform/store/backend says what the methods
// hold to, and every backend there fulfils them.
type Store interface {
	ID() string
	Get(ctx context.Context, key kv.Key) (kv.Entry, kv.Revision, error)
	List(ctx context.Context, prefix kv.Prefix, o kv.ListOptions) (kv.Page, error)
	Commit(ctx context.Context, txn kv.Txn) (kv.Outcome, error)
	Watch(ctx context.Context, prefix kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error
	Compact(ctx context.Context, at kv.Revision) error
	Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error)
	KeepAlive(ctx context.Context, id kv.LeaseID) (time.Duration, error)
	Revoke(ctx context.Context, id kv.LeaseID) error
	Sound() error
	Scarce() error
	Size(ctx context.Context) (int64, error)
}

// What a replica holds to. A dead replica's nodes are offline for the others after leaseTTL.
const (
	LeaseTTL     = 10 * time.Second
	StoreTimeout = 10 * time.Second // of one call of the store
	WriteTimeout = 30 * time.Second // of one write, waiting for others among it
	StoreBackoff = time.Second      // how long a leaf waits for a store that failed
)

// Access is the store as one replica uses it: each call has a time limit, and what hangs on
// the replica's life hangs on its lease.
type Access struct {
	*Host

	Began   time.Time
	store   Store
	elector Elector
	Saver   *Saver
	lease   atomic.Int64
}

// NewAccess makes the access of a replica. Its saver works once its run is a leaf.
func NewAccess(h *Host, store Store, elector Elector) *Access {
	a := &Access{Host: h, Began: h.Now(), store: store, elector: elector}
	a.Saver = newSaver(a)
	return a
}

// LeaseID is the lease of this replica, 0 while it has none.
func (a *Access) LeaseID() kv.LeaseID { return kv.LeaseID(a.lease.Load()) }

// Holds says which lease the replica has.
func (a *Access) Holds(id kv.LeaseID) { a.lease.Store(int64(id)) }

// Commit does one transaction with a time limit.
func (a *Access) Commit(ctx context.Context, txn kv.Txn) (kv.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	return a.store.Commit(ctx, txn)
}

// Grant makes a lease that nobody keeps alive.
func (a *Access) Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	return a.store.Grant(ctx, ttl)
}

// drop takes back a lease of grant's, with what hangs on it. It would go by itself.
func (a *Access) drop(lease kv.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), StoreTimeout)
	defer cancel()
	if err := a.store.Revoke(ctx, lease); err != nil && a.Context.Err() == nil {
		a.Log.Debug("revoke a lease", zap.Error(err))
	}
}

// size is how many bytes the store takes, its own history among it.
func (a *Access) size(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	return a.store.Size(ctx)
}

// Reader reads the store until ctx ends.
func (a *Access) Reader(ctx context.Context) Reader { return NewReader(ctx, a.store) }
