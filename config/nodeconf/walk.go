package nodeconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
)

// walker checks a document against the rules, value by value.
type walker struct {
	doc    config.Document
	faults *config.Faults
}

func (w walker) walkMapping(r *rule, v any, path []string) *object {
	o := newObject(path)
	n, ok := v.(config.Object)
	switch {
	case !ok:
		w.reportWrongType(r.Entry, v, path)
	case slices.Contains(r.Unsupported, anyOther):
		if len(n) > 0 {
			w.faults.Add(path, notYet, "")
		}
	case r.wild != nil:
		w.walkEntries(r, n, o)
	default:
		w.walkFields(r, n, o)
	}
	return o
}

// walkFields walks a mapping with keys named by the schema.
func (w walker) walkFields(r *rule, n config.Object, o *object) {
	o.reserve(min(len(n), len(r.keys)) + 1) // most mappings get one default
	for key, v := range n {
		below := r.below[key]
		if below == nil {
			w.faults.Add(o.pathOf(key), config.UnknownField, config.OneOf(r.keys))
			continue
		}
		o.slot(key).given = true
		w.walkField(below, v, o, key)
	}
	for _, key := range r.keys {
		below := r.below[key]
		switch {
		case o.isGiven(key):
		case below.Type == Mapping && below.wild == nil && below.requires():
			o.slot(key).below = w.walkMapping(below, config.Object{}, o.pathOf(key))
		case below.Default != "":
			v, _, _ := w.parse(below.Entry, below.Default)
			o.slot(key).value = v
		}
	}
}

// requires reports whether an absent mapping would omit a required field.
func (r *rule) requires() bool {
	for _, b := range r.below {
		if b.Required || b.Type == Mapping && b.wild == nil && b.requires() {
			return true
		}
	}
	return false
}

func (w walker) walkField(r *rule, given any, o *object, key string) {
	if r.Type == Mapping {
		below := w.walkMapping(r, given, o.pathOf(key))
		if _, ok := given.(config.Object); !ok {
			o.slot(key).wrong = true
		} else if len(r.Unsupported) == 0 {
			o.slot(key).below = below
		}
		return
	}
	v, ok := w.checkLeaf(r.Entry, given, o, key)
	switch {
	case !ok:
		o.slot(key).wrong = true
	case v != nil:
		o.slot(key).value = v
	default:
		o.slot(key).given = false // an empty string for a field without default counts as absent
	}
}

// walkEntries walks a mapping with free keys. It skips entries that a later layer marked absent, without checking them.
func (w walker) walkEntries(r *rule, n config.Object, o *object) {
	word := words[r.keyWord]
	o.reserve(len(n))
	names := make(map[string]string, len(n)) // canonical key to its first spelling
	for _, key := range config.Keys(n) {
		entry := n[key]
		if isAbsent(entry) {
			continue
		}
		name := key
		v, _, ok := word.parse(key)
		if ok {
			name = fmt.Sprint(v)
		} else {
			w.faults.Add(o.pathOf(key), "invalid key", config.MustBe(word.allowed))
		}
		first, again := names[name]
		if again {
			w.faults.Add(o.pathOf(key), "duplicate key, same as "+config.Quote(first), "must be unique")
		}
		names[name] = key
		into := o
		if !ok || again { // still check the fields of a refused entry
			into = newObject(o.path)
		}
		into.slot(key).given = true
		w.walkField(r.wild, w.removeAbsent(entry, o, key), into, key)
		if below := into.objectAt(key); below != nil && r.wild.wild == nil {
			w.reportMissing(r.wild, below, below)
		}
		if into == o {
			o.rename(key, name)
		}
	}
}

func isAbsent(v any) bool {
	entry, _ := v.(config.Object)
	return entry[absentKey] == true
}

// removeAbsent removes a redundant "$absent": false from an entry.
func (w walker) removeAbsent(v any, o *object, key string) any {
	entry, _ := v.(config.Object)
	absent, has := entry[absentKey]
	if !has {
		return v
	}
	if _, ok := absent.(bool); !ok {
		w.reportWrongType(Entry{Type: Boolean}, absent, config.Below(o.path, key, absentKey))
	}
	return config.Unset(entry, []string{absentKey})
}

