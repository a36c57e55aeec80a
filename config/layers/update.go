package layers

import (
	"maps"

	"edgespan/config"
)

// Update is the effective config of s, computed from old, the one of a set that differs
// from s at or below a path only. It copies the objects on the way to the path and merges
// what is there. The clashes are those at the path, on the way to it and below it.
func (s Set) Update(old config.Object, path []string) (config.Object, Clashes) {
	if len(path) == 0 {
		return s.Effective()
	}
	u := update{set: s, path: path}
	out := u.level(&s, old, 0)
	u.clashes.sort()
	return out, u.clashes
}

type update struct {
	set     Set
	path    []string
	clashes Clashes
}

// level is old with a new value at the key of one level; layers are what they have there.
func (u *update) level(layers *Set, old config.Object, depth int) config.Object {
	key := u.path[depth]
	var below Set
	some, objects := false, true
	for l, o := range layers {
		v, has := o[key]
		if !has {
			continue
		}
		some = true
		sub, is := v.(config.Object)
		below[l], objects = sub, objects && is
	}
	out := maps.Clone(old)
	if out == nil {
		out = config.Object{}
	}
	was, wasObject := old[key].(config.Object)
	switch {
	case !some:
		delete(out, key)
	case objects && wasObject && depth+1 < len(u.path):
		out[key] = u.level(&below, was, depth+1)
	default:
		out[key] = u.fold(layers, depth)
	}
	return out
}

// fold merges what the layers have at the key of a level.
func (u *update) fold(layers *Set, depth int) any {
	key := u.path[depth]
	var out any
	for l, o := range layers {
		v, has := o[key]
		if !has {
			continue
		}
		below, was := out.(config.Object)
		above, is := v.(config.Object)
		switch {
		case !was:
			out = v
		case is:
			merged, found := config.Merge(below, above)
			out, u.clashes = merged, u.set.name(u.clashes, found, u.path[:depth+1], Layer(l))
		default:
			u.clashes = u.set.name(u.clashes, []config.Clash{{Below: below, Above: v}}, u.path[:depth+1], Layer(l))
		}
	}
	return out
}
