package nodeconf

import (
	"slices"

	"edgespan/config"
)

// object is a mapping of the document after the walk: its valid values with the types of their words, and defaults.
type object struct {
	path  []string
	slots []slot
	index map[string]int // index in slots by key; nil for few keys
}

// slot is one key of an object with the walk's results.
type slot struct {
	key   string
	value any
	below *object
	given bool // present in the document, valid or not
	wrong bool
}

func newObject(path []string) *object { return &object{path: path} }

// indexThreshold is the number of keys up to which a linear search is faster than a map.
const indexThreshold = 8

// find returns the slot of a key, or nil. Adding a key may move slots.
func (o *object) find(key string) *slot {
	if o.index != nil {
		if i, ok := o.index[key]; ok {
			return &o.slots[i]
		}
		return nil
	}
	for i := range o.slots {
		if o.slots[i].key == key {
			return &o.slots[i]
		}
	}
	return nil
}

// slot returns the slot of a key and adds it if needed.
func (o *object) slot(key string) *slot {
	if s := o.find(key); s != nil {
		return s
	}
	o.slots = append(o.slots, slot{key: key})
	if o.index != nil {
		o.index[key] = len(o.slots) - 1
	} else if len(o.slots) > indexThreshold {
		o.reserve(len(o.slots))
	}
	return &o.slots[len(o.slots)-1]
}

// reserve makes room for n keys.
func (o *object) reserve(n int) {
	o.slots = slices.Grow(o.slots, max(n-len(o.slots), 0))
	if n <= indexThreshold {
		return
	}
	o.index = make(map[string]int, n)
	for i, s := range o.slots {
		o.index[s.key] = i
	}
}

// rename changes a key from its spelling in the document to the canonical one; the paths below it keep the former.
func (o *object) rename(from, to string) {
	s := o.find(from)
	if s == nil || from == to {
		return
	}
	s.key = to
	if o.index != nil {
		o.index[to] = o.index[from]
		delete(o.index, from)
	}
}

// isGiven reports whether a key is in the document, valid or not.
func (o *object) isGiven(key string) bool { s := o.find(key); return s != nil && s.given }

// isInvalid reports whether the value of a key is invalid.
func (o *object) isInvalid(key string) bool { s := o.find(key); return s != nil && s.wrong }

// hasInvalid reports whether a value is invalid, at o or below it.
func (o *object) hasInvalid() bool {
	return slices.ContainsFunc(o.slots, func(s slot) bool { return s.wrong || s.below != nil && s.below.hasInvalid() })
}

// objectAt returns the object at a key, or nil.
func (o *object) objectAt(key string) *object {
	if s := o.find(key); s != nil {
		return s.below
	}
	return nil
}

// objectOrEmpty returns the object at a key, or an empty one.
func (o *object) objectOrEmpty(key string) *object {
	if c := o.objectAt(key); c != nil {
		return c
	}
	return newObject(config.Below(o.path, key))
}

// pathOf returns the path of a key of o.
func (o *object) pathOf(key string) []string { return config.Below(o.path, key) }

// keys returns the keys of the objects below o, sorted.
func (o *object) keys() []string {
	return o.sorted(func(s slot) bool { return s.below != nil })
}

// sorted returns the keys of the slots for which want returns true, sorted.
func (o *object) sorted(want func(slot) bool) []string {
	keys := make([]string, 0, len(o.slots))
	for _, s := range o.slots {
		if want(s) {
			keys = append(keys, s.key)
		}
	}
	slices.Sort(keys)
	return keys
}

// lookup returns the value of a key; ok is false if it is absent, invalid or not a T.
func lookup[T any](o *object, key string) (v T, ok bool) {
	if s := o.find(key); s != nil {
		v, ok = s.value.(T)
	}
	return v, ok
}

// value returns the value of a key, or the zero value if it is absent or invalid.
func value[T any](o *object, key string) T {
	v, _ := lookup[T](o, key)
	return v
}

// items returns the list at a key.
func items[T any](o *object, key string) []T {
	vs := value[[]any](o, key)
	if len(vs) == 0 {
		return nil
	}
	out := make([]T, len(vs))
	for i, v := range vs {
		out[i] = v.(T)
	}
	return out
}
