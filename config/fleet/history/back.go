package history

import (
	"fmt"
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/stateloop/peer"
)

// Restore returns the change that restores layers, or all of them, to their content at a revision. With the topology,
// or all layers, the nodes that were renamed since get their names back, together with their join records and open join
// tokens.
func (s State) Restore(number uint64, desired ...Layer) (Change, error) {
	if number > s.Number {
		return Change{}, &NoRevisionError{number}
	}
	then, err := At(s.reader, number)
	if err != nil {
		return Change{}, err
	}
	diffs, err := Diff(s, then.WithDamaged()) // a restore repairs layers that are damaged now
	if err != nil {
		return Change{}, err
	}
	all := len(desired) == 0
	c := Change{Message: fmt.Sprintf("restore revision %d", number), Layers: map[Layer]config.Object{}}
	for _, d := range diffs {
		if all || slices.Contains(desired, d.Layer) {
			if d.After.Damaged != nil {
				return Change{}, d.After.Damaged
			}
			c.Layers[d.Layer] = d.After.Document
		}
	}
	if number == s.Number || !all && !slices.Contains(desired, Layer{Kind: Topology}) {
		return c, nil
	}
	records, err := s.Log(int(s.Number - number))
	if err != nil {
		return Change{}, err
	}
	return s.revertRenames(c, records, !all)
}

// Revert returns the change that undoes one revision in all the layers that it wrote and keeps later changes. It
// renames back the nodes that the revision renamed; writes to them since are kept. Faults (config.Faults) name the
// values that were changed again: the first segment of their paths is the layer.
func (s State) Revert(number uint64) (Change, error) {
	if number > s.Number { // later than this state
		return Change{}, &NoRevisionError{number}
	}
	before, after, err := statesAround(s.reader, number)
	if err != nil {
		return Change{}, err
	}
	diffs, err := Diff(before, after.WithDamaged())
	if err != nil {
		return Change{}, err
	}
	record, err := ReadRecord(s.reader, number)
	if err != nil {
		return Change{}, err
	}
	message := fmt.Sprintf("revert revision %d", number)
	if onlyRenames(record, diffs) {
		c, err := s.rename(record.Renamed[0].To, record.Renamed[0].From)
		c.Message = message
		return c, err
	}
	c := Change{Message: message, Layers: map[Layer]config.Object{}}
	var faults config.Faults
	for _, d := range diffs {
		if d.Before.Damaged != nil {
			return Change{}, d.Before.Damaged
		}
		if d.After.Damaged != nil {
			if err := s.checkNotWrittenSince(d); err != nil {
				return Change{}, err
			}
			c.Layers[d.Layer] = d.Before.Document
			continue
		}
		now, err := s.Layer(d.Layer)
		if err != nil {
			return Change{}, err
		}
		r := reverter{}
		doc, has := r.revert(nil, optionalDocument(d.Before.Document), optionalDocument(d.After.Document),
			optionalDocument(now.Document))
		if c.Layers[d.Layer] = nil; has {
			c.Layers[d.Layer], _ = doc.(config.Object)
		}
		more, err := s.laterChanges(d.Layer, r.changed)
		if err != nil {
			return Change{}, err
		}
		faults = append(faults, more...)
	}
	if len(faults) > 0 {
		return Change{}, faults
	}
	return s.revertRenames(c, []RevisionRecord{record}, true)
}

// checkNotWrittenSince returns the damage of a layer that was written since the revision, because the changes of the
// revision to it are then unknown.
func (s State) checkNotWrittenSince(d LayerDiff) error {
	have, err := s.objects().find(s.tree, []Layer{d.Layer})
	if err == nil && have[d.Layer].Revision != d.After.Revision {
		err = d.After.Damaged
	}
	return err
}

// laterChanges names the revisions that conflict with a revert.
func (s State) laterChanges(l Layer, paths [][]string) (config.Faults, error) {
	var faults config.Faults
	for _, path := range paths {
		by, _, err := s.LastChange(l, path)
		if err != nil {
			return nil, err
		}
		faults.Add(config.Below([]string{l.String()}, path...), "was changed again by "+by.By.String(),
			"must be unchanged since")
	}
	return faults, nil
}

// revertRenames adds to a change the renames that undo those of some revisions, the newest first; with withLayers, the
// layers that the change does not write are renamed too.
func (s State) revertRenames(c Change, records []RevisionRecord, withLayers bool) (Change, error) {
	was := originalNames(records)
	maps.DeleteFunc(was, func(now, then string) bool { return now == then })
	if len(was) == 0 {
		return c, nil
	}
	for _, name := range sortedKeys(was) {
		c.Renamed = append(c.Renamed, Rename{name, was[name]})
	}
	if withLayers {
		if err := s.renameLayersBack(c, was); err != nil {
			return Change{}, err
		}
	}
	var err error
	c.names, _, err = s.moveNames(was)
	return c, err
}

