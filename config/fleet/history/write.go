package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/layers/override"
)

// Change is one write of any number of layers. It takes effect completely or not at all.
type Change struct {
	Author  string
	Time    time.Time
	Message string
	// Layers holds the documents to write; nil deletes a layer.
	Layers map[Layer]config.Object
	// IfMatch binds the write to the revision that wrote a layer last, 0 for one that was never written. The layer may be
	// one that the write does not change.
	IfMatch map[Layer]uint64
	// Compares are further conditions of each transaction, such as a leader's fence.
	Compares []kv.Compare
	// Then is executed together with the revision, in its last transaction; a write that changes nothing skips it.
	Then []kv.Op
	// Renamed lists the renamed nodes; Rename and Restore set it.
	Renamed []Rename
	Trace   string // traceparent of the write, "" for none

	names kv.Txn // conditions and operations of a rename outside the layers
}

// FromEdit converts a write that config/layers/override has accepted to the layers of a Change.
func FromEdit(l layers.Layer, r override.Result) map[Layer]config.Object {
	out := map[Layer]config.Object{}
	switch {
	case !r.Changed:
	case l == layers.Network:
		out[Layer{Kind: Network}] = r.Network
	default:
		for name, doc := range r.Nodes {
			out[Layer{Node, name}] = doc
		}
	}
	return out
}

// Conflict reports a layer that was written after the revision that a write was bound to.
type Conflict struct {
	Layer    Layer
	Expected uint64
	By       RevisionRecord // the writer; its Number is 0 if the layer was never written
}

// Error names the revision that wrote it.
func (c Conflict) Error() string {
	if c.By.Number == 0 {
		return fmt.Sprintf("%s: was never written: must be revision 0, not %d", c.Layer, c.Expected)
	}
	return fmt.Sprintf("%s: was written by %s: the write is bound to revision %d of it", c.Layer, c.By, c.Expected)
}

// Conflicts holds all conflicting layers of a write.
type Conflicts []Conflict

// Is reports whether target is config.Conflict.
func (cs Conflicts) Is(target error) bool { return target == config.Conflict }

// Error returns one line per conflict.
func (cs Conflicts) Error() string {
	lines := make([]string, len(cs))
	for i, c := range cs {
		lines[i] = c.Error()
	}
	return strings.Join(lines, "\n")
}

// CommitPlan is a write as transactions, to be executed in order until one does not succeed: then head has moved, or
// one of Change.Compares fails. The first operation of Else reads head. If head has moved, the caller validates and
// plans the write again on the new head.
type CommitPlan struct {
	Txns   []kv.Txn       // none: the layers do not change
	Record RevisionRecord // the new revision, or the number of the head where there are no Txns
}

// errNotHead reports a bug of the caller.
var errNotHead = errors.New("plan: the state is not the newest: must be one that Head has read")

// Plan returns the transactions of a write that was validated on this state, which Head has read. It returns Conflicts
// if a layer of IfMatch was written since.
func (s State) Plan(c Change) (CommitPlan, error) {
	if s.head == nil {
		return CommitPlan{}, errNotHead
	}
	if c.Author == "" {
		return CommitPlan{}, errors.New("plan: author: required")
	}
	o := s.objects()
	have, err := s.currentEntries(o, c)
	if err != nil {
		return CommitPlan{}, err
	}
	record := RevisionRecord{Number: s.Number + 1, Parent: s.Number, Author: c.Author, Time: c.Time.UTC().Round(0),
		Message: c.Message, Renamed: c.Renamed, Trace: c.Trace}
	changed, err := changedEntries(o, c, have, record.Number)
	if err != nil {
		return CommitPlan{}, err
	}
	if len(changed) == 0 && len(c.Renamed) == 0 {
		return CommitPlan{Record: RevisionRecord{Number: s.Number}}, nil
	}
	if record.Tree, err = o.update(s.tree, 0, changed); err != nil {
		return CommitPlan{}, err
	}
	return s.buildTransactions(o, c, record)
}

