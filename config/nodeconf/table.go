package nodeconf

import (
	"fmt"
	"strings"

	"edgespan/config"
	own "edgespan/config/layers/schema"
)

// schema holds the rules of edgespan's metadata. It includes fields that are not implemented yet, with their refused
// values, so that they are not reported as unknown fields.
var schema = compiler{own.NodeBase()}.compileLevel(own.NodeMetadata(), nil)

// compiler converts a metadata document with expanded copy-blocks to rules. Defaults come from the base layer and,
// below free keys, from the metadata.
type compiler struct{ base config.Object }

// compileLevel compiles an object of entries and further levels.
func (c compiler) compileLevel(doc config.Object, path []string) *rule {
	r := newRule(path, Entry{Type: Mapping, Description: "Parameters of the daemon."})
	for _, key := range config.Keys(doc) {
		below, at := doc[key].(config.Object), config.Below(path, key)
		if _, isEntry := below["type"].(string); isEntry {
			r.add(key, c.compileEntry(below, at))
			continue
		}
		r.add(key, c.compileLevel(below, at))
	}
	return r
}

func newRule(path []string, e Entry) *rule {
	e.Path = strings.Join(path, ".")
	return &rule{Entry: e, below: map[string]*rule{}}
}

func (r *rule) add(key string, below *rule) {
	r.below[key] = below
	r.keys = append(r.keys, key)
}

// compileEntry compiles one entry, property or description of map values.
func (c compiler) compileEntry(m config.Object, path []string) *rule {
	e := Entry{
		Description: stringAt(m, "desc"), When: stringAt(m, "requiredWhen"), Optional: isTrue(m, "optional"),
		Secret:   isTrue(m, "secret"),
		Required: isTrue(m, "required") || stringAt(m, "requiredWhen") != "", Unsupported: unsupportedValues(m),
	}
	if d, has := m["default"]; has {
		e.Default = fmt.Sprint(d)
	} else if d, has := config.Lookup(c.base, path); has && config.KindOf(d) != "object" {
		e.Default = fmt.Sprint(d)
	}
	switch m["type"] {
	case "MAP":
		return c.compileMap(m, e, path)
	case "OBJECT":
		e.Type = Mapping
		r := newRule(path, e)
		properties := objectAt(objectAt(m, "objVal"), "properties")
		for _, key := range config.Keys(properties) {
			r.add(key, c.compileEntry(objectAt(properties, key), config.Below(path, key)))
		}
		return r
	case "INTEGER":
		e.Type = Integer
		e.Min, e.Max = integerRange(objectAt(m, "intVal"))
	case "BOOLEAN":
		e.Type = Boolean
	default:
		spec := objectAt(m, "strVal")
		e.Type, e.Word, e.Enum = stringType(spec), Word(stringAt(spec, "word")), texts(spec["allowedValues"])
	}
	return newRule(path, e)
}

// compileMap compiles a mapping with free keys, all of whose values follow one rule.
func (c compiler) compileMap(m config.Object, e Entry, path []string) *rule {
	e.Type = Mapping
	r := newRule(path, e)
	keys := objectAt(m, "keys")
	r.kind, r.keyWord = stringAt(keys, "shown"), Word(stringAt(keys, "word"))
	r.wild = c.compileEntry(objectAt(m, "mapVal"), config.Below(path, r.kind))
	if r.wild.Description == "" {
		r.wild.Description = stringAt(m, "entryDesc")
	}
	return r
}

func stringType(spec config.Object) Type {
	switch {
	case isTrue(spec, "list"):
		return StringList
	case isTrue(spec, "orInteger"):
		return StringOrInt
	}
	return String
}

// unsupportedValues returns the known values that are refused; true means all except the default.
func unsupportedValues(m config.Object) []string {
	if isTrue(m, "unsupported") {
		return []string{anyOther}
	}
	return texts(m["unsupported"])
}

// integerRange returns the range of an integer; edgespan's metadata has at most one.
func integerRange(intVal config.Object) (low, high int64) {
	ranges, _ := intVal["allowedRanges"].([]any)
	if len(ranges) == 1 {
		if pair, _ := ranges[0].([]any); len(pair) == 2 {
			low, _ = pair[0].(int64)
			high, _ = pair[1].(int64)
		}
	}
	return low, high
}

func objectAt(m config.Object, key string) config.Object {
	o, _ := m[key].(config.Object)
	return o
}

func stringAt(m config.Object, key string) string {
	s, _ := m[key].(string)
	return s
}

func isTrue(m config.Object, key string) bool {
	b, _ := m[key].(bool)
	return b
}

func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, item := range list {
		out = append(out, fmt.Sprint(item))
	}
	return out
}
