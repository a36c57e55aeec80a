package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawText makes a JSON value in one of the spellings that it may have.
func drawText(t *rapid.T, depth int) string {
	blank := rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r\n "})
	kinds := []string{"word", "number", "string", "object", "array"}
	if depth > 4 {
		kinds = kinds[:3]
	}
	text := func(what string) string {
		return rapid.SampledFrom([]string{`"a"`, `"b"`, `""`, `"]}, {["`, `"\\"`, `"\"{\\\""`, `"\u00e9\ud83d\ude00\n"`,
			`"é\/"`, `"null"`, `"a b:c"`}).Draw(t, what)
	}
	s := blank.Draw(t, "before")
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "word":
		s += rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
	case "number":
		s += rapid.SampledFrom([]string{"0", "-0", "12", "-1.50e+3", "1E5"}).Draw(t, "number")
	case "string":
		s += text("string")
	case "object":
		s += "{" + blank.Draw(t, "within")
		for i := range rapid.IntRange(0, 3).Draw(t, "fields") {
			if i > 0 {
				s += ","
			}
			s += blank.Draw(t, "before a key") + text("key") + blank.Draw(t, "after it") + ":" + drawText(t, depth+1)
		}
		s += "}"
	case "array":
		s += "[" + blank.Draw(t, "within")
		for i := range rapid.IntRange(0, 3).Draw(t, "items") {
			if i > 0 {
				s += ","
			}
			s += drawText(t, depth+1)
		}
		s += "]"
	}
	return s + blank.Draw(t, "after")
}

// standard is what the decoder of the standard library says of the value ahead, with the first of equal keys.
func standard(dec *json.Decoder) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Number:
		if i, err := tok.Int64(); err == nil {
			return i, nil
		}
		return tok.Float64()
	case json.Delim:
		list, object := []any{}, Object{}
		for dec.More() {
			if tok == '[' {
				v, err := standard(dec)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
				continue
			}
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := standard(dec)
			if err != nil {
				return nil, err
			}
			if _, again := object[key.(string)]; !again {
				object[key.(string)] = v
			}
		}
		if tok == '[' {
			_, err = dec.Token()
			return list, err
		}
		_, err = dec.Token()
		return object, err
	}
	return tok, nil
}

func TestJSONIsReadAsTheStandardLibraryReadsIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(drawText(t, 0))
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		want, err := standard(dec)
		if err != nil {
			t.Fatal(err)
		}
		p := parser{text: text, maxDepth: maxDepth}
		if got := p.readDocument(); !Equal(got, want) {
			t.Fatalf("%s: %s, want %s", text, OneLine(got), OneLine(want))
		}
		// One octet less or another one: a fault where the library has one, at its place, and never a panic.
		i := rapid.IntRange(0, len(text)-1).Draw(t, "octet")
		other := rapid.SampledFrom([]byte("{}[]\",:\\x")).Draw(t, "instead")
		for _, broken := range [][]byte{text[:i], append(append(bytes.Clone(text[:i]), other), text[i+1:]...)} {
			dec := json.NewDecoder(bytes.NewReader(broken))
			dec.UseNumber()
			_, err := standard(dec)
			_, faults := Parse(broken)
			switch {
			case !bytes.ContainsRune(broken, '\ufffd') && json.Valid(broken) != (len(faults) == 0) && !repeats(faults):
				t.Fatalf("%s: %v", broken, faults)
			case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) &&
				!strings.Contains(faults.Error(), err.Error()) && !strings.Contains(faults.Error(), "UTF-8"):
				t.Fatalf("%s: %v, want %v", broken, faults, err)
			}
		}
	})
}

// repeats says whether all that is wrong are equal keys and halves of surrogate pairs, which are no matter of JSON's.
func repeats(faults Faults) bool {
	for _, f := range faults {
		if !strings.HasPrefix(f.Problem, "duplicate key ") && !strings.HasPrefix(f.Problem, "half of ") &&
			!strings.HasPrefix(f.Problem, "not UTF-8") {
			return false
		}
	}
	return true
}

