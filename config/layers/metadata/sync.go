package metadata

import "edgespan/config"

// synced says whether a place is shared with the peer controller: the nearest statement
// counts, its own or that of what is around it. So a synced object takes all its
// properties along, unless one says "sync": false (in the original each property had to
// say so again, and an object arrived without what it requires).
func (p *param) synced(around bool) bool {
	if p.sync != nil {
		return *p.sync
	}
	return around
}

// Split parts a config into what is shared with the peer controller and what stays. What
// nobody described is shared, as in the original: it follows the sender. Laid over each
// other the two are the config.
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

// split answers with nil for a side that has nothing.
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
		sync := below.synced(around)
		if inner, is := v.(config.Object); is && len(inner) > 0 && (below.known != nil || below.each != nil) {
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
