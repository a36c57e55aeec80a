package ops

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

// Validate returns the effects of a write, or why it is refused: *Refused with all its faults, or a *NotFoundError for
// an object that it names. A write is accepted completely or not at all. Validate stores nothing: the caller plans the
// change on Snapshot.State.
func (s *Snapshot) Validate(write Write) (WriteOutcome, error) {
	j := s.newCheck()
	switch q := write.(type) {
	case SetNetwork:
		return j.validateOverrides(override.Change{Layer: layers.Network, Op: overrideOp(q.Modify), Overrides: q.Overrides})
	case SetNodes:
		return j.validateOverrides(override.Change{Layer: layers.Node, Op: overrideOp(q.Modify), Overrides: q.Overrides})
	case Unset:
		return j.validateOverrides(override.Change{Layer: q.Layer, Op: override.Unset, Keys: q.Keys})
	case ClearAuto:
		return j.clearAuto(q)
	case SetAuto:
		return j.setAuto(q)
	case SetE2E:
		return j.setE2E(q)
	case Optimize:
		return j.optimize(q)
	case SetTopology:
		return j.setTopology(q)
	case EditTopology:
		return j.editTopology(q)
	case Restore:
		change, err := s.State.Restore(q.Revision, q.Layers...)
		return j.validateLayers(change, err)
	case Revert:
		change, err := s.State.Revert(q.Revision)
		return j.validateLayers(change, err)
	case Describe:
		return j.setDescriptors(q)
	case Undescribe:
		return j.removeDescriptors(q)
	case Deploy:
		return j.deploy(q.Clusters, true)
	case Undeploy:
		return j.deploy(q.Clusters, false)
	case Import:
		change, err := s.State.Import(q.Files)
		if err == nil {
			err = j.dropOwnPart(change, q.Files)
		}
		return j.migrateImported(change, err)
	case Migrate:
		return j.migrateAll()
	}
	return WriteOutcome{}, fmt.Errorf("judge: a write of type %T: %w", write, errors.ErrUnsupported)
}

func overrideOp(modify bool) override.Op {
	if modify {
		return override.Modify
	}
	return override.Set
}

// validateOverrides validates a write to the network or the node layer. A write to the node layer reads only the nodes
// that it names.
func (ck *check) validateOverrides(c override.Change) (WriteOutcome, error) {
	var named []string
	switch {
	case c.Layer == layers.Network:
		named = ck.nodeNames()
	case c.Op == override.Unset:
		for _, key := range c.Keys {
			if len(key) > 0 {
				named = append(named, key[0])
			}
		}
		slices.Sort(named)
		named = slices.Compact(named)
	default:
		named = config.Keys(c.Overrides)
	}
	var unknownNodes override.WriteFaults
	if c.Layer == layers.Node {
		if unknownNodes = ck.unknownNodes(named); len(unknownNodes) > maxUnknownNodes {
			return WriteOutcome{}, refuse(append(unknownNodes[:maxUnknownNodes], override.WriteFault{
				Rule: override.RuleTopology, Problem: fmt.Sprintf("%d more are unknown", len(unknownNodes)-maxUnknownNodes),
				Expectation: "must be known nodes",
			}))
		}
	}
	if faults := checkKeyCount(c); len(faults) > 0 {
		return WriteOutcome{}, refuse(faults)
	}
	written, err := ck.replacedLayers(c, named)
	if err != nil {
		return WriteOutcome{}, err
	}
	world, err := ck.readInputs(named, written...)
	if err != nil {
		var no *Refused
		if errors.As(err, &no) {
			return WriteOutcome{}, refuse(append(no.Faults, unknownNodes...))
		}
		return WriteOutcome{}, err
	}
	var notes []string
	if c.Layer == layers.Node {
		c.Auto = func(node string, own config.Object) config.Object {
			auto, more := ck.updateTunnels(world.Nodes[node], node, own, c.Op == override.Set)
			notes = append(notes, more...)
			return auto
		}
	}
	result, faults := override.Apply(world, c)
	if faults = append(faults, unknownNodes...); len(faults) > 0 {
		return WriteOutcome{}, refuse(faults)
	}
	change := history.Change{Layers: history.FromEdit(c.Layer, result)}
	for name, doc := range result.Autos {
		change.Layers[autoLayer(name)] = doc
	}
	return ck.newOutcome(change, result.Effects, result.Warnings, notes), nil
}

