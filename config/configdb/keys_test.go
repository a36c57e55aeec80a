package configdb

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKeysOperations(t *testing.T) {
	t.Parallel()
	const doc = `{"a":{"b":{"c":1.0}},"dots.in.it":{"x":null},"list":[{"n":1},2],"text":"secret"}`
	for _, c := range []struct {
		name     string
		op       KeysOp
		doc      string
		body     string
		want     string // the document, or the values of get
		conflict string
	}{
		{"a new top key", KeysSet, doc, `[["z",1.50]]`, strings.TrimSuffix(doc, "}") + `,"z":1.50}`, ""},
		{"an existing top key", KeysSet, `{"a":1,"b":2}`, `[["a",{"y":1,"x":2}]]`, `{"a":{"x":2,"y":1},"b":2}`, ""},
		{"a nested key", KeysSet, `{"a":{"b":{"c":1.0}}}`, `[["a","b","d",null]]`, `{"a":{"b":{"c":1.0,"d":null}}}`, ""},
		{"one after the other", KeysSet, `{}`, `[["a",{}],["a","b",[]]]`, `{"a":{"b":[]}}`, ""},
		{"an index as a number", KeysSet, `{"l":[1,2]}`, `[["l",1,3]]`, `{"l":[1,3]}`, ""},
		{"an index as text", KeysSet, `{"l":[{"n":1}]}`, `[["l","0","n",3]]`, `{"l":[{"n":3}]}`, ""},
		{"a number names a key", KeysSet, `{"5":1}`, `[[5,2]]`, `{"5":2}`, ""},
		{"a key with dots", KeysSet, doc, `[["dots.in.it","x",true]]`, strings.Replace(doc, `"x":null`, `"x":true`, 1), ""},
		{"on nothing", KeysSet, ``, `[["a",1]]`, `{"a":1}`, ""},
		{"on null", KeysSet, `null`, `[["a",1]]`, `{"a":1}`, ""},
		{"an empty batch", KeysSet, doc, `[]`, doc, ""},
		{"a missing key on the way", KeysSet, doc, `[["a","x","y",1]]`, "",
			`Keys path doesn't exist ["a","x","y"]. Failed on the key x`},
		{"all or nothing", KeysSet, doc, `[["a",1],["x","y",1]]`, "",
			`Keys path doesn't exist ["x","y"]. Failed on the key x`},
		{"behind the end of a list", KeysSet, doc, `[["list",2,1]]`, "",
			`Keys path doesn't exist ["list","2"]. Failed on the key 2`},
		{"before the beginning of a list", KeysSet, doc, `[["list",-1,1]]`, "", `Failed on the key -1`},
		{"a list by a name", KeysSet, doc, `[["list","n",1]]`, "", `Failed on the key n`},
		{"through a scalar", KeysSet, doc, `[["a","b","c","d",1]]`, "",
			`Leaf value 1.0 found on key c in keys path ["a","b","c","d"]`},
		{"through null", KeysSet, doc, `[["dots.in.it","x","y",1]]`, "", `Leaf value null found on key x in keys path`},
		{"no key", KeysSet, doc, `[[]]`, "", `Keys path [] invalid. Keys path should contain at least one key and value`},
		{"no value", KeysSet, doc, `[["a"]]`, "",
			`Keys path ["a"] invalid. Keys path should contain at least one key and value`},
		{"a scalar document", KeysSet, `7`, `[["a",1]]`, "", `Leaf value 7 found on key the document in keys path ["a"]`},
		{"a list document", KeysSet, `[7]`, `[["0",1]]`, "[1]", ""},
		{"too deep", KeysSet, doc, `[["a",` + strings.Repeat("[", 997) + strings.Repeat("]", 997) + `],["a",` +
			strings.Repeat("0,", 996) + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `]]`, "",
			"nested too deep: must be at most 1000 levels"},

		{"delete", KeysDelete, doc, `[["a","b","c"],["list",0],["text"]]`,
			`{"a":{"b":{}},"dots.in.it":{"x":null},"list":[2]}`, ""},
		{"delete of no path", KeysDelete, doc, `[[]]`, doc, ""},
		{"delete of an object", KeysDelete, `{"a":{"b":1}}`, `[["a"]]`, `{}`, ""},
		{"delete of a missing key", KeysDelete, doc, `[["a"],["a"]]`, "",
			`Keys path doesn't exist ["a"]. Failed on the key a`},
		{"delete below a leaf", KeysDelete, doc, `[["text","secret"]]`, "",
			`Leaf value "secret" found on key text in keys path ["text","secret"]`},
		{"delete of nothing", KeysDelete, ``, `[["a"]]`, "", `Keys path doesn't exist ["a"]`},
		{"delete behind a list", KeysDelete, doc, `[["list",2]]`, "", `Failed on the key 2`},

		{"get", KeysGet, doc, `[["a","b"],["list","0","n"],["dots.in.it"],[]]`, `[{"c":1.0},1,{"x":null},` + doc + `]`, ""},
		{"get of a missing key", KeysGet, doc, `[["a","x"]]`, "", `Keys path doesn't exist ["a","x"]. Failed on the key x`},
		{"get below a leaf", KeysGet, doc, `[["text","x"]]`, "", `Leaf value "secret" found on key text`},
	} {
		e, err := parseKeysEdit(c.op, c.body)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, err := e.Apply(JSON(c.doc))
		if c.op == KeysGet {
			if string(got) != c.doc || err != nil {
				t.Errorf("%s: changed the document: %s %v", c.name, got, err)
			}
			var vs []JSON
			vs, err = e.Get(JSON(c.doc))
			got = listOf(vs)
		}
		var fault *Error
		switch {
		case c.conflict != "":
			if !errors.As(err, &fault) || fault.Kind != Conflict || !strings.Contains(err.Error(), c.conflict) {
				t.Errorf("%s: %v, want %s", c.name, err, c.conflict)
			}
		case err != nil || string(got) != c.want:
			t.Errorf("%s: %s %v, want %s", c.name, got, err, c.want)
		}
	}
}

