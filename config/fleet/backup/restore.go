package backup

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"edgespan/config/fleet"
	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

const (
	maxOps  = 100     // of one transaction
	maxSize = 1 << 20 // bytes of one transaction, unless one key is larger
)

// maxMark is the maximum size of a mark, in bytes.
const maxMark = 256

// ahead is added to the numbers of pushes after a restore: more pushes than any node has had since the backup.
const ahead = 1 << 32

// Mark is the value of the key "restoring": it identifies the run and the backup.
type Mark struct {
	ID     string    `json:"id"` // of this run
	Time   time.Time `json:"time"`
	SHA256 string    `json:"sha256"` // of the backup
}

// Restore is the state of restoring a backup to a store.
type Restore struct {
	mark      []byte
	authority string
	copy      *Copy
	todo      []entry
	written   map[kv.Revision]kv.Revision // old barrier: the new revision that it becomes
	barriers  []kv.Revision               // in rising order
	reached   kv.Revision                 // revision of the old store
	ended     bool
}

// Restore prepares to restore the backup. The marks of two runs have different ids.
func (c *Copy) Restore(m Mark) (*Restore, error) {
	if c.file == nil {
		return nil, errors.New("restore: the backup was checked as a stream: must be one that Read has read")
	}
	m.SHA256 = c.SHA256
	mark, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	r := &Restore{mark: mark, copy: c, todo: slices.Clone(c.entries), written: map[kv.Revision]kv.Revision{}}
	slices.SortStableFunc(r.todo, func(a, b entry) int { return cmp.Compare(a.revision, b.revision) })
	for _, e := range r.todo {
		if e.barrier > 0 {
			r.barriers = append(r.barriers, e.barrier)
		}
	}
	slices.Sort(r.barriers)
	r.barriers = slices.Compact(r.barriers)
	return r, nil
}

// restoreFence succeeds unless another run has begun.
func restoreFence(mark []byte) kv.Compare { return kv.HasValue(history.RestoringKey(), mark) }

// Begin returns the first transaction, given the key "restoring" as it was read: absent, or left by an interrupted run.
// The transaction fails if another run was faster, or if a controller has begun to serve a fleet from the store.
func (r *Restore) Begin(have kv.Entry) kv.Txn {
	t := kv.Txn{
		Compares: []kv.Compare{kv.AtRevision(history.RestoringKey(), have.ModRevision)},
		Then:     []kv.Op{kv.Put(history.RestoringKey(), r.mark)},
	}
	if !have.Exists() {
		t.Compares = append(t.Compares, kv.Absent(history.FleetKey()), kv.Absent(history.HeadKey()))
	}
	return t
}

// Clear returns the transaction that removes some of the keys that an interrupted run wrote; false if there is nothing
// to remove.
func (r *Restore) Clear(some []kv.Entry) (kv.Txn, bool) {
	t := kv.Txn{Compares: []kv.Compare{restoreFence(r.mark)}}
	for _, e := range some {
		if e.Key != history.RestoringKey() && len(t.Then) < maxOps {
			t.Then = append(t.Then, kv.Delete(e.Key))
		}
	}
	return t, len(t.Then) > 0
}

// SetTarget sets the id of the target store: the authority of its generations.
func (r *Restore) SetTarget(authority string) { r.authority = authority }

// Next returns the next transaction, after the one before was committed at revision done; false after the last, which
// removes the mark. Errors are those of reading the backup again.
func (r *Restore) Next(done kv.Revision) (kv.Txn, bool, error) {
	r.recordBarriers(done)
	if r.ended {
		return kv.Txn{}, false, nil
	}
	t := kv.Txn{Compares: []kv.Compare{restoreFence(r.mark)}}
	if len(r.todo) == 0 {
		r.ended = true
		t.Then = []kv.Op{kv.Delete(history.RestoringKey())}
		return t, true, nil
	}
	n := 0
	for n < len(r.todo) && n < maxOps && (n == 0 || !r.needsSeparateTxn(r.todo[n-1], r.todo[n])) {
		l, err := r.copy.readLine(r.todo[n])
		if err != nil {
			return kv.Txn{}, false, err
		}
		t.Then = append(t.Then, kv.Put(l.Key, r.newValue(l)))
		if n > 0 && t.Size() > maxSize {
			t.Then = t.Then[:n]
			break
		}
		n++
	}
	r.reached = r.todo[n-1].revision
	r.todo = r.todo[n:]
	return t, true, nil
}

// Remaining returns how many keys are not written yet.
func (r *Restore) Remaining() int { return len(r.todo) }

// recordBarriers records the new revision that each barrier has reached.
func (r *Restore) recordBarriers(done kv.Revision) {
	for _, b := range r.barriers {
		if b >= r.reached {
			r.written[b] = done
		}
	}
}

// needsSeparateTxn reports whether two consecutive keys must not be in one transaction, because their revisions have
// to keep their order.
func (r *Restore) needsSeparateTxn(a, b entry) bool {
	if a.revision == b.revision {
		return false
	}
	if history.InRollouts.Has(a.key) || history.InRollouts.Has(b.key) {
		return true
	}
	return slices.ContainsFunc(r.barriers, func(at kv.Revision) bool { return a.revision <= at && at < b.revision })
}

// barred is the part of a rollout's record that is a revision of the store.
type barred struct {
	Barrier kv.Revision `json:"barrier"`
}

func barrierOf(l line) kv.Revision {
	var b barred
	if history.InRollouts.Has(l.Key) && json.Unmarshal(l.Value, &b) != nil {
		return 0 // Check has parsed it
	}
	return b.Barrier
}

// newValue returns a key's value in the new store. Read has rejected values that can't be parsed.
func (r *Restore) newValue(l line) []byte {
	switch {
	case history.InGenerations.Has(l.Key):
		var c fleet.Counted
		if json.Unmarshal(l.Value, &c) != nil || c.Generation == (fleet.Generation{}) {
			return l.Value
		}
		next, _, err := c.Allocate(r.authority, c.Digest)
		if err != nil {
			return l.Value
		}
		next.Trial = c.Trial
		return encode(next, l.Value)
	case history.InPushes.Has(l.Key):
		m, err := fleet.ParseMemory(l.Value)
		if err != nil {
			return l.Value
		}
		m.Push.Number += ahead
		return encode(m, l.Value)
	case history.InBisects.Has(l.Key): // the restored controller must not push tests
		var search bisect.Record
		if json.Unmarshal(l.Value, &search) != nil || !search.Abort("the restore of a backup") {
			return l.Value
		}
		return encode(search, l.Value)
	case barrierOf(l) > 0:
		fields := map[string]json.RawMessage{}
		if json.Unmarshal(l.Value, &fields) != nil {
			return l.Value
		}
		fields["barrier"] = encode(r.written[barrierOf(l)], nil)
		return encode(fields, l.Value)
	}
	return l.Value
}

// encode returns the JSON of a value, or instead if that fails.
func encode(v any, instead []byte) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return instead
	}
	return text
}
