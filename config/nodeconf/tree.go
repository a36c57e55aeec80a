package nodeconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"edgespan/config"
)

// Limits of a document. They bound the work that a hostile one can cause.
const (
	maxBytes = 4 << 20
	maxDepth = 32
)

// kind is what a node of a document is.
type kind string

const (
	null    kind = "null"
	boolean kind = "a boolean"
	number  kind = "a number"
	text    kind = "a string"
	list    kind = "a list"
	mapping kind = "a mapping"
)

// node is a document, or a part of one, before anything is known of its meaning.
type node struct {
	kind   kind
	text   string  // of a scalar: as written, and unquoted
	fields []field // of a mapping, in the order of the document
}

type field struct {
	key   string
	value *node
}

func (n *node) get(key string) *node {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

var errDeep = fmt.Errorf("is nested deeper than %d", maxDepth)

const explicitMapping = "an explicit mapping is allowed; {} removes everything"

// read makes a tree of a document, the root a mapping without duplicate keys.
func read(doc []byte) (*node, config.Faults) {
	var fs config.Faults
	switch {
	case len(doc) > maxBytes:
		fs.Add(nil, fmt.Sprintf("the document has %d bytes", len(doc)), fmt.Sprintf("at most %d are allowed", maxBytes))
		return nil, fs
	case !utf8.Valid(doc):
		fs.Add(nil, "the document is no UTF-8", "YAML or JSON in UTF-8 is allowed")
		return nil, fs
	}
	doc = bytes.TrimPrefix(doc, []byte("\ufeff"))
	root, err := readJSON(doc)
	if err != nil && !errors.Is(err, errDeep) {
		root, err = readYAML(string(doc))
	}
	switch {
	case err != nil:
		fs.Add(nil, "the document "+err.Error(), "one YAML or JSON mapping is allowed")
		return nil, fs
	case root == nil:
		fs.Add(nil, "the document is empty", explicitMapping)
		return nil, fs
	case root.kind != mapping:
		fs.Add(nil, "the document is "+string(root.kind), explicitMapping)
		return nil, fs
	}
	dropDuplicates(root, nil, &fs)
	return root, fs
}

// dropDuplicates keeps the first of equal keys.
func dropDuplicates(n *node, path []string, fs *config.Faults) {
	seen := make(map[string]bool, len(n.fields))
	kept := n.fields[:0]
	for _, f := range n.fields {
		if seen[f.key] {
			fs.Add(config.Sub(path, f.key), "is given twice", "each key once is allowed")
			continue
		}
		seen[f.key] = true
		kept = append(kept, f)
		if len(f.value.fields) > 0 {
			dropDuplicates(f.value, config.Sub(path, f.key), fs)
		}
	}
	n.fields = kept
}

// errNoJSON makes read try YAML, of which JSON is nearly a subset.
var errNoJSON = errors.New("is no JSON object")

// readJSON reads JSON by its own rules: a YAML reader takes it for flow style
// and differs in escapes and numbers.
func readJSON(doc []byte) (*node, error) {
	if trimmed := bytes.TrimLeft(doc, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, errNoJSON
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	n, err := jsonNode(dec, tok, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errNoJSON
	}
	return n, nil
}

func jsonNode(dec *json.Decoder, tok json.Token, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	switch tok := tok.(type) {
	case nil:
		return &node{kind: null}, nil
	case bool:
		return &node{kind: boolean, text: fmt.Sprint(tok)}, nil
	case json.Number:
		return &node{kind: number, text: tok.String()}, nil
	case string:
		return &node{kind: text, text: tok}, nil
	}
	n := &node{kind: mapping}
	if tok == json.Delim('[') {
		n.kind = list
	}
	for dec.More() {
		key := ""
		if n.kind == mapping {
			tok, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key, _ = tok.(string) // the decoder takes nothing else for a key
		}
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := jsonNode(dec, tok, depth+1)
		if err != nil {
			return nil, err
		}
		if n.kind == mapping { // what is in a list is never looked at
			n.fields = append(n.fields, field{key, v})
		}
	}
	_, err := dec.Token() // the closing delimiter
	return n, err
}