// currentEntries reads the entries that a write concerns, and finds its conflicts.
func (s State) currentEntries(o *objects, c Change) (map[Layer]entry, error) {
	var desired []Layer
	for l := range c.Layers {
		desired = append(desired, l)
	}
	for _, r := range c.Renamed {
		desired = append(desired, Layer{Node, r.From}, Layer{Auto, r.From}, Layer{Node, r.To}, Layer{Auto, r.To})
	}
	bound := layersOf(c.IfMatch)
	have, err := o.find(s.tree, append(desired, bound...))
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return have, s.checkConflicts(have, bound, c)
}

// CheckBinding returns the layers of a state that were written since the revisions that a write is bound to: Conflicts,
// or nil.
func (s State) CheckBinding(to map[Layer]uint64) error {
	_, err := s.currentEntries(s.objects(), Change{IfMatch: to})
	return err
}

// checkConflicts compares the current entries with the revisions that a write is bound to.
func (s State) checkConflicts(have map[Layer]entry, bound []Layer, c Change) (err error) {
	var conflicts Conflicts
	for _, l := range bound {
		if have[l].Revision == c.IfMatch[l] {
			continue
		}
		conflict := Conflict{Layer: l, Expected: c.IfMatch[l]}
		if by := have[l].Revision; by != 0 {
			if conflict.By, err = ReadRecord(s.reader, by); err != nil {
				return err
			}
		}
		conflicts = append(conflicts, conflict)
	}
	if conflicts != nil {
		return conflicts
	}
	return nil
}

