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
func (wc *writeCheck) put(k kv.Key, v any) error { return wc.note(k, encode(v)) }

func (wc *writeCheck) remove(k kv.Key) error { return wc.note(k, nil) }

func (wc *writeCheck) note(k kv.Key, value []byte) error {
	if _, twice := wc.ops[k]; !twice {
		wc.order = append(wc.order, k)
	}
	wc.ops[k] = value
	return wc.apply(k, value)
}

// addChange adds a change to the record.
func (wc *writeCheck) addChange(c Change) { wc.written.Changes = append(wc.written.Changes, c) }

// nextSerial returns an unused serial.
func (wc *writeCheck) nextSerial() uint64 {
	wc.s.head.Serial++
	return wc.s.head.Serial
}

// chooseID returns the desired id if it is free or, without one, the next free id.
func (wc *writeCheck) chooseID(what string, desired *int64, last *int64, have map[int64]uint64) (int64, *RequestError) {
	if desired != nil {
		if f := checkID(what, *desired); f != nil {
			return 0, f
		}
		if _, ok := have[*desired]; ok {
			return 0, alreadyTaken(what, fmt.Sprintf("id %d", *desired), *desired)
		}
		return *desired, nil
	}
	for range len(have) + 1 {
		*last++
		if _, ok := have[*last]; !ok && *last <= MaxID {
			return *last, nil
		}
	}
	return 0, tooLarge("%s: no id is left", what)
}

// readBlob returns a content, including new ones.
func (wc *writeCheck) readBlob(sha string) (configdb.JSON, error) {
	if v, ok := wc.fresh[sha]; ok {
		return v, nil
	}
	v, err := wc.src.Blob(sha)
	if err == nil {
		err = wc.m.Spend(2*len(v), 2*len(v))
	}
	return v, documentError(err, nil)
}

// storeContent adds a content to the write and returns its name.
func (wc *writeCheck) storeContent(v configdb.JSON) string {
	sha := shaOf(v)
	wc.fresh[sha], wc.used = v, append(wc.used, sha)
	return sha
}

// write validates one write.
func (wc *writeCheck) write(w Write) error {
	switch w := w.(type) {
	case CreateComponent:
		return wc.createComponent(w)
	case EditComponent:
		return wc.editComponent(w)
	case DeleteComponent:
		return wc.deleteComponent(w)
	case CreateDefinition:
		return wc.createDefinition(w)
	case EditDefinition:
		return wc.editDefinition(w)
	case EditContent:
		return wc.editContent(w)
	case DeleteDefinition:
		return wc.deleteDefinition(w)
	case DeclareSecrets:
		return wc.declareSecrets(w)
	case CreateEnvironment:
		return wc.createEnvironment(w)
	case EditEnvironment:
		return wc.editEnvironment(w)
	case DeleteEnvironment:
		return wc.deleteEnvironment(w)
	case RenameLevel:
		return wc.renameLevel(w)
	case PutNode:
		return wc.putNode(w)
	case DeleteNode:
		return wc.deleteNode(w)
	default:
		return wc.writeRecords(w)
	}
}

func (wc *writeCheck) writeRecords(w Write) error {
	switch w := w.(type) {
	case Put:
		return wc.putRecords(w)
	case EditKeys:
		return wc.editKeys(w)
	case Remove:
		return wc.removeRecord(w)
	case Rollback:
		return wc.rollback(w)
	case Bulk:
		return wc.writeBulk(w)
	}
	return invalid("write: unknown type %T: must be one that the ledger knows", w)
}

// writeBulk validates several writes as one; the error names the first that is refused.
func (wc *writeCheck) writeBulk(b Bulk) error {
	if len(b.Writes) > MaxBulk {
		return tooLarge("bulk: too many writes (%d): must be at most %d", len(b.Writes), MaxBulk)
	}
	for i, w := range b.Writes {
		if _, nested := w.(Bulk); nested {
			return invalid("bulk: write %d: is a bulk: must be another write", i+1)
		}
		err := wc.write(w)
		if f, ok := err.(*RequestError); ok { //nolint:errorlint // those of this package are never wrapped
			return fault(f.Kind, "write %d of %d: %s", i+1, len(b.Writes), f.Text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
