package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"edgespan/config/kv"
)

// leastRevisions are kept whatever their age: replicas that lag read them, and people revert them.
const leastRevisions = 20

// Edge is where a history begins that was pruned: the first revision that can be read.
type Edge struct {
	From uint64    `json:"from"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
}

// ReadEdge reads where the history begins: at 1 where nothing was pruned.
func ReadEdge(r Reader) (Edge, error) {
	entries, err := r.Get(EdgeKey())
	if err != nil {
		return Edge{}, fmt.Errorf("read where the history begins: %w", err)
	}
	return edgeOf(entries[0])
}

func edgeOf(e kv.Entry) (Edge, error) {
	edge := Edge{From: 1}
	if e.Exists() {
		if err := json.Unmarshal(e.Value, &edge); err != nil {
			return Edge{}, fmt.Errorf("read where the history begins: the key %s: %w", e.Key, err)
		}
	}
	return edge, nil
}

// Prune is what goes of a history so that it begins at Edge.From. Done in the order of its Txns it
// can end anywhere: what is left goes with the next one.
type Prune struct {
	Edge    Edge
	Records int // that go
	Objects int
	keys    []kv.Key
	edge    bool // it is another edge
	head    kv.Entry
}

// NewPrune finds what goes so that no revision of before a time stays, but the newest ones and
// those from limit on; a limit of 0 is none. What a layer is by the revisions that stay is kept,
// and the record of who wrote it last.
func NewPrune(r Reader, before time.Time, limit uint64, by string, now time.Time) (Prune, error) {
	s, err := Head(r)
	if err != nil {
		return Prune{}, err
	}
	p := Prune{head: *s.head}
	if p.Edge, err = ReadEdge(r); err != nil {
		return Prune{}, err
	}
	records, err := pruned(r)
	if err != nil {
		return Prune{}, err
	}
	from := s.Number - min(s.Number, leastRevisions-1)
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
		p.Edge, p.edge = Edge{from, by, now.UTC()}, true
	}
	if p.Edge.From <= 1 {
		return p, nil
	}
	return p, p.find(r, s, records)
}

// pruned reads all records that there are, the oldest first.
func pruned(r Reader) (out []Record, err error) {
	err = each(r, folderRevisions, kv.ListOptions{Limit: kv.MaxOps * 8}, func(e kv.Entry) error {
		var record Record
		if err := json.Unmarshal(e.Value, &record); err != nil {
			return fmt.Errorf("read %s: %w", e.Key, err)
		}
		out = append(out, record)
		return nil
	})
	return out, err
}

// each reads all below a prefix, page by page.
func each(r Reader, below kv.Prefix, o kv.ListOptions, do func(kv.Entry) error) error {
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

// find finds the keys that go.
func (p *Prune) find(r Reader, s State, records []Record) error {
	kept := slices.DeleteFunc(slices.Clone(records), func(one Record) bool { return one.Number < p.Edge.From })
	reached, written, err := s.reachedBy(kept)
	if err != nil {
		return fmt.Errorf("prune the history: %w", err)
	}
	parts, err := r.List(folderSets, kv.ListOptions{})
	if err != nil {
		return fmt.Errorf("prune the history: %w", err)
	}
	for _, e := range parts.Entries { // of writes under way; what is left of others is swept
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
	err = each(r, folderObjects, kv.ListOptions{Limit: kv.MaxOps * 8, Keys: true}, func(e kv.Entry) error {
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

// pruneKeys leaves room for head and the edge in a transaction, and for a fence.
const pruneKeys = kv.MaxOps - 8

// Txns is how many transactions it takes.
func (p Prune) Txns() int {
	n := (len(p.keys) + pruneKeys - 1) / pruneKeys
	if p.edge {
		n = max(n, 1)
	}
	return n
}

// Head is the store's revision of the head that it was found on.
func (p Prune) Head() kv.Revision { return p.head.ModRevision }

// Txn is one of the transactions. Head is the store's revision of the one before, Head for the first.
// It writes head anew, as it is, so that a write which was planned before, and counts on an object
// that goes, is planned anew. The first one moves the edge: nobody reads what lies before it from
// then on. Where it does not succeed another Prune is due.
func (p Prune) Txn(n int, head kv.Revision) (kv.Txn, error) {
	txn := kv.Txn{
		Compares: []kv.Compare{kv.At(HeadKey(), head)},
		Then:     []kv.Op{kv.Put(HeadKey(), p.head.Value)},
	}
	if n == 0 && p.edge {
		text, err := json.Marshal(p.Edge)
		if err != nil {
			return txn, fmt.Errorf("prune the history: %w", err)
		}
		txn.Then = append(txn.Then, kv.Put(EdgeKey(), text))
	}
	for _, k := range p.keys[min(n*pruneKeys, len(p.keys)):min((n+1)*pruneKeys, len(p.keys))] {
		txn.Then = append(txn.Then, kv.Delete(k))
	}
	return txn, nil
}
