package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"edgespan/config/kv"
)

// minRevisions is the number of newest revisions kept regardless of age: replicas that lag read them, and operators
// revert them.
const minRevisions = 20

// PruneRecord is the beginning of a pruned history: the first revision that can be read.
type PruneRecord struct {
	From uint64    `json:"from"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
}

// ReadPruneRecord reads the first revision of the history: 1 if it was never pruned.
func ReadPruneRecord(r Reader) (PruneRecord, error) {
	entries, err := r.Get(PruneKey())
	if err != nil {
		return PruneRecord{}, fmt.Errorf("read where the history begins: %w", err)
	}
	return parsePruneRecord(entries[0])
}

func parsePruneRecord(e kv.Entry) (PruneRecord, error) {
	edge := PruneRecord{From: 1}
	if e.Exists() {
		if err := json.Unmarshal(e.Value, &edge); err != nil {
			return PruneRecord{}, fmt.Errorf("read where the history begins: the key %s: %w", e.Key, err)
		}
	}
	return edge, nil
}

// Prune holds the keys to remove so that a history begins at Edge.From. Its Txns run in order and may stop anywhere:
// the next Prune removes the rest.
type Prune struct {
	Edge    PruneRecord
	Records int // to remove
	Objects int
	keys    []kv.Key
	edge    bool // the edge moves
	head    kv.Entry
}

// NewPrune finds the keys to remove so that no revision older than a time remains, except the newest ones, and at most
// limit revisions remain; 0 means no limit. It keeps the content of the layers at the remaining revisions, and the
// record of their last writers.
func NewPrune(r Reader, before time.Time, limit uint64, by string, now time.Time) (Prune, error) {
	s, err := Head(r)
	if err != nil {
		return Prune{}, err
	}
	p := Prune{head: *s.head}
	if p.Edge, err = ReadPruneRecord(r); err != nil {
		return Prune{}, err
	}
	records, err := remainingRecords(r)
	if err != nil {
		return Prune{}, err
	}
	from := s.Number - min(s.Number, minRevisions-1)
	if limit > 0 {
		from = min(from, limit)
	}
	for _, one := range records {
		if one.Number >= p.Edge.From && !one.Time.Before(before) {
			from = min(from, one.Number)
			break
		}
	}
	if from > p.Edge.From {
		p.Edge, p.edge = PruneRecord{from, by, now.UTC()}, true
	}
	if p.Edge.From <= 1 {
		return p, nil
	}
	return p, p.find(r, s, records)
}

// remainingRecords reads all existing records, the oldest first.
func remainingRecords(r Reader) (out []RevisionRecord, err error) {
	err = forEachEntry(r, folderRevisions, kv.ListOptions{Limit: kv.MaxOps * 8}, func(e kv.Entry) error {
		var record RevisionRecord
		if err := json.Unmarshal(e.Value, &record); err != nil {
			return fmt.Errorf("read %s: %w", e.Key, err)
		}
		out = append(out, record)
		return nil
	})
	return out, err
}

// forEachEntry reads all keys below a prefix, page by page.
func forEachEntry(r Reader, below kv.Prefix, o kv.ListOptions, do func(kv.Entry) error) error {
	for {
		page, err := r.List(below, o)
		if err != nil {
			return fmt.Errorf("list %s: %w", below, err)
		}
		for _, e := range page.Entries {
			if err := do(e); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		o.After, o.At = page.Entries[len(page.Entries)-1].Key, page.Revision
	}
}

// find finds the keys to remove.
func (p *Prune) find(r Reader, s State, records []RevisionRecord) error {
	kept := slices.DeleteFunc(slices.Clone(records), func(one RevisionRecord) bool { return one.Number < p.Edge.From })
	reached, written, err := s.reachedBy(kept)
	if err != nil {
		return fmt.Errorf("prune the history: %w", err)
	}
	parts, err := r.List(folderSets, kv.ListOptions{})
	if err != nil {
		return fmt.Errorf("prune the history: %w", err)
	}
	for _, e := range parts.Entries { // of writes in progress; the sweep removes the rest
		var part partValue
		if err := json.Unmarshal(e.Value, &part); err != nil {
			return fmt.Errorf("prune the history: read %s: %w", e.Key, err)
		}
		for _, hash := range part.Objects {
			reached[hash] = true
		}
	}
	for _, one := range records {
		if one.Number < p.Edge.From && !written[one.Number] {
			p.keys, p.Records = append(p.keys, RevisionKey(one.Number)), p.Records+1
		}
	}
	err = forEachEntry(r, folderObjects, kv.ListOptions{Limit: kv.MaxOps * 8, Keys: true}, func(e kv.Entry) error {
		if hash := string(e.Key)[len(folderObjects):]; !reached[hash] {
			p.keys, p.Objects = append(p.keys, e.Key), p.Objects+1
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("prune the history: %w", err)
	}
	return nil
}

// pruneKeys leaves room in a transaction for head, the edge, and a fence.
const pruneKeys = kv.MaxOps - 8

// Txns returns the number of transactions.
func (p Prune) Txns() int {
	n := (len(p.keys) + pruneKeys - 1) / pruneKeys
	if p.edge {
		n = max(n, 1)
	}
	return n
}

// Head returns the store's revision of the head on which the prune was planned.
func (p Prune) Head() kv.Revision { return p.head.ModRevision }

// Txn returns one of the transactions. head is the store's revision of the previous one, Head for the first. It writes
// head again, unchanged, so that a write that was planned before and relies on a removed object is planned again. The
// first one moves the edge: from then on no reader goes beyond it. If it does not succeed, a new Prune is needed.
func (p Prune) Txn(n int, head kv.Revision) (kv.Txn, error) {
	txn := kv.Txn{
		Compares: []kv.Compare{kv.AtRevision(HeadKey(), head)},
		Then:     []kv.Op{kv.Put(HeadKey(), p.head.Value)},
	}
	if n == 0 && p.edge {
		text, err := json.Marshal(p.Edge)
		if err != nil {
			return txn, fmt.Errorf("prune the history: %w", err)
		}
		txn.Then = append(txn.Then, kv.Put(PruneKey(), text))
	}
	for _, k := range p.keys[min(n*pruneKeys, len(p.keys)):min((n+1)*pruneKeys, len(p.keys))] {
		txn.Then = append(txn.Then, kv.Delete(k))
	}
	return txn, nil
}
