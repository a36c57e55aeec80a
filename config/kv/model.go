package kv

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Model is a store in memory that implements the guarantees of this package as plainly as possible. Tests compare the
// real stores with it, and tests of cores that use transactions run against it. Its revisions increase by one.
type Model struct {
	revision  Revision
	compacted Revision
	versions  map[Key][]Entry // all versions of a key, by revision; a Version of 0 is a delete
	log       []Batch         // by revision
	leases    map[LeaseID]modelLease
	lastLease LeaseID
}

type modelLease struct {
	ttl  time.Duration
	ends time.Time
}

// NewModel returns an empty store at revision 0.
func NewModel() *Model {
	return &Model{versions: map[Key][]Entry{}, leases: map[LeaseID]modelLease{}}
}

// Get returns a key and the revision at which it was read.
func (m *Model) Get(k Key) (Entry, Revision, error) {
	if err := k.Check(); err != nil {
		return Entry{}, 0, err
	}
	return m.entryAt(k, m.revision), m.revision, nil
}

// entryAt returns a key as of a revision.
func (m *Model) entryAt(k Key, r Revision) Entry {
	for _, v := range slices.Backward(m.versions[k]) {
		if v.ModRevision > r {
			continue
		}
		if v.Version == 0 {
			break
		}
		v.Value = slices.Clone(v.Value)
		return v
	}
	return Entry{Key: k}
}