// originalNames maps the names that nodes have after some revisions to those before them. It omits a node that took a
// name that another node had given up.
func originalNames(records []RevisionRecord) map[string]string {
	was, younger := map[string]string{}, map[string]bool{}
	for _, record := range records {
		before, left := map[string]string{}, map[string]bool{}
		for _, r := range record.Renamed {
			before[r.To] = r.From
			left[r.From] = true
		}
		for now, then := range was {
			if from, renamed := before[then]; renamed {
				was[now] = from
				delete(before, then)
			} else if left[then] {
				younger[now] = true
			}
		}
		for now := range younger {
			delete(was, now)
		}
		for now, then := range before {
			if _, another := was[now]; !another && !younger[now] {
				was[now] = then
			}
		}
	}
	return was
}

func (s State) renameLayersBack(c Change, was map[string]string) error {
	var faults config.Faults
	moved := map[Layer]config.Object{}
	for _, name := range sortedKeys(was) {
		for _, kind := range []Kind{Node, Auto, Peer} {
			from, to := Layer{kind, name}, Layer{kind, was[name]}
			versions, err := s.Layers(from, to)
			if err != nil {
				return err
			}
			if _, moves := was[to.Name]; !moves && versions[1].Document != nil {
				faults.Add([]string{to.String()}, "exists already", "must be a name without overrides")
			}
			if _, later := moved[from]; !later {
				moved[from] = nil
			}
			if doc := versions[0].Document; doc != nil && kind == Peer {
				moved[to] = peer.RenameInPeer(doc, to.Name)
			} else if doc != nil {
				moved[to] = doc
			}
		}
	}
	for l, doc := range moved {
		if _, written := c.Layers[l]; !written {
			c.Layers[l] = doc
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// onlyRenames reports whether a revision only renames nodes.
func onlyRenames(record RevisionRecord, diffs []LayerDiff) bool {
	if len(record.Renamed) != 1 {
		return false
	}
	r := record.Renamed[0]
	docs := map[Layer][2]config.Object{}
	for _, d := range diffs {
		docs[d.Layer] = [2]config.Object{d.Before.Document, d.After.Document}
		switch d.Layer.Kind {
		case Topology:
		case Cluster, Deployment:
			rename := peer.RenameInCluster
			if d.Layer.Kind == Deployment {
				rename = peer.RenameInDeployment
			}
			if back, _ := rename(d.After.Document, r.To, r.From); !config.Equal(back, d.Before.Document) {
				return false
			}
		case Node, Auto, Peer:
			if d.Layer.Name != r.From && d.Layer.Name != r.To {
				return false
			}
		case Network, Metadata, E2E:
			return false
		}
	}
	for _, kind := range []Kind{Node, Auto} {
		before, after := docs[Layer{kind, r.From}][0], docs[Layer{kind, r.To}][1]
		if !optionalDocument(before).equal(optionalDocument(after)) { // an empty layer is a layer too
			return false
		}
	}
	return true
}

// value is an optional value.
type value struct {
	v   any
	has bool
}

func optionalDocument(doc config.Object) value { return value{doc, doc != nil} }

func (a value) equal(b value) bool {
	return a.has == b.has && (!a.has || config.Equal(a.v, b.v))
}

type reverter struct {
	changed [][]string // paths that were changed since
}

// revert returns the current value without the change from before to after.
func (r *reverter) revert(path []string, before, after, now value) (any, bool) {
	old, wasObject := before.v.(config.Object)
	mid, isObject := after.v.(config.Object)
	current, stayed := now.v.(config.Object)
	switch {
	case now.equal(after):
		return before.v, before.has
	case before.equal(after), now.equal(before):
		return now.v, now.has
	case !after.has || !isObject || !now.has || !stayed || before.has && !wasObject:
		r.changed = append(r.changed, path)
		return now.v, now.has
	}
	out := config.Object{}
	for _, key := range config.Keys(config.AddMissing(config.AddMissing(old, mid), current)) {
		if v, has := r.revert(config.Below(path, key), memberValue(old, key), memberValue(mid, key),
			memberValue(current, key)); has {
			out[key] = v
		}
	}
	return out, before.has || len(out) > 0
}

func memberValue(o config.Object, key string) value {
	v, has := o[key]
	return value{v, has}
}
