package metadata

import "edgespan/config"

// isSynced reports whether a place is shared with the peer controller: its own setting applies, or else that of the
// nearest enclosing place. So all properties of a synced object are shared unless they have "sync": false. (In the
// original each property had to repeat the setting, and objects arrived without required properties.)
func (p *param) isSynced(around bool) bool {
	if p.sync != nil {
		return *p.sync
	}
	return around
}

// Split splits a config into the part shared with the peer controller and the rest; merging both gives the config.
// Unknown keys are shared, as in the original: they follow the sender.
func (m *Metadata) Split(o config.Object) (shared, own config.Object) {
	shared, own = split(m.root, o, false)
	if shared == nil {
		shared = config.Object{}
	}
	if own == nil {
		own = config.Object{}
	}
	return shared, own
}

// split returns nil for an empty part.
func split(p *param, o config.Object, around bool) (shared, own config.Object) {
	put := func(side *config.Object, key string, v any) {
		if *side == nil {
			*side = config.Object{}
		}
		(*side)[key] = v
	}
	for key, v := range o {
		below := p.each
		if below == nil {
			below = p.known[key]
		}
		if below == nil { // unknown
			if p.kind == Level || around {
				put(&shared, key, v)
			} else {
				put(&own, key, v)
			}
			continue
		}
		sync := below.isSynced(around)
		if inner, ok := v.(config.Object); ok && len(inner) > 0 && (below.known != nil || below.each != nil) {
			theirs, ours := split(below, inner, sync)
			if theirs != nil {
				put(&shared, key, theirs)
			}
			if ours != nil {
				put(&own, key, ours)
			}
			continue
		}
		side := &own
		if sync || below.kind == Level {
			side = &shared
		}
		put(side, key, v)
	}
	return shared, own
}
