package nodeconf

import (
	"fmt"
	"slices"

	"edgespan/config"
)

// Type is the form of an entry's value in a document.
type Type string

// The types. There are no lists: several values are a mapping by name or a comma-separated string
// (docs/configuration.md).
const (
	Mapping        Type = "mapping"
	String         Type = "string"
	StringOrInt    Type = "string or integer"
	StringList     Type = "comma-separated string"
	Integer        Type = "integer"
	Boolean        Type = "boolean"
	notYet              = "not supported yet"
	anyOther            = "*" // in Unsupported: every value except the default
	absentKey           = "$absent"
	maxInList           = 16 // items of a StringList
	maxNetworks         = 999
	maxBridgePorts      = 1023 // the kernel's BR_MAX_PORTS is 1,024, but port 0 is unused
)

// Entry is one row of the schema: the description of one field.
type Entry struct {
	// Path is the path of the field, its segments joined by '.'; a segment in <> matches any key of that kind.
	Path        string
	Type        Type
	Word        Word   // the form of a string, or of each item of a list
	Default     string // as text; "" for none
	Enum        []string
	Min, Max    int64    // for an Integer
	Unsupported []string // known values that are refused; "*": all except the default
	Required    bool
	When        string // "attach.kind=veth": Required only under this condition, relative to the nearest parent in <>
	Optional    bool   // has no default: Description says what its absence means
	Secret      bool   // its value is shown nowhere, also if it is invalid
	Description string
}

// Supported returns the values of Enum that are not refused.
func (e Entry) Supported() []string {
	return slices.DeleteFunc(slices.Clone(e.Enum), func(v string) bool { return slices.Contains(e.Unsupported, v) })
}

// Expectation describes the values that the entry accepts.
func (e Entry) Expectation() string {
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

// Schema returns every field, parents first.
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

// rule is an Entry with the entries below it.
type rule struct {
	Entry
	below   map[string]*rule
	keys    []string // of below, sorted
	wild    *rule
	kind    string // of wild, as in "<uuid>"
	keyWord Word   // form of the keys of wild
}
