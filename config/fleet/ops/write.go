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
// change on World.State.
func (w *Snapshot) Validate(write Write) (WriteOutcome, error) {
	j := w.newCheck()
	switch q := write.(type) {
	case SetNetwork:
		return j.overrides(override.Change{Layer: layers.Network, Op: op(q.Modify), Overrides: q.Overrides})
	case SetNodes:
		return j.overrides(override.Change{Layer: layers.Node, Op: op(q.Modify), Overrides: q.Overrides})
	case Unset:
		return j.overrides(override.Change{Layer: q.Layer, Op: override.Unset, Keys: q.Keys})
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
		change, err := w.State.Restore(q.Revision, q.Layers...)
		return j.back(change, err)
	case Revert:
		change, err := w.State.Revert(q.Revision)
		return j.back(change, err)
	case Describe:
		return j.describe(q)
	case Undescribe:
		return j.undescribe(q)
	case Deploy:
		return j.deploy(q.Clusters, true)
	case Undeploy:
		return j.deploy(q.Clusters, false)
	case Import:
		change, err := w.State.Import(q.Files)
		if err == nil {
			err = j.dropOwnPart(change, q.Files)
		}
		return j.imported(change, err)
	case Migrate:
		return j.migrateAll()
	}
	return WriteOutcome{}, fmt.Errorf("judge: a write of type %T: %w", write, errors.ErrUnsupported)
}

func op(modify bool) override.Op {
	if modify {
		return override.Modify
	}
	return override.Set
}

// overrides validates a write to the network or the node layer. A write to the node layer reads only the nodes that it
// names.
func (j *check) overrides(c override.Change) (WriteOutcome, error) {
	var named []string
	switch {
	case c.Layer == layers.Network:
		named = j.known()
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
		if unknownNodes = j.unknownNodes(named); len(unknownNodes) > maxUnknownNodes {
			return WriteOutcome{}, refused(append(unknownNodes[:maxUnknownNodes], override.WriteFault{
				Rule: override.RuleTopology, Problem: fmt.Sprintf("%d more are unknown", len(unknownNodes)-maxUnknownNodes),
				Expectation: "must be known nodes",
			}))
		}
	}
	if faults := tooManyKeys(c); len(faults) > 0 {
		return WriteOutcome{}, refused(faults)
	}
	written, err := j.replaces(c, named)
	if err != nil {
		return WriteOutcome{}, err
	}
	world, err := j.world(named, written...)
	if err != nil {
		var no *Refused
		if errors.As(err, &no) {
			return WriteOutcome{}, refused(append(no.Faults, unknownNodes...))
		}
		return WriteOutcome{}, err
	}
	var notes []string
	if c.Layer == layers.Node {
		c.Auto = func(node string, own config.Object) config.Object {
			auto, more := j.tunnels(world.Nodes[node], node, own, c.Op == override.Set)
			notes = append(notes, more...)
			return auto
		}
	}
	result, faults := override.Apply(world, c)
	if faults = append(faults, unknownNodes...); len(faults) > 0 {
		return WriteOutcome{}, refused(faults)
	}
	change := history.Change{Layers: history.FromEdit(c.Layer, result)}
	for name, doc := range result.Autos {
		change.Layers[autoLayer(name)] = doc
	}
	return j.outcome(change, result.Effects, result.Warnings, notes), nil
}

// clearAuto removes the values at paths of auto layers.
func (j *check) clearAuto(q ClearAuto) (WriteOutcome, error) {
	if len(q.Paths) == 0 || slices.ContainsFunc(q.Paths, func(p []string) bool { return len(p) == 0 }) {
		return WriteOutcome{}, refused(override.WriteFaults{{Rule: override.RuleRequest, Problem: "the write names no path",
			Expectation: "must be one or more; * is all of a node"}})
	}
	versions, err := j.autos(q.Nodes)
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
			for _, place := range places(v.Document, path, nil) {
				matched[i], cleared = true, true
				doc = config.Prune(doc, place)
			}
		}
		if cleared {
			c.Layers[v.Layer] = orGone(config.Clean(doc))
		}
	}
	var notes []string
	for i, path := range q.Paths {
		if !matched[i] {
			notes = append(notes, config.FormatPath(path)+": matches nothing in the auto layer")
		}
	}
	return j.layersChange(c, notes)
}

// autos returns the auto layers of nodes, or all of them.
func (j *check) autos(nodes []string) ([]history.Version, error) {
	if len(nodes) == 0 {
		all, err := j.State.Of(history.Auto)
		return all, problemOf(err)
	}
	desired := make([]history.Layer, len(nodes))
	for i, name := range nodes {
		desired[i] = autoLayer(name)
	}
	if err := j.layersOf(desired...); err != nil {
		return nil, err
	}
	var out []history.Version
	var missing []string
	for i, l := range desired {
		v := j.read[l]
		if v.Document == nil {
			missing = append(missing, nodes[i])
		}
		out = append(out, v)
	}
	return out, j.find(missing...)
}

// orGone returns a node's layer, or nil if it has no keys.
func orGone(o config.Object) config.Object {
	if len(o) == 0 {
		return nil
	}
	return o
}

