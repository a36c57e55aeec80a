package nodeconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// errNoJSON makes read try YAML, of which JSON is nearly a subset.
var errNoJSON = errors.New("is no JSON object")

// readJSON reads JSON by its own rules: a YAML reader takes it for flow style
// and differs in escapes and numbers.
func readJSON(doc []byte) (*node, error) {
	if trimmed := bytes.TrimLeft(doc, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' || !json.Valid(doc) {
		return nil, errNoJSON
	}
	return (&jsonReader{text: doc}).value(0)
}

// jsonReader makes nodes of JSON that is known to be valid, so that it has to tell where
// things end and nothing more: a quarter of what the tokens of encoding/json cost.
type jsonReader struct {
	text []byte
	at   int
}

func (r *jsonReader) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	switch r.skip(" \t\r\n"); r.text[r.at] {
	case '{':
		return r.inside(&node{kind: mapping}, depth)
	case '[':
		return r.inside(&node{kind: list}, depth)
	case '"':
		return &node{kind: text, text: r.string()}, nil
	}
	from := r.at
	for r.at < len(r.text) && !strings.ContainsRune(" \t\r\n,]}", rune(r.text[r.at])) {
		r.at++
	}
	switch word := string(r.text[from:r.at]); word {
	case "null":
		return &node{kind: null}, nil
	case "true", "false":
		return &node{kind: boolean, text: word}, nil
	default:
		return &node{kind: number, text: word}, nil
	}
}

// inside reads what is between brackets, which it stands at, into n.
func (r *jsonReader) inside(n *node, depth int) (*node, error) {
	for {
		r.at++ // the opening bracket, or a comma
		r.skip(" \t\r\n")
		if c := r.text[r.at]; c == '}' || c == ']' { // only where there is nothing
			break
		}
		key := ""
		if n.kind == mapping {
			key = r.string()
			r.skip(" \t\r\n:")
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if n.fields == nil {
			n.fields = make([]field, 0, few/2)
		}
		n.fields = append(n.fields, field{key, v})
		if r.skip(" \t\r\n"); r.text[r.at] != ',' {
			break
		}
	}
	r.at++
	return n, nil
}

// string reads a string in quotes, which it stands at. It is a copy: a name that lives on
// must not hold the whole document.
func (r *jsonReader) string() string {
	from, escaped := r.at, false
	for r.at++; r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] == '\\' {
			escaped = true
			r.at++
		}
	}
	r.at++
	if !escaped {
		return string(r.text[from+1 : r.at-1])
	}
	s := ""
	_ = json.Unmarshal(r.text[from:r.at], &s) // it is valid
	return s
}

func (r *jsonReader) skip(these string) {
	for r.at < len(r.text) && strings.IndexByte(these, r.text[r.at]) >= 0 {
		r.at++
	}
}