func TestADocumentIsTheSameInBothSyntaxes(t *testing.T) {
	t.Parallel()
	want, faults := ParseObject([]byte(`{"a":{"b":1,"c":1.5,"d":"1","e":true,"f":null,"g":{}},"h.i":-3}`))
	if faults != nil {
		t.Fatal(faults)
	}
	for _, text := range []string{
		`{"a":{"b":1,"c":1.5,"d":"1","e":true,"f":null,"g":{}},"h.i":-3}`,
		"a:\n  b: 1\n  c: 1.5\n  d: \"1\"\n  e: true\n  f: null\n  g: {}\nh.i: -3\n",
		"# a comment\na: {b: 1, c: 1.5, d: '1', e: true, f: , g: {}}\n\"h.i\": -3\n",
		"\ufeff---\na:\n  ? b\n  : 01\n  c: 15e-1\n  d: |-\n    1\n  e: True\n  f: ~\n  g: {\n }\nh.i: -3\n...\n",
	} {
		got, faults := ReadObject([]byte(text))
		if faults != nil || MD5(got) != MD5(want) {
			t.Errorf("%s:\n%s (%v)", text, AppendCanonical(nil, got), faults)
		}
	}
	for text, want := range map[string]string{
		"a:\n  - 1\nb: [2]\nc: 99999999999999999999\nd: 1\nd: 2\n": "a: invalid type list: must be a mapping by name or a " +
			"comma-separated string\n" +
			"b: invalid type list: must be a mapping by name or a comma-separated string\n" +
			"c: invalid value \"99999999999999999999\": must be a JSON number\nd: duplicate key (2 times)",
		`{"a":{"b":[1]},"c":1e999,"d":{"e":0x1,"e":.inf}}`: `a.b: invalid type list: must be a mapping by name or a ` +
			`comma-separated string` + "\n" + `c: invalid value "1e999": must be a JSON number` + "\n" +
			"d.e: duplicate key (2 times)\n" + `d.e: invalid value "0x1": must be a JSON number`,
	} {
		if _, faults := ReadObject([]byte(text)); faults.Error() != want {
			t.Errorf("%s\nwant\n%s", faults.Error(), want)
		}
	}
}

func TestReadObjectWithLists(t *testing.T) {
	t.Parallel()
	const want = `{"a":["x",1,true,null],"b":[],"c":["y","z"]}`
	for _, doc := range []string{
		want,
		"a: [x, 1, true, null]\nb: []\nc:\n- y\n- z\n",
		"a:\n  - x\n  - 1\n  - true\n  -\nb: []\nc: [y, 'z']\n",
	} {
		o, faults := ReadObjectWithLists([]byte(doc))
		if got, _ := json.Marshal(o); faults != nil || string(got) != want {
			t.Errorf("%s: %s %v", doc, got, faults)
		}
	}
	if _, faults := ReadObjectWithLists([]byte("a: [[1], {b: 2}]")); faults.Error() != "a.0: invalid type list: must be "+
		"a scalar in a list"+
		"\na.1: invalid type mapping: must be a scalar in a list" {
		t.Error(faults)
	}
	if _, faults := ReadObject([]byte("a: [1]")); len(faults) != 1 {
		t.Error(faults)
	}
}

// What the canonical form does not keep of a number is kept beside it, for the place where it is and no other.
func TestTheSpellingOfANumberIsKept(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a: {n: 010, m: 1.0}\nb: {n: 10, m: 0x1F}\na: {n: 7}\n",
		`{"a":{"n":10,"m":1.0},"b":{"n":1E1},"a":{"m":2.0}}`,
	} {
		d, _ := ReadDocument([]byte(text))
		got := ""
		for _, path := range [][]string{{"a", "n"}, {"a", "m"}, {"b", "n"}, {"b", "m"}} {
			if v, has := Lookup(d.Object, path); has {
				got += " " + d.Number(path, v)
			}
		}
		if want := map[byte]string{'a': " 010 1.0 10 0x1F", '{': " 10 1.0 1E1"}[text[0]]; got != want {
			t.Errorf("%s:%s, want%s", text, got, want)
		}
	}
	if got := (Document{}).Number(nil, 1000.0); got != "1000" {
		t.Error(got)
	}
}

// A spelling is that of its path and of no other one, wherever that is among the rest.
func TestASpellingIsFoundByItsPath(t *testing.T) {
	d, faults := ReadDocument([]byte("b: {x: 1.0, y: 2}\na: {x: 010, b: {x: 1e1}}\nx: 1e0\nn: [2.0, 3.0]\n"))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for path, want := range map[string]string{"b.x": "1.0", "b.y": "7", "a.x": "010", "a.b.x": "1e1", "x": "1e0",
		"n.0": "2.0", "n.1": "3.0", "a": "7", "b.x.x": "7", "": "7"} {
		if got := d.Number(strings.Split(path, "."), int64(7)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
