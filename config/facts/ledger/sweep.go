package ledger

import (
	"fmt"
	"strings"

	"edgespan/config/revision"
)

// Sweeper removes, in bounded steps, what nothing refers to: records out of sight, contents that no version
// has, what is left of large writes that never came to their end, and versions beyond those that are to be
// kept, with the records of revisions that no version names then. What one sweep misses, the next one finds.
type Sweeper struct {
	keep  uint64
	upTo  uint64          // the revision up to which named has all that were brought since the sweep began
	named map[string]bool // contents
	told  map[uint64]bool // revisions that kept versions name
	newer uint64          // how many revisions stay though none names them
	phase int
	after revision.Key
	todo  []revision.Key
	swept int
}

// sweepOrder: contents are the last, since only then it is known which are named.
var sweepOrder = []revision.Prefix{folderSets, folderDefinitions, folderNodes, folderPaths, folderNow, "facts/values/", "facts/overrides/", folderRevisions, folderBlobs}

// Sweep begins a sweep; keep is how many versions each half of a record keeps, with their removals; 0: all.
func (s *State) Sweep(keep uint64) *Sweeper {
	return &Sweeper{keep: keep, upTo: s.head.Revision, named: map[string]bool{}, told: map[uint64]bool{}, newer: keptRevisions}
}

// Swept is how many keys were named in transactions so far.
func (w *Sweeper) Swept() int { return w.swept }

// keptRevisions are the newest records of revisions that stay though no version names them.
const keptRevisions = 10_000

// sweepOps leaves room for the head.
const sweepOps = revision.MaxOps - 8

// A page of contents goes in one transaction: none waits while it may be brought again.
const _ = uint(sweepOps - getBatch)

// Next reads a part of the store and answers with a transaction for it, which may have nothing to do (no Then), or for a
// step of Forward if the state is Unfinished. It is nil at the end. State is the newest. Each transaction writes the head anew, as it is: a write that was planned before is
// planned anew, so that none counts on what is swept. One that does not succeed is left to the next sweep.
func (w *Sweeper) Next(s *State, r Source) (*revision.Txn, error) {
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
		return &revision.Txn{}, nil
	}
	n := min(len(w.todo), sweepOps)
	txn := moving(s.at)
	for _, k := range w.todo[:n] {
		txn.Then = append(txn.Then, revision.Delete(k))
	}
	w.todo = w.todo[n:]
	w.swept += len(txn.Then)
	txn.Then = append(txn.Then, revision.Put(HeadKey(), encode(s.head)))
	return &txn, nil
}

// absorb notes the contents that were brought since the sweep began, also those that were
// replaced since.
func (w *Sweeper) absorb(s *State, r Source) error {
	for w.upTo < s.head.Revision {
		var numbers []uint64
		for n := w.upTo + 1; n <= s.head.Revision && len(numbers) < revision.MaxOps; n++ {
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
	// Only of a version it counts what it is.
	keys := folder != "facts/values/" && folder != "facts/overrides/"
	page, err := r.List(folder, revision.ListOptions{After: w.after, Limit: limit, Keys: keys})
	if err != nil {
		return fmt.Errorf("sweep the facts: %w", err)
	}
	for _, e := range page.Entries {
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

// goes says whether a key is to go.
func (w *Sweeper) goes(s *State, e revision.Entry) (bool, error) {
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
		return w.keep != 0 && serial+w.newer <= s.head.Revision && !w.told[serial], nil
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
	newest := env.record(place{serial, level, parts[2]}, definition)
	if w.keep != 0 && newest.half(Kind(folder)).version() >= h.version()+w.keep {
		return true, err
	}
	if w.named[h.SHA] = true; w.keep != 0 {
		w.told[h.Revision] = true
	}
	return false, err
}
