package history

import "edgespan/config/layers"

// ValueHistory is one value of a node's effective config: the layer that set it, when and by whom, and the values it
// shadows.
type ValueHistory struct {
	layers.ValueOrigin
	// By is the revision that set the value in its layer; nil for base, firmware and hardware layers, which have no
	// revisions.
	By       *RevisionRecord
	Shadowed []ShadowedBy // instead of the embedded one
}

// ShadowedBy is a layer's value that a higher layer hides.
type ShadowedBy struct {
	layers.ShadowedValue
	By *RevisionRecord
}

// Explain returns the origin of each value at or below a path of a node's effective config. versions holds the node's
// base, firmware and hardware layers; the other layers are read from the state.
func (s State) Explain(node string, versions layers.Set, path []string) ([]ValueHistory, error) {
	set := versions
	own := map[layers.Layer]Layer{layers.Auto: {Auto, node}, layers.Network: {Kind: Network}, layers.Node: {Node, node}}
	for place, l := range own {
		v, err := s.Layer(l)
		if err != nil {
			return nil, err
		}
		set[place] = v.Document
	}
	by := func(place layers.Layer, path []string) (*RevisionRecord, error) {
		l, has := own[place]
		if !has {
			return nil, nil
		}
		change, found, err := s.LastChange(l, path)
		if err != nil || !found {
			return nil, err
		}
		return &change.By, nil
	}
	var out []ValueHistory
	for _, e := range set.Explain(path) {
		x := ValueHistory{ValueOrigin: e}
		var err error
		if x.By, err = by(e.Origin, e.Path); err != nil {
			return nil, err
		}
		for _, hidden := range e.Shadowed {
			record, err := by(hidden.Layer, hidden.Path)
			if err != nil {
				return nil, err
			}
			x.Shadowed = append(x.Shadowed, ShadowedBy{hidden, record})
		}
		out = append(out, x)
	}
	return out, nil
}
