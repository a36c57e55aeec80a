package ops

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/topology"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

// document returns the answer to a read, masked unless secrets are requested.
func (s *Snapshot) document(m *metadata.Metadata, o config.Object, revision uint64, reveal bool) DocumentAnswer {
	if o == nil {
		o = config.Object{}
	}
	return s.masked(o, revision, reveal, func() (any, bool) { return override.Mask(m, nil, o) })
}

func (s *Snapshot) masked(o config.Object, revision uint64, reveal bool, mask func() (any, bool)) DocumentAnswer {
	d := DocumentAnswer{Object: o, Revision: revision}
	hidden := false
	if !reveal {
		var shown any
		shown, hidden = mask()
		d.Object, _ = shown.(config.Object)
	}
	switch {
	case !hidden:
		d.Digest = config.MD5(o)
	case len(s.MaskKey) > 0: // a digest without a key would let a reader verify guesses of secrets
		mac := hmac.New(sha256.New, s.MaskKey)
		mac.Write(config.AppendCanonical(nil, o))
		d.Digest = hex.EncodeToString(mac.Sum(nil))
	}
	return d
}

// Config returns the effective config of one node, or parts of it. An unknown node is a NotFoundError. It refuses
// clashing or unreadable layers, and a node that has never reported if the query lacks software version and board.
func (s *Snapshot) Config(q ConfigQuery) (DocumentAnswer, error) {
	if err := s.checkNodesExist(q.Node); err != nil {
		return DocumentAnswer{}, err
	}
	fact, v := s.Nodes[q.Node], q.Versions
	if !fact.Reported && (v.Software == "" || v.Board == "") {
		return DocumentAnswer{}, refuse(override.WriteFaults{{
			Nodes: []string{q.Node}, Rule: override.RuleRequest, Problem: "No known node status",
			Expectation: "Please pass the software version and hardware board ID directly",
		}})
	}
	for _, field := range []struct{ asked, reported *string }{
		{&v.Software, &fact.Versions.Software}, {&v.Firmware, &fact.Versions.Firmware}, {&v.Board, &fact.Versions.Board},
	} {
		if *field.asked == "" {
			*field.asked = *field.reported
		}
	}
	full, revision, err := s.newCheck().effective(q.Node, v, q.Paths)
	if err != nil {
		return DocumentAnswer{}, err
	}
	return s.document(s.Metadata, full, revision, q.Reveal), nil
}

// effective returns a node's config for versions, or the parts of it at paths.
func (ck *check) effective(node string, v layers.Versions, paths [][]string) (config.Object, uint64, error) {
	_, set, err := ck.kind(v)
	if err != nil {
		f := brokenFault(err)
		f.Nodes = []string{node}
		return nil, 0, refuse(override.WriteFaults{*f})
	}
	revision := uint64(0)
	for place, l := range map[layers.Layer]history.Layer{layers.Auto: autoLayer(node), layers.Network: networkLayer,
		layers.Node: nodeLayer(node)} {
		version, err := ck.layer(l)
		if err != nil {
			return nil, 0, err
		}
		set[place] = version.Document
		revision = max(revision, version.Revision)
	}
	for place, o := range set {
		set[place] = reachablePart(o, paths)
	}
	for _, o := range set {
		if _, values := estimateSize(o); values > 0 {
			if err := ck.cost.count(values); err != nil {
				return nil, 0, err
			}
		}
	}
	full, clashes := set.Effective()
	var faults override.WriteFaults
	for _, c := range clashes {
		faults = append(faults, override.WriteFault{
			Nodes: []string{node}, Path: c.Path, Rule: override.RuleClash, Layer: c.Above.String(),
			Problem: c.Problem(), Expectation: layers.MustBeObject,
		})
	}
	if len(paths) > 0 {
		if full, err = ck.choose(full, paths); err != nil {
			return nil, 0, err
		}
	}
	return full, revision, refuse(faults)
}

// reachablePart returns the part of a layer that paths can reach, by their first keys: merging only that suffices for
// many nodes.
func reachablePart(o config.Object, paths [][]string) config.Object {
	if o == nil || len(paths) == 0 ||
		slices.ContainsFunc(paths, func(p []string) bool { return len(p) == 0 || p[0] == star }) {
		return o
	}
	out := config.Object{}
	for _, path := range paths {
		if v, has := o[path[0]]; has {
			out[path[0]] = v
		}
	}
	return out
}

// maskByNode returns a document {node: {…}} with each node masked by itself.
func (s *Snapshot) maskByNode(o config.Object, revision uint64, reveal bool) DocumentAnswer {
	return s.masked(o, revision, reveal, func() (any, bool) { return maskBelow(s.Metadata, o, 1) })
}

// maskBelow masks the configs at a depth of keys in an object.
func maskBelow(m *metadata.Metadata, v any, depth int) (any, bool) {
	o, ok := v.(config.Object)
	if depth == 0 || !ok {
		return override.Mask(m, nil, v)
	}
	out, any := make(config.Object, len(o)), false
	for key, below := range o {
		shown, hidden := maskBelow(m, below, depth-1)
		out[key] = shown
		any = any || hidden
	}
	return out, any
}

