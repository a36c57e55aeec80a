package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"edgespan/config/kv"
)

// Sweep holds the remains of interrupted large writes: parts of change-sets that no head names, and the objects that
// only they use.
type Sweep struct {
	Parts []SweptPart
	head  kv.Entry
}

// SweptPart is one part of a change-set to remove.
type SweptPart struct {
	Key     kv.Key
	Author  string
	Time    time.Time
	Objects []string // that no revision uses; another part may name them too
}

// NewSweep finds the remains of writes that began before a time. If there are any, it reads the trees of the whole
// history, each piece once.
func NewSweep(r Reader, before time.Time) (Sweep, error) {
	s, err := Head(r)
	if err != nil {
		return Sweep{}, err
	}
	sweep := Sweep{head: *s.head}
	page, err := r.List(folderSets, kv.ListOptions{})
	if err != nil {
		return Sweep{}, fmt.Errorf("sweep: %w", err)
	}
	kept := map[string]bool{} // by writes in progress
	for _, e := range page.Entries {
		var part partValue
		if err := json.Unmarshal(e.Value, &part); err != nil {
			return Sweep{}, fmt.Errorf("sweep: read %s: %w", e.Key, err)
		}
		if part.Time.Before(before) {
			sweep.Parts = append(sweep.Parts, SweptPart{e.Key, part.Author, part.Time, part.Objects})
			continue
		}
		for _, hash := range part.Objects {
			kept[hash] = true
		}
	}
	if len(sweep.Parts) == 0 {
		return Sweep{}, nil
	}
	reached, err := s.reachableObjects()
	if err != nil {
		return Sweep{}, fmt.Errorf("sweep: %w", err)
	}
	maps.Copy(kept, reached)
	for i, part := range sweep.Parts {
		sweep.Parts[i].Objects = nil
		for _, hash := range part.Objects {
			if !kept[hash] {
				kept[hash] = true // remove it only once
				sweep.Parts[i].Objects = append(sweep.Parts[i].Objects, hash)
			}
		}
	}
	return sweep, nil
}

// Txn returns the transaction that removes one part. head is the store's revision of the previous part's transaction; 0
// for the first part. It writes head again, unchanged: a write that was planned before compares head and is planned
// again, so that none relies on a removed object. If it does not succeed, a new sweep is needed.
func (s Sweep) Txn(part int, head kv.Revision) kv.Txn {
	if part == 0 {
		head = s.head.ModRevision
	}
	value := s.head.Value
	if !s.head.Exists() {
		value = []byte(`{"revision":0,"tree":""}`)
	}
	txn := kv.Txn{
		Compares: []kv.Compare{kv.AtRevision(HeadKey(), head)},
		Then:     []kv.Op{kv.Put(HeadKey(), value), kv.Delete(s.Parts[part].Key)},
		Else:     []kv.Op{kv.Get(HeadKey())},
	}
	for _, hash := range s.Parts[part].Objects {
		txn.Then = append(txn.Then, kv.Delete(objectKey(hash)))
	}
	return txn
}

// reachableObjects returns the objects of the revisions up to this state.
func (s State) reachableObjects() (map[string]bool, error) {
	records, err := s.Log(0)
	if err != nil {
		return nil, err
	}
	reached, _, err := s.reachedBy(records)
	return reached, err
}

// reachedBy returns the objects of some revisions, and the revisions that wrote them.
func (s State) reachedBy(records []RevisionRecord) (seen map[string]bool, written map[uint64]bool, err error) {
	o := s.objects()
	seen, written = map[string]bool{}, map[uint64]bool{}
	var todo []string
	note := func(hash string) {
		if hash != "" && !seen[hash] {
			seen[hash] = true
			todo = append(todo, hash)
		}
	}
	for _, record := range records {
		note(record.Tree)
	}
	for len(todo) > 0 {
		batch := todo[max(len(todo)-getBatch, 0):]
		values, err := o.get(batch)
		if err != nil {
			return nil, nil, err
		}
		todo = todo[:len(todo)-len(batch)]
		for _, hash := range sortedKeys(values) {
			if err := visitReferences(hash, values[hash], note, written); err != nil {
				return nil, nil, err
			}
		}
	}
	return seen, written, nil
}

// visitReferences passes on the objects and the revisions that an object names.
func visitReferences(hash string, value []byte, note func(string), written map[uint64]bool) error {
	switch value[0] {
	case kindList:
		for _, chunk := range strings.Split(string(value[1:]), "\n") {
			note(chunk)
		}
	case kindPiece:
		p, err := readPiece(hash, value)
		if err != nil {
			return err
		}
		for _, e := range p.Entries {
			note(e.Object)
			written[e.Revision] = true
		}
		for _, below := range p.Below {
			note(below)
		}
	}
	return nil
}
