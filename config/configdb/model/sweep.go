package model

import (
	"fmt"
	"strings"

	"edgespan/config/kv"
)

// Sweeper removes unreferenced data in bounded steps: invisible records, contents without a version, remains of
// unfinished large writes, and versions beyond those to keep, with the records of revisions that no version names any
// more. The next sweep finds what one misses.
type Sweeper struct {
	keep     Keep
	upTo     uint64          // named includes all contents written from the start of the sweep up to this revision
	named    map[string]bool // contents in use
	reported map[uint64]bool // revisions that kept versions name
	freed    map[uint64]bool // revisions of nodes' own versions that are removed
	old      uint64          // revisions up to this one may be removed; the newer ones are kept
	reads    bool            // read the records of revisions, not only their keys
	phase    int
	after    kv.Key
	todo     []kv.Key
}

// Keep limits what a sweep keeps.
type Keep struct {
	// Versions is the number of versions to keep of each half of a record, with their removals; 0: all.
	Versions uint64
	// Own removes a version, of any author, that is older than this number of uploads by a node about itself, or older
	// than MaxOwnPast bytes of them. 0: such uploads remove nothing.
	Own uint64
	// Seen is the revision up to which an earlier sweep has read the records (Sweeper.Revision).
	Seen uint64
}

// sweepOrder has contents last: only then is it known which of them are in use.
var sweepOrder = []kv.Prefix{folderSets, folderDefinitions, folderNodes, folderPaths, folderNow, "facts/values/",
	"facts/overrides/", folderRevisions, folderBlobs}

// Sweep starts a sweep.
func (s *State) Sweep(keep Keep) *Sweeper {
	w := &Sweeper{keep: keep, upTo: s.head.Revision, named: map[string]bool{}, reported: map[uint64]bool{},
		freed: map[uint64]bool{}}
	w.keepNewest(keptRevisions)
	return w
}

// keepNewest keeps the newest n records of revisions.
func (w *Sweeper) keepNewest(n uint64) { w.old = w.upTo - min(w.upTo, n) }

// Revision returns the revision up to which the sweep reads the records of revisions.
func (w *Sweeper) Revision() uint64 { return w.old }

// keptRevisions is the number of the newest records of revisions that are kept even if no version names them.
const keptRevisions = 10_000

// sweepOps leaves room for the head.
const sweepOps = kv.MaxOps - 8

// A page of contents fits into one transaction, so that no content waits for removal while a write may need it again.
const _ = uint(sweepOps - getBatch)

// Next reads a part of the store and returns a transaction for it, which may be empty (no Then), or a step of Forward
// if the state is Unfinished. It returns nil at the end. s must be the newest state. Each transaction rewrites the head
// unchanged, so that a write planned earlier must be planned again and can't rely on removed data. If a transaction
// does not succeed, the next sweep repeats it.
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
		if err := w.readPage(s, r); err != nil {
			return nil, err
		}
	}
	if len(w.todo) == 0 {
		return &kv.Txn{}, nil
	}
	n := min(len(w.todo), sweepOps)
	txn := headUnchanged(s.at)
	for _, k := range w.todo[:n] {
		txn.Then = append(txn.Then, kv.Delete(k))
	}
	w.todo = w.todo[n:]
	txn.Then = append(txn.Then, kv.Put(HeadKey(), encode(s.head)))
	return &txn, nil
}

// absorb adds the contents written since the sweep began, including those replaced since.
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

// readPage reads some keys and collects those to remove.
func (w *Sweeper) readPage(s *State, r Reader) error {
	folder := sweepOrder[w.phase]
	limit := pageSize
	if folder == folderBlobs {
		limit = getBatch
	}
	// Versions are decided by their values, and revisions that no sweep has read by their author.
	keys := folder != "facts/values/" && folder != "facts/overrides/" && (folder != folderRevisions || !w.reads)
	page, err := r.List(folder, kv.ListOptions{After: w.after, Limit: limit, Keys: keys})
	if err != nil {
		return fmt.Errorf("sweep the facts: %w", err)
	}
	for _, e := range page.Entries {
		if w.readsRecordsFrom(folder, e.Key) {
			return nil // the next page begins here, with values
		}
		w.after = e.Key
		goes, err := w.dropsKey(s, e)
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

// readsRecordsFrom reports whether to read the records of revisions, not only their keys, from a key on: earlier sweeps
// skipped them as too new, and those of nodes that no version names can go now. With Keep.Versions all unnamed ones go,
// by any writer, so their values don't matter.
func (w *Sweeper) readsRecordsFrom(folder kv.Prefix, k kv.Key) bool {
	if folder != folderRevisions || w.reads || w.keep.Versions != 0 {
		return false
	}
	number, err := parseHex(strings.TrimPrefix(string(k), folderRevisions))
	w.reads = err == nil && number > w.keep.Seen && number <= w.old
	return w.reads
}

// dropsRevision reports whether to remove the record of a revision. The newest are kept, and those that kept versions
// name. Of the others those of nodes go; with Keep.Versions all go.
func (w *Sweeper) dropsRevision(number uint64, e kv.Entry) (bool, error) {
	if number > w.old || w.reported[number] {
		return false, nil
	}
	if w.keep.Versions != 0 || w.freed[number] || e.Value == nil {
		return w.keep.Versions != 0 || w.freed[number], nil
	}
	r, err := decodeRecord(nil, e.Key, e.Value)
	return r.Own, err
}

// dropsVersion reports whether to remove a version; the newest is always kept. Removed versions are older than all kept
// ones, which State.newestMatching relies on.
func (w *Sweeper) dropsVersion(h, newest half, records int) bool {
	if h.N >= newest.N {
		return false
	}
	if w.keep.Versions != 0 && newest.version() >= h.version()+w.keep.Versions {
		return true
	}
	past := uint64(min(MaxOwnPast, MaxOwnPasts/max(records, 1)))
	return w.keep.Own != 0 && (newest.OwnCount >= h.OwnCount+w.keep.Own || newest.OwnBytes > h.OwnBytes+past)
}

// dropsKey reports whether to remove a key.
func (w *Sweeper) dropsKey(s *State, e kv.Entry) (bool, error) {
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
		return w.dropsRevision(serial, e)
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
	if w.dropsVersion(h, *newest.half(Kind(folder)), rs.count()) {
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
