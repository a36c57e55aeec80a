package model

import (
	"fmt"
	"strings"

	"edgespan/config/kv"
)

// Sweeper removes, in bounded steps, what nothing refers to: records out of sight, contents that no version
// has, what is left of large writes that never came to their end, and versions beyond those that are to be
// kept, with the records of revisions that no version names then. What one sweep misses, the next one finds.
type Sweeper struct {
	keep     Keep
	upTo     uint64          // the revision up to which named has all that were brought since the sweep began
	named    map[string]bool // contents
	reported map[uint64]bool // revisions that kept versions name, of those that may go
	freed    map[uint64]bool // revisions that versions named which go
	old      uint64          // how many revisions there were when it began, but for the newest, all of which stay
	reads    bool            // the records of revisions, and not only their keys
	phase    int
	after    kv.Key
	todo     []kv.Key
}

// Keep is what a sweep leaves.
type Keep struct {
	// Versions is how many versions each half of a record keeps, with their removals; 0: all.
	Versions uint64
	// Own is how many a node has uploaded of itself when a version goes that is older than these, whoever wrote that; it
	// goes too once these have more than MaxOwnPast bytes. 0: none goes for what a node uploads.
	Own uint64
	// Seen are the revisions that an earlier sweep has looked at (Sweeper.Seen).
	Seen uint64
}

// sweepOrder: contents are the last, since only then it is known which are named.
var sweepOrder = []kv.Prefix{folderSets, folderDefinitions, folderNodes, folderPaths, folderNow, "facts/values/",
	"facts/overrides/", folderRevisions, folderBlobs}

// Sweep begins a sweep.
func (s *State) Sweep(keep Keep) *Sweeper {
	w := &Sweeper{keep: keep, upTo: s.head.Revision, named: map[string]bool{}, reported: map[uint64]bool{},
		freed: map[uint64]bool{}}
	w.keepNewest(keptRevisions)
	return w
}

// keepNewest says how many of the newest records of revisions stay.
func (w *Sweeper) keepNewest(n uint64) { w.old = w.upTo - min(w.upTo, n) }

// Revision is up to which revision the records of revisions were looked at.
func (w *Sweeper) Revision() uint64 { return w.old }

// keptRevisions are the newest records of revisions that stay though no version names them.
const keptRevisions = 10_000

// sweepOps leaves room for the head.
const sweepOps = kv.MaxOps - 8

// A page of contents goes in one transaction: none waits while it may be brought again.
const _ = uint(sweepOps - getBatch)

// Next reads a part of the store and answers with a transaction for it, which may have nothing to do (no Then), or
// for a step of Forward if the state is Unfinished. It is nil at the end. State is the newest. Each transaction
// writes the head anew, as it is: a write that was planned before is planned anew, so that none counts on what is
// swept. One that does not succeed is left to the next sweep.
func (w *Sweeper) Next(s *State, r Source) (*kv.Txn, error) {
	if s.Unfinished() {
		return &s.Forward()[0], nil
	}
	if err := w.absorb(s, r); err != nil {
		return nil, err
	}
	if len(w.todo) == 0 {
		if w.phase == len(sweepOrder) {
			return nil, nil //nolint:nilnil // the end, as the comment says
		}
		if err := w.page(s, r); err != nil {
			return nil, err
		}
	}
	if len(w.todo) == 0 {
		return &kv.Txn{}, nil
	}
	n := min(len(w.todo), sweepOps)
	txn := moving(s.at)
	for _, k := range w.todo[:n] {
		txn.Then = append(txn.Then, kv.Delete(k))
	}
	w.todo = w.todo[n:]
	txn.Then = append(txn.Then, kv.Put(HeadKey(), encode(s.head)))
	return &txn, nil
}

// absorb notes the contents that were brought since the sweep began, also those that were
// replaced since.
func (w *Sweeper) absorb(s *State, r Source) error {
	for w.upTo < s.head.Revision {
		var numbers []uint64
		for n := w.upTo + 1; n <= s.head.Revision && len(numbers) < kv.MaxOps; n++ {
			numbers = append(numbers, n)
		}
		records, err := s.readRecords(r, numbers)
		if err != nil {
			return err
		}
		for _, record := range records {
			for _, c := range record.Changes {
				w.named[c.SHA256] = true
			}
		}
		w.upTo += uint64(len(numbers))
	}
	for _, d := range s.definitions {
		for _, c := range d.Contents {
			w.named[c.SHA] = true
		}
	}
	return nil
}

