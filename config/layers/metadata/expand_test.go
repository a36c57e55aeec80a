package metadata

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
)

const stored = "../../testdata/terragraph/"

func parse(t testing.TB, text string) config.Object {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatalf("%s: %v", text, faults)
	}
	return o
}

func read(t testing.TB, name string) config.Object {
	t.Helper()
	text, err := os.ReadFile(stored + name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// compact is a value on one line.
func compact(v any) string {
	return strings.NewReplacer("\n", "", "  ", "", "\": ", "\":").Replace(string(config.AppendCanonical(nil, v)))
}

// "parse with no order requirement", and the reference's §1.9.
func TestExpand(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"forward", `{"a":{"__copy_block__":"b"},"b":{"x":1}}`, `{"a":{"x":1},"b":{"x":1}}`},
		{"backward", `{"a":{"x":1},"b":{"__copy_block__":"a"}}`, `{"a":{"x":1},"b":{"x":1}}`},
		{
			"a chain, the outer one wins",
			`{"a":{"__copy_block__":"b","x":1},"b":{"__copy_block__":"c","x":2,"y":2},"c":{"x":3,"y":3,"z":3}}`,
			`{"a":{"x":1,"y":2,"z":3},"b":{"x":2,"y":2,"z":3},"c":{"x":3,"y":3,"z":3}}`,
		},
		{"overrides are whole values", `{"a":{"__copy_block__":"b","x":{"p":1}},"b":{"x":{"q":2}}}`,
			`{"a":{"x":{"p":1}},"b":{"x":{"q":2}}}`},
		{"within what was copied", `{"a":{"__copy_block__":"b"},"b":{"x":{"__copy_block__":"c"}},"c":{"y":1}}`,
			`{"a":{"x":{"y":1}},"b":{"x":{"y":1}},"c":{"y":1}}`},
		{"within what overrides", `{"a":{"__copy_block__":"b","x":{"__copy_block__":"c"}},"b":{},"c":{"y":1}}`,
			`{"a":{"x":{"y":1}},"b":{},"c":{"y":1}}`},
		{"twice side by side", `{"a":{"p":{"__copy_block__":"b"},"q":{"__copy_block__":"b"}},"b":{"x":1}}`,
			`{"a":{"p":{"x":1},"q":{"x":1}},"b":{"x":1}}`},
		{"an override cuts a circle", `{"a":{"p":{"__copy_block__":"b"}},"b":{"__copy_block__":"a","p":{}}}`,
			`{"a":{"p":{"p":{}}},"b":{"p":{}}}`},
		{"a sibling of its own", `{"a":{"x":{"v":1},"y":{"__copy_block__":"a.x"}}}`, `{"a":{"x":{"v":1},"y":{"v":1}}}`},
		{"arrays have no blocks", `{"a":{"x":[{"__copy_block__":"b"}]}}`, `{"a":{"x":[{"__copy_block__":"b"}]}}`},
		{"the document is no block", `{"__copy_block__":"a","a":{"x":1}}`, `{"__copy_block__":"a","a":{"x":1}}`},
		{"keys with / and ~", `{"a":{"__copy_block__":"b/c.~d"},"b/c":{"~d":{"x":1}}}`, `{"a":{"x":1},"b/c":{"~d":{"x":1}}}`},
	} {
		in := parse(t, c.in)
		before := compact(in)
		out, faults := Expand(in)
		if got := compact(out); faults != nil || got != c.want {
			t.Errorf("%s: %s %v, want %s", c.name, got, faults, c.want)
		}
		if compact(in) != before {
			t.Errorf("%s: the document was changed", c.name)
		}
	}
}

