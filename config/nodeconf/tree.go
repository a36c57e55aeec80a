package nodeconf

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
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
	fields []field // of a mapping, in the order of the document; of a list, without keys
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

// dropDuplicates keeps the first of equal keys. What path has room for after its end is
// overwritten.
func dropDuplicates(n *node, path []string, fs *config.Faults) {
	seen := map[string]bool(nil)
	if len(n.fields) > few {
		seen = make(map[string]bool, len(n.fields))
	}
	kept := n.fields[:0]
	var again config.Repeats
	for _, f := range n.fields {
		if seen[f.key] || seen == nil && slices.ContainsFunc(kept, func(k field) bool { return k.key == f.key }) {
			again.Add(fs, path, f.key)
			continue
		}
		if seen != nil {
			seen[f.key] = true
		}
		kept = append(kept, f)
		if f.value.kind == mapping && len(f.value.fields) > 0 {
			dropDuplicates(f.value, append(path, f.key), fs)
		}
	}
	n.fields = kept
}

// few are so many keys that to compare them is cheaper than to make a map of them.
const few = 8
