package config

import (
	"maps"
	"slices"
)

// Object is a JSON object. A document is an Object made of nil, bool, int64, float64, string, []any and Object. A
// document that may be shared is never changed in place.
type Object = map[string]any

// KindOf names the type of a value in the words of the original's messages.
func KindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int64:
		return "int64"
	case float64:
		return "double"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// Keys returns the keys of an object, sorted by their bytes.
func Keys(o Object) []string { return slices.Sorted(maps.Keys(o)) }

// Lookup finds the value at a path.
func Lookup(o Object, path []string) (any, bool) {
	var v any = o
	for _, key := range path {
		below, ok := v.(Object)
		if !ok {
			return nil, false
		}
		if v, ok = below[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

// Set returns o with the value v at a path. It replaces any value on the path that is not an object.
func Set(o Object, path []string, v any) Object {
	if len(path) == 0 {
		return o
	}
	key, rest := path[0], path[1:]
	if len(rest) > 0 {
		below, _ := o[key].(Object)
		v = Set(below, rest, v)
	}
	out := make(Object, len(o)+1)
	maps.Copy(out, o)
	out[key] = v
	return out
}

// Unset returns o without the value at a path, or o itself if there is no such value. It keeps objects that become
// empty: {} is a value.
func Unset(o Object, path []string) Object {
	if _, found := Lookup(o, path); !found || len(path) == 0 {
		return o
	}
	key, rest := path[0], path[1:]
	out := maps.Clone(o)
	if len(rest) == 0 {
		delete(out, key)
		return out
	}
	below, _ := o[key].(Object)
	out[key] = Unset(below, rest)
	return out
}

// Prune is like Unset but also removes the enclosing objects that become empty. With an empty path it returns an empty
// object.
func Prune(o Object, path []string) Object {
	if len(path) == 0 {
		return Object{}
	}
	if _, found := Lookup(o, path); !found {
		return o
	}
	o = Unset(o, path)
	for n := len(path) - 1; n > 0; n-- {
		if v, _ := Lookup(o, path[:n]); len(v.(Object)) > 0 { // Lookup went through it
			break
		}
		o = Unset(o, path[:n])
	}
	return o
}

// Equal compares two values as the original does: 1 equals 1.0, and an array is one value.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case Object:
		b, ok := b.(Object)
		return ok && maps.EqualFunc(a, b, Equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case int64:
		if f, ok := b.(float64); ok {
			return equalNumbers(a, f)
		}
	case float64:
		if i, ok := b.(int64); ok {
			return equalNumbers(i, a)
		}
	}
	return isComparable(b) && a == b
}

// isComparable reports whether a value can be compared with ==, which panics on objects and arrays.
func isComparable(v any) bool {
	switch v.(type) {
	case Object, []any:
		return false
	}
	return true
}

func equalNumbers(i int64, f float64) bool {
	return f >= -1<<63 && f < 1<<63 && int64(f) == i && float64(int64(f)) == f
}

// Diff returns the values of b that differ from a (the original's one-way difference). It omits a change from an object
// to another type, since merging could not make that change.
func Diff(a, b Object) Object {
	out := Object{}
	for key, v := range b {
		old, had := a[key]
		if o, ok := old.(Object); ok {
			below, _ := v.(Object)
			if d := Diff(o, below); len(d) > 0 {
				out[key] = d
			}
		} else if !had || !Equal(old, v) {
			out[key] = v
		}
	}
	return out
}

// FullDiff returns all differences between a and b: a's value where both have one, and the whole value where only one
// has it. Actions are selected by it.
func FullDiff(a, b Object) Object {
	out, _ := Merge(Diff(a, b), Diff(b, a))
	return out
}

// AddMissing returns a with the keys that only b has.
func AddMissing(a, b Object) Object {
	out := maps.Clone(a)
	if out == nil {
		out = Object{}
	}
	for key, v := range b {
		old, had := a[key]
		o, isObject := old.(Object)
		more, both := v.(Object)
		switch {
		case !had:
			out[key] = v
		case isObject && both:
			out[key] = AddMissing(o, more)
		}
	}
	return out
}

// DropEmpty returns o without the objects that are empty or become empty by cleaning. It keeps all other values, null
// included.
func DropEmpty(o Object) Object {
	out := make(Object, len(o))
	for key, v := range o {
		if below, ok := v.(Object); ok {
			if below = DropEmpty(below); len(below) == 0 {
				continue
			}
			v = below
		}
		out[key] = v
	}
	return out
}
