package config

import (
	"maps"
	"slices"
)

// Object is a JSON object. A document is one, made of nil, bool, int64, float64, string,
// []any and Object. Nobody changes a document that another may hold.
type Object = map[string]any

// KindOf names the type of a value the way the original's messages do.
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

// Keys are the keys of an object, in the order of their bytes.
func Keys(o Object) []string { return slices.Sorted(maps.Keys(o)) }

// Lookup finds the value at a path.
func Lookup(o Object, path []string) (any, bool) {
	var v any = o
	for _, key := range path {
		below, is := v.(Object)
		if !is {
			return nil, false
		}
		if v, is = below[key]; !is {
			return nil, false
		}
	}
	return v, true
}

// Set is o with a value at a path; what stands in the way and is no object is replaced.
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

// Unset is o without the value at a path, and o itself where there is none. An object
// that becomes empty stays: {} is a value.
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

// Prune is Unset that also takes out the objects around the path that it leaves empty.
// Without a path nothing is left.
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

// Equal compares two values as the original does: 1 equals 1.0, arrays as a whole.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case Object:
		b, is := b.(Object)
		return is && maps.EqualFunc(a, b, Equal)
	case []any:
		b, is := b.([]any)
		return is && slices.EqualFunc(a, b, Equal)
	case int64:
		if f, is := b.(float64); is {
			return equalNumbers(a, f)
		}
	case float64:
		if i, is := b.(int64); is {
			return equalNumbers(i, a)
		}
	}
	return simple(b) && a == b
}

// simple says whether == takes the value: it panics on objects and arrays.
func simple(v any) bool {
	switch v.(type) {
	case Object, []any:
		return false
	}
	return true
}

func equalNumbers(i int64, f float64) bool {
	return f >= -1<<63 && f < 1<<63 && int64(f) == i && float64(int64(f)) == f
}

// Diff is what b sets otherwise than a (the original's one-way difference): a change from
// an object to something else does not show, since merging could not make it.
func Diff(a, b Object) Object {
	out := Object{}
	for key, v := range b {
		old, had := a[key]
		if o, is := old.(Object); is {
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

// FullDiff is all that differs between a and b, with a's values where both have one and
// what only one of them has as a whole. Actions are found by it.
func FullDiff(a, b Object) Object {
	out, _ := Merge(Diff(a, b), Diff(b, a))
	return out
}

// AddMissing is a with what only b has.
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

// Clean is o without objects that are empty, or become so by cleaning. Every other value
// stays, null too.
func Clean(o Object) Object {
	out := make(Object, len(o))
	for key, v := range o {
		if below, is := v.(Object); is {
			if below = Clean(below); len(below) == 0 {
				continue
			}
			v = below
		}
		out[key] = v
	}
	return out
}
