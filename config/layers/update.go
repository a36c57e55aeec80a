package layers

import (
	"maps"

	"edgespan/config"
)

// Update returns the effective config of s, computed from old, the effective config of a set that differs from s only
// at or below a path. It copies the objects on the way to the path and merges the rest. The clashes are those at the
// path, on the way to it and below it.
func (s Set) Update(old config.Object, path []string) (config.Object, Clashes) {
	if len(path) == 0 {
		return s.Effective()
	}
	u := merger{set: &s}
	out := u.setAlong(&s, old, path)
	u.clashes.sort()
	return out, u.clashes
}

// setAlong returns old with a new value at a path; layers holds the layers' objects at this level.
func (u *merger) setAlong(layers *Set, old config.Object, path []string) config.Object {
	key := path[0]
	out := maps.Clone(old)
	if out == nil {
		out = config.Object{}
	}
	below, objects := layersBelow(layers, key)
	if was, ok := old[key].(config.Object); ok && objects && len(path) > 1 {
		u.path = append(u.path, key)
		out[key] = u.setAlong(&below, was, path[1:])
		u.path = u.path[:len(u.path)-1]
		return out
	}
	if v, found := u.value(layers, key); found {
		out[key] = v
	} else {
		delete(out, key)
	}
	return out
}

// layersBelow returns the layers' values below a key, if all of them are objects.
func layersBelow(layers *Set, key string) (below Set, objects bool) {
	for l, o := range layers {
		v, has := o[key]
		if !has {
			continue
		}
		sub, ok := v.(config.Object)
		if !ok {
			return below, false
		}
		below[l], objects = sub, true
	}
	return below, objects
}
