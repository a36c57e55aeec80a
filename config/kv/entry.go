package kv

import "errors"

// Revision is a store's counter of transactions that changed something. 0 is the revision of an empty store; it means
// "absent" in an entry and "now" in a read.
type Revision uint64

// Entry is one key as a read returned it. An absent key has ModRevision 0.
type Entry struct {
	Key         Key
	Value       []byte
	ModRevision Revision // of the transaction that last wrote the key
	Version     uint64   // writes since the key was last absent; the first is 1
	Lease       LeaseID  // 0: none
}

// Exists reports whether the key was present.
func (e Entry) Exists() bool { return e.ModRevision != 0 }

// ListOptions select a part of a prefix. The zero value selects all of it at the current revision.
type ListOptions struct {
	After Key      // only keys after this one; empty: from the first
	Limit int      // maximum number of entries; 0: all
	At    Revision // read at this revision; 0: the current one
	Keys  bool     // omit the values
}

// Page is the result of a list: entries in the order of their keys, all at one revision. To get the next page, list
// again with After set to the last key and At to Revision.
type Page struct {
	Entries  []Entry
	Revision Revision
	More     bool
}

// EventKind is the kind of a change.
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

// Event is one change of one key. The entry of a delete has only the key and the revision of the delete.
type Event struct {
	Kind  EventKind
	Entry Entry
}

// Batch holds the changes of one transaction below a watched prefix, in the order of its operations. The keys that the
// delete of a prefix or the end of a lease removed are sorted.
type Batch struct {
	Revision Revision
	Events   []Event
}

// Errors of a store. After any other error of a write, such as a deadline, the write may have been done or not: read
// the key again.
var (
	// ErrInvalid reports a request that no store accepts.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge reports a transaction above MaxOps or MaxSize.
	ErrTooLarge = errors.New("too large")
	// ErrCompacted reports a read at, or a watch from, a revision that the store has dropped: list again and watch from
	// there.
	ErrCompacted = errors.New("revision is compacted")
	// ErrFuture reports a revision that the store has not reached.
	ErrFuture = errors.New("revision is not reached")
	// ErrNoLease reports a lease that was never granted, has expired or was revoked.
	ErrNoLease = errors.New("no such lease")
	// ErrClosed reports a store that is closed.
	ErrClosed = errors.New("store is closed")

	// ErrUnwritten reports a write that certainly changed nothing, because the store is out of space or its disk fails.
	// Retry it once that is fixed.
	ErrUnwritten = errors.New("nothing was written")

	// ErrFull reports a store that is out of space. The write may have been done: etcd also returns this error for a write
	// that it applied if that write exceeded its quota (etcdserver/apply/quota.go).
	ErrFull = errors.New("the store has no room")

	// ErrBroken reports a store whose disk failed, so that its content is unknown: it accepts no write until it is
	// reopened. The write that got the disk's error may have been done or not.
	ErrBroken = errors.New("the store takes no more writes until it is opened again")
)
