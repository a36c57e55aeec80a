package ops

import (
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/override"
)

// Layer returns one layer in the form that LayerQuery describes. A version without a match gets the latest base and
// empty firmware and hardware: {}.
func (s *Snapshot) Layer(q LayerQuery) (DocumentAnswer, error) {
	j := s.newCheck()
	switch q.Layer {
	case layers.Base, layers.Firmware:
		return j.byVersion(q)
	case layers.Hardware:
		return j.byBoard(q)
	case layers.Network:
		v, err := j.layer(networkLayer)
		if err != nil {
			return DocumentAnswer{}, err
		}
		return s.document(s.Metadata, v.Document, v.Revision, q.Reveal), nil
	case layers.Auto:
		return j.readNodeLayers(history.Auto, q)
	case layers.Node:
		return j.readNodeLayers(history.Node, q)
	}
	return DocumentAnswer{}, &NotFoundError{"layer", "must be base, firmware, hardware, auto, network or node"}
}

// byVersion returns base or firmware: {version: {…}}.
func (ck *check) byVersion(q LayerQuery) (DocumentAnswer, error) {
	versions, out := q.Versions, config.Object{}
	if len(versions) == 0 {
		if versions = ck.Hardware.Base; q.Layer == layers.Firmware {
			versions = ck.Hardware.Firmware
		}
	}
	var faults override.WriteFaults
	for _, version := range versions {
		v := layers.Versions{Software: version}
		if q.Layer == layers.Firmware {
			v = layers.Versions{Firmware: version}
		}
		c := ck.Hardware.KindOf(v).Choice
		only := ck.readLayer(&faults, fleet.Kind{Choice: layers.Choice{Base: c.Base, Firmware: c.Firmware}}, q.Layer)
		if err := ck.cost.answer(only); err != nil {
			return DocumentAnswer{}, err
		}
		out[version] = only
	}
	return ck.answerFiles(out, 1, faults, q.Reveal)
}

// kindCost is the cost of selecting layers, relative to visiting a key.
const kindCost = 200

// byBoard returns hardware: {board: {version: {…}}}.
func (ck *check) byBoard(q LayerQuery) (DocumentAnswer, error) {
	boards := q.Boards
	if len(boards) == 0 {
		for board := range ck.Hardware.Boards {
			boards = append(boards, board)
		}
		for board := range ck.Hardware.Learnt {
			boards = append(boards, board)
		}
		slices.Sort(boards)
		boards = slices.Compact(boards)
	}
	out := config.Object{}
	var faults override.WriteFaults
	for _, board := range boards {
		all := config.Object{}
		for _, version := range ck.versionsOf(board, q.Versions) {
			k := ck.Hardware.KindOf(layers.Versions{Software: version, Board: board})
			if err := ck.cost.count(kindCost); err != nil {
				return DocumentAnswer{}, err
			}
			if k.Hardware == "" {
				continue
			}
			only := ck.readLayer(&faults, k, layers.Hardware)
			if err := ck.cost.answer(only); err != nil {
				return DocumentAnswer{}, err
			}
			all[version] = only
		}
		out[board] = all
	}
	return ck.answerFiles(out, 2, faults, q.Reveal)
}

// versionsOf returns the requested versions, or else all versions for which a board has layers.
func (ck *check) versionsOf(board string, asked []string) []string {
	if len(asked) > 0 {
		return asked
	}
	all := slices.Clone(ck.Hardware.Hardware[ck.Hardware.Boards[board]])
	learnt := ck.Hardware.Learnt[board]
	return append(all, learnt.Hardware[learnt.Boards[board]]...)
}

// readLayer reads one layer of a kind and no others, so that a broken file affects only its own layer.
func (ck *check) readLayer(faults *override.WriteFaults, k fleet.Kind, l layers.Layer) config.Object {
	c := &k.Choice
	if l != layers.Base {
		c.Base = ""
	}
	if l != layers.Firmware {
		c.Firmware = ""
	}
	if l != layers.Hardware {
		c.Hardware, c.Type = "", ""
	}
	k.Name = strings.Join([]string{c.Base, c.Firmware, c.Type, c.Hardware, k.Name}, "\x00")
	if c.Base+c.Firmware+c.Hardware == "" {
		return config.Object{}
	}
	set, err := ck.set(k)
	if err != nil {
		*faults = append(*faults, *brokenFault(err))
	}
	if set[l] == nil {
		return config.Object{}
	}
	return set[l]
}

func (ck *check) answerFiles(out config.Object, depth int, faults override.WriteFaults, reveal bool) (DocumentAnswer,
	error) {
	if len(faults) > 0 {
		return DocumentAnswer{}, refuse(faults)
	}
	return ck.masked(out, 0, reveal, func() (any, bool) { return maskBelow(ck.metadata, out, depth) }), nil
}

// readNodeLayers returns auto or node: {node: {…}}. It leaves out nodes without overrides. The revision is the newest
// that wrote or deleted one of them.
func (ck *check) readNodeLayers(kind history.Kind, q LayerQuery) (DocumentAnswer, error) {
	var versions []history.Version
	var err error
	if len(q.Nodes) == 0 {
		versions, err = ck.State.LayersOfKind(kind)
	} else {
		desired := make([]history.Layer, len(q.Nodes))
		for i, name := range q.Nodes {
			desired[i] = history.Layer{Kind: kind, Name: name}
		}
		versions, err = ck.State.Layers(desired...)
	}
	if err != nil {
		return DocumentAnswer{}, problemOf(err)
	}
	out, newest := config.Object{}, uint64(0)
	var missing []string
	for _, v := range versions {
		newest = max(newest, v.Revision)
		if err := ck.cost.answer(v.Document); err != nil {
			return DocumentAnswer{}, err
		}
		if v.Document != nil {
			out[v.Layer.Name] = v.Document
		} else {
			missing = append(missing, v.Layer.Name)
		}
	}
	if len(q.Nodes) > 0 { // a node that is no longer known may still have overrides
		if err := ck.checkNodesExist(missing...); err != nil {
			return DocumentAnswer{}, err
		}
	}
	return ck.maskByNode(out, newest, q.Reveal), nil
}
