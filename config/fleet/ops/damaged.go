package ops

import (
	"errors"
	"fmt"

	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/override"
)

// damaged reports whether one of a node's own layers is damaged, so that its config is unknown. The node gets no config
// until the layer is repaired, and does not delay other nodes.
func (ck *check) damaged(node string) bool {
	return ck.read[autoLayer(node)].Damaged != nil || ck.read[nodeLayer(node)].Damaged != nil
}

func damagedFault(bad error) override.WriteFault {
	f := override.WriteFault{Rule: RuleHistory, Problem: bad.Error(),
		Expectation: "must be replaced by a write, or by a restore of an earlier revision"}
	var d *history.DamagedError
	if errors.As(bad, &d) {
		f.Path, f.Problem = []string{d.Layer.String()},
			fmt.Sprintf("is damaged in the store since revision %d wrote it (%v)", d.Revision, d.Err)
	}
	return f
}

// replacedLayers returns the layers that a write replaces completely, whatever their content. The other layers of the
// nodes that it names must be readable.
func (ck *check) replacedLayers(c override.Change, named []string) (whole []history.Layer, err error) {
	var needs []history.Layer
	switch {
	case c.Layer == layers.Network && c.Op == override.Set:
		whole = append(whole, networkLayer)
	case c.Layer == layers.Node:
		for _, name := range named {
			if needs = append(needs, autoLayer(name)); c.Op == override.Set {
				whole = append(whole, nodeLayer(name))
			} else {
				needs = append(needs, nodeLayer(name))
			}
		}
	}
	return whole, ck.layersOf(needs...)
}
