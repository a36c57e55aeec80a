package nodeconf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawJSON makes a JSON value in one of the spellings that it may have.
func drawJSON(t *rapid.T, depth int) string {
	blank := rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r\n "})
	kinds := []string{"word", "number", "string", "object", "array"}
	if depth == 0 {
		kinds = kinds[3:4]
	} else if depth > 4 {
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
			s += blank.Draw(t, "before a key") + text("key") + blank.Draw(t, "after it") + ":" + drawJSON(t, depth+1)
		}
		s += "}"
	case "array":
		s += "[" + blank.Draw(t, "within")
		for i := range rapid.IntRange(0, 3).Draw(t, "items") {
			if i > 0 {
				s += ","
			}
			s += drawJSON(t, depth+1)
		}
		s += "]"
	}
	return s + blank.Draw(t, "after")
}

// tokens reads what the decoder of the standard library says of a value.
func tokens(t *rapid.T, dec *json.Decoder) *node {
	next := func() json.Token {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	switch tok := next().(type) {
	case nil:
		return &node{kind: null}
	case bool:
		return &node{kind: boolean, text: fmt.Sprint(tok)}
	case json.Number:
		return &node{kind: number, text: tok.String()}
	case string:
		return &node{kind: text, text: tok}
	case json.Delim:
		n := &node{kind: list}
		for dec.More() {
			if tok == '{' {
				n.kind = mapping
				key := next().(string)
				n.fields = append(n.fields, field{key, tokens(t, dec)})
			} else {
				n.fields = append(n.fields, field{value: tokens(t, dec)})
			}
		}
		if next() == json.Delim('}') {
			n.kind = mapping
		}
		return n
	}
	return nil
}

func TestJSONIsReadAsTheStandardLibraryReadsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(drawJSON(t, 0))
		got, err := readJSON(doc)
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.UseNumber()
		if d := cmp.Diff(tokens(t, dec), got, cmp.AllowUnexported(node{}, field{})); d != "" {
			t.Fatalf("%s: %s", doc, d)
		}
		// One octet less or another one: valid for both or for none, and never a panic.
		i := rapid.IntRange(0, len(doc)-1).Draw(t, "octet")
		for _, broken := range [][]byte{doc[:i],
			append(append(bytes.Clone(doc[:i]), rapid.SampledFrom([]byte("{}[]\",:\\x")).Draw(t, "instead")), doc[i+1:]...)} {
			trimmed := bytes.TrimSpace(broken)
			if _, err := readJSON(broken); (err == nil) != (json.Valid(broken) && trimmed[0] == '{') {
				t.Fatalf("%s: %v", broken, err)
			}
		}
	})
}
