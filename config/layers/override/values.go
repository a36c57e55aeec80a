package override

import (
	"crypto/sha256"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
)

// collectValues collects the values that differ between two effective configs, sorted by path.
func (e *editor) collectValues(v *verdict, after layers.Set, was, now config.Object, path []string) {
	for _, key := range keysOf(was, now) {
		old, had := was[key]
		now, has := now[key]
		if had && has && config.Equal(old, now) {
			continue
		}
		at := config.Below(path, key)
		before, wasObject := old.(config.Object)
		then, isObject := now.(config.Object)
		oldLeaf, newLeaf := had && len(before) == 0, has && len(then) == 0
		if !(wasObject && isObject) && (oldLeaf || newLeaf) {
			x := Value{Path: at, HadOld: oldLeaf, HasNew: newLeaf}
			if oldLeaf {
				x.Old = e.show(at, old)
			}
			if newLeaf {
				x.New, x.Origin = e.show(at, now), after.Origin(at)
			}
			v.values = append(v.values, x)
		}
		e.collectValues(v, after, before, then, at)
	}
}

// keysOf returns the keys of two objects, sorted.
func keysOf(a, b config.Object) []string {
	keys := config.Keys(a)
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// name returns a digest of values.
func name(values []Value) string {
	h := sha256.New()
	var text []byte
	for _, v := range values {
		text = config.AppendCanonical(text[:0],
			[]any{config.FormatPath(v.Path), v.HadOld, v.Old, v.HasNew, v.New, int64(v.Origin)})
		h.Write(text)
	}
	return string(h.Sum(nil))
}
