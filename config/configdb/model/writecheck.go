package model

import (
	"fmt"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// writeCheck validates one write, or the writes of a Bulk, and collects the keys that they write.
type writeCheck struct {
	*draft
	src Source
	m   *configdb.Meter // of this write

	revision uint64 // the revision of the write
	order    []kv.Key
	ops      map[kv.Key][]byte        // nil: delete
	fresh    map[string]configdb.JSON // new contents of this write and of those before it in the plan, by name
	used     []string                 // names of the contents of this write
	planned  map[uint64]Record        // revisions of the writes before it in the plan
	written  Written
	own      bool  // Pending.Own
	quota    int64 // Pending.Quota
	blind    bool  // Pending.Blind
	guessed  bool  // a blind write contains a secret: from here on every write counts as a change
}

func (s *State) newWriteCheck(src Source, p *planner, e QueuedWrite) *writeCheck {
	m := src.Meter().Fresh(e.Stop)
	j := &writeCheck{draft: s.draft(), src: metered{src, m}, m: m, revision: s.head.Revision + 1, ops: map[kv.Key][]byte{},
		fresh: p.fresh, planned: p.records, own: e.Own, quota: e.Quota, blind: e.Blind}
	j.s.head.Revision = j.revision
	return j
}

// metered is a source with the meter of one write.
type metered struct {
	Source
	m *configdb.Meter
}

func (m metered) Meter() *configdb.Meter { return m.m }

// put writes a key in the draft and in the transaction.
func (j *writeCheck) put(k kv.Key, v any) error { return j.note(k, encode(v)) }

func (j *writeCheck) remove(k kv.Key) error { return j.note(k, nil) }

func (j *writeCheck) note(k kv.Key, value []byte) error {
	if _, twice := j.ops[k]; !twice {
		j.order = append(j.order, k)
	}
	j.ops[k] = value
	return j.apply(k, value)
}

// changed adds a change to the record.
func (j *writeCheck) changed(c Change) { j.written.Changes = append(j.written.Changes, c) }

// serial returns an unused serial.
func (j *writeCheck) serial() uint64 {
	j.s.head.Serial++
	return j.s.head.Serial
}

// id returns the desired id if it is free or, without one, the next free id.
func (j *writeCheck) id(what string, desired *int64, last *int64, have map[int64]uint64) (int64, *RequestError) {
	if desired != nil {
		if f := checkID(what, *desired); f != nil {
			return 0, f
		}
		if _, is := have[*desired]; is {
			return 0, taken(what, fmt.Sprintf("id %d", *desired), *desired)
		}
		return *desired, nil
	}
	for range len(have) + 1 {
		*last++
		if _, is := have[*last]; !is && *last <= MaxID {
			return *last, nil
		}
	}
	return 0, tooLarge("%s: no id is left", what)
}

// blob returns a content, including new ones.
func (j *writeCheck) blob(sha string) (configdb.JSON, error) {
	if v, is := j.fresh[sha]; is {
		return v, nil
	}
	v, err := j.src.Blob(sha)
	if err == nil {
		err = j.m.Spend(2*len(v), 2*len(v))
	}
	return v, ofDocument(err, nil)
}

// storeContent adds a content to the write and returns its name.
func (j *writeCheck) storeContent(v configdb.JSON) string {
	sha := shaOf(v)
	j.fresh[sha], j.used = v, append(j.used, sha)
	return sha
}

// write validates one write.
func (j *writeCheck) write(w Write) error {
	switch w := w.(type) {
	case CreateComponent:
		return j.createComponent(w)
	case EditComponent:
		return j.editComponent(w)
	case DeleteComponent:
		return j.deleteComponent(w)
	case CreateDefinition:
		return j.createDefinition(w)
	case EditDefinition:
		return j.editDefinition(w)
	case EditContent:
		return j.editContent(w)
	case DeleteDefinition:
		return j.deleteDefinition(w)
	case DeclareSecrets:
		return j.declareSecrets(w)
	case CreateEnvironment:
		return j.createEnvironment(w)
	case EditEnvironment:
		return j.editEnvironment(w)
	case DeleteEnvironment:
		return j.deleteEnvironment(w)
	case RenameLevel:
		return j.renameLevel(w)
	case PutNode:
		return j.putNode(w)
	case DeleteNode:
		return j.deleteNode(w)
	default:
		return j.writeRecords(w)
	}
}

func (j *writeCheck) writeRecords(w Write) error {
	switch w := w.(type) {
	case Put:
		return j.putRecords(w)
	case EditKeys:
		return j.editKeys(w)
	case Remove:
		return j.removeRecord(w)
	case Rollback:
		return j.rollback(w)
	case Bulk:
		return j.bulk(w)
	}
	return invalid("write: unknown type %T: must be one that the ledger knows", w)
}

// bulk validates several writes as one; the error names the first that is refused.
func (j *writeCheck) bulk(b Bulk) error {
	if len(b.Writes) > MaxBulk {
		return tooLarge("bulk: too many writes (%d): must be at most %d", len(b.Writes), MaxBulk)
	}
	for i, w := range b.Writes {
		if _, nested := w.(Bulk); nested {
			return invalid("bulk: write %d: is a bulk: must be another write", i+1)
		}
		err := j.write(w)
		if f, is := err.(*RequestError); is { //nolint:errorlint // those of this package are never wrapped
			return fault(f.Kind, "write %d of %d: %s", i+1, len(b.Writes), f.Text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
