package config

import "testing"

// What the reference says of the primitives in words (§1.2), and no table above has.
func TestPrimitivesOfTheReference(t *testing.T) {
	for _, c := range []struct{ below, above, want string }{
		{`{}`, `{"a":{}}`, `{"a":{}}`},                   // "key added, including {} and null"
		{`{}`, `{"a":null}`, `{"a":null}`},               //
		{`{"a":null}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`}, // "anything else can be replaced by anything"
		{`{"a":[1]}`, `{"a":{}}`, `{"a":{}}`},
		{`{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":1}}`},
		{`{"a":[1,2]}`, `{"a":[3]}`, `{"a":[3]}`},
	} {
		if got, clashes := Merge(parse(t, c.below), parse(t, c.above)); clashes != nil || compact(got) != c.want {
			t.Errorf("%s over %s: %s %v, want %s", c.above, c.below, compact(got), clashes, c.want)
		}
	}
	// "true when pointer resolves (any value, including null)"
	o := parse(t, `{"a":{"b":null,"c":{}},"x.y":[1]}`)
	for path, want := range map[string]bool{"a": true, "a.b": true, "a.c": true, `"x.y"`: true, "a.d": false,
		"a.b.c": false, "x.y": false, `"x.y".0`: false} {
		keys, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, found := Lookup(o, keys); found != want {
			t.Errorf("%s: %v", path, found)
		}
	}
}
