// Package backend defines the contract of the controller's store, code that its backends bolt and etcd share, and the
// driver of elections on a store (docs/adr/0016).
//
// The interface is in platform, not in config/kv where its types are: every call has a context, which no core may
// import. Apart from that it uses only types of config/kv, so that actors, which may not import platform, can declare
// the methods that they use and every backend implements them.
//
// The package never stores a value and never decides what to write.
package backend

import (
	"context"
	"time"

	"edgespan/config/kv"
)

// Store is a store of revisioned keys. All methods are safe for concurrent use. platform/store/conformance tests this
// contract and config/kv's on every backend.
type Store interface {
	// ID returns the UUID that the store got when it was first opened. It identifies the authority of the generations
	// that the store counts.
	ID() string

	// Get reads a key and returns the revision of the read; a watch from there misses nothing. A missing key is an entry
	// that does not exist, not an error.
	Get(ctx context.Context, key kv.Key) (kv.Entry, kv.Revision, error)

	// List reads the keys below a prefix at one revision. Later pages at the same revision are complete until it is
	// compacted.
	List(ctx context.Context, prefix kv.Prefix, o kv.ListOptions) (kv.Page, error)

	// Commit commits a transaction and returns when it is on disk. ErrInvalid, ErrTooLarge, ErrNoLease and ErrUnwritten
	// mean that nothing changed. After any other error, including ErrFull, the outcome is unknown: read again.
	Commit(ctx context.Context, txn kv.Txn) (kv.TxnResult, error)

	// Watch delivers the changes of each later transaction below a prefix, in order, until ctx ends or deliver returns an
	// error, which Watch then returns. A slow deliver delays no writer. A watch that falls behind a compaction ends with
	// ErrCompacted; one from a revision that the store has not reached, as after a restore, ends with ErrFuture.
	Watch(ctx context.Context, prefix kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error

	// Compact drops the history before a revision. Repeating it is no error.
	Compact(ctx context.Context, at kv.Revision) error

	// Grant creates a lease. It ends, never early, when its time to live has passed since it was last kept alive; one
	// transaction then deletes its keys. A lease survives a restart of the store, which starts its time again.
	Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error)

	// KeepAlive starts the time of a lease again, and returns its time to live.
	KeepAlive(ctx context.Context, id kv.LeaseID) (time.Duration, error)

	// Revoke ends a lease now.
	Revoke(ctx context.Context, id kv.LeaseID) error

	// Keys returns the keys of a lease, in order.
	Keys(ctx context.Context, id kv.LeaseID) ([]kv.Key, error)

	// CheckWritable returns the reason why the store refuses writes, according to its last answers, or nil. It sends no
	// request. A refused write counts until the store accepts a write or reports that it would.
	CheckWritable() error

	// CheckSpace returns an error if the store is close to the limit at which it refuses all writes, according to its last
	// answers: writes that can wait should wait. It returns nil if there is no known limit.
	CheckSpace() error

	// Size returns the bytes that the store uses, including its history, without reusable free space.
	Size(ctx context.Context) (int64, error)

	// Close ends all calls with ErrClosed and releases the store.
	Close() error
}

// Clock is the clock of leases and elections. Tests replace it.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once d has passed.
	After(d time.Duration) <-chan time.Time
}

// Wall is the clock of the machine.
type Wall struct{}

func (Wall) Now() time.Time { return time.Now() }

func (Wall) After(d time.Duration) <-chan time.Time { return time.After(d) }

// slip is how late a timer of At may be.
const slip = time.Millisecond

// At returns a channel that receives once the clock shows t. A timer counts from its creation: if the clock advanced
// between the reading and the creation, as when the machine is suspended, At creates another one.
func At(c Clock, t time.Time) <-chan time.Time {
	for {
		now := c.Now()
		timer := c.After(t.Sub(now))
		if c.Now().Sub(now) < slip {
			return timer
		}
	}
}
