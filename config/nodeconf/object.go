package nodeconf

import (
	"slices"

	"edgespan/config"
)

// object is a mapping of the document after the walk: what of it is right, in
// the types of the words, with defaults.
type object struct {
	path  []string
	slots []slot
	index map[string]int // of slots by key, once they are many
}

// slot is what is known of one key of an object.
type slot struct {
	key   string
	value any
	below *object
	given bool // in the document, right or wrong
	wrong bool
}

func newObject(path []string) *object { return &object{path: path} }

// few are so many keys that to compare them is cheaper than to make a map of them.
const few = 8

// find is the slot of a key, nil for none. It moves when another key comes.
func (o *object) find(key string) *slot {
	if o.index != nil {
		if i, is := o.index[key]; is {
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

// slot is the slot of a key, which is made if there is none.
func (o *object) slot(key string) *slot {
	if s := o.find(key); s != nil {
		return s
	}
	o.slots = append(o.slots, slot{key: key})
	if o.index != nil {
		o.index[key] = len(o.slots) - 1
	} else if len(o.slots) > few {
		o.reserve(len(o.slots))
	}
	return &o.slots[len(o.slots)-1]
}

// reserve makes room for n keys.
func (o *object) reserve(n int) {
	o.slots = slices.Grow(o.slots, max(n-len(o.slots), 0))
	if n <= few {
		return
	}
	o.index = make(map[string]int, n)
	for i, s := range o.slots {
		o.index[s.key] = i
	}
}

// rename moves what was found under a key as written to its canonical spelling;
// its paths stay as written.
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

// given says whether a key is in the document, right or wrong.
func (o *object) given(key string) bool { s := o.find(key); return s != nil && s.given }

// wrong says whether the value of a key is.
func (o *object) wrong(key string) bool { s := o.find(key); return s != nil && s.wrong }

// below is the object of a key, nil if there is none.
func (o *object) below(key string) *object {
	if s := o.find(key); s != nil {
		return s.below
	}
	return nil
}

// in is the object below o, empty if there is none.
func (o *object) in(key string) *object {
	if c := o.below(key); c != nil {
		return c
	}
	return newObject(config.Sub(o.path, key))
}

// at is the path of one of o's keys.
func (o *object) at(key string) []string { return config.Sub(o.path, key) }

// keys are those of the objects below o, sorted.
func (o *object) keys() []string {
	return o.sorted(func(s slot) bool { return s.below != nil })
}

// sorted are the keys of those slots that want wants.
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

// lookup is o's value of a key; ok is false where it is absent, wrong, or no T.
func lookup[T any](o *object, key string) (v T, ok bool) {
	if s := o.find(key); s != nil {
		v, ok = s.value.(T)
	}
	return v, ok
}

// value is o's value of a key, or the zero value where it is absent or wrong.
func value[T any](o *object, key string) T {
	v, _ := lookup[T](o, key)
	return v
}

// items is o's list of a key.
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
