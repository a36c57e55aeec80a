package nodeconf

import (
	"strconv"

	"edgespan/config"
)

// Document reads a YAML or JSON document without looking at its meaning, for those who
// merge it with others. It has no lists: a configuration has none.
func Document(doc []byte) (config.Object, config.Faults) { return document(doc, false) }

// DocumentWithLists is Document for files beside the configuration, which may have lists
// of scalars.
func DocumentWithLists(doc []byte) (config.Object, config.Faults) { return document(doc, true) }

func document(doc []byte, lists bool) (config.Object, config.Faults) {
	root, fs := read(doc)
	if root == nil {
		return nil, fs
	}
	d := documenter{&fs, lists}
	o, _ := d.value(root, nil).(config.Object)
	if len(fs) > 0 {
		fs.Sort()
		return nil, fs
	}
	return o, nil
}

type documenter struct {
	faults *config.Faults
	lists  bool // they are allowed
}

func (d documenter) value(n *node, path []string) any {
	switch n.kind {
	case mapping:
		o := make(config.Object, len(n.fields))
		for _, f := range n.fields {
			o[f.key] = d.value(f.value, config.Sub(path, f.key))
		}
		return o
	case text:
		return n.text
	case boolean:
		return n.text == "true"
	case number:
		return d.number(n.text, path)
	case list:
		if d.lists {
			return d.items(n, path)
		}
		d.faults.Add(path, "is a list", "a mapping by name or a comma-separated string is allowed")
	case null:
	}
	return nil
}

func (d documenter) items(n *node, path []string) []any {
	out := make([]any, 0, len(n.fields))
	for i, f := range n.fields {
		item := f.value
		at := config.Sub(path, strconv.Itoa(i))
		if item.kind == mapping || item.kind == list {
			d.faults.Add(at, "is "+string(item.kind), "a scalar is allowed in a list")
			continue
		}
		out = append(out, d.value(item, at))
	}
	return out
}

func (d documenter) number(s string, path []string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	v, faults := config.Parse([]byte(s))
	if faults != nil {
		d.faults.Add(path, "is "+config.Quote(s), "a number as JSON has it is allowed")
	}
	return v
}
