// Package backend owns the contract of the controller's store, what its backends bolt
// and etcd share, and the driver of elections on any of them (docs/adr/0016).
//
// The interface stands here, in a room of platform, and not in config/kv
// that owns its words: every call takes a context, which no core may import. It
// has only plain types of that core in it, so that actors, which may not import
// platform, declare the methods that they use and every backend fits.
//
// It never keeps a value and never decides what to write.
package backend

import (
	"context"
	"time"

	"edgespan/config/kv"
)

// Store is a store of revisioned keys. All methods may be called at once from
// many goroutines. platform/store/conformance holds every backend to what stands
// here and in config/kv.
type Store interface {
	// ID is the UUID that the store was given when it was first opened: the
	// authority of the generations that it counts.
	ID() string

	// Get reads a key, and says as of which revision; a watch from there misses
	// nothing. An absent key is an entry that does not exist, no error.
	Get(ctx context.Context, key kv.Key) (kv.Entry, kv.Revision, error)

	// List reads what is below a prefix, as of one revision. Further pages of the
	// same revision are whole until it is compacted.
	List(ctx context.Context, prefix kv.Prefix, o kv.ListOptions) (kv.Page, error)

	// Commit does a transaction. It returns when the transaction is on disk.
	// ErrInvalid, ErrTooLarge, ErrNoLease and ErrUnwritten changed nothing; after any other
	// error, ErrFull among them, it may have taken place or not: read again.
	Commit(ctx context.Context, txn kv.Txn) (kv.Outcome, error)

	// Watch delivers what each later transaction changed below a prefix, in order,
	// until the context ends or deliver answers with an error; that error is
	// returned. How long deliver takes is no writer's matter. A watch that falls
	// behind a compaction ends with ErrCompacted, one from a revision that the store
	// has not reached, as after a restored backup, with ErrFuture.
	Watch(ctx context.Context, prefix kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error

	// Compact forgets what was before a revision. Doing it again is no error.
	Compact(ctx context.Context, at kv.Revision) error

	// Grant makes a lease that ends its time to live after it was last kept alive,
	// never earlier; with it go the keys that hang on it, in one transaction. It
	// survives a restart of the store, which begins its time anew.
	Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error)

	// KeepAlive lets the time of a lease begin anew, and says how long it is.
	KeepAlive(ctx context.Context, id kv.LeaseID) (time.Duration, error)

	// Revoke ends a lease now.
	Revoke(ctx context.Context, id kv.LeaseID) error

	// Keys are those that hang on a lease, in order.
	Keys(ctx context.Context, id kv.LeaseID) ([]kv.Key, error)

	// Sound says why the store takes no writes, as far as its last answers told; nil if it
	// does. It asks nobody, and forgets a refused write only where the store takes one again or
	// says that it would.
	Sound() error

	// Scarce says that the store comes near the limit at which it refuses all writes, as far as it
	// knows one and its last answers told: writes that can wait should. nil: it does not.
	Scarce() error

	// Size is how many bytes the store takes, its own history among it, without what is free for
	// use again.
	Size(ctx context.Context) (int64, error)

	// Close ends all calls with ErrClosed and lets go of the store.
	Close() error
}

// Clock is the time that leases and elections go by. Tests bring their own.
type Clock interface {
	Now() time.Time
	// After sends once d has passed.
	After(d time.Duration) <-chan time.Time
}

// Wall is the clock of the machine.
type Wall struct{}

func (Wall) Now() time.Time { return time.Now() }

func (Wall) After(d time.Duration) <-chan time.Time { return time.After(d) }

// slip is by how much a timer of At may be late.
const slip = time.Millisecond

// At sends once the clock shows t. A timer counts from when it is made: if the clock moved on
// between the look at it and that, as it does while the machine is suspended, it is made anew.
func At(c Clock, t time.Time) <-chan time.Time {
	for {
		now := c.Now()
		timer := c.After(t.Sub(now))
		if c.Now().Sub(now) < slip {
			return timer
		}
	}
}