// checkLeaf checks the value of a key of o. It returns nil for an empty string that means the same as no value.
func (w walker) checkLeaf(e Entry, given any, o *object, key string) (any, bool) {
	text, isNumber := "", false
	switch v := given.(type) {
	case string:
		text = v
	case bool:
		text = strconv.FormatBool(v)
	case int64, float64:
		text, isNumber = w.doc.Number(o.pathOf(key), v), true
	}
	if !matchesType(e.Type, given, isNumber) {
		w.reportWrongType(e, given, o.pathOf(key))
		return nil, false
	}
	if text == "" && e.Default == "" && !e.Required {
		return nil, true
	}
	if slices.Contains(e.Unsupported, text) || slices.Contains(e.Unsupported, anyOther) && text != e.Default {
		w.faults.Add(o.pathOf(key), notYet, "")
		return nil, false
	}
	v, allowed, ok := w.parse(e, text)
	if !ok {
		if allowed == "" {
			allowed = config.MustBe(e.Expectation())
		}
		what := config.Invalid(text)
		if isNumber {
			what = config.InvalidValue(config.EscapeStart(text))
		}
		if bad, isList := v.(badItems); isList {
			what = string(bad)
		}
		if e.Secret {
			what = "invalid value"
		}
		w.faults.Add(o.pathOf(key), what, allowed)
	}
	return v, ok
}

func matchesType(t Type, given any, isNumber bool) bool {
	switch given.(type) {
	case string:
		return t != Integer && t != Boolean
	case bool:
		return t == Boolean
	}
	return isNumber && (t == Integer || t == StringOrInt)
}

var typeAllowed = map[Type]string{
	Mapping:     "must be a mapping",
	String:      "must be a string",
	StringList:  "must be a comma-separated string",
	StringOrInt: "must be a string or a whole number",
	Integer:     "must be a whole number",
	Boolean:     "must be a boolean",
}

func (w walker) reportWrongType(e Entry, v any, path []string) {
	w.faults.Add(path, config.InvalidType(config.YAMLTypeName(v)), typeAllowed[e.Type])
}

// badItems describes the problem of a list, in place of its value.
type badItems string

// parse parses a value's text. If it is invalid, allowed is the expectation, or "" if the entry's own applies.
func (w walker) parse(e Entry, s string) (v any, allowed string, ok bool) {
	switch {
	case e.Type == Boolean:
		return s == "true", "", true
	case e.Type == Integer:
		n, ok := parseCanonicalInt(s)
		if !ok || n < e.Min || n > e.Max {
			return int(n), config.MustBe("a whole number of " + e.Expectation()), false
		}
		return int(n), "", true
	case len(e.Enum) > 0:
		return s, "", slices.Contains(e.Enum, s)
	case e.Type == StringList:
		return parseList(e, s)
	}
	return words[e.Word].parse(s)
}

func parseList(e Entry, s string) (any, string, bool) {
	var vs []any
	var bad []string
	seen := map[any]bool{}
	allowed := config.MustBe(e.Expectation())
	for _, item := range strings.Split(s, ",") {
		item = strings.TrimSpace(item)
		v, _, ok := words[e.Word].parse(item)
		switch {
		case !ok:
			bad = append(bad, config.Quote(item))
		case seen[v]:
			return badItems("duplicate item " + config.Quote(item)), allowed, false
		default:
			seen[v] = true
			vs = append(vs, v)
		}
	}
	switch {
	case len(bad) > 0:
		return badItems(config.InvalidValue(shownItems(bad))), allowed, false
	case len(vs) > maxInList:
		return badItems(config.TooMany("items", len(vs))), allowed, false
	}
	return vs, "", true
}

// shownItems joins the items of a list that a message names.
func shownItems(items []string) string {
	if len(items) > 3 {
		return strings.Join(items[:3], ", ") + " and " + strconv.Itoa(len(items)-3) + " more"
	}
	return strings.Join(items, ", ")
}

// reportMissing reports the missing required fields of an entry of a map. entry is the complete entry, since a
// condition (When) may refer to another part of it.
func (w walker) reportMissing(r *rule, o, entry *object) {
	for _, key := range r.keys {
		below := r.below[key]
		if below.Type == Mapping {
			if c := o.objectAt(key); c != nil && below.wild == nil {
				w.reportMissing(below, c, entry)
			}
			continue
		}
		if below.Required && !o.isGiven(key) && evaluateCondition(below.When, entry) {
			w.faults.Add(o.pathOf(key), config.Required, config.MustBe(below.Expectation()))
		}
	}
}

// evaluateCondition evaluates a condition such as "attach.kind=veth" or "type=local|vpn" for an entry.
func evaluateCondition(when string, o *object) bool {
	if when == "" {
		return true
	}
	place, want, _ := strings.Cut(when, "=")
	segments := strings.Split(place, ".")
	for _, s := range segments[:len(segments)-1] {
		o = o.objectOrEmpty(s)
	}
	return slices.Contains(strings.Split(want, "|"), value[string](o, segments[len(segments)-1]))
}
