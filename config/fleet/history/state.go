package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"edgespan/config"
	"edgespan/config/kv"
)

// RevisionRecord is one revision: author, time and message. Its tree and its parent's show the changed layers
// (Changes).
type RevisionRecord struct {
	Number    uint64    `json:"number"` // 1, 2, 3, … without a gap
	Parent    uint64    `json:"parent"` // the number before; 0 for the first
	Author    string    `json:"author"`
	Time      time.Time `json:"time"` // UTC
	Message   string    `json:"message,omitempty"`
	ChangeSet string    `json:"changeSet,omitempty"` // the ID of a large write's change-set
	Renamed   []Rename  `json:"renamed,omitempty"`   // nodes
	Trace     string    `json:"trace,omitempty"`     // traceparent of the write; no decision depends on it
	Tree      string    `json:"tree"`
}

// String formats the record for a message: its number, author, time and message.
func (r RevisionRecord) String() string {
	s := fmt.Sprintf("revision %d by %s at %s", r.Number, r.Author, r.Time.Format(time.RFC3339))
	if r.Message != "" {
		s += " (" + config.Quote(r.Message) + ")"
	}
	return s
}

// Rename is a change of a node's name.
type Rename struct{ From, To string }

// headValue is the value of the key head.
type headValue struct {
	Revision uint64 `json:"revision"`
	Tree     string `json:"tree"`
}

// State holds all layers at one revision. It is immutable.
type State struct {
	Number uint64 // of the revision; 0 before the first

	reader Reader
	tree   string
	anyway bool      // report damage with the Version
	head   *kv.Entry // of the head that was read; nil for an earlier revision
}

// Version is one layer at a revision.
type Version struct {
	Layer    Layer
	Document config.Object // nil: there is none
	Revision uint64        // that wrote or deleted the layer last; 0: never written
	Damaged  error         // why the document can't be read, a *DamagedError; only if the State is Anyway
}

// DamagedError is the error of a layer whose stored document differs from the written one.
type DamagedError struct {
	Layer    Layer
	Revision uint64 // the revision that wrote it
	Err      error  // names the object
}

// Error says how to restore the layer.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s: is damaged in the store since revision %d wrote it (%v): must be replaced by a write, by a "+
		"restore of an earlier revision or of a backup",
		e.Layer, e.Revision, e.Err)
}

// Unwrap returns the error of the object.
func (e *DamagedError) Unwrap() error { return e.Err }

// WithDamaged returns the same state for callers that distinguish a damaged layer from a missing one: such a layer has
// Version.Damaged and no document. For all other callers it is an error.
func (s State) WithDamaged() State {
	s.anyway = true
	return s
}

// Head returns the newest state. Writes are planned on it.
func Head(r Reader) (State, error) {
	entries, err := r.Get(HeadKey())
	if err != nil {
		return State{}, fmt.Errorf("read head: %w", err)
	}
	return HeadAt(r, entries[0])
}

// HeadAt returns the state of a head that was read elsewhere, such as by a transaction that did not succeed.
func HeadAt(r Reader, head kv.Entry) (State, error) {
	s := State{reader: r, head: &head}
	if !s.head.Exists() {
		return s, nil
	}
	var value headValue
	if err := json.Unmarshal(s.head.Value, &value); err != nil {
		return State{}, fmt.Errorf("read head: %w", err)
	}
	s.Number, s.tree = value.Revision, value.Tree
	return s, nil
}

// At returns the state at a revision, 0 being the empty state before the first.
func At(r Reader, number uint64) (State, error) {
	if number == 0 {
		return State{reader: r}, nil
	}
	entries, err := r.Get(RevisionKey(number), PruneKey())
	if err != nil {
		return State{}, fmt.Errorf("read revision %d: %w", number, err)
	}
	edge, err := parsePruneRecord(entries[1])
	if err != nil {
		return State{}, err
	}
	if number < edge.From { // the record may still exist, but not its tree
		return State{}, &NoRevisionError{number}
	}
	record, err := recordOf(entries[0], number)
	if err != nil {
		return State{}, err
	}
	return State{Number: number, reader: r, tree: record.Tree}, nil
}

// NoRevisionError names a revision that does not exist.
type NoRevisionError struct{ Number uint64 }

