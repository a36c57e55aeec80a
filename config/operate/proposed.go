package operate

import (
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
		for key, v := range doc {
			shown[key] = v
			for _, m := range masks {
				if key == "base" || key == "hardware" {
					masked, any := maskBelow(m, shown[key], 1)
					shown[key], hidden = masked, hidden || any
				}
			}
		}
		return shown, hidden
	}), nil
}
