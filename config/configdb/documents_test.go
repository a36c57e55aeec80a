package configdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func parse(t tester, text string) JSON {
	t.Helper()
	v, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func object(t tester, text string) Object {
	t.Helper()
	o, err := ParseObject([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

func TestParseGivesTheCanonicalForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" { } ":         `{}`,
		"[ 1 ,\t2\r\n]": `[1,2]`,
		`{"b":1,"a":2}`: `{"a":2,"b":1}`,
		`{"b":{"d":1,"c":2},"a":[{"f":1,"e":2}]}`: `{"a":[{"e":2,"f":1}],"b":{"c":2,"d":1}}`,
		`{"a":1,"b":2,"a":3}`:                     `{"a":3,"b":2}`,
		`{"a":1,"\u0061":{"y":1,"x":2}}`:          `{"a":{"x":2,"y":1}}`,
		`{"a":{"y":1,"x":2},"a":3}`:               `{"a":3}`,
		`{"a":1,"a":1,"a":2}`:                     `{"a":2}`,
		// by the bytes of keys, not of their spelling
		`{"a#":1,"a\"":2,"a\\":3,"a]":4}`: `{"a\"":2,"a#":1,"a\\":3,"a]":4}`,
		`{"aa":1,"a":2,"":3}`:             `{"":3,"a":2,"aa":1}`,
		`{"ü":1,"z":2,"\ud800":3,"😀":4}`:  `{"z":2,"ü":1,"\ud800":3,"😀":4}`,
		`1.0`:                             `1.0`,
		`-0`:                              `-0`,
		`1E+400`:                          `1E+400`,
		`123456789012345678901234567890123456789012345`:                  `123456789012345678901234567890123456789012345`,
		`{"x":9007199254740993,"y":1.10}`:                                `{"x":9007199254740993,"y":1.10}`,
		`"\u0041\/\u00e9\u2028\ud83d\uDE00é"`:                            `"\u0041\/\u00e9\u2028\ud83d\uDE00é"`,
		`{"\u00e9\/":["\u00e9\/"]}`:                                      `{"é/":["\u00e9\/"]}`, // a key has one spelling
		`"\u0000\u0008\u000C\u000a\u000d\u0009\u001F\u007f\u0022\u005C"`: `"\u0000\u0008\u000C\u000a\u000d\u0009\u001F\u007f\u0022\u005C"`,
		`{"\uD800":"\uD800"}`:                                            `{"\ud800":"\uD800"}`,
		`{"\uDE00\uD83D":1}`:                                             `{"\ude00\ud83d":1}`,
		`{"\uD83D\uD83D\uDE00":1}`:                                       `{"\ud83d😀":1}`,
		`{"\uD83D\n":"\uD83D\n"}`:                                        `{"\ud83d\n":"\uD83D\n"}`,
		`[true,false,null]`:                                              `[true,false,null]`,
		`{"a.b":{"c d":null}}`:                                           `{"a.b":{"c d":null}}`,
	} {
		if got := parse(t, text); string(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestParseSaysWhereAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "invalid JSON: it is empty: line 1 column 1 (byte 0): must be one JSON value",
		" \n":                     "it is empty: line 2 column 1 (byte 2)",
		"{\n \"a\": x}":           "no value here: line 2 column 7 (byte 8): must be an object, a list",
		"{\"é\":1 \"b\":2}":       "the object goes on without a comma: line 1 column 8 (byte 8): must be ',' or '}' here",
		`{"a":1,}`:                "no key here: line 1 column 8",
		`{"a" 1}`:                 "a key has no value: line 1 column 6",
		`{"a"`:                    "it ends too early: line 1 column 5",
		`{"a":`:                   "it ends too early",
		`[1,]`:                    "no value here: line 1 column 4",
		`[1 2]`:                   "the list goes on without a comma",
		`[1`:                      "it ends too early",
		`"a`:                      `it ends too early: line 1 column 3 (byte 2): must be " here`,
		`"a\`:                     "it ends too early",
		"\"a\nb\"":                "a string has a control character in it: line 1 column 3",
		`"\x"`:                    "a string has an unknown escape in it: line 1 column 2",
		`"\u12g4"`:                `a \u has no four hex digits: line 1 column 2`,
		`01`:                      "a number begins with 0: line 1 column 2",
		`1.`:                      "it ends too early",
		`[1.]`:                    "a number ends with a point: line 1 column 4",
		`[1e]`:                    "a number has no exponent after its e",
		`[-]`:                     "a number has no digit",
		`tru`:                     "unknown word: line 1 column 1",
		`{} {}`:                   "something follows the value: line 1 column 4 (byte 3): must be one JSON value",
		"\"\xff\"":                "it is not UTF-8: line 1 column 2 (byte 1)",
		"\ufeff{}":                "no value here: line 1 column 1",
		strings.Repeat("[", 1001): "it is nested too deep: line 1 column 1001 (byte 1000): must be at most 1000 levels",
	} {
		_, err := Parse([]byte(text))
		var e *Error
		if !errors.As(err, &e) || e.Kind != Malformed || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := ParseObject([]byte(`[1]`)); err == nil ||
		err.Error() != "the document is a list: must be one JSON object" {
		t.Error(err)
	}
}

func TestAHundredAndAThousandLevelsSurvive(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, MaxDepth / 2} {
		deep := strings.Repeat(`{"b":[`, n) + `1.0` + strings.Repeat(`],"a":null}`, n)
		want := strings.Repeat(`{"a":null,"b":[`, n) + `1.0` + strings.Repeat(`]}`, n)
		if got := parse(t, deep); string(got) != want {
			t.Errorf("%d levels came back otherwise", n)
		}
	}
}

// drawValue makes a value in the form that encoding/json decodes to, numbers as their literals.
func drawValue(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return json.Number(rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?`).Draw(t,
			"number"))
	case 3:
		return drawText(t)
	case 4:
		out := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "elements") {
			out = append(out, drawValue(t, depth-1))
		}
		return out
	}
	return drawMap(t, depth)
}

