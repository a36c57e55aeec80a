package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// parse reads a document of a test.
func parse(t testing.TB, text string) Object {
	t.Helper()
	o, faults := ParseObject([]byte(text))
	if faults != nil {
		t.Fatalf("%s: %v", text, faults)
	}
	return o
}

func show(v any) string { return string(AppendCanonical(nil, v)) }

// compact is a value on one line.
func compact(v any) string {
	return strings.NewReplacer("\n", "", "  ", "", "\": ", "\":").Replace(show(v))
}

// The vectors of RFC 7396 appendix A that are objects, and what ours makes of each.
func TestMergeBesideRFC7396(t *testing.T) {
	for _, c := range []struct{ below, above, rfc, own string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`, ""},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`, ""},
		{`{"a":"b"}`, `{"a":null}`, `{}`, `{"a":null}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`, `{"a":null,"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`, ""},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`, ""},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`, `{"a":{"b":"d","c":null}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`, ""},
		{`{"a":"foo"}`, `{"b":null}`, `{"a":"foo"}`, `{"a":"foo","b":null}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`, ""},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`, `{"a":{"bb":{"ccc":null}}}`},
		// Beside the vectors: what RFC 7396 does silently is a clash here.
		{`{"a":{"b":1}}`, `{"a":5}`, `{"a":5}`, `{"a":{"b":1}} and a clash at a`},
		{`{"a":{"b":1}}`, `{"a":null}`, `{}`, `{"a":{"b":1}} and a clash at a`},
		{`{"a":{"b":1}}`, `{"a":[1]}`, `{"a":[1]}`, `{"a":{"b":1}} and a clash at a`},
		{`{"a":5}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`, ""},
	} {
		below, above := parse(t, c.below), parse(t, c.above)
		before, beforeAbove := show(below), show(above)
		merged, clashes := Merge(below, above)
		got := compact(merged)
		for _, x := range clashes {
			got += " and a clash at " + FormatPath(x.Path)
		}
		want := c.own
		if want == "" {
			want = c.rfc
		}
		if got != want {
			t.Errorf("%s over %s: %s, want %s", c.above, c.below, got, want)
		}
		if show(below) != before || show(above) != beforeAbove {
			t.Errorf("%s over %s changed what it was given", c.above, c.below)
		}
	}
}

func TestAllClashesAreToldInOrder(t *testing.T) {
	_, clashes := Merge(parse(t, `{"b":{"x":{}},"a":{"y":{}},"c":{}}`), parse(t, `{"b":{"x":1},"a":{"y":null},"c":[]}`))
	got := ""
	for _, c := range clashes {
		got += fmt.Sprintf("%s %s/%s; ", FormatPath(c.Path), KindOf(c.Below), KindOf(c.Above))
	}
	if want := "a.y object/null; b.x object/int64; c object/array; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The worked examples of the reference (§1.2).
func TestDifferences(t *testing.T) {
	for _, c := range []struct{ a, b, diff, full string }{
		{`{"x":{"a":1}}`, `{"x":5}`, `{}`, `{"x":{"a":1}}`},
		{`{"x":5}`, `{"x":{"a":1}}`, `{"x":{"a":1}}`, `{"x":{"a":1}}`},
		{`{}`, `{"x":{}}`, `{"x":{}}`, `{"x":{}}`},
		{`{"x":{}}`, `{}`, `{}`, `{"x":{}}`},
		{`{"x":1}`, `{"x":1.0}`, `{}`, `{}`},
		{`{"x":[1,2]}`, `{"x":[1.0,2]}`, `{}`, `{}`},
		{`{"x":[1,2]}`, `{"x":[2,1]}`, `{"x":[2,1]}`, `{"x":[1,2]}`},
		{`{"x":1,"y":2}`, `{"x":3,"z":4}`, `{"x":3,"z":4}`, `{"x":1,"y":2,"z":4}`},
		{`{"x":{"a":1,"b":{"c":2}}}`, `{"x":{"a":1}}`, `{}`, `{"x":{"b":{"c":2}}}`},
		{`{"x":null}`, `{"x":0}`, `{"x":0}`, `{"x":null}`},
		{`{"x":"1"}`, `{"x":1}`, `{"x":1}`, `{"x":"1"}`},
	} {
		a, b := parse(t, c.a), parse(t, c.b)
		if got := compact(Diff(a, b)); got != c.diff {
			t.Errorf("what %s sets otherwise than %s: %s, want %s", c.b, c.a, got, c.diff)
		}
		if got := compact(FullDiff(a, b)); got != c.full {
			t.Errorf("full difference of %s and %s: %s, want %s", c.a, c.b, got, c.full)
		}
	}
}

func TestClean(t *testing.T) {
	got := compact(DropEmpty(parse(t, `{"a":{"b":{}},"c":{"d":null,"e":{}},"f":[],"g":0,"h":""}`)))
	if want := `{"c":{"d":null},"f":[],"g":0,"h":""}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAddMissing(t *testing.T) {
	got := compact(AddMissing(parse(t, `{"a":1,"b":{"c":1}}`), parse(t, `{"a":2,"b":{"c":2,"d":2},"e":{}}`)))
	if want := `{"a":1,"b":{"c":1,"d":2},"e":{}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSetUnsetAndPrune(t *testing.T) {
	o := parse(t, `{"a":{"b":1,"c":2},"d":3}`)
	before := show(o)
	for _, c := range []struct{ got, want string }{
		{compact(Set(o, []string{"a", "b"}, int64(7))), `{"a":{"b":7,"c":2},"d":3}`},
		{compact(Set(o, []string{"x", "y"}, "z")), `{"a":{"b":1,"c":2},"d":3,"x":{"y":"z"}}`},
		{compact(Set(o, []string{"d", "y"}, nil)), `{"a":{"b":1,"c":2},"d":{"y":null}}`},
		{compact(Unset(o, []string{"a", "b"})), `{"a":{"c":2},"d":3}`},
		{compact(Unset(o, []string{"d"})), `{"a":{"b":1,"c":2}}`},
		{compact(Unset(o, []string{"d", "e"})), compact(o)},
		{compact(Unset(Unset(o, []string{"a", "b"}), []string{"a", "c"})), `{"a":{},"d":3}`},
		{compact(Prune(o, []string{"a", "b"})), `{"a":{"c":2},"d":3}`},
		{compact(Prune(Prune(o, []string{"a", "b"}), []string{"a", "c"})), `{"d":3}`},
		{compact(Prune(Object{"a": Object{"b": Object{"c": nil}}}, []string{"a", "b", "c"})), `{}`},
		{compact(Prune(o, []string{"d", "e"})), compact(o)},
		{compact(Prune(o, nil)), `{}`},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if show(o) != before {
		t.Error("the document itself was changed")
	}
}

// canonical digests of the reference (§1.3), over the real files.
func TestMD5OfRealLayers(t *testing.T) {
	read := func(name string) Object {
		text, err := os.ReadFile(filepath.Join("testdata/terragraph/base_versions", name))
		if err != nil {
			t.Fatal(err)
		}
		return parse(t, string(text))
	}
	full := Object{}
	for i, c := range []struct {
		layer Object
		md5   string
	}{
		{Object{}, "99914b932bd37a50b983c5e7c90ae93b"},
		{read("RELEASE_M81.json"), "53ade77c24fde5ab5d0e8ab8d3da41ac"},
		{read("fw_versions/10.11.0.json"), "94a4d113400b69e5053aad278dd00718"},
		{read("hw_versions/NXP/RELEASE_M81.json"), "650aed045e5fa80ba144a1395ad66275"},
		{parse(t, `{"sysParams":{"managedConfig":true}}`), "09e10f0900a66f5b3e6d13caf2667336"},
		{parse(t, `{"popParams":{"POP_IFACE":"nic2"}}`), "c10047ec3efac862ad025c0a5649e5db"},
	} {
		full, _ = Merge(full, c.layer)
		if got := MD5(full); got != c.md5 {
			t.Errorf("MD5 %s, want %s", got, c.md5)
		}
		if n := len(show(full)); i == 3 && n != 11561 {
			t.Errorf("base, firmware and hardware are %d bytes, want 11561", n)
		}
	}
}

func TestCanonicalForm(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`1.0`, `1`},
		{`0.1`, `0.1`},
		{`1e-7`, `1E-7`},
		{`1e-6`, `0.000001`},
		{`12.5e-9`, `1.25E-8`},
		{`1e20`, `100000000000000000000`},
		{`1e21`, `1E21`},
		{`1.5e300`, `1.5E300`},
		{`-2.50`, `-2.5`},
		{`-0.0`, `-0`},
		{`-0`, `0`},
		{`9223372036854775807`, `9223372036854775807`},
		{`-9223372036854775808`, `-9223372036854775808`},
		{`"\u0041\/\"\\\b\f\n\r\t\u0001\u001f\u007f\u2028<&>é\ud83d\ude00"`,
			"\"A/\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\u007f\u2028<&>é😀\""},
		{`{"b":[],"a":{},"B":[1,{"x":null}]}`,
			"{\n  \"B\": [\n    1,\n    {\n      \"x\": null\n    }\n  ],\n  \"a\": {},\n  \"b\": []\n}"},
	} {
		v, faults := Parse([]byte(c.text))
		if got := show(v); faults != nil || got != c.want {
			t.Errorf("%s: %s (%v), want %s", c.text, got, faults, c.want)
		}
	}
}

func TestEveryFaultOfADocumentIsNamed(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101)
	for _, c := range []struct{ text, want string }{
		{`{"a":{"b":1,"b":2},"c":9223372036854775808,"d":[{"e":1,"e":1}]}`,
			"a.b: duplicate key (2 times)\n" +
				"c: invalid value 9223372036854775808: must be an integer of 64 bits\nd.0.e: duplicate key (2 times)"},
		{`{"a.b":{"c":1e999}}`, `"a.b".c: invalid value 1e999: must be a number up to 1.8e308`},
		{deep, strings.TrimSuffix(strings.Repeat("a.", 100), ".") + ": nested deeper than 100"},
		{`[]`, "invalid type array: must be one JSON object"},
		{`null`, "invalid type null: must be one JSON object"},
		{``, "invalid JSON: line 1 column 1: it is empty"},
		{"{\"a\":1,\n \"b\"", "b: invalid JSON: line 2 column 5: it ends too early"},
		{`{"a":1} {}`, "invalid JSON: line 1 column 10: something follows the document"},
		{`{"a":NaN}`, "a: invalid JSON: line 1 column 6: invalid character 'N' looking for beginning of value"},
		{`{"a":-Infinity}`, "a: invalid JSON: line 1 column 6: invalid character 'I' in numeric literal"},
		{`{"a":Infinity}`, "a: invalid JSON: line 1 column 6: invalid character 'I' looking for beginning of value"},
		{`{"a":1,}`, "invalid JSON: line 1 column 8: invalid character '}' looking for beginning of object key string"},
		{`{"a":1 /* one */}`, "invalid JSON: line 1 column 8: invalid character '/' after object key:value pair"},
		{"{\"a\":1}\x00 more", "invalid JSON: line 1 column 8: something follows the document"},
		{"{\"a\":\"\xff\"}", "not UTF-8: line 1 column 7: must be JSON in UTF-8"},
		{`{"a":"\ud800x"}`, `half of a surrogate pair: line 1 column 7: \ud800 to \udbff must stand before \udc00 to \udfff`},
		{`{"a":"\\\udc00"}`,
			`half of a surrogate pair: line 1 column 9: \ud800 to \udbff must stand before \udc00 to \udfff`},
	} {
		_, faults := ParseObject([]byte(c.text))
		if got := faults.Error(); got != c.want {
			t.Errorf("%.60s:\n%s\nwant\n%s", c.text, got, c.want)
		}
	}
	if _, faults := ParseObject([]byte(strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100))); faults != nil {
		t.Errorf("must be a depth of 100: %v", faults)
	}
}

func TestPathsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "path")
		got, err := ParsePath(FormatPath(path))
		if err != nil || FormatPath(got) != FormatPath(path) {
			t.Fatalf("%q became %q, %v", path, got, err)
		}
	})
	for _, bad := range []string{"", ".", "a.", ".a", "a..b", `"a`, `"a"b`, `"\q"`, "a\xff.b"} {
		if got, err := ParsePath(bad); err == nil {
			t.Errorf("%q was read as %q", bad, got)
		}
	}
}