// List returns the entries below a prefix.
func (m *Model) List(p Prefix, o ListOptions) (Page, error) {
	if err := o.Check(p); err != nil {
		return Page{}, err
	}
	page := Page{Revision: o.At}
	if o.At == 0 {
		page.Revision = m.revision
	}
	if err := m.checkReadable(page.Revision); err != nil {
		return Page{}, fmt.Errorf("list below %q: %w", p, err)
	}
	for _, k := range m.keysBelow(p) {
		e := m.entryAt(k, page.Revision)
		if k <= o.After || !e.Exists() {
			continue
		}
		if o.Limit > 0 && len(page.Entries) == o.Limit {
			page.More = true
			break
		}
		if o.Keys {
			e.Value = nil
		}
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

// Check returns an error if a list of the prefix with these options is invalid.
func (o ListOptions) Check(p Prefix) error {
	if err := p.Check(); err != nil {
		return err
	}
	if o.Limit < 0 {
		return fmt.Errorf("list below %q: limit %d: %w: must be 0 or more", p, o.Limit, ErrInvalid)
	}
	if o.After == "" {
		return nil
	}
	if !p.Has(o.After) {
		return fmt.Errorf("list below %q: after %q: %w: must be a key below the prefix", p, o.After, ErrInvalid)
	}
	return o.After.Check()
}

// checkReadable returns an error if the state at a revision can't be read.
func (m *Model) checkReadable(r Revision) error {
	switch {
	case r > m.revision:
		return fmt.Errorf("%w: %d, the store is at %d", ErrFuture, r, m.revision)
	case r < m.compacted:
		return fmt.Errorf("%w: %d, the oldest is %d", ErrCompacted, r, m.compacted)
	}
	return nil
}

// keysBelow returns the keys below a prefix that have a version, deleted ones included, sorted.
func (m *Model) keysBelow(p Prefix) []Key {
	var keys []Key
	for k := range m.versions {
		if p.Has(k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// Since returns the batches that a watch of a prefix gets if it starts after a revision.
func (m *Model) Since(p Prefix, after Revision) ([]Batch, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	switch {
	case after > m.revision:
		return nil, fmt.Errorf("watch below %q: %w: %d, the store is at %d", p, ErrFuture, after, m.revision)
	case after+1 < m.compacted:
		return nil, fmt.Errorf("watch below %q: %w: %d, the oldest is %d", p, ErrCompacted, after+1, m.compacted)
	}
	var out []Batch
	first, _ := slices.BinarySearchFunc(m.log, after+1,
		func(b Batch, r Revision) int { return cmp.Compare(b.Revision, r) })
	for _, b := range m.log[first:] {
		owned := Batch{Revision: b.Revision}
		for _, e := range b.Events {
			if p.Has(e.Entry.Key) {
				e.Entry.Value = slices.Clone(e.Entry.Value)
				owned.Events = append(owned.Events, e)
			}
		}
		if len(owned.Events) > 0 {
			out = append(out, owned)
		}
	}
	return out, nil
}

// Compact drops the history before a revision. It does nothing if that history has been dropped already.
func (m *Model) Compact(r Revision) error {
	if r > m.revision {
		return fmt.Errorf("compact: %w: %d, the store is at %d", ErrFuture, r, m.revision)
	}
	if r <= m.compacted {
		return nil
	}
	m.compacted = r
	m.log = slices.DeleteFunc(m.log, func(b Batch) bool { return b.Revision < r })
	for k, vs := range m.versions {
		first := 0
		for i, v := range vs {
			if v.ModRevision <= r && (v.Version > 0 || v.ModRevision == r) {
				first = i
			} else if v.ModRevision <= r {
				first = i + 1
			}
		}
		if vs = slices.Clone(vs[first:]); len(vs) == 0 {
			delete(m.versions, k)
		} else {
			m.versions[k] = vs
		}
	}
	return nil
}

// Commit executes a transaction.
func (m *Model) Commit(t Txn) (TxnResult, error) {
	if err := t.Check(); err != nil {
		return TxnResult{}, err
	}
	out := TxnResult{Succeeded: true}
	for _, c := range t.Compares {
		out.Succeeded = out.Succeeded && c.Holds(m.entryAt(c.Key, m.revision))
	}
	ops := t.Then
	if !out.Succeeded {
		ops = t.Else
	}
	for _, op := range ops {
		if _, granted := m.leases[op.Lease]; op.Lease != 0 && !granted {
			return TxnResult{}, fmt.Errorf("put %q: lease %d: %w", op.Key, op.Lease, ErrNoLease)
		}
	}
	next := m.revision + 1
	var events []Event
	for _, op := range ops {
		var result Result
		switch op.Kind {
		case OpGet:
			result.Entry = m.entryAt(op.Key, next)
		case OpPut:
			events = append(events, m.applyPut(op, next))
		case OpDelete, OpDeletePrefix:
			gone := m.applyDelete(op, next)
			result.Deleted = len(gone)
			events = append(events, gone...)
		}
		out.Results = append(out.Results, result)
	}
	m.record(events)
	out.Revision = m.revision
	return out, nil
}

func (m *Model) applyPut(op Op, r Revision) Event {
	e := Entry{Key: op.Key, Value: slices.Clone(op.Value), ModRevision: r, Version: m.entryAt(op.Key, r).Version + 1,
		Lease: op.Lease}
	m.versions[op.Key] = append(m.versions[op.Key], e)
	return Event{Kind: EventPut, Entry: e}
}

func (m *Model) applyDelete(op Op, r Revision) []Event {
	keys := []Key{op.Key}
	if op.Kind == OpDeletePrefix {
		keys = m.keysBelow(op.Prefix)
	}
	var gone []Event
	for _, k := range keys {
		if !m.entryAt(k, r).Exists() {
			continue
		}
		e := Entry{Key: k, ModRevision: r}
		m.versions[k] = append(m.versions[k], e)
		gone = append(gone, Event{Kind: EventDelete, Entry: e})
	}
	return gone
}

// record stores the events of a transaction under a new revision, if there are any.
func (m *Model) record(events []Event) {
	if len(events) == 0 {
		return
	}
	m.revision++
	m.log = append(m.log, Batch{Revision: m.revision, Events: events})
}

// Grant returns a new lease that ends at now plus ttl.
func (m *Model) Grant(now time.Time, ttl time.Duration) (LeaseID, error) {
	if err := CheckTTL(ttl); err != nil {
		return 0, err
	}
	m.lastLease++
	m.leases[m.lastLease] = modelLease{ttl: ttl, ends: now.Add(ttl)}
	return m.lastLease, nil
}

// KeepAlive extends a lease to now plus its time to live, and returns that time to live.
func (m *Model) KeepAlive(now time.Time, id LeaseID) (time.Duration, error) {
	l, granted := m.leases[id]
	if !granted {
		return 0, fmt.Errorf("keep lease %d alive: %w", id, ErrNoLease)
	}
	l.ends = now.Add(l.ttl)
	m.leases[id] = l
	return l.ttl, nil
}

// Revoke ends a lease and removes the keys attached to it, in one transaction.
func (m *Model) Revoke(id LeaseID) error {
	if _, granted := m.leases[id]; !granted {
		return fmt.Errorf("revoke lease %d: %w", id, ErrNoLease)
	}
	delete(m.leases, id)
	var gone []Event
	for _, k := range m.keysOf(id) {
		gone = append(gone, m.applyDelete(Delete(k), m.revision+1)...)
	}
	m.record(gone)
	return nil
}

// Keys returns the keys attached to a lease, sorted.
func (m *Model) Keys(id LeaseID) ([]Key, error) {
	if _, granted := m.leases[id]; !granted {
		return nil, fmt.Errorf("look at lease %d: %w", id, ErrNoLease)
	}
	return m.keysOf(id), nil
}

func (m *Model) keysOf(id LeaseID) []Key {
	var keys []Key
	for _, k := range m.keysBelow("") {
		if m.entryAt(k, m.revision).Lease == id {
			keys = append(keys, k)
		}
	}
	return keys
}

// Expire revokes the leases that have ended, the oldest grant first, each in a transaction of its own, and returns
// them.
func (m *Model) Expire(now time.Time) []LeaseID {
	var ended []LeaseID
	for id, l := range m.leases {
		if !l.ends.After(now) {
			ended = append(ended, id)
		}
	}
	slices.Sort(ended)
	for _, id := range ended {
		_ = m.Revoke(id) // never an error: the lease exists
	}
	return ended
}