// setAuto merges values into auto layers.
func (j *check) setAuto(q SetAuto) (WriteOutcome, error) {
	faults := j.unknownNodes(config.Keys(q.Values))
	c := history.Change{Layers: map[history.Layer]config.Object{}}
	for _, name := range config.Keys(q.Values) {
		v, err := j.layer(autoLayer(name))
		if err != nil {
			return WriteOutcome{}, err
		}
		values, is := q.Values[name].(config.Object)
		if q.Values[name] != nil && !is || name == "" {
			faults = append(faults, override.WriteFault{
				Nodes: []string{name}, Rule: override.RuleRequest, Problem: config.InvalidType(config.KindOf(q.Values[name])),
				Expectation: "must be an object: {node: {…}}; null removes the layer",
			})
			continue
		}
		c.Layers[autoLayer(name)] = nil
		if is {
			c.Layers[autoLayer(name)] = orGone(mergeValues(v.Document, values, nil, v.Document))
		}
	}
	if len(faults) > 0 {
		return WriteOutcome{}, refused(faults)
	}
	return j.layersChange(c, nil)
}

// mergeValues merges values into a document: objects are merged, null removes, and objects that become empty are
// removed.
func mergeValues(doc, values config.Object, path []string, here config.Object) config.Object {
	for _, key := range config.Keys(values) {
		at := config.Sub(path, key)
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

// back validates a write of several layers that config/fleet/history has made.
func (j *check) back(c history.Change, err error) (WriteOutcome, error) {
	if err != nil {
		return WriteOutcome{}, problemOf(err)
	}
	for _, r := range c.Renamed {
		j.was[r.To] = r.From
	}
	if doc := c.Layers[metadataLayer]; doc != nil {
		m, faults := metadata.Parse(doc, metadata.Options{})
		if len(faults) > 0 {
			return WriteOutcome{}, refused(faultsOf(RuleHistory, []string{"metadata"}, faults))
		}
		j.metadata = m
	}
	if doc, written := c.Layers[topologyLayer]; written && doc != nil {
		if _, faults := topologyOf(doc); len(faults) > 0 {
			return WriteOutcome{}, refused(faultsOf(override.RuleTopology, []string{"topology"}, faults))
		}
	}
	return j.layersChange(c, nil)
}

// layersChange validates a change of other layers than the network and node overrides, by its effects on nodes and on
// the controller's files.
func (j *check) layersChange(c history.Change, notes []string) (WriteOutcome, error) {
	peers, wrong, err := j.peersChange(c)
	if err != nil {
		return WriteOutcome{}, err
	}
	if err := j.dropSame(c); err != nil {
		return WriteOutcome{}, err
	}
	before, after, err := j.worlds(c)
	if err != nil {
		return WriteOutcome{}, err
	}
	effects, warnings, faults := override.Between(before, after)
	faults = append(faults, wrong...)
	files, err := j.filesChange(c)
	if err != nil {
		return WriteOutcome{}, err
	}
	if faults = append(faults, files.faults...); len(faults) > 0 {
		return WriteOutcome{}, refused(faults)
	}
	o := j.outcome(c, effects, warnings, append(notes, files.notes...))
	o.Unknown, o.Actions, o.Flags = append(o.Unknown, files.unknown...), files.actions, files.flags
	if o.Peers = peers; len(peers) > 0 && len(c.Layers) > 0 {
		o.Message += " Parameters may change on " + strings.Join(peers, ", ") + "."
	}
	return o, nil
}

// dropSame removes unchanged layers from a change. If nodes are renamed, it keeps them: a layer may belong to another
// node now.
func (j *check) dropSame(c history.Change) error {
	if err := j.layersOrDamaged(slices.Collect(maps.Keys(c.Layers))...); err != nil {
		return err
	}
	maps.DeleteFunc(c.Layers, func(l history.Layer, doc config.Object) bool {
		if len(c.Renamed) > 0 && l.Kind != history.E2E && l.Kind != history.Metadata {
			return false
		}
		if j.read[l].Damaged != nil {
			return false
		}
		was := j.read[l].Document
		return (was == nil) == (doc == nil) && config.Equal(was, doc)
	})
	return nil
}

// worlds returns the nodes that a change of layers affects, before and after it.
func (j *check) worlds(c history.Change) (before, after override.Inputs, err error) {
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
		names = j.known()
	}
	for l, doc := range c.Layers {
		if _, known := j.Nodes[l.Name]; (l.Kind == history.Node || l.Kind == history.Auto) && (known || doc != nil) {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return left[name] })
	if after, err = j.world(names, slices.Collect(maps.Keys(c.Layers))...); err != nil {
		return before, after, err
	}
	before = after
	before.Nodes = maps.Clone(after.Nodes)
	for name, n := range before.Nodes {
		if from, renamed := j.was[name]; renamed {
			if err := j.layersOf(autoLayer(from), nodeLayer(from)); err != nil {
				return before, after, err
			}
			n.Auto, n.Own = j.read[autoLayer(from)].Document, j.read[nodeLayer(from)].Document
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