// page reads some keys and notes which of them are to go.
func (w *Sweeper) page(s *State, r Reader) error {
	folder := sweepOrder[w.phase]
	limit := pageSize
	if folder == folderBlobs {
		limit = getBatch
	}
	// Of a version it counts what it is; of a revision that no sweep has seen whether a node wrote it.
	keys := folder != "facts/values/" && folder != "facts/overrides/" && (folder != folderRevisions || !w.reads)
	page, err := r.List(folder, kv.ListOptions{After: w.after, Limit: limit, Keys: keys})
	if err != nil {
		return fmt.Errorf("sweep the facts: %w", err)
	}
	for _, e := range page.Entries {
		if w.readsFrom(folder, e.Key) {
			return nil // the next page begins here, with values
		}
		w.after = e.Key
		goes, err := w.goes(s, e)
		if err != nil {
			return fmt.Errorf("sweep the facts: %w", err)
		}
		if goes {
			w.todo = append(w.todo, e.Key)
		}
	}
	if !page.More {
		w.phase, w.after = w.phase+1, ""
	}
	return nil
}

// readsFrom says whether the records of revisions are to be read from a key on: no sweep has looked at them, as they
// were young, and those of nodes which no version names are to go now. Where versions are kept for a time all go that
// none names, whoever wrote them.
func (w *Sweeper) readsFrom(folder kv.Prefix, k kv.Key) bool {
	if folder != folderRevisions || w.reads || w.keep.Versions != 0 {
		return false
	}
	number, err := parseHex(strings.TrimPrefix(string(k), folderRevisions))
	w.reads = err == nil && number > w.keep.Seen && number <= w.old
	return w.reads
}

// revisionGoes says whether the record of a revision is to go: the newest stay, and those that kept versions name. Of
// the others those of nodes go, and all of them where versions are kept for a time.
func (w *Sweeper) revisionGoes(number uint64, e kv.Entry) (bool, error) {
	if number > w.old || w.reported[number] {
		return false, nil
	}
	if w.keep.Versions != 0 || w.freed[number] || e.Value == nil {
		return w.keep.Versions != 0 || w.freed[number], nil
	}
	r, err := decodeRecord(nil, e.Key, e.Value)
	return r.Own, err
}

// versionGoes says whether a version is to go; the newest one never does. All that go are older than those that stay,
// as reading an old one counts on.
func (w *Sweeper) versionGoes(h, newest half, records int) bool {
	if h.N >= newest.N {
		return false
	}
	if w.keep.Versions != 0 && newest.version() >= h.version()+w.keep.Versions {
		return true
	}
	past := uint64(min(MaxOwnPast, MaxOwnPasts/max(records, 1)))
	return w.keep.Own != 0 && (newest.OwnCount >= h.OwnCount+w.keep.Own || newest.OwnBytes > h.OwnBytes+past)
}

// goes says whether a key is to go.
func (w *Sweeper) goes(s *State, e kv.Entry) (bool, error) {
	parts := strings.Split(string(e.Key), "/")[1:]
	folder, parts := parts[0], parts[1:]
	switch folder {
	case "sets":
		return parts[0] != s.head.Set, nil
	case "blobs":
		return !w.named[parts[0]], nil
	}
	serial, err := parseHex(parts[0])
	if err != nil {
		return false, err
	}
	if folder == "revisions" {
		return w.revisionGoes(serial, e)
	}
	if folder == "definitions" {
		return s.definitions[serial] == nil, nil
	}
	env := s.environments[serial]
	if env == nil || folder == "nodes" {
		return env == nil, nil
	}
	level, err := parseHex(parts[1])
	if err != nil {
		return false, err
	}
	if folder == "paths" {
		return env.level(level) == nil, nil
	}
	definition, err := parseHex(parts[3])
	if err != nil {
		return false, err
	}
	if s.definitions[definition] == nil || level != 0 && env.level(level) == nil {
		return true, nil
	}
	if folder == "now" {
		return false, nil
	}
	h, err := decode[half](e.Key, e.Value)
	at := place{serial, level, parts[2]}
	newest := env.record(at, definition)
	rs, _ := env.places.get(at.name())
	if w.versionGoes(h, *newest.half(Kind(folder)), rs.count()) {
		if h.Own {
			w.freed[h.Revision] = true
		}
		return true, err
	}
	if w.named[h.SHA] = true; w.keep.Versions != 0 || h.Own {
		w.reported[h.Revision] = true
	}
	return false, err
}
