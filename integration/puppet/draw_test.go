package puppet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// source is one source of a hierarchy: what is uploaded of it, at which level and as which
// half, with the later over the earlier.
type source struct {
	name   string
	halves [4]map[string]any // values and overrides of the environment, those of the node
}

// effective is what it has for the node.
func (s source) effective() map[string]any {
	out := map[string]any{}
	for _, half := range s.halves {
		for k, v := range half {
			out[k] = v
		}
	}
	return out
}

// hierarchy is random sources, from the highest to the lowest, and the keys that are looked up in them.
type hierarchy struct {
	sources []source
	keys    []string
	// Puppet obeys lookup_options and %{…} in the data; the controller's own routes leave both
	// to it.
	options, variables bool
}

type drawer struct {
	*rand.Rand
	variables bool
}

// roots are the keys of the documents. Each has a kind of values that most sources keep to.
var roots = []string{"scalar", "list", "hashes", "hash", "mixed", "a.b", "ümlaut key", "module::param"}

func (d drawer) hierarchy(number int) hierarchy {
	h := hierarchy{options: number%4 == 1, variables: number%4 == 3}
	d.variables = h.variables
	for i := range 1 + d.IntN(4) {
		s := source{name: fmt.Sprintf("h%d/r%d", number, i)}
		if i%2 == 1 {
			s.name = fmt.Sprintf("h%dr%d", number, i)
		}
		for half := range s.halves {
			s.halves[half] = map[string]any{}
			for _, key := range roots {
				if d.IntN(3) == 0 {
					s.halves[half][key] = d.value(key)
				}
			}
		}
		if h.options {
			s.halves[2]["lookup_options"] = d.options()
		}
		h.sources = append(h.sources, s)
	}
	h.keys = []string{
		"scalar", "list", "hashes", "hash", "mixed", "'a.b'", "a.b", "ümlaut key", "module::param", "nope",
		"hash.a", "hash.a.b", "hash.'x.y'", "list.0", "hashes.1.a", "scalar.a", "list.-1", "hash.0", `"a.b".a`, "mixed.a.0",
	}
	return h
}

func (d drawer) options() any {
	out := map[string]any{}
	for _, key := range []string{"list", "hash", "^ha", "mixed", "scalar"} {
		if d.IntN(2) == 0 {
			out[key] = map[string]any{"merge": merges[d.IntN(len(merges))]}
		}
	}
	return out
}

func (d drawer) value(key string) any {
	if d.IntN(8) == 0 {
		key = "mixed"
	}
	switch key {
	case "list", "ümlaut key":
		return d.list(3)
	case "hashes":
		return d.hashes()
	case "hash", "a.b", "module::param":
		return d.hash(3)
	case "scalar":
		return d.scalar()
	}
	switch d.IntN(5) {
	case 0:
		return nil
	case 1:
		return d.list(2)
	case 2:
		return d.hash(2)
	}
	return d.scalar()
}

// scalars are few, so that they meet.
var scalars = []any{
	"x", "y", "z", "--x", "--y", "--", "--a", "", "größe", "10", "true", "nil", "~", "a b: c", "%",
	0, 1, 2, 10, json.Number("9007199254740993"), json.Number("123456789012345678"), -3,
	json.Number("1.0"), json.Number("2.50"), json.Number("-0.125"), true, false,
}

func (d drawer) scalar() any {
	if d.variables && d.IntN(4) == 0 {
		return []string{"%{facts.role}", "is %{facts.role}!", "%{literal('%')}{facts.role}", "%{nope}", "%{}"}[d.IntN(5)]
	}
	return scalars[d.IntN(len(scalars))]
}

func (d drawer) list(depth int) any {
	out := []any{}
	for range d.IntN(5) {
		switch {
		case depth > 1 && d.IntN(8) == 0:
			out = append(out, d.list(depth-1))
		case depth > 1 && d.IntN(8) == 0:
			out = append(out, d.hash(depth-1))
		case d.IntN(12) == 0:
			out = append(out, nil)
		default:
			out = append(out, d.scalar())
		}
	}
	return out
}

func (d drawer) hashes() any {
	out := []any{}
	for range d.IntN(4) {
		out = append(out, d.hash(2))
	}
	return out
}

func (d drawer) hash(depth int) any {
	out := map[string]any{}
	for _, key := range []string{"a", "b", "x.y", "--a", "0"} {
		if d.IntN(2) == 0 {
			continue
		}
		switch n := d.IntN(6); {
		case depth > 1 && n < 2:
			out[key] = d.hash(depth - 1)
		case depth > 1 && n == 2:
			out[key] = d.list(depth - 1)
		case depth > 1 && n == 3:
			out[key] = d.hashes()
		case n == 4 && d.IntN(3) == 0:
			out[key] = nil
		default:
			out[key] = d.scalar()
		}
	}
	return out
}
