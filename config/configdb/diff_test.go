package configdb

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b        string
		patch, text string
	}{
		{`{"a":1}`, `{"a":1}`, `[]`, ``},
		{`{"a":1}`, `{"a":1.0}`, `[{"op":"replace","path":"/a","value":1.0}]`, "~ a: 1 -> 1.0"},
		{
			`{"a":{"b/c":1,"d~e":2},"x.y":null}`, `{"a":{"d~e":{}},"n":[]}`,
			`[{"op":"remove","path":"/a/b~1c"},{"op":"replace","path":"/a/d~0e","value":{}},{"op":"remove","path":"/x.y"},{"op":"add","path":"/n","value":[]}]`,
			"- a.b/c: 1\n~ a.d~e: 2 -> {}\n- \"x.y\": null\n+ n: []",
		},
		{`[1,2,3,4]`, `[1,4]`, `[{"op":"remove","path":"/2"},{"op":"remove","path":"/1"}]`, "- 2: 3\n- 1: 2"},
		{`[1,4]`, `[1,2,3,4]`, `[{"op":"add","path":"/1","value":2},{"op":"add","path":"/2","value":3}]`, "+ 1: 2\n+ 2: 3"},
		{`[1,{"a":1},3]`, `[1,{"a":2},3]`, `[{"op":"replace","path":"/1/a","value":2}]`, "~ 1.a: 1 -> 2"},
		{`{}`, `[]`, `[{"op":"replace","path":"","value":[]}]`, "~ the document: {} -> []"},
		{`{"p":{"$masked":true}}`, `{"p":{"a":1}}`, `[{"op":"replace","path":"/p","value":{"a":1}}]`,
			`~ p: {"$masked":true} -> {"a":1}`},
		{``, `{"a":1}`, `[{"op":"add","path":"","value":{"a":1}}]`, `+ the document: {"a":1}`},
		{`{"a":1}`, ``, `[{"op":"remove","path":""}]`, `- the document: {"a":1}`},
	} {
		ds := Diff(JSON(c.a), JSON(c.b))
		patch, err := json.Marshal(append([]Difference{}, ds...))
		lines := make([]string, len(ds))
		for i, d := range ds {
			lines[i] = d.String()
		}
		if err != nil || string(patch) != c.patch || strings.Join(lines, "\n") != c.text {
			t.Errorf("%s to %s: %v\n%s\n%s", c.a, c.b, err, patch, strings.Join(lines, "\n"))
		}
	}
}

// patched applies the steps one after the other to a decoded value, as RFC 6902 says.
func patched(v any, ds []Difference, t tester) any {
	for _, d := range ds {
		v = patchedAt(v, d.Path, d, t)
	}
	return v
}

func patchedAt(v any, path []string, d Difference, t tester) any {
	if len(path) == 0 {
		return decode(t, d.New)
	}
	switch v := v.(type) {
	case map[string]any:
		old, had := v[path[0]]
		switch {
		case len(path) == 1 && had == (d.Op == OpAdd):
			t.Fatalf("%v of a key that is there: %v", d, had)
		case len(path) == 1 && d.Op == OpRemove:
			delete(v, path[0])
		default:
			v[path[0]] = patchedAt(old, path[1:], d, t)
		}
		return v
	case []any:
		var i int
		if _, err := fmt.Sscan(path[0], &i); err != nil {
			t.Fatal(err)
		}
		switch {
		case len(path) == 1 && d.Op == OpRemove:
			return slices.Delete(v, i, i+1)
		case len(path) == 1 && d.Op == OpAdd:
			return slices.Insert(v, i, decode(t, d.New))
		}
		v[i] = patchedAt(v[i], path[1:], d, t)
		return v
	}
	t.Fatalf("%v leads through %v", d, v)
	return nil
}

func TestADifferenceMakesOneOfTheOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawValue(t, 4), drawValue(t, 4)
		if m, ok := a.(map[string]any); ok && rapid.Bool().Draw(t, "related") { // mostly equal
			other, ok := decode(t, []byte(naive(t, m))).(map[string]any)
			for k := range drawMap(t, 1) {
				other[k] = drawValue(t, 2)
			}
			if ok {
				b = other
			}
		}
		x, y := JSON(naive(t, a)), JSON(naive(t, b))
		ds := Diff(x, y)
		if got := naive(t, patched(decode(t, x), ds, t)); got != string(y) {
			t.Fatalf("%s to %s: %v makes %s", x, y, ds, got)
		}
	})
}

// How a string is spelled is no difference, though it makes another document.
func TestASpellingIsNoDifference(t *testing.T) {
	t.Parallel()
	a, b := parse(t, `{"a":["\u00e9","x\/"],"b":{"c":"\ud83d\ude00"}}`), parse(t, `{"a":["é","x/"],"b":{"c":"😀"}}`)
	if ds := Diff(a, b); string(a) == string(b) || len(ds) > 0 {
		t.Errorf("%s to %s: %v", a, b, ds)
	}
	if (*Meter)(nil).identity(a) != (*Meter)(nil).identity(b) {
		t.Errorf("a merge holds %s and %s apart", a, b)
	}
	if ds := Diff(a, parse(t, `{"a":["e","x/"],"b":{"c":"😀"}}`)); len(ds) != 1 || ds[0].Pointer() != "/a/0" {
		t.Errorf("%v", ds)
	}
}
