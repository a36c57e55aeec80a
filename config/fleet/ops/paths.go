package ops

import (
	"slices"

	"edgespan/config"
)

// star matches every key at its place in a path; at the end it selects the whole object.
const star = "*"

// choose returns the parts of a document at paths.
func (ck *check) choose(doc config.Object, paths [][]string) (config.Object, error) {
	chosen := config.Object{}
	_, all := estimateSize(doc)
	for _, path := range paths {
		cost := len(path)
		if slices.Contains(path, star) {
			cost = all // it may visit the whole document and find nothing
		}
		if err := ck.cost.count(cost); err != nil {
			return nil, err
		}
		v, has := pick(doc, path)
		o, ok := v.(config.Object)
		if !has || !ok {
			continue
		}
		_, values := estimateSize(o)
		if err := ck.cost.count(values); err != nil {
			return nil, err
		}
		chosen, _ = config.Merge(chosen, o) // parts of one document don't clash
	}
	return chosen, nil
}

// pick returns the part of v at a path.
func pick(v any, path []string) (any, bool) {
	if len(path) == 0 {
		return v, true
	}
	o, ok := v.(config.Object)
	switch {
	case !ok:
		return nil, false
	case path[0] != star:
		below, has := o[path[0]]
		if !has {
			return nil, false
		}
		picked, has := pick(below, path[1:])
		return config.Object{path[0]: picked}, has
	case len(path) == 1:
		return o, true
	}
	out := config.Object{}
	for key, below := range o {
		if picked, has := pick(below, path[1:]); has {
			out[key] = picked
		}
	}
	return out, len(out) > 0
}

// matchPaths returns the paths of a document that match a path with stars. A star at the end selects the enclosing
// object.
func matchPaths(v any, path, at []string) [][]string {
	if len(path) == 0 {
		return [][]string{at}
	}
	o, ok := v.(config.Object)
	switch {
	case !ok:
		return nil
	case path[0] != star:
		below, has := o[path[0]]
		if !has {
			return nil
		}
		return matchPaths(below, path[1:], config.Below(at, path[0]))
	case len(path) == 1:
		return [][]string{at}
	}
	var out [][]string
	for _, key := range config.Keys(o) {
		out = append(out, matchPaths(o[key], path[1:], config.Below(at, key))...)
	}
	return out
}