// changedEntries returns the entries of the layers that change.
func changedEntries(o *objects, c Change, have map[Layer]entry, number uint64) ([]entry, error) {
	before := map[string]string{}
	for _, r := range c.Renamed {
		before[r.To] = r.From
	}
	var changed []entry
	var faults config.Faults
	var same []entry // content does not change
	for _, l := range layersOf(c.Layers) {
		e := entry{Layer: l, Revision: number}
		if doc := c.Layers[l]; doc != nil {
			var wrong config.Faults
			e.Object, wrong = o.putDocument(doc)
			for _, f := range wrong {
				f.Path = config.Below([]string{l.String()}, f.Path...)
				faults = append(faults, f)
			}
			from, ok := before[l.Name]
			if was := (Layer{l.Kind, from}); ok && (l.Kind == Node || l.Kind == Auto) && have[was].Object != "" {
				e.From = &was
			}
		}
		if e.Object != have[l].Object || e.From != nil {
			changed = append(changed, e)
		} else if e.Object != "" {
			same = append(same, e)
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	anew, err := o.damagedOf(same)
	if err != nil {
		return nil, err
	}
	changed = append(changed, anew...)
	return append(changed, exchangedEntries(c, have, number)...), nil
}

// damagedOf returns the entries whose objects are damaged in the store: a write with the same content repairs them.
func (o *objects) damagedOf(entries []entry) ([]entry, error) {
	stored := &objects{reader: o.reader}
	hashes := make([]string, len(entries))
	for i, e := range entries {
		hashes[i] = e.Object
	}
	_, damaged, err := stored.documents(hashes)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return slices.DeleteFunc(entries, func(e entry) bool { return damaged[e.Object] == nil }), nil
}

// exchangedEntries returns the entries of layers that keep their content but belong to another node now: two nodes with
// equal content have swapped names.
func exchangedEntries(c Change, have map[Layer]entry, number uint64) []entry {
	var out []entry
	for _, r := range c.Renamed {
		for _, kind := range []Kind{Node, Auto} {
			from, to := Layer{kind, r.From}, Layer{kind, r.To}
			if _, written := c.Layers[to]; !written && have[from].Object != "" && have[to].Object != "" {
				out = append(out, entry{to, have[to].Object, number, &from})
			}
		}
	}
	return out
}

// buildTransactions stores the new objects and moves head to them.
func (s State) buildTransactions(o *objects, c Change, record RevisionRecord) (CommitPlan, error) {
	same := append([]kv.Compare{kv.AtRevision(HeadKey(), s.head.ModRevision)}, c.Compares...)
	instead := []kv.Op{kv.Get(HeadKey())}
	var puts []kv.Op
	for _, hash := range o.order {
		puts = append(puts, kv.Put(objectKey(hash), o.fresh[hash]))
	}
	beside := c.names
	beside.Then = slices.Concat(c.names.Then, c.Then)
	last, err := headTxn(record, same, puts, beside)
	if err != nil {
		return CommitPlan{}, err
	}
	if last.Else = instead; fits(last) {
		return CommitPlan{[]kv.Txn{last}, record}, checkTxn(last)
	}
	text, err := json.Marshal(record)
	if err != nil {
		return CommitPlan{}, fmt.Errorf("plan: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(text, " after %d", s.head.ModRevision))
	record.ChangeSet = hex.EncodeToString(sum[:16])
	plan := CommitPlan{Record: record}
	for i, part := range groupPuts(puts) {
		note, err := json.Marshal(partValue{record.Author, record.Time, hashesOf(part)})
		if err != nil {
			return CommitPlan{}, fmt.Errorf("plan: %w", err)
		}
		txn := kv.Txn{Compares: same, Then: append(part, kv.Put(setKey(record.ChangeSet, i), note)), Else: instead}
		plan.Txns = append(plan.Txns, txn)
	}
	if last, err = headTxn(record, same, nil, beside); err != nil {
		return CommitPlan{}, err
	}
	last.Then = append(last.Then, kv.DeletePrefix(kv.Prefix(folderSets+record.ChangeSet+"/")))
	last.Else = instead
	plan.Txns = append(plan.Txns, last)
	for _, txn := range plan.Txns {
		if err := checkTxn(txn); err != nil {
			return CommitPlan{}, err
		}
	}
	return plan, nil
}

// headTxn returns the transaction that makes a revision visible.
func headTxn(record RevisionRecord, same []kv.Compare, puts []kv.Op, names kv.Txn) (kv.Txn, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return kv.Txn{}, fmt.Errorf("plan: %w", err)
	}
	head, err := json.Marshal(headValue{record.Number, record.Tree})
	if err != nil {
		return kv.Txn{}, fmt.Errorf("plan: %w", err)
	}
	return kv.Txn{
		Compares: slices.Concat(same, []kv.Compare{kv.Absent(RevisionKey(record.Number))}, names.Compares),
		Then:     slices.Concat(puts, []kv.Op{kv.Put(RevisionKey(record.Number), text), kv.Put(HeadKey(), head)}, names.Then),
	}, nil
}

func fits(t kv.Txn) bool { return len(t.Then) <= kv.MaxOps && t.Size() <= kv.MaxSize }

func checkTxn(t kv.Txn) error {
	if err := t.Check(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}

// partValue lists the objects that the transaction of a part of a change-set stores.
type partValue struct {
	Author  string    `json:"author"`
	Time    time.Time `json:"time"`
	Objects []string  `json:"objects"`
}

const (
	// partObjects leaves room for the rest of a transaction, here and in a sweep.
	partObjects = kv.MaxOps - 8
	// partSize leaves room for a part's note, which has 67 bytes for each object, and for compares.
	partSize = kv.MaxSize - 128<<10
)

// groupPuts groups puts so that each group fits into a transaction.
func groupPuts(puts []kv.Op) [][]kv.Op {
	var out [][]kv.Op
	start := 0
	for i := range puts {
		if i+1 < len(puts) && i+1-start < partObjects && (kv.Txn{Then: puts[start : i+2]}).Size() <= partSize {
			continue
		}
		out = append(out, slices.Clone(puts[start:i+1]))
		start = i + 1
	}
	return out
}

func hashesOf(puts []kv.Op) []string {
	out := make([]string, len(puts))
	for i, op := range puts {
		out[i] = strings.TrimPrefix(string(op.Key), folderObjects)
	}
	return out
}

func layersOf[V any](m map[Layer]V) []Layer {
	out := make([]Layer, 0, len(m))
	for l := range m {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Layer) int { return strings.Compare(a.String(), b.String()) })
	return out
}
