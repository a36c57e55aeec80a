package controller

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"edgespan/config/revision"
)

// Store is what the controller uses of its store; platform/store/kv says what the methods
// hold to, and every backend there fulfils them.
type Store interface {
	ID() string
	Get(ctx context.Context, key revision.Key) (revision.Entry, revision.Revision, error)
	List(ctx context.Context, prefix revision.Prefix, o revision.ListOptions) (revision.Page, error)
	Commit(ctx context.Context, txn revision.Txn) (revision.Outcome, error)
	Watch(ctx context.Context, prefix revision.Prefix, after revision.Revision, deliver func(revision.Batch) error) error
	Compact(ctx context.Context, at revision.Revision) error
	Grant(ctx context.Context, ttl time.Duration) (revision.LeaseID, error)
	KeepAlive(ctx context.Context, id revision.LeaseID) (time.Duration, error)
	Revoke(ctx context.Context, id revision.LeaseID) error
	Sound() error
	Scarce() error
	Size(ctx context.Context) (int64, error)
}

// What a replica holds to. A dead replica's nodes are offline for the others after leaseTTL.
const (
	leaseTTL     = 10 * time.Second
	storeTimeout = 10 * time.Second // of one call of the store
	writeTimeout = 30 * time.Second // of one write, waiting for others among it
	storeBackoff = time.Second      // how long a leaf waits for a store that failed
)

// access is the store as one replica uses it: each call has a time limit, and what hangs on
// the replica's life hangs on its lease.
type access struct {
	*host

	began time.Time
	store Store
	saver *saver
	lease atomic.Int64
}

// newAccess makes the access of a replica. Its saver works once its run is a leaf.
func newAccess(h *host, store Store) *access {
	a := &access{host: h, began: h.Now(), store: store}
	a.saver = newSaver(a)
	return a
}

// leaseID is the lease of this replica, 0 while it has none.
func (a *access) leaseID() revision.LeaseID { return revision.LeaseID(a.lease.Load()) }

// holds says which lease the replica has.
func (a *access) holds(id revision.LeaseID) { a.lease.Store(int64(id)) }

// commit does one transaction with a time limit.
func (a *access) commit(ctx context.Context, txn revision.Txn) (revision.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return a.store.Commit(ctx, txn)
}

// grant makes a lease that nobody keeps alive.
func (a *access) grant(ctx context.Context, ttl time.Duration) (revision.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return a.store.Grant(ctx, ttl)
}

// drop takes back a lease of grant's, with what hangs on it. It would go by itself.
func (a *access) drop(lease revision.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := a.store.Revoke(ctx, lease); err != nil && a.context.Err() == nil {
		a.Log.Debug("take back a lease", zap.Error(err))
	}
}

// size is how many bytes the store takes, its own history among it.
func (a *access) size(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return a.store.Size(ctx)
}

// reader reads the store until ctx ends.
func (a *access) reader(ctx context.Context) reader { return newReader(ctx, a.store) }
