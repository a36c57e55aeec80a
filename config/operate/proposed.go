package operate

import (
	"maps"

	"edgespan/config"
	"edgespan/config/metadata"
)

// Proposed is what a node told of its board (link.BaseConfig), for whoever decides on it. What
// the fleet's metadata or its own calls secret is masked.
func (w *World) Proposed(doc config.Object, reveal bool) (Document, error) {
	masks := []*metadata.Metadata{w.Metadata}
	if own, is := doc["metadata"].(config.Object); is {
		if m, faults := metadata.Parse(own, metadata.Options{}); faults == nil {
			masks = append(masks, m)
		}
	}
	return w.masked(doc, 0, reveal, func() (any, bool) {
		shown, hidden := config.Object{}, false
		maps.Copy(shown, doc)
		for _, key := range []string{"base", "hardware"} {
			v, has := doc[key]
			if !has {
				continue
			}
			for _, m := range masks {
				masked, any := maskBelow(m, v, 1)
				v, hidden = masked, hidden || any
			}
			shown[key] = v
		}
		return shown, hidden
	}), nil
}
