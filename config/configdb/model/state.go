package model

import (
	"fmt"
	"maps"
	"strconv"

	"edgespan/config/kv"
)

// State is ConfigDB at one revision, without contents and older versions: its components, definitions, environments,
// levels and nodes, and the newest version of each record. A State is immutable; successive states share unchanged
// data.
type State struct {
	head headValue
	at   kv.Revision // the store's revision that wrote the head
	seen kv.Revision

	components   map[uint64]*component // by serial
	definitions  map[uint64]*definition
	environments map[uint64]*environment
	byID         *index
	key          Key // of digests

	sets    map[string]map[int]setPart // in the store
	overlay map[kv.Key][]byte          // keys that the set named by the head writes
}

// index maps ids to serials.
type index struct{ components, definitions, environments map[int64]uint64 }

func newState() *State {
	return &State{
		components: map[uint64]*component{}, definitions: map[uint64]*definition{}, environments: map[uint64]*environment{},
		byID: &index{map[int64]uint64{}, map[int64]uint64{}, map[int64]uint64{}}, sets: map[string]map[int]setPart{},
	}
}

// LastRevision returns the revision of the store up to which the state is complete.
func (s *State) LastRevision() kv.Revision { return s.seen }

// Head returns the store's revision that wrote HeadKey, as far as the state knows; 0: never written. The state includes
// every acknowledged write if HeadKey still has this revision in the store.
func (s *State) Head() kv.Revision { return s.at }

// Revision returns the revision of ConfigDB, which counts its writes.
func (s *State) Revision() uint64 { return s.head.Revision }

// UploadedBytes returns the bytes of the newest versions that nodes uploaded about themselves.
func (s *State) UploadedBytes() (size int64) {
	for _, e := range s.environments {
		size += e.own
	}
	return size
}

// pageSize is the number of keys read at once.
const pageSize = 1000

// Load reads the state from the store at one revision of the store. If the store is compacted meanwhile, Load returns
// kv.ErrCompacted: load again.
func Load(r Reader) (*State, error) {
	d := newState().draft()
	// In this order, since an object is invisible without its parent.
	for _, below := range []kv.Prefix{folderSets, folderComponents, folderDefinitions, folderEnvironments, folderNodes,
		folderPaths, folderNow} {
		for o := (kv.ListOptions{Limit: pageSize, At: d.s.seen}); ; {
			page, err := r.List(below, o)
			if err != nil {
				return nil, fmt.Errorf("load the facts: %w", err)
			}
			if d.s.seen, o.At = page.Revision, page.Revision; page.Revision == 0 {
				return d.s, nil // the store is empty
			}
			for _, e := range page.Entries {
				if err := d.apply(e.Key, e.Value); err != nil {
					return nil, fmt.Errorf("load the facts: %w", err)
				}
				o.After = e.Key
			}
			if !page.More {
				break
			}
		}
	}
	page, err := r.List(Below, kv.ListOptions{At: d.s.seen, Limit: 1, After: "facts/hea"})
	if err != nil {
		return nil, fmt.Errorf("load the facts: %w", err)
	}
	for _, e := range page.Entries {
		if e.Key == HeadKey() {
			if err := d.apply(e.Key, e.Value); err != nil {
				return nil, fmt.Errorf("load the facts: %w", err)
			}
			d.s.at = e.ModRevision
		}
	}
	return d.s, nil
}

