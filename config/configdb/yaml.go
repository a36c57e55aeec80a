package configdb

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"edgespan/config"
)

// Limits of a YAML document. JSON is YAML too, and may be larger.
const (
	maxYAMLDepth = 250      // levels
	maxAliases   = 16 << 20 // bytes that all aliases of a document expand to
)

// FromYAML reads the first document of a YAML stream and reports whether there are more. It reads what files below
// /etc/hiera contain as Ruby's Psych reads it for Puppet:
//   - plain scalars have Psych's meaning: yes, no, on and off are booleans, 0777 is octal, 0x1F and 0b11 are numbers,
//     1_000 and 1,000 are 1000, 12:30 is 45000 (base 60, as Psych computes it), 09 is a string. A date is a string as
//     well, since JSON has no dates;
//   - a number of YAML 1.2's core schema that Psych reads as a string (1e400, 0o17) is a number;
//   - a number that is valid JSON keeps its literal (1.0, 12345678901234567890);
//   - keys are strings: numbers and booleans become strings in their JSON form; null, lists and mappings are refused as
//     keys, and so are two keys that are then equal;
//   - << merges over the keys before it, and the keys after it override it;
//   - all aliases together may expand to 16 MiB;
//   - !!binary keeps its text; !!str, !!int, !!float, !!bool, !!null, !!seq and !!map apply; other tags are refused.
//     .inf and .nan are refused with their path: JSON has no such numbers.
//
// A stream without a document is null. Every error is of kind Malformed.
func FromYAML(text []byte) (v JSON, more bool, err error) {
	if v, err := Parse(text); err == nil {
		return v, false, nil
	}
	if !utf8.Valid(text) {
		return nil, false, malformed("invalid YAML: it is not UTF-8 (byte %d): must be UTF-8",
			config.InvalidUTF8(text))
	}
	y, err := config.ReadYAML(string(text))
	if err != nil {
		return nil, false, syntaxOf(err)
	}
	if y.Root == nil {
		return JSON("null"), y.Next > 0, nil
	}
	r := yamlReader{y: y, anchors: map[*yaml.Node]JSON{}}
	if v, err = r.readValue(y.Root, 0); err != nil {
		return nil, false, err
	}
	if nesting(v) > MaxDepth {
		return nil, false, malformed("the document is nested too deep by its aliases: must be at most %d levels", MaxDepth)
	}
	return v, y.Next > 0, nil
}

func syntaxOf(err error) error {
	var e *config.YAMLError
	switch {
	case !errors.As(err, &e):
		return malformed("invalid YAML: %v", err)
	case e.Deep:
		return malformed("invalid YAML: it is nested too deep: must be at most %d levels", maxYAMLDepth)
	case e.Line == 0:
		return malformed("invalid YAML: %s", e.What)
	}
	return malformed("invalid YAML: %s: line %d", e.What, e.Line)
}

// yamlReader converts the nodes of one document to JSON.
type yamlReader struct {
	y       config.YAML
	path    []string
	anchors map[*yaml.Node]JSON // values of the anchors that are complete
	aliases int                 // bytes they expand to
}

// newError returns an error with the position of a node.
func (r *yamlReader) newError(n *yaml.Node, what, allowed string) error {
	text := fmt.Sprintf("invalid YAML: %s: line %d column %d", what, n.Line, n.Column)
	if len(r.path) > 0 {
		text += " (" + formatPath(r.path) + ")"
	}
	if allowed != "" {
		text += ": " + allowed
	}
	return malformed("%s", text)
}