// clearAuto removes the values at paths of auto layers.
func (ck *check) clearAuto(q ClearAuto) (WriteOutcome, error) {
	if len(q.Paths) == 0 || slices.ContainsFunc(q.Paths, func(p []string) bool { return len(p) == 0 }) {
		return WriteOutcome{}, refuse(override.WriteFaults{{Rule: override.RuleRequest, Problem: "the write names no path",
			Expectation: "must be one or more; * is all of a node"}})
	}
	versions, err := ck.autoLayers(q.Nodes)
	if err != nil {
		return WriteOutcome{}, err
	}
	c := history.Change{Layers: map[history.Layer]config.Object{}}
	matched := make([]bool, len(q.Paths))
	for _, v := range versions {
		doc := v.Document
		if doc == nil {
			continue
		}
		cleared := false
		for i, path := range q.Paths {
			for _, place := range matchPaths(v.Document, path, nil) {
				matched[i], cleared = true, true
				doc = config.Prune(doc, place)
			}
		}
		if cleared {
			c.Layers[v.Layer] = nilIfEmpty(config.DropEmpty(doc))
		}
	}
	var notes []string
	for i, path := range q.Paths {
		if !matched[i] {
			notes = append(notes, config.FormatPath(path)+": matches nothing in the auto layer")
		}
	}
	return ck.validateLayersChange(c, notes)
}

// autoLayers returns the auto layers of nodes, or all of them.
func (ck *check) autoLayers(nodes []string) ([]history.Version, error) {
	if len(nodes) == 0 {
		all, err := ck.State.LayersOfKind(history.Auto)
		return all, problemOf(err)
	}
	desired := make([]history.Layer, len(nodes))
	for i, name := range nodes {
		desired[i] = autoLayer(name)
	}
	if err := ck.layersOf(desired...); err != nil {
		return nil, err
	}
	var out []history.Version
	var missing []string
	for i, l := range desired {
		v := ck.read[l]
		if v.Document == nil {
			missing = append(missing, nodes[i])
		}
		out = append(out, v)
	}
	return out, ck.checkNodesExist(missing...)
}

// nilIfEmpty returns a node's layer, or nil if it has no keys.
func nilIfEmpty(o config.Object) config.Object {
	if len(o) == 0 {
		return nil
	}
	return o
}

// setAuto merges values into auto layers.
func (ck *check) setAuto(q SetAuto) (WriteOutcome, error) {
	faults := ck.unknownNodes(config.Keys(q.Values))
	c := history.Change{Layers: map[history.Layer]config.Object{}}
	for _, name := range config.Keys(q.Values) {
		v, err := ck.layer(autoLayer(name))
		if err != nil {
			return WriteOutcome{}, err
		}
		values, ok := q.Values[name].(config.Object)
		if q.Values[name] != nil && !ok || name == "" {
			faults = append(faults, override.WriteFault{
				Nodes: []string{name}, Rule: override.RuleRequest, Problem: config.InvalidType(config.KindOf(q.Values[name])),
				Expectation: "must be an object: {node: {…}}; null removes the layer",
			})
			continue
		}
		c.Layers[autoLayer(name)] = nil
		if ok {
			c.Layers[autoLayer(name)] = nilIfEmpty(mergeValues(v.Document, values, nil, v.Document))
		}
	}
	if len(faults) > 0 {
		return WriteOutcome{}, refuse(faults)
	}
	return ck.validateLayersChange(c, nil)
}

// mergeValues merges values into a document: objects are merged, null removes, and objects that become empty are
// removed.
func mergeValues(doc, values config.Object, path []string, here config.Object) config.Object {
	for _, key := range config.Keys(values) {
		at := config.Below(path, key)
		now, _ := here[key].(config.Object)
		switch v := values[key].(type) {
		case nil:
			doc = config.Prune(doc, at)
		case config.Object:
			if len(v) == 0 && now == nil {
				doc = config.Set(doc, at, v)
			}
			doc = mergeValues(doc, v, at, now)
		default:
			doc = config.Set(doc, at, v)
		}
	}
	return doc
}

