package kv

import "errors"

// Revision is a store's counter of transactions that changed something. 0 is
// before the first and stands for "absent" in an entry and for "now" in a read.
type Revision uint64

// Entry is one key as a read found it. An absent key has ModRevision 0.
type Entry struct {
	Key         Key
	Value       []byte
	ModRevision Revision // of the transaction that wrote it last
	Version     uint64   // writes since it was last absent; 1 is the first
	Lease       LeaseID  // 0: none
}

// Exists says whether the key was there.
func (e Entry) Exists() bool { return e.ModRevision != 0 }

// ListOptions say which part of a prefix to read. The zero value reads all of
// it as it is now.
type ListOptions struct {
	After Key      // only keys after this one; empty: from the first
	Limit int      // entries at most; 0: all
	At    Revision // as of this revision; 0: now
	Keys  bool     // entries without their values
}

// Page is the answer to a list: entries in the order of their keys, all as of one
// revision. To read on, list again After the last key, At this revision.
type Page struct {
	Entries  []Entry
	Revision Revision
	More     bool
}

// EventKind says what happened to a key.
type EventKind uint8

// The kinds of events.
const (
	EventPut EventKind = iota + 1
	EventDelete
)

func (k EventKind) String() string {
	switch k {
	case EventPut:
		return "put"
	case EventDelete:
		return "delete"
	}
	return "unknown"
}

// Event is one change of one key. Of a delete, the entry has the key and the
// revision of the delete only.
type Event struct {
	Kind  EventKind
	Entry Entry
}

// Batch is what one transaction changed below a watched prefix, in the order of
// its operations; a delete of a prefix, and the end of a lease, in that of keys.
type Batch struct {
	Revision Revision
	Events   []Event
}

// What a store answers instead of a result. Any other error of a write, such as
// that of a deadline, leaves open whether it took place: read again.
var (
	// ErrInvalid is a request that no store would take.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge is a transaction above MaxOps or MaxSize.
	ErrTooLarge = errors.New("too large")
	// ErrCompacted is a read at or a watch from a revision that the store forgot:
	// list again and watch from there.
	ErrCompacted = errors.New("revision is compacted")
	// ErrFuture is a revision that the store has not reached.
	ErrFuture = errors.New("revision is not reached")
	// ErrNoLease is a lease that was never granted, ran out or was revoked.
	ErrNoLease = errors.New("no such lease")
	// ErrClosed is a store that was closed.
	ErrClosed = errors.New("store is closed")

	// ErrUnwritten is a write that certainly changed nothing, as the store has no room for it
	// or its disk refuses: it may be done again once that is over.
	ErrUnwritten = errors.New("nothing was written")

	// ErrFull is a store that has no room. The write may have been done: etcd gives this answer to
	// what it has applied too, if that is what took it beyond its quota (etcdserver/apply/quota.go).
	ErrFull = errors.New("the store has no room")

	// ErrBroken is a store whose disk failed so that nobody knows what it holds: it takes no
	// write until it is opened anew. The write that found out may have been done or not.
	ErrBroken = errors.New("the store takes no more writes until it is opened again")
)
