package layers

import (
	"maps"

	"edgespan/config"
)

// merger merges all layers at once, level by level, so that an object is copied once and not once per layer. The result
// equals merging them one by one with config.Merge.
type merger struct {
	set     *Set
	path    []string // to the current level
	clashes Clashes
}

// objects merges the objects that layers have at one place; it shares the parts that only one of them has.
func (u *merger) objects(layers *Set) config.Object {
	var out config.Object
	first, copied := 0, false
	for l, o := range layers {
		if len(o) == 0 {
			continue
		}
		if out == nil {
			out, first = o, l
			continue
		}
		for key := range o {
			if hasAny(layers[first+1:l], key) {
				continue // the first layer with the key merged it from all layers
			}
			if !copied {
				out, copied = maps.Clone(out), true
			}
			out[key], _ = u.value(layers, key)
		}
	}
	if out == nil {
		out = config.Object{}
	}
	return out
}

func hasAny(layers []config.Object, key string) bool {
	for _, o := range layers {
		if _, has := o[key]; has {
			return true
		}
	}
	return false
}

// value merges the layers' values of one key: the last value wins, but an object is kept and merged with later objects.
func (u *merger) value(layers *Set, key string) (out any, found bool) {
	var objects Set
	n := 0
	for l, o := range layers {
		v, has := o[key]
		if !has {
			continue
		}
		found = true
		sub, ok := v.(config.Object)
		switch {
		case ok:
			objects[l] = sub
			n++
			out = v
		case n > 0:
			path := config.Below(u.path, key)
			u.clashes = append(u.clashes, Clash{path, u.set.objectBelow(path, Layer(l)), Layer(l), config.KindOf(v)})
		default:
			out = v
		}
	}
	if n > 1 {
		u.path = append(u.path, key)
		out = u.objects(&objects)
		u.path = u.path[:len(u.path)-1]
	}
	return out, found
}