func (e *NoRevisionError) Error() string {
	return fmt.Sprintf("revision %d: not found: must be a revision that the history shows", e.Number)
}

// ReadRecord reads the record of a revision.
func ReadRecord(r Reader, number uint64) (RevisionRecord, error) {
	records, err := readRecords(r, []uint64{number})
	if err != nil {
		return RevisionRecord{}, err
	}
	return records[0], nil
}

func readRecords(r Reader, numbers []uint64) ([]RevisionRecord, error) {
	var out []RevisionRecord
	for batch := range slices.Chunk(numbers, kv.MaxOps) {
		keys := make([]kv.Key, len(batch))
		for i, number := range batch {
			keys[i] = RevisionKey(number)
		}
		entries, err := r.Get(keys...)
		if err != nil {
			return nil, fmt.Errorf("read revisions: %w", err)
		}
		for i, e := range entries {
			record, err := recordOf(e, batch[i])
			if err != nil {
				return nil, err
			}
			out = append(out, record)
		}
	}
	return out, nil
}

func recordOf(e kv.Entry, number uint64) (record RevisionRecord, err error) {
	if !e.Exists() {
		return record, &NoRevisionError{number}
	}
	if err := json.Unmarshal(e.Value, &record); err != nil {
		return record, fmt.Errorf("read revision %d: %w", number, err)
	}
	return record, nil
}

func (s State) objects() *objects { return &objects{reader: s.reader} }

// Layer reads one layer.
func (s State) Layer(l Layer) (Version, error) {
	versions, err := s.Layers(l)
	if err != nil {
		return Version{}, err
	}
	return versions[0], nil
}

// Layers reads layers, in the given order.
func (s State) Layers(desired ...Layer) ([]Version, error) {
	o := s.objects()
	found, err := o.find(s.tree, desired)
	if err != nil {
		return nil, fmt.Errorf("state at revision %d: %w", s.Number, err)
	}
	entries := make([]entry, len(desired))
	for i, l := range desired {
		entries[i] = found[l]
		entries[i].Layer = l
	}
	return s.versions(o, entries)
}

// AllLayers reads all existing layers, sorted by name.
func (s State) AllLayers() ([]Version, error) {
	o := s.objects()
	entries, err := s.entries(o)
	if err != nil {
		return nil, err
	}
	return s.versions(o, entries)
}

// LayersOfKind reads all layers of a kind, sorted by name; deleted ones have no document.
func (s State) LayersOfKind(k Kind) ([]Version, error) {
	o := s.objects()
	all, err := o.entries(s.tree)
	if err != nil {
		return nil, fmt.Errorf("state at revision %d: %w", s.Number, err)
	}
	return s.versions(o, slices.DeleteFunc(all, func(e entry) bool { return e.Layer.Kind != k }))
}

// entries returns the entries of all layers that have a document.
func (s State) entries(o *objects) ([]entry, error) {
	all, err := o.entries(s.tree)
	if err != nil {
		return nil, fmt.Errorf("state at revision %d: %w", s.Number, err)
	}
	return slices.DeleteFunc(all, func(e entry) bool { return e.Object == "" }), nil
}

func (s State) versions(o *objects, entries []entry) ([]Version, error) {
	hashes := make([]string, len(entries))
	for i, e := range entries {
		hashes[i] = e.Object
	}
	docs, damaged, err := o.documents(hashes)
	if err != nil {
		return nil, fmt.Errorf("state at revision %d: %w", s.Number, err)
	}
	out := make([]Version, len(entries))
	for i, e := range entries {
		out[i] = Version{Layer: e.Layer, Document: docs[e.Object], Revision: e.Revision}
		if bad := damaged[e.Object]; bad != nil {
			out[i].Damaged = &DamagedError{e.Layer, e.Revision, bad}
			if !s.anyway {
				return nil, fmt.Errorf("state at revision %d: %w", s.Number, out[i].Damaged)
			}
		}
	}
	return out, nil
}

// Digest is equal for two states exactly if their layers have equal content, whatever their authors: the SHA-256 over
// the names of the layers and their documents.
func (s State) Digest() (string, error) {
	entries, err := s.entries(s.objects())
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, e := range entries {
		sum.Write([]byte(e.Layer.String() + " " + e.Object + "\n"))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