// patch returns the SetAuto values that turn one document into another; nil if they are equal.
func patch(old, now config.Object) config.Object {
	out := config.Object{}
	for key := range old {
		if _, stays := now[key]; !stays {
			out[key] = nil
		}
	}
	for key, v := range now {
		was, had := old[key]
		before, wasObject := was.(config.Object)
		after, isObject := v.(config.Object)
		switch {
		case had && config.Equal(was, v):
		case wasObject && isObject:
			out[key] = patch(before, after)
		default:
			out[key] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// validateLayers validates a write of several layers that config/fleet/history has made.
func (ck *check) validateLayers(c history.Change, err error) (WriteOutcome, error) {
	if err != nil {
		return WriteOutcome{}, problemOf(err)
	}
	for _, r := range c.Renamed {
		ck.was[r.To] = r.From
	}
	if doc := c.Layers[metadataLayer]; doc != nil {
		m, faults := metadata.Parse(doc, metadata.Options{})
		if len(faults) > 0 {
			return WriteOutcome{}, refuse(faultsOf(RuleHistory, []string{"metadata"}, faults))
		}
		ck.metadata = m
	}
	if doc, written := c.Layers[topologyLayer]; written && doc != nil {
		if _, faults := topologyOf(doc); len(faults) > 0 {
			return WriteOutcome{}, refuse(faultsOf(override.RuleTopology, []string{"topology"}, faults))
		}
	}
	return ck.validateLayersChange(c, nil)
}

// validateLayersChange validates a change of other layers than the network and node overrides, by its effects on nodes
// and on the controller's files.
func (ck *check) validateLayersChange(c history.Change, notes []string) (WriteOutcome, error) {
	peers, wrong, err := ck.peersChange(c)
	if err != nil {
		return WriteOutcome{}, err
	}
	if err := ck.dropSame(c); err != nil {
		return WriteOutcome{}, err
	}
	before, after, err := ck.inputsAround(c)
	if err != nil {
		return WriteOutcome{}, err
	}
	effects, warnings, faults := override.DifferenceEffects(before, after)
	faults = append(faults, wrong...)
	files, err := ck.checkFiles(c)
	if err != nil {
		return WriteOutcome{}, err
	}
	if faults = append(faults, files.faults...); len(faults) > 0 {
		return WriteOutcome{}, refuse(faults)
	}
	o := ck.newOutcome(c, effects, warnings, append(notes, files.notes...))
	o.Unknown, o.Actions, o.Flags = append(o.Unknown, files.unknown...), files.actions, files.flags
	if o.Peers = peers; len(peers) > 0 && len(c.Layers) > 0 {
		o.Message += " Parameters may change on " + strings.Join(peers, ", ") + "."
	}
	return o, nil
}

// dropSame removes unchanged layers from a change. If nodes are renamed, it keeps them: a layer may belong to another
// node now.
func (ck *check) dropSame(c history.Change) error {
	if err := ck.layersOrDamaged(slices.Collect(maps.Keys(c.Layers))...); err != nil {
		return err
	}
	maps.DeleteFunc(c.Layers, func(l history.Layer, doc config.Object) bool {
		if len(c.Renamed) > 0 && l.Kind != history.E2E && l.Kind != history.Metadata {
			return false
		}
		if ck.read[l].Damaged != nil {
			return false
		}
		was := ck.read[l].Document
		return (was == nil) == (doc == nil) && config.Equal(was, doc)
	})
	return nil
}

// inputsAround returns the nodes that a change of layers affects, before and after it.
func (ck *check) inputsAround(c history.Change) (before, after override.Inputs, err error) {
	var names []string
	left := map[string]bool{} // names that no node has afterwards
	for _, r := range c.Renamed {
		left[r.From] = true
	}
	for _, r := range c.Renamed {
		delete(left, r.To)
	}
	network, all := c.Layers[networkLayer]
	if all {
		names = ck.nodeNames()
	}
	for l, doc := range c.Layers {
		if _, known := ck.Nodes[l.Name]; (l.Kind == history.Node || l.Kind == history.Auto) && (known || doc != nil) {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return left[name] })
	if after, err = ck.readInputs(names, slices.Collect(maps.Keys(c.Layers))...); err != nil {
		return before, after, err
	}
	before = after
	before.Nodes = maps.Clone(after.Nodes)
	for name, n := range before.Nodes {
		if from, renamed := ck.was[name]; renamed {
			if err := ck.layersOf(autoLayer(from), nodeLayer(from)); err != nil {
				return before, after, err
			}
			n.Auto, n.Own = ck.read[autoLayer(from)].Document, ck.read[nodeLayer(from)].Document
			before.Nodes[name] = n
		}
		now := after.Nodes[name]
		if doc, written := c.Layers[autoLayer(name)]; written {
			now.Auto = doc
		}
		if doc, written := c.Layers[nodeLayer(name)]; written {
			now.Own = doc
		}
		after.Nodes[name] = now
	}
	if all {
		after.Network = network
	}
	return before, after, nil
}