// parseKeysEdit is KeysEditOf a body as it arrives.
func parseKeysEdit(op KeysOp, body string) (KeysEdit, error) {
	v, err := Parse([]byte(body))
	if err != nil {
		return KeysEdit{}, err
	}
	return KeysEditOf(op, v)
}

func TestKeysThatAreMalformed(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``:                  "invalid JSON",
		`{"a":1}`:           "the keys are an object: must be a list of paths, each a list of keys",
		`["a"]`:             "path 0 is a string: must be a list of keys",
		`[["a",1],[1.5,2]]`: "path 1: key 0 is a number: must be a string or an integer",
		`[[null,1]]`:        "path 0: key 0 is null",
		`[[["a"],1]]`:       "path 0: key 0 is a list",
	} {
		_, err := parseKeysEdit(KeysSet, body)
		var fault *Error
		if !errors.As(err, &fault) || fault.Kind != Malformed || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	if _, err := parseKeysEdit("put", `[]`); err == nil ||
		!strings.Contains(err.Error(), "Unknown operation: put") {
		t.Error(err)
	}
	if _, err := parseKeysEdit(KeysDelete, `[["a",{}]]`); err == nil {
		t.Error("an object is a key")
	}
}

func TestAKeyIsDotted(t *testing.T) {
	t.Parallel()
	doc := parse(t, `{"a":{"b":[{"c":1.0}]},"a\nb":2}`)
	for key, want := range map[string]string{"a.b.0.c": "1.0", "a.b": `[{"c":1.0}]`, "a\nb": "2"} {
		if got, err := At(doc, ParseKey(key)); err != nil || string(got) != want {
			t.Errorf("%s: %s %v", key, got, err)
		}
	}
	for key, want := range map[string]string{
		"a.b.1.c": `Keys path doesn't exist ["a","b","1","c"]. Failed on the key 1`,
		"":        `Keys path doesn't exist [""]. Failed on the key `,
		`a\nb`:    `Failed on the key a\nb`,
		"a.b.+0":  `Failed on the key +0`,
	} {
		if _, err := At(doc, ParseKey(key)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", key, err, want)
		}
	}
}

// drawPath is a path into a decoded value, mostly one that exists.
func drawPath(t *rapid.T, v any) []any {
	var out []any
	for rapid.IntRange(0, 3).Draw(t, "on") > 0 {
		switch w := v.(type) {
		case map[string]any:
			key := drawText(t)
			if keys := slices.Sorted(maps.Keys(w)); len(keys) > 0 && rapid.IntRange(0, 5).Draw(t, "known") > 0 {
				key = rapid.SampledFrom(keys).Draw(t, "key")
			}
			out, v = append(out, key), w[key]
		case []any:
			i := rapid.IntRange(-1, len(w)).Draw(t, "index")
			out = append(out, rapid.SampledFrom([]any{i, fmt.Sprint(i)}).Draw(t, "spelling"))
			if v = nil; i >= 0 && i < len(w) {
				v = w[i]
			}
		default:
			return append(out, "beyond")
		}
	}
	return out
}

// edited is what a path of a set or a delete makes of a decoded value, false if it has no place.
func edited(v any, path []any, remove bool, value any) (any, bool) {
	if len(path) == 0 {
		return value, true
	}
	last := len(path) == 1
	switch v := v.(type) {
	case map[string]any:
		key := fmt.Sprint(path[0])
		below, had := v[key]
		if !had && (!last || remove) {
			return nil, false
		}
		if last && remove {
			delete(v, key)
			return v, true
		}
		below, fits := edited(below, path[1:], remove, value)
		v[key] = below
		return v, fits
	case []any:
		i, err := strconv.Atoi(fmt.Sprint(path[0]))
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		if last && remove {
			return slices.Delete(v, i, i+1), true
		}
		below, fits := edited(v[i], path[1:], remove, value)
		v[i] = below
		return v, fits
	}
	return nil, false
}

func TestKeysOperationsAgainstDecodedMaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := JSON(naive(t, drawMap(t, 4)))
		model, fits := decode(t, doc), true
		op := rapid.SampledFrom([]KeysOp{KeysSet, KeysDelete}).Draw(t, "op")
		items := []any{}
		for range rapid.IntRange(1, 3).Draw(t, "items") {
			path := drawPath(t, model)
			if len(path) == 0 {
				continue
			}
			var value any
			item := slices.Clone(path)
			if op == KeysSet {
				value = drawValue(t, 2)
				item = append(item, value)
			}
			items = append(items, item)
			if model, fits = edited(model, path, op == KeysDelete, decode(t, []byte(naive(t, value)))); !fits {
				break
			}
		}
		e, err := parseKeysEdit(op, naive(t, items))
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Apply(doc)
		var fault *Error
		switch {
		case fits && (err != nil || string(got) != naive(t, model)):
			t.Fatalf("%s %v of %s: %s %v, want %s", op, items, doc, got, err, naive(t, model))
		case !fits && (!errors.As(err, &fault) || fault.Kind != Conflict):
			t.Fatalf("%s %v of %s: %s %v, want a conflict", op, items, doc, got, err)
		}
	})
}
