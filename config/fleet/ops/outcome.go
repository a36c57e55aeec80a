package ops

import (
	"fmt"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

// newOutcome builds the outcome of a validated write.
func (ck *check) newOutcome(c history.Change, effects []override.Effect, warnings override.WriteFaults,
	notes []string) WriteOutcome {
	o := WriteOutcome{Change: c, Warnings: notes, Effects: slices.Clone(effects)}
	nodes := 0
	for i, x := range o.Effects {
		shown, _ := override.Mask(ck.metadata, nil, x.Diff)
		o.Effects[i].Diff, _ = shown.(config.Object)
		nodes += len(x.Nodes)
	}
	for _, f := range warnings {
		switch {
		case f.Rule != metadata.RuleUnknown:
			o.Warnings = append(o.Warnings, f.Error())
		case f.Layer == layers.Network.String():
			o.Unknown = append(o.Unknown, config.Below([]string{f.Layer}, f.Path...))
		case f.Layer != layers.Auto.String(): // the controller maintains the auto layer: users can't repair it
			for _, node := range f.Nodes {
				o.Unknown = append(o.Unknown, config.Below([]string{node}, f.Path...))
			}
		}
	}
	slices.SortFunc(o.Unknown, slices.Compare)
	o.Unknown = slices.CompactFunc(o.Unknown, slices.Equal)
	switch {
	case len(c.Layers) == 0 && len(c.Renamed) == 0:
		o.Message = "Success. Nothing changes."
	case nodes == 0:
		o.Message = "Success. The config of no node changes."
	case nodes == 1:
		o.Message = "Success. 1 node changes."
	default:
		o.Message = fmt.Sprintf("Success. %d nodes change.", nodes)
	}
	return o
}

// EffectiveAfter returns a node's effective config with the change of an outcome applied, for a preview.
func (s *Snapshot) EffectiveAfter(c history.Change, node string) (config.Object, error) {
	j := s.newCheck()
	for _, r := range c.Renamed {
		j.was[r.To] = r.From
	}
	if err := j.layersOf(networkLayer, autoLayer(node), nodeLayer(node)); err != nil {
		return nil, err
	}
	for l, doc := range c.Layers {
		v := j.read[l]
		v.Layer, v.Document = l, doc
		j.read[l] = v
	}
	full, _, err := j.effective(node, j.versions(node), nil)
	return full, err
}
