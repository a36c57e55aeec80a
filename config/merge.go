package config

import (
	"maps"
	"slices"
)

// Clash is a place where a merge would have lost a value: only an object may replace an object.
type Clash struct {
	Path         []string
	Below, Above any // the object, and the value to lay over it
}

// Merge lays above over below: it merges objects and replaces all other values. If above has another type where below
// has an object, Merge keeps the object and reports a clash; clashes are sorted by path. Apart from that, and from
// null, which is a value here, it implements RFC 7396.
func Merge(below, above Object) (Object, []Clash) {
	var m merger
	out, _ := m.merge(below, above)
	if out == nil {
		out = Object{}
	}
	slices.SortFunc(m.clashes, func(x, y Clash) int { return slices.Compare(x.Path, y.Path) })
	return out, m.clashes
}

type merger struct {
	path    []string
	clashes []Clash
}

// merge copies an object of below only if something in it changes.
func (m *merger) merge(below, above Object) (out Object, changed bool) {
	out = below
	for key, v := range above {
		old, had := below[key]
		if o, ok := old.(Object); ok {
			merged, other := m.mergeKey(key, o, v)
			if !other {
				continue
			}
			v = merged
		} else if had && isComparable(old) && isComparable(v) && old == v {
			continue
		}
		if !changed {
			changed = true
			out = make(Object, len(below)+len(above))
			maps.Copy(out, below)
		}
		out[key] = v
	}
	return out, changed
}

// mergeKey merges a value into the object o at the same key.
func (m *merger) mergeKey(key string, o Object, v any) (Object, bool) {
	m.path = append(m.path, key)
	defer func() { m.path = m.path[:len(m.path)-1] }()
	if a, both := v.(Object); both {
		return m.merge(o, a)
	}
	m.clashes = append(m.clashes, Clash{slices.Clone(m.path), o, v})
	return o, false
}
