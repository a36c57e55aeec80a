package history

import (
	"fmt"
	"slices"

	"edgespan/config"
)

// Edition is one version of a layer and the revision that made it.
type Edition struct {
	Version
	By RevisionRecord
}

// PathChange is one change of one value of a layer.
type PathChange struct {
	By             RevisionRecord
	Layer          Layer // with its name at that time
	Old, New       any
	HadOld, HasNew bool
}

// LayerDiff is the difference of one layer between two states.
type LayerDiff struct {
	Layer         Layer
	Before, After Version
	Values        []ValueDiff // sorted by path
}

// ValueDiff is one value that differs: a scalar, null, an array, an empty object, or a whole object if the other side
// has none.
type ValueDiff struct {
	Path           []string
	Old, New       any
	HadOld, HasNew bool
}

// Log returns the newest records up to this state, the newest first, at most limit of them; 0 means no limit. It ends
// at the beginning of the history.
func (s State) Log(limit int) ([]RevisionRecord, error) {
	edge, err := ReadPruneRecord(s.reader)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for n := s.Number; n >= edge.From && (limit <= 0 || len(numbers) < limit); n-- {
		numbers = append(numbers, n)
	}
	return readRecords(s.reader, numbers)
}

// statesAround returns the states before and after a revision.
func statesAround(r Reader, number uint64) (before, after State, err error) {
	if after, err = At(r, number); err != nil {
		return State{}, State{}, err
	}
	before, err = At(r, number-min(number, 1))
	return before, after, err
}

// ChangedLayers returns the layers that a revision wrote or deleted, sorted by name, without their content. For the
// first revision of a pruned history that is unknown: it returns a NoRevisionError of the one before.
func ChangedLayers(r Reader, number uint64) ([]Layer, error) {
	before, after, err := statesAround(r, number)
	if err != nil {
		return nil, err
	}
	both, err := before.objects().diffTrees(before.tree, after.tree)
	if err != nil {
		return nil, fmt.Errorf("compare revisions %d and %d: %w", before.Number, after.Number, err)
	}
	return slices.DeleteFunc(layersOf(both), func(l Layer) bool { return both[l][0].Object == both[l][1].Object }), nil
}

// Diff returns every layer that differs in another state, sorted by name. It reads only the parts that the two do not
// share. A damaged layer in either is an error unless b is Anyway.
func Diff(a, b State) ([]LayerDiff, error) {
	o := a.objects()
	both, err := o.diffTrees(a.tree, b.tree)
	if err != nil {
		return nil, fmt.Errorf("compare revisions %d and %d: %w", a.Number, b.Number, err)
	}
	var entries []entry
	for _, l := range layersOf(both) {
		if pair := both[l]; pair[0].Object != pair[1].Object {
			pair[0].Layer, pair[1].Layer = l, l
			entries = append(entries, pair[0], pair[1])
		}
	}
	versions, err := b.versions(o, entries)
	if err != nil {
		return nil, err
	}
	var out []LayerDiff
	for pair := range slices.Chunk(versions, 2) {
		d := LayerDiff{Layer: pair[0].Layer, Before: pair[0], After: pair[1]}
		d.Values = diffValues(nil, nil, pair[0].Document, pair[1].Document)
		out = append(out, d)
	}
	return out, nil
}

// diffValues returns the differences of two objects.
func diffValues(out []ValueDiff, path []string, a, b config.Object) []ValueDiff {
	keys := config.Keys(config.AddMissing(a, b))
	for _, key := range keys {
		old, had := a[key]
		now, has := b[key]
		at := config.Below(path, key)
		oldObject, isA := old.(config.Object)
		newObject, isB := now.(config.Object)
		switch {
		case had && has && config.Equal(old, now):
		case isA && isB:
			out = diffValues(out, at, oldObject, newObject)
		default:
			out = append(out, ValueDiff{at, old, now, had, has})
		}
	}
	return out
}

// Written returns the editions of a layer without their documents, the newest first; limit 0 means all.
func (s State) Written(l Layer, limit int) ([]Edition, error) {
	var out []Edition
	err := s.walkEditions(l, false, func(e Edition) bool {
		out = append(out, e)
		return limit <= 0 || len(out) < limit
	})
	return out, err
}

// History returns the versions of a layer up to this state, the newest first, at most limit of them; 0 means no limit.
// The history of a node's layer continues under the node's earlier names.
func (s State) History(l Layer, limit int) ([]Edition, error) {
	var out []Edition
	err := s.walkEditions(l, true, func(e Edition) bool {
		out = append(out, e)
		return limit <= 0 || len(out) < limit
	})
	return out, err
}

// walkEditions calls show for the versions of a layer, with or without their documents, the newest first, until show
// ends it or the history begins.
func (s State) walkEditions(l Layer, documents bool, show func(Edition) bool) error {
	o := s.objects()
	edge, err := ReadPruneRecord(s.reader)
	if err != nil {
		return err
	}
	for tree := s.tree; ; {
		found, err := o.find(tree, []Layer{l})
		if err != nil {
			return fmt.Errorf("history of %s: %w", l, err)
		}
		e := found[l]
		if e.Revision == 0 {
			return nil
		}
		v := Version{Layer: l, Revision: e.Revision}
		if documents {
			docs, damaged, err := o.documents([]string{e.Object})
			if err == nil && damaged[e.Object] != nil {
				err = &DamagedError{l, e.Revision, damaged[e.Object]}
			}
			if err != nil {
				return fmt.Errorf("history of %s: %w", l, err)
			}
			v.Document = docs[e.Object]
		}
		record, err := ReadRecord(s.reader, e.Revision)
		if err != nil {
			return err
		}
		if !show(Edition{v, record}) || record.Parent < edge.From {
			return nil
		}
		parent, err := ReadRecord(s.reader, record.Parent)
		if err != nil {
			return err
		}
		if tree = parent.Tree; e.From != nil {
			l = *e.From
		}
	}
}

// PathHistory returns the changes of the value at a path of a layer, the newest first, at most limit of them; 0 means
// no limit. An object's value includes everything below it, and the empty path is the whole layer. A rename that keeps
// the value is not a change.
func (s State) PathHistory(l Layer, path []string, limit int) ([]PathChange, error) {
	var out []PathChange
	var newer *Edition
	note := func(older Edition) {
		old, had := lookup(older.Document, path)
		now, has := lookup(newer.Document, path)
		if had != has || !config.Equal(old, now) {
			out = append(out, PathChange{newer.By, newer.Layer, old, now, had, has})
		}
	}
	err := s.walkEditions(l, true, func(e Edition) bool {
		if newer != nil {
			note(e)
		}
		newer = &e
		return limit <= 0 || len(out) < limit
	})
	if newer != nil && (limit <= 0 || len(out) < limit) {
		note(Edition{})
	}
	return out, err
}

// LastChange returns the change that set the present value at a path of a layer, or nothing if there never was one.
func (s State) LastChange(l Layer, path []string) (PathChange, bool, error) {
	changes, err := s.PathHistory(l, path, 1)
	if err != nil || len(changes) == 0 {
		return PathChange{}, false, err
	}
	return changes[0], true, nil
}

// lookup returns the value at a path of a layer, which may be missing.
func lookup(doc config.Object, path []string) (any, bool) {
	if len(path) == 0 {
		return doc, doc != nil
	}
	return config.Lookup(doc, path)
}
