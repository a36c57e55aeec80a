package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

const notAllowed = "anchors, aliases, tags, directives, merge and complex keys are not supported"

// readYAML reads mappings, lists and scalars, in block or flow style.
func (d *Document) readYAML(text string, faults *Faults) (any, error) {
	y, err := ReadYAML(text)
	var bad *YAMLError
	switch {
	case errors.As(err, &bad) && bad.Deep:
		return nil, tooDeep(maxDocumentDepth)
	case err == nil && y.Directive > 0:
		err = &YAMLError{Line: y.Directive, Column: 1, What: notAllowed}
	case err == nil && y.Next > 0:
		err = &YAMLError{Line: y.Next, Column: 1, What: "a second document"}
	}
	if err != nil {
		return nil, syntaxError(err)
	}
	if y.Root == nil {
		return nothing, nil
	}
	r := yamlReader{y: &y, faults: faults, spelled: d.spelled}
	return r.value(y.Root)
}

func syntaxError(err error) error { return fmt.Errorf("invalid YAML: %w", err) }

// yamlReader builds a value from the nodes of a document.
type yamlReader struct {
	y       *YAML
	path    []string
	depth   int
	faults  *Faults
	spelled *spellings
}

func (r *yamlReader) value(n *yaml.Node) (any, error) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || r.y.Tag(n) != "" {
		return nil, r.refuse(n)
	}
	if n.Kind == yaml.ScalarNode {
		return r.scalar(n), nil
	}
	r.depth++
	defer func() { r.depth-- }()
	switch {
	case r.depth > maxDocumentDepth:
		return nil, tooDeep(maxDocumentDepth)
	case n.Kind == yaml.MappingNode:
		return r.mapping(n)
	}
	list := make([]any, 0, len(n.Content))
	for i, item := range n.Content {
		r.path = append(r.path, strconv.Itoa(i))
		v, err := r.value(item)
		if err != nil {
			return nil, err
		}
		r.path = r.path[:len(r.path)-1]
		list = append(list, v)
	}
	return list, nil
}

func (r *yamlReader) refuse(n *yaml.Node) error {
	return syntaxError(&YAMLError{Line: n.Line, Column: n.Column, What: notAllowed})
}

// mapping reads a mapping; of duplicate keys it keeps the first.
func (r *yamlReader) mapping(n *yaml.Node) (any, error) {
	o := make(Object, len(n.Content)/2)
	var again Repeats
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || r.y.Tag(key) != "" || key.Value == "<<" && IsPlain(key) {
			return nil, r.refuse(key)
		}
		r.path = append(r.path, key.Value)
		faults, numbers := len(*r.faults), r.spelled.count()
		v, err := r.value(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		r.path = r.path[:len(r.path)-1]
		if _, twice := o[key.Value]; twice {
			*r.faults = (*r.faults)[:faults]
			r.spelled.truncate(numbers)
			again.Add(r.faults, r.path, key.Value)
			continue
		}
		o[key.Value] = v
	}
	return o, nil
}

// anyNumber matches the numbers of YAML 1.2 §10.3.2 and of YAML 1.1.
var anyNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$|` +
	`^[-+]?0[xob][0-9a-fA-F_]+$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)

// scalar reads a plain or quoted word by YAML 1.2's core schema.
func (r *yamlReader) scalar(n *yaml.Node) any {
	if !IsPlain(n) {
		return n.Value
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	if anyNumber.MatchString(n.Value) {
		return r.spelled.number(n.Value, r.path)
	}
	return n.Value
}
