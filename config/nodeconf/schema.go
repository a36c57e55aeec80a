package nodeconf

import (
	"fmt"
	"slices"

	"edgespan/config"
)

// Type is the form of an entry's value in a document.
type Type string

// The types. There are no lists: what is many is a mapping by name or a
// comma-separated string (docs/configuration.md).
const (
	Mapping        Type = "mapping"
	String         Type = "string"
	StringOrInt    Type = "string or integer"
	StringList     Type = "comma-separated string"
	Integer        Type = "integer"
	Boolean        Type = "boolean"
	notYet              = "not supported yet"
	anyOther            = "*" // in Unsupported: every value but the default
	absentKey           = "$absent"
	maxInList           = 16 // items of a StringList
	maxNetworks         = 999
	maxBridgePorts      = 1023 // BR_MAX_PORTS of the kernel is 1,024, counted from 0, which is none
)

// Entry is one line of the schema: everything that is known of one field.
type Entry struct {
	// Path is the field's place, segments joined by '.'; a segment in <> stands
	// for any key of that kind.
	Path        string
	Type        Type
	Word        Word   // what a string, or each item of a list, must be
	Default     string // as text; "" for none
	Enum        []string
	Min, Max    int64    // of an Integer
	Unsupported []string // values that are known and refused; "*": all but the default
	Required    bool
	When        string // "attach.kind=veth": Required only then, relative to the nearest <> above
	Optional    bool   // has no default: its absence means what the description says
	Description string
}

// Supported lists the values of Enum that are not refused.
func (e Entry) Supported() []string {
	return slices.DeleteFunc(slices.Clone(e.Enum), func(v string) bool { return slices.Contains(e.Unsupported, v) })
}

// Allowed says in words which values the entry takes.
func (e Entry) Allowed() string {
	switch {
	case len(e.Enum) > 0:
		return config.OrList(e.Supported())
	case e.Type == Integer:
		return fmt.Sprintf("%d to %d", e.Min, e.Max)
	case e.Type == Boolean:
		return "true or false"
	case e.Type == Mapping:
		return "a mapping"
	case e.Type == StringList:
		return fmt.Sprintf("%s, at most %d, separated by commas", words[e.Word].plural, maxInList)
	}
	return words[e.Word].allowed
}

// Schema lists every field, each parent before what is below it.
func Schema() []Entry { return schema.list(nil) }

func (r *rule) list(out []Entry) []Entry {
	if r.Path != "" {
		out = append(out, r.Entry)
	}
	for _, key := range r.keys {
		out = r.below[key].list(out)
	}
	if r.wild != nil {
		out = r.wild.list(out)
	}
	return out
}

// rule is an Entry with those below it.
type rule struct {
	Entry
	below   map[string]*rule
	keys    []string // of below, sorted
	wild    *rule
	kind    string // of wild: "<uuid>"
	keyWord Word   // what a key of wild must be
}