// Follow returns the state after one transaction of the store below Below, by any writer. Batches arrive in order; a
// batch that the state already has from its own Plan changes nothing.
func (s *State) Follow(b kv.Batch) (*State, error) {
	d := s.draft()
	for _, e := range b.Events {
		// The state includes everything up to the head, except sets that other replicas prepare.
		if b.Revision <= s.at && !kv.Prefix(folderSets).Has(e.Entry.Key) {
			continue
		}
		var value []byte
		if e.Kind == kv.EventPut {
			value = e.Entry.Value
		}
		if e.Entry.Key == HeadKey() {
			continue
		}
		if err := d.apply(e.Entry.Key, value); err != nil {
			return nil, fmt.Errorf("follow the facts: %w", err)
		}
	}
	for _, e := range b.Events { // last, since it may name a set
		if e.Entry.Key == HeadKey() && e.Kind == kv.EventPut && b.Revision > s.at {
			if err := d.apply(HeadKey(), e.Entry.Value); err != nil {
				return nil, fmt.Errorf("follow the facts: %w", err)
			}
			d.s.at = b.Revision
		}
	}
	d.s.seen = max(s.seen, b.Revision)
	return d.s, nil
}

// draft is a state under construction.
type draft struct {
	s  *State
	by *token

	ownModel bool
}

func (s *State) draft() *draft {
	next := *s
	return &draft{s: &next, by: &token{}}
}

// cloneModel clones the maps of the model so that the draft may change them.
func (d *draft) cloneModel() {
	if d.ownModel {
		return
	}
	d.ownModel = true
	s := d.s
	s.components, s.definitions, s.environments = maps.Clone(s.components), maps.Clone(s.definitions),
		maps.Clone(s.environments)
	s.byID = &index{maps.Clone(s.byID.components), maps.Clone(s.byID.definitions), maps.Clone(s.byID.environments)}
}

// environment returns an environment that the draft may change, or nil if it does not exist.
func (d *draft) environment(serial uint64) *environment {
	e := d.s.environments[serial]
	if e == nil || e.by == d.by {
		return e
	}
	d.cloneModel()
	next := *e
	next.by = d.by
	d.s.environments[serial] = &next
	return &next
}

// apply updates the state with the present value of a key; nil means deleted. It ignores unknown keys and keys whose
// parent does not exist.
func (d *draft) apply(k kv.Key, value []byte) error {
	switch {
	case k == HeadKey():
		return d.applyHead(value)
	case kv.Prefix(folderComponents).Has(k):
		return d.applyComponent(k, value)
	case kv.Prefix(folderDefinitions).Has(k):
		return d.applyDefinition(k, value)
	case kv.Prefix(folderEnvironments).Has(k):
		return d.applyEnvironment(k, value)
	case kv.Prefix(folderNodes).Has(k):
		return d.applyNode(k, value)
	case kv.Prefix(folderNow).Has(k):
		return d.applyNow(k, value)
	case kv.Prefix(folderPaths).Has(k):
		return d.applyPath(k, value)
	case kv.Prefix(folderSets).Has(k):
		return d.applySet(k, value)
	}
	return nil
}

func (d *draft) applyHead(value []byte) error {
	head, err := decode[headValue](HeadKey(), value)
	if err != nil {
		return err
	}
	named := head.Set != "" && (d.s.head.Set != head.Set || d.s.overlay == nil)
	if d.s.head = head; head.Set == "" {
		d.s.overlay = nil
	}
	if !named {
		return nil
	}
	d.s.overlay = map[kv.Key][]byte{}
	for i := range head.Parts {
		for _, op := range d.s.sets[head.Set][i].Ops { // a missing part is written already
			d.s.overlay[op.Key] = op.Value
			if err := d.apply(op.Key, op.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *draft) applySet(k kv.Key, value []byte) error {
	s := segments(k, folderSets, 2)
	if s == nil {
		return nil
	}
	n, err := strconv.ParseUint(s[1], 16, 32)
	if err != nil {
		return fmt.Errorf("read %s: %w", k, err)
	}
	d.s.sets = maps.Clone(d.s.sets)
	parts := maps.Clone(d.s.sets[s[0]])
	if delete(parts, int(n)); value != nil {
		if parts == nil {
			parts = map[int]setPart{}
		}
		if parts[int(n)], err = decode[setPart](k, value); err != nil {
			return err
		}
	}
	if d.s.sets[s[0]] = parts; len(parts) == 0 {
		delete(d.s.sets, s[0])
	}
	return nil
}