// Describe returns the expanded metadata of "node", "controller" or "aggregator".
func (s *Snapshot) Describe(of string) (DocumentAnswer, error) {
	m, known := s.E2E[of]
	if of == "node" {
		m, known = s.Metadata, true
	}
	if !known {
		return DocumentAnswer{}, &NotFoundError{"metadata of " + config.Quote(of), "must be node, controller or aggregator"}
	}
	if m == nil {
		return s.document(nil, nil, 0, true), nil
	}
	return s.document(nil, m.Document(), 0, true), nil
}

// Topology returns the topology in the format of its file, with the current liveness: a node is ONLINE if a replica has
// its stream, and a link is alive while both its nodes are.
func (s *Snapshot) Topology() (DocumentAnswer, error) {
	v, err := s.newCheck().layer(topologyLayer)
	if err != nil {
		return DocumentAnswer{}, err
	}
	if v.Document == nil {
		return DocumentAnswer{}, &NotFoundError{"topology",
			"an import, a topology that is set, and one node, link or site that is added make one"}
	}
	o := v.Document
	for key, edit := range map[string]func(config.Object) config.Object{"nodes": s.withNodeStatus,
		"links": s.withLinkStatus} {
		list, ok := o[key].([]any)
		if !ok {
			continue
		}
		out := slices.Clone(list)
		for i, entry := range list {
			if e, ok := entry.(config.Object); ok {
				out[i] = edit(e)
			}
		}
		o = config.Set(o, []string{key}, out)
	}
	return s.document(nil, o, v.Revision, true), nil
}

func (s *Snapshot) withNodeStatus(e config.Object) config.Object {
	name, _ := e["name"].(string)
	status := topology.Offline
	if s.Nodes[name].Alive {
		status = topology.Online
		if was, _ := e["status"].(int64); was == int64(topology.OnlineInitiator) {
			status = topology.OnlineInitiator
		}
	}
	return config.Set(e, []string{"status"}, int64(status))
}

func (s *Snapshot) withLinkStatus(e config.Object) config.Object {
	a, _ := e["a_node_name"].(string)
	z, _ := e["z_node_name"].(string)
	return config.Set(e, []string{"is_alive"}, s.Nodes[a].Alive && s.Nodes[z].Alive)
}

// Explain returns the origin of each value at or below a path of a node's effective config, secrets masked; nothing if
// there is no such value.
func (w *Snapshot) Explain(node string, path []string) ([]history.ValueHistory, error) {
	if err := w.checkNodesExist(node); err != nil {
		return nil, err
	}
	j := w.newCheck()
	_, set, err := j.kind(j.versions(node))
	if err != nil {
		f := brokenFault(err)
		f.Nodes = []string{node}
		return nil, refuse(override.WriteFaults{*f})
	}
	if err := j.checkExplainable(node, set, path); err != nil {
		return nil, err
	}
	all, err := w.State.Explain(node, set, path)
	if err != nil {
		return nil, err
	}
	for i := range all {
		x := &all[i]
		at := x.Path
		x.Value, _ = override.Mask(w.Metadata, at, x.Value)
		// A shadow may be above the value's path; a value that contains a secret is masked too.
		hide := func(s layers.ShadowedValue) layers.ShadowedValue {
			if _, secret := override.Mask(w.Metadata, at, ""); secret {
				s.Value, _ = override.Mask(w.Metadata, at, s.Value)
				return s
			}
			s.Value, _ = override.Mask(w.Metadata, s.Path, s.Value)
			return s
		}
		x.ValueOrigin.Shadowed = slices.Clone(x.ValueOrigin.Shadowed)
		for i, s := range x.ValueOrigin.Shadowed {
			x.ValueOrigin.Shadowed[i] = hide(s)
		}
		for i, s := range x.Shadowed {
			x.Shadowed[i].ShadowedValue = hide(s.ShadowedValue)
		}
	}
	return all, nil
}

// MaskDiffs returns differences of layers with their secrets masked, as many as an answer may contain.
func (s *Snapshot) MaskDiffs(diffs []history.LayerDiff) ([]history.LayerDiff, error) {
	out := slices.Clone(diffs)
	cost := meter{ended: s.Ended}
	for i, d := range out {
		for _, v := range d.Values {
			if err := errors.Join(cost.answer(v.Old), cost.answer(v.New)); err != nil {
				return nil, err
			}
		}
		m := s.metadataOf(d.Layer)
		for _, v := range []*history.Version{&out[i].Before, &out[i].After} {
			if v.Document != nil {
				shown, _ := override.Mask(m, nil, v.Document)
				v.Document, _ = shown.(config.Object)
			}
		}
		out[i].Values = slices.Clone(d.Values)
		for n, v := range d.Values {
			out[i].Values[n].Old, _ = override.Mask(m, v.Path, v.Old)
			out[i].Values[n].New, _ = override.Mask(m, v.Path, v.New)
		}
	}
	return out, nil
}

// metadataOf returns the metadata that describes a layer; nil for a topology and for metadata.
func (s *Snapshot) metadataOf(l history.Layer) *metadata.Metadata {
	switch l.Kind {
	case history.Network, history.Node, history.Auto:
		return s.Metadata
	case history.E2E:
		file, _ := fileOf(l)
		return s.E2E[file]
	case history.Peer:
		return peerMetadata
	case history.Topology, history.Metadata, history.Cluster, history.Deployment:
	}
	return nil
}