// "circular- and self-references (throw error)".
func TestExpandFaults(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":{"__copy_block__":"a"}}`, "a: its __copy_block__ goes round in a circle: a -> a"},
		{`{"a":{"__copy_block__":"b"},"b":{"__copy_block__":"a"}}`,
			"a: its __copy_block__ goes round in a circle: b -> a -> b"},
		{`{"a":{"__copy_block__":"b"},"b":{"__copy_block__":"c"},"c":{"x":{"__copy_block__":"a"}}}`,
			"a: its __copy_block__ goes round in a circle: b -> c -> a -> b"},
		{`{"a":{"x":{"__copy_block__":"a"}}}`, "a.x: its __copy_block__ goes round in a circle: a -> a"},
		{`{"a":{"__copy_block__":5}}`, "a.__copy_block__: invalid type int64"},
		{`{"a":{"__copy_block__":"b.c"},"b":{}}`, `a.__copy_block__: invalid value "b.c"`},
		{`{"a":{"__copy_block__":""}}`,
			`a.__copy_block__: invalid value "": empty segment in a path: keys are joined by '.', one with a '.' in it is ` +
				`quoted in ""`},
		{`{"a":{"__copy_block__":"b.x"},"b":{"x":[1]}}`, `a.__copy_block__: invalid value "b.x", of type array`},
		// The source is looked up in what is written, not in what it becomes.
		{`{"a":{"__copy_block__":"b.x"},"b":{"__copy_block__":"c"},"c":{"x":{}}}`, `a.__copy_block__: invalid value "b.x"`},
		{
			`{"b":{"__copy_block__":"y"},"a":{"__copy_block__":"x"},"c":{"d":{"__copy_block__":true}}}`,
			`a.__copy_block__: invalid value "x"; b.__copy_block__: invalid value "y"; c.d.__copy_block__: invalid type boolean`,
		},
		{
			`{"a":{"__copy_block__":"b"},"b":{"__copy_block__":"a"},"c":{"__copy_block__":"d"},"d":{"__copy_block__":"c"}}`,
			"a: its __copy_block__ goes round in a circle: b -> a -> b; c: its __copy_block__ goes round in a circle: d -> c " +
				"-> d",
		},
	} {
		out, faults := Expand(parse(t, c.in))
		got := []string{}
		for _, f := range faults {
			f.Expectation = ""
			got = append(got, f.Error())
		}
		if s := strings.Join(got, "; "); out != nil || s != c.want {
			t.Errorf("%s: %s, want %s", c.in, s, c.want)
		}
	}
}

// Blocks that use each other twice would make 2^40 values of forty lines.
func TestExpansionIsBounded(t *testing.T) {
	doc := config.Object{"b0": config.Object{"x": int64(1)}}
	for i := range 40 {
		source := config.Object{copyBlock: fmt.Sprintf("b%d", i)}
		doc[fmt.Sprintf("b%d", i+1)] = config.Object{"p": source, "q": source}
	}
	if _, faults := Expand(doc); len(faults) != 1 ||
		!strings.Contains(faults[0].Error(), "expand to more than 200000 values") {
		t.Errorf("%.300v", faults)
	}
	deep := config.Object{}
	for range 150 {
		deep = config.Object{"x": deep}
	}
	if _, faults := Expand(deep); len(faults) != 1 || !strings.Contains(faults[0].Problem, "deeper than 100") {
		t.Errorf("%.300v", faults)
	}
}

func TestExpandingTwiceIsExpandingOnce(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "a.a", "b.c"})
	rapid.Check(t, func(t *rapid.T) {
		var object func(depth int) config.Object
		object = func(depth int) config.Object {
			o := config.Object{}
			for _, key := range []string{"a", "b", "c"} {
				if depth > 0 && rapid.Bool().Draw(t, "has") {
					o[key] = object(depth - 1)
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "block") == 0 {
				o[copyBlock] = name.Draw(t, "source")
			}
			return o
		}
		doc := object(3)
		delete(doc, copyBlock)
		once, faults := Expand(doc)
		if faults != nil {
			return
		}
		twice, faults := Expand(once)
		if faults != nil || compact(once) != compact(twice) {
			t.Fatalf("%s becomes %s, then %s %v", compact(doc), compact(once), compact(twice), faults)
		}
	})
}

// TestLongChainsAndCirclesOfBlocksEnd: each block of a chain copies all behind it, which
// without a measure is the cube of their number in work, hours for these.
func TestLongChainsAndCirclesOfBlocksEnd(t *testing.T) {
	const n = 5000
	for name, last := range map[string]config.Object{
		"chain": {"desc": "the end"}, "circle": {copyBlock: "b0"},
	} {
		doc := config.Object{fmt.Sprintf("b%d", n): last}
		for i := range n {
			doc[fmt.Sprintf("b%d", i)] = config.Object{copyBlock: fmt.Sprintf("b%d", i+1), fmt.Sprintf("p%d", i): true}
		}
		if _, faults := Expand(doc); len(faults) != 1 || !strings.Contains(faults[0].Error(), "more than 200000 values") {
			t.Errorf("%s: %d faults, of them %.200v", name, len(faults), faults)
		}
	}
}
