package storage

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"edgespan/config/kv"
)

// Store is the part of the store that the controller uses. platform/store/backend documents the contract of the
// methods, and all its backends implement it.
type Store interface {
	ID() string
	Get(ctx context.Context, key kv.Key) (kv.Entry, kv.Revision, error)
	List(ctx context.Context, prefix kv.Prefix, o kv.ListOptions) (kv.Page, error)
	Commit(ctx context.Context, txn kv.Txn) (kv.TxnResult, error)
	Watch(ctx context.Context, prefix kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error
	Compact(ctx context.Context, at kv.Revision) error
	Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error)
	KeepAlive(ctx context.Context, id kv.LeaseID) (time.Duration, error)
	Revoke(ctx context.Context, id kv.LeaseID) error
	CheckWritable() error
	CheckSpace() error
	Size(ctx context.Context) (int64, error)
}

// Limits of a replica. After leaseTTL the other replicas consider a dead replica's nodes offline.
const (
	LeaseTTL     = 10 * time.Second
	StoreTimeout = 10 * time.Second // of one call of the store
	WriteTimeout = 30 * time.Second // of one write, including its wait in the queue
	StoreBackoff = time.Second      // pause of a leaf after an error of the store
)

// Access is one replica's access to the store: it gives each call a time limit, and keeps the lease to which keys that
// must not outlive the replica are attached.
type Access struct {
	*Host

	Began   time.Time
	store   Store
	elector Elector
	Saver   *Saver
	lease   atomic.Int64
}

// NewAccess creates the access of a replica. The saver works once its run method runs in a leaf.
func NewAccess(h *Host, store Store, elector Elector) *Access {
	a := &Access{Host: h, Began: h.Now(), store: store, elector: elector}
	a.Saver = newSaver(a)
	return a
}

// LeaseID returns the lease of this replica, 0 for none.
func (a *Access) LeaseID() kv.LeaseID { return kv.LeaseID(a.lease.Load()) }

// HasLease sets the lease of this replica.
func (a *Access) HasLease(id kv.LeaseID) { a.lease.Store(int64(id)) }

// Commit runs a transaction with a time limit.
func (a *Access) Commit(ctx context.Context, txn kv.Txn) (kv.TxnResult, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	return a.store.Commit(ctx, txn)
}

// Grant creates a lease that is not kept alive.
func (a *Access) Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	return a.store.Grant(ctx, ttl)
}

// drop revokes a lease and its keys, which would expire anyway.
func (a *Access) drop(lease kv.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), StoreTimeout)
	defer cancel()
	if err := a.store.Revoke(ctx, lease); err != nil && a.Context.Err() == nil {
		a.Log.Debug("revoke a lease", zap.Error(err))
	}
}

// size returns the size of the store in bytes, including its own history.
func (a *Access) size(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	return a.store.Size(ctx)
}

// Reader returns a reader of the store that works until ctx ends.
func (a *Access) Reader(ctx context.Context) Reader { return NewReader(ctx, a.store) }
