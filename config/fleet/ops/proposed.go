package ops

import (
	"maps"

	"edgespan/config"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

// Proposed returns a node's base config and metadata for its board (nodeproto.BaseConfig) for review. It masks the
// values that the fleet's metadata or the proposed metadata marks secret. The proposed metadata may use a vendor's
// actions, as it may once accepted. If the metadata has faults, any value could be secret: then all values are masked.
func (s *Snapshot) Proposed(doc config.Object, reveal bool) (DocumentAnswer, error) {
	masks, readable := []*metadata.Metadata{s.Metadata}, true
	if own, has := doc["metadata"]; has {
		m, faults := parseOwnMetadata(own)
		masks, readable = append(masks, m), faults == nil
	}
	return s.masked(doc, 0, reveal, func() (any, bool) {
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
			if !readable {
				masked, any := maskValues(v, 1)
				v, hidden = masked, hidden || any
			}
			shown[key] = v
		}
		return shown, hidden
	}), nil
}

// parseOwnMetadata returns a board's metadata of its own config.
func parseOwnMetadata(v any) (*metadata.Metadata, config.Faults) {
	doc, ok := v.(config.Object)
	if !ok {
		return nil, config.Faults{{Path: []string{"metadata"}, Problem: config.InvalidType(config.KindOf(v)),
			Expectation: "must be an object"}}
	}
	return metadata.Parse(doc, metadata.Options{UnknownActions: true})
}

// maskValues masks every value of the configs at a depth of keys; the top-level keys of a config remain visible.
func maskValues(v any, depth int) (any, bool) {
	o, ok := v.(config.Object)
	switch {
	case v == nil:
		return nil, false
	case !ok || depth < 0:
		return override.Hidden(), true
	}
	out, any := make(config.Object, len(o)), false
	for key, below := range o {
		shown, hidden := maskValues(below, depth-1)
		out[key] = shown
		any = any || hidden
	}
	return out, any
}