func (r *yamlReader) readValue(n *yaml.Node, depth int) (v JSON, err error) {
	tag := r.y.Tag(n)
	switch {
	case depth > maxYAMLDepth:
		return nil, r.newError(n, "it is nested too deep", fmt.Sprintf("must be at most %d levels", maxYAMLDepth))
	case n.Kind == yaml.AliasNode:
		return r.readAlias(n)
	case n.Kind == yaml.ScalarNode:
		v, err = r.readScalar(n, tag)
	case n.Kind == yaml.MappingNode:
		v, err = r.readMapping(n, depth)
	default:
		v, err = r.readList(n, depth)
	}
	if err == nil && n.Kind != yaml.ScalarNode && tag != "" && tag != "!" &&
		tag != map[byte]string{'{': "!!map", '[': "!!seq"}[v[0]] {
		err = r.newError(n, "the tag "+config.Quote(tag)+" is before "+kindOf(v), tagsAllowed)
	}
	if err == nil && n.Anchor != "" {
		r.anchors[n] = v
	}
	return v, err
}

func (r *yamlReader) readAlias(n *yaml.Node) (JSON, error) {
	v, known := r.anchors[n.Alias]
	if !known {
		return nil, r.newError(n, "the alias "+config.Quote(n.Value)+" names no anchor that ends before it", "")
	}
	if r.aliases += len(v); r.aliases > maxAliases {
		return nil, r.newError(n, "its aliases stand for too much", fmt.Sprintf("must be at most %d bytes", maxAliases))
	}
	return v, nil
}

func (r *yamlReader) readList(n *yaml.Node, depth int) (JSON, error) {
	var out []JSON
	for i, item := range n.Content {
		r.path = append(r.path, strconv.Itoa(i))
		v, err := r.readValue(item, depth+1)
		if err != nil {
			return nil, err
		}
		r.path = r.path[:len(r.path)-1]
		out = append(out, v)
	}
	return listOf(out), nil
}

func (r *yamlReader) readMapping(n *yaml.Node, depth int) (JSON, error) {
	var m mapping
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		name, err := r.keyText(key)
		if err != nil {
			return nil, err
		}
		r.path = append(r.path, name)
		v, err := r.readValue(n.Content[i+1], depth+1)
		switch {
		case err != nil:
		case isMerge(key):
			err = r.mergeInto(&m, key, v)
		case !m.set(name, v):
			err = r.newError(key, "duplicate key", "must be unique, as a string")
		}
		if err != nil {
			return nil, err
		}
		r.path = r.path[:len(r.path)-1]
	}
	return m.json(), nil
}

func isMerge(key *yaml.Node) bool { return key.Value == "<<" && config.IsPlain(key) }

// mergeInto adds the members of the mappings that << names; of several mappings the first wins.
func (r *yamlReader) mergeInto(m *mapping, key *yaml.Node, v JSON) error {
	objects := []JSON{v}
	if v[0] == '[' {
		objects = v.Elements()
	}
	for i := len(objects) - 1; i >= 0; i-- {
		o, err := ObjectOf(objects[i])
		if err != nil {
			return r.newError(key, "<< names "+kindOf(objects[i]), "must be a mapping or a list of mappings")
		}
		m.members = append(m.members, o.Members()...)
	}
	return nil
}

// keyText returns a key as a string.
func (r *yamlReader) keyText(n *yaml.Node) (string, error) {
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", r.newError(n, "a key is not a scalar", "must be a string, a number or a boolean")
	case n.Anchor != "" || r.y.Tag(n) != "":
		return "", r.newError(n, "a key has a tag or an anchor", "they must stand before values")
	case isMerge(n):
		return n.Value, nil
	}
	v, err := r.readScalar(n, "")
	if err != nil {
		return "", err
	}
	if text, ok := v.Text(); ok {
		return text, nil
	}
	if v[0] == 'n' {
		return "", r.newError(n, "a key is null", `must be a string, a number or a boolean, "" for an empty one`)
	}
	return string(v), nil
}

// mapping collects the members of an object.
type mapping struct {
	members []Member
	own     map[string]bool // keys written in the mapping itself, not through <<
}

// set adds a member and reports false if the mapping itself already has the key.
func (m *mapping) set(key string, v JSON) bool {
	if m.own == nil {
		m.own = map[string]bool{}
	}
	if m.own[key] {
		return false
	}
	m.own[key] = true
	m.members = append(m.members, Member{Key: key, Value: v})
	return true
}

func (m *mapping) json() JSON { return NewObject(m.members).JSON() }