// documents are small ones with few keys, so that they meet.
func documents() *rapid.Generator[Object] {
	var value func(depth int) *rapid.Generator[any]
	object := func(depth int) *rapid.Generator[Object] {
		return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d.e"}), value(depth), 0, 3)
	}
	value = func(depth int) *rapid.Generator[any] {
		simple := rapid.SampledFrom([]any{nil, true, int64(1), 1.0, int64(2), "x", []any{int64(1)}, []any{}})
		if depth == 0 {
			return simple
		}
		return rapid.OneOf(simple, rapid.Map(object(depth-1), func(o Object) any { return o }))
	}
	return object(3)
}

func TestMergeIsAssociativeAndIdempotent(t *testing.T) {
	merge := func(a, b Object) Object {
		m, _ := Merge(a, b)
		return m
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := documents().Draw(t, "a"), documents().Draw(t, "b"), documents().Draw(t, "c")
		if left, right := show(merge(merge(a, b), c)), show(merge(a, merge(b, c))); left != right {
			t.Fatalf("(a b) c is %s\na (b c) is %s", left, right)
		}
		once := merge(a, b)
		if show(merge(once, b)) != show(once) || show(merge(a, a)) != show(a) || show(merge(a, Object{})) != show(a) {
			t.Fatalf("merging again changed %s", show(once))
		}
	})
}

func TestADifferenceLeadsToItsTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := documents().Draw(t, "a"), documents().Draw(t, "b")
		target, _ := Merge(a, b)
		got, clashes := Merge(a, Diff(a, target))
		if len(clashes) > 0 || !Equal(got, target) {
			t.Fatalf("a with the difference is %s, want %s", show(got), show(target))
		}
		if d := FullDiff(target, target); len(d) > 0 {
			t.Fatalf("a document differs from itself by %s", show(d))
		}
		if x, y := len(FullDiff(a, b)) == 0, Equal(a, b); x != y {
			t.Fatalf("no difference: %v, equal: %v", x, y)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":{"b":[1,2.5,null,true,"x"]}}`, `{"a":1,"a":2}`, `{"\ud800":1}`, `1e400`,
		`{"a":99999999999999999999}`, strings.Repeat("[", 200)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, faults := Parse(text)
		if faults != nil {
			if strings.Contains(faults.Error(), "\x00") {
				t.Errorf("an unprintable message: %q", faults.Error())
			}
			return
		}
		out := AppendCanonical(nil, v)
		again, faults := Parse(out)
		if faults != nil {
			// A double from 1e19 to 1e21 is written as an integer that is none of 64 bits.
			if !strings.Contains(faults.Error(), "integers of 64 bits") {
				t.Fatalf("the canonical form %s: %v", out, faults)
			}
			return
		}
		if !Equal(v, again) || string(AppendCanonical(nil, again)) != string(out) && !strings.Contains(string(out), "-0") {
			t.Errorf("%s became %s", out, AppendCanonical(nil, again))
		}
	})
}

// A key that an object has many times is one fault with a count, and no other key's.
func TestAKeyThatIsRepeatedIsOneFault(t *testing.T) {
	text := `{"b":{"a":1` + strings.Repeat(`,"a":1,"c":2`, 9999) + `},"a":1}`
	if _, faults := ParseObject([]byte(text)); faults.Error() != "b.a: duplicate key (10000 times)\nb.c: duplicate key "+
		"(9999 times)" {
		t.Errorf("%d faults, %.200s", len(faults), faults.Error())
	}
}

func TestParseFew(t *testing.T) {
	t.Parallel()
	list := func(n int) string { return `{"a":["` + strings.Repeat(`,`, n) + `"` + strings.Repeat(",1", n) + "]}" }
	if _, faults := ParseBounded([]byte(list(MaxValues - 3))); faults != nil {
		t.Error(faults)
	}
	if o, faults := ParseBounded([]byte(list(MaxValues))); o != nil || faults == nil ||
		!strings.Contains(faults.Error(), "must be at most 100000") {
		t.Error(o, faults)
	}
}
