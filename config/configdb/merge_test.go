package configdb

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMergeTakesTheLastLayersKeysWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		layers       []string
		flat, nested string
		won          []int
	}{
		{nil, `{}`, `{}`, nil},
		{[]string{`{}`, `{}`}, `{}`, `{}`, nil},
		{[]string{`{"key":{"a":1,"b":null}}`, `{"key":{"a":3}}`}, `{"key":{"a":3}}`, `{"key":{"a":3,"b":null}}`, []int{1}},
		{[]string{`{"a":1}`, `{"a":null}`, `{}`}, `{"a":null}`, `{"a":null}`, []int{1}},
		{[]string{`{"a":1,"c":1}`, `{"b":2,"c":2}`, `{"c":3,"d":3}`}, `{"a":1,"b":2,"c":3,"d":3}`,
			`{"a":1,"b":2,"c":3,"d":3}`, []int{0, 1, 2, 2}},
		{[]string{`{"a":[1,2]}`, `{"a":[3]}`}, `{"a":[3]}`, `{"a":[3]}`, []int{1}},
		{[]string{`{"a":{"b":{"c":1.0,"d":2}}}`, `{"a":{"b":{"c":1.00}}}`, `{"a":{"b":{"e":{}}}}`}, `{"a":{"b":{"e":{}}}}`,
			`{"a":{"b":{"c":1.00,"d":2,"e":{}}}}`, []int{2}},
		{[]string{`{"a":{"b":1}}`, `{"a":2}`, `{"a":{"c":3}}`}, `{"a":{"c":3}}`, `{"a":{"c":3}}`, []int{2}},
	} {
		layers := make([]Object, len(c.layers))
		for i, l := range c.layers {
			layers[i] = object(t, l)
		}
		if got := flatMerge(layers).JSON(); string(got) != c.flat {
			t.Errorf("%s: %s, want %s", c.layers, got, c.flat)
		}
		if got := free.mergeNested(layers).JSON(); string(got) != c.nested {
			t.Errorf("%s nested: %s, want %s", c.layers, got, c.nested)
		}
		o, won := free.merge(layers, true)
		if string(o.JSON()) != c.flat || fmt.Sprint(won) != fmt.Sprint(c.won) {
			t.Errorf("%s: lookup %s %v, want %v", c.layers, o.JSON(), won, c.won)
		}
	}
}

func flatMerge(layers []Object) Object {
	o, _ := free.merge(layers, false)
	return o
}

func TestMergeAgainstDecodedMaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var layers []Object
		flat, nested, from := map[string]any{}, map[string]any{}, map[string]int{}
		for i := range rapid.IntRange(0, 10).Draw(t, "layers") {
			m := drawMap(t, 3)
			layers = append(layers, object(t, scribble(t, m)))
			maps.Copy(flat, m)
			nested = nest(nested, m)
			for k := range m {
				from[k] = i
			}
		}
		if got, want := string(flatMerge(layers).JSON().canonicalStrings()), naive(t, flat); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if got, want := string(free.mergeNested(layers).JSON().canonicalStrings()), naive(t, nested); got != want {
			t.Fatalf("nested %s, want %s", got, want)
		}
		o, won := free.merge(layers, true)
		winners := map[string]int{}
		for i, m := range o.Members() {
			winners[m.Key] = won[i]
		}
		if d := cmp.Diff(from, winners); d != "" {
			t.Fatal(d)
		}
	})
}

func nest(low, high map[string]any) map[string]any {
	out := maps.Clone(low)
	for k, v := range high {
		a, ok := low[k].(map[string]any)
		b, both := v.(map[string]any)
		if ok && both {
			v = nest(a, b)
		}
		out[k] = v
	}
	return out
}