func drawMap(t *rapid.T, depth int) map[string]any {
	out := map[string]any{}
	for range rapid.IntRange(0, 5).Draw(t, "members") {
		out[drawText(t)] = drawValue(t, depth-1)
	}
	return out
}

func drawText(t *rapid.T) string {
	if rapid.Bool().Draw(t, "simple") {
		return rapid.SampledFrom([]string{"", "a", "b", "c", "a.b", "0", "1", "ü", "\"", "\\", "\n", "\u2028", "<&>",
			"😀"}).Draw(t, "text")
	}
	return rapid.String().Draw(t, "string")
}

// naive is the canonical form by way of the standard library.
func naive(t tester, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	s := strings.TrimSuffix(b.String(), "\n")
	return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029", `\\`, `\\`).Replace(s)
}

// decode reads JSON as the standard library does, numbers as their literals.
func decode(t tester, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// scribble writes a value in a spelling that is far from canonical: keys in any order, blanks, escapes,
// members that a later one replaces.
func scribble(t *rapid.T, v any) string {
	blank := rapid.SampledFrom([]string{"", " ", "\n\t"})
	text := func(s string) string {
		var b strings.Builder
		for _, r := range s {
			if r < 0x10000 && r != utf8.RuneError && rapid.IntRange(0, 3).Draw(t, "escape") == 0 {
				fmt.Fprintf(&b, `\u%04X`, r)
				continue
			}
			out, err := json.Marshal(string(r))
			if err != nil {
				t.Fatal(err)
			}
			b.Write(out[1 : len(out)-1])
		}
		return `"` + b.String() + `"`
	}
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = scribble(t, e)
		}
		return "[" + blank.Draw(t, "blank") + strings.Join(parts, ","+blank.Draw(t, "blank")) + "]"
	case map[string]any:
		parts := []string{}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		for _, k := range rapid.Permutation(keys).Draw(t, "order") {
			if rapid.IntRange(0, 4).Draw(t, "twice") == 0 {
				parts = append(parts, text(k)+`:{"z":[],"y":{"x":1,"w":2}}`)
			}
			parts = append(parts, text(k)+blank.Draw(t, "blank")+":"+scribble(t, v[k]))
		}
		return "{" + strings.Join(parts, blank.Draw(t, "blank")+",") + blank.Draw(t, "blank") + "}"
	}
	return naive(t, v)
}

func TestParseAgainstTheStandardLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := drawValue(t, 5)
		text := scribble(t, v)
		got, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if want := naive(t, v); string(got.canonicalStrings()) != want {
			t.Fatalf("%s:\n%s, want\n%s", text, got, want)
		}
		if again, err := Parse(got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%s: canonical text changes: %s %v", got, again, err)
		}
	})
}

func TestAnObjectIsItsMembers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t, 3)
		text := naive(t, m)
		o, err := ObjectOf(JSON(text))
		if err != nil {
			t.Fatal(err)
		}
		back := map[string]any{}
		for _, m := range o.Members() {
			back[m.Key] = decode(t, m.Value)
			if v, found := o.Get(m.Key); !found || !bytes.Equal(v, m.Value) {
				t.Fatalf("%s: %q is not found", text, m.Key)
			}
		}
		if d := cmp.Diff(m, back); d != "" {
			t.Fatal(d)
		}
		plain := make([]Member, 0, o.Len())
		for _, m := range rapid.Permutation(o.Members()).Draw(t, "members") {
			plain = append(plain, Member{Key: m.Key, Value: m.Value})
		}
		if got := NewObject(plain).JSON(); string(got) != text {
			t.Fatalf("%s, want %s", got, text)
		}
		if _, found := o.Get("no such key"); found {
			t.Fatal("a key is found that is not there")
		}
	})
}

func TestAStringComesBackFromItsText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`""`, `"a"`, `"\"\\\b\f\n\r\t\u0000\u001f"`, `"\ud800"`, `"a\udfffb\ud83dc"`, `"ü😀"`,
		`"\\u0041"`} {
		s, ok := parse(t, text).Text()
		if !ok || string(Quote(s)) != text {
			t.Errorf("%s: %q %v: %s", text, s, ok, Quote(s))
		}
	}
	for text, want := range map[string]string{`"\u0041\/\u00E9\uD83D\uDe00"`: "A/é😀", `"\u0022\u005c\u005Cn"`: `"\\n`,
		`"\uD83D\uD83D\uDE00\uD83D\u0041"`: "\xed\xa0\xbd😀\xed\xa0\xbdA"} {
		if s, ok := parse(t, text).Text(); !ok || s != want {
			t.Errorf("%s is %q, want %q", text, s, want)
		}
	}
	high, _ := parse(t, `"\ud83d"`).Text()
	low, _ := parse(t, `"\ude00"`).Text()
	if got := Quote(high + low); string(got) != `"😀"` {
		t.Errorf("two halves that meet are %s", got)
	}
	if _, ok := JSON("12").Text(); ok {
		t.Error("a number is no string")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "{}", `{"b":1,"a":[{"d":1,"c":null}]}`, `{"a":1,"\u0061":2}`, `"\ud83d\ude00\ud800"`, "1.0e+5", "[[[]]]",
		`{"a":{}`, "\xff",
		`{"x\\":1,"x\"":2}`, "nul", "-", `"\u00"`, strings.Repeat("[", 1002),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := Parse(text)
		deep := err != nil && strings.Contains(err.Error(), "nested too deep")
		if want := json.Valid(text) && utf8.Valid(text); (err == nil) != want && !deep {
			t.Fatalf("%q: %v, encoding/json takes it: %v", text, err, want)
		}
		if err != nil {
			return
		}
		if again, err := Parse(v); err != nil || !bytes.Equal(again, v) {
			t.Fatalf("%q: canonical %s becomes %s, %v", text, v, again, err)
		}
		if d := cmp.Diff(decode(t, text), decode(t, v)); d != "" {
			t.Fatalf("%q: %s", text, d)
		}
		if o, err := ObjectOf(v); err == nil {
			if got := (Object{members: o.members}).JSON(); !bytes.Equal(got, v) {
				t.Fatalf("%s is %s by its members", v, got)
			}
		}
	})
}

// tester is a test, a benchmark or a draw of rapid.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
