package nodeconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
)

// walker checks a document against the rules, one node after another.
type walker struct{ faults *config.Faults }

func (w walker) mapping(r *rule, n *node, path []string) *object {
	o := newObject(path)
	switch {
	case n.kind != mapping:
		w.wrongType(r.Entry, n, path)
	case slices.Contains(r.Unsupported, anyOther):
		if len(n.fields) > 0 {
			w.faults.Add(path, notYet, "")
		}
	case r.wild != nil:
		w.entries(r, n, o)
	default:
		w.fields(r, n, o)
	}
	return o
}

// fields walks a mapping whose keys the schema names.
func (w walker) fields(r *rule, n *node, o *object) {
	o.reserve(min(len(n.fields), len(r.keys)) + 1) // one default, for most
	for _, f := range n.fields {
		below := r.below[f.key]
		if below == nil {
			w.faults.Add(o.at(f.key), "unknown key", "known are "+strings.Join(r.keys, ", "))
			continue
		}
		o.slot(f.key).given = true
		w.field(below, f.value, o, f.key)
	}
	for _, key := range r.keys {
		below := r.below[key]
		switch {
		case o.given(key):
		case below.Type == Mapping && below.wild == nil && below.requires():
			o.slot(key).below = w.mapping(below, &node{kind: mapping}, o.at(key))
		case below.Default != "":
			v, _, _ := w.parse(below.Entry, below.Default)
			o.slot(key).value = v
		}
	}
}

// requires says whether an absent mapping would leave a required field out.
func (r *rule) requires() bool {
	for _, b := range r.below {
		if b.Required || b.Type == Mapping && b.wild == nil && b.requires() {
			return true
		}
	}
	return false
}

func (w walker) field(r *rule, n *node, o *object, key string) {
	if r.Type == Mapping {
		below := w.mapping(r, n, o.at(key))
		if n.kind == mapping && len(r.Unsupported) == 0 {
			o.slot(key).below = below
		}
		if n.kind != mapping {
			o.slot(key).wrong = true
		}
		return
	}
	v, ok := w.leaf(r.Entry, n, o, key)
	switch {
	case !ok:
		o.slot(key).wrong = true
	case v != nil:
		o.slot(key).value = v
	default:
		o.slot(key).given = false // an empty string where nothing is the default
	}
}

// entries walks a mapping with free keys. Entries that a later layer made
// absent are dropped unseen.
func (w walker) entries(r *rule, n *node, o *object) {
	key := words[r.keyWord]
	o.reserve(len(n.fields))
	names := make(map[string]string, len(n.fields)) // canonical key → as first written
	for _, f := range n.fields {
		if isAbsent(f.value) {
			continue
		}
		name := f.key
		v, _, ok := key.parse(f.key)
		if ok {
			name = fmt.Sprint(v)
		} else {
			w.faults.Add(o.at(f.key), "is no key here", key.allowed+" is allowed")
		}
		first, again := names[name]
		if again {
			w.faults.Add(o.at(f.key), "is the same key as "+config.Quote(first), "each key once is allowed")
		}
		names[name] = f.key
		into := o
		if !ok || again { // its fields are checked all the same
			into = newObject(o.path)
		}
		into.slot(f.key).given = true
		n := w.withoutAbsent(f.value, o, f.key)
		w.field(r.wild, n, into, f.key)
		if below := into.below(f.key); below != nil && r.wild.wild == nil {
			w.lacking(r.wild, below, below)
		}
		if into == o {
			o.rename(f.key, name)
		}
	}
}

func isAbsent(n *node) bool {
	a := n.get(absentKey)
	return a != nil && a.kind == boolean && a.text == "true"
}

// withoutAbsent is an entry without its "$absent": false, which says nothing.
func (w walker) withoutAbsent(n *node, o *object, key string) *node {
	a := n.get(absentKey)
	if a == nil {
		return n
	}
	if a.kind != boolean {
		w.wrongType(Entry{Type: Boolean}, a, config.Sub(o.path, key, absentKey))
	}
	rest := *n
	rest.fields = slices.DeleteFunc(slices.Clone(n.fields), func(f field) bool { return f.key == absentKey })
	return &rest
}

// leaf checks the value of one of o's keys. It is nil where an empty string says the same as no
// entry at all.
func (w walker) leaf(e Entry, n *node, o *object, key string) (any, bool) {
	if !fits(e.Type, n) {
		w.wrongType(e, n, o.at(key))
		return nil, false
	}
	if n.text == "" && n.kind == text && e.Default == "" && !e.Required {
		return nil, true
	}
	if slices.Contains(e.Unsupported, n.text) || slices.Contains(e.Unsupported, anyOther) && n.text != e.Default {
		w.faults.Add(o.at(key), notYet, "")
		return nil, false
	}
	v, allowed, ok := w.parse(e, n.text)
	if !ok {
		if allowed == "" {
			allowed = e.Allowed() + " is allowed"
		}
		what := is(n.text)
		if n.kind == number {
			what = "is " + quoteInner(n.text)
		}
		if bad, isList := v.(badItems); isList {
			what = string(bad)
		}
		w.faults.Add(o.at(key), what, allowed)
	}
	return v, ok
}

func fits(t Type, n *node) bool {
	switch t {
	case Integer:
		return n.kind == number
	case Boolean:
		return n.kind == boolean
	case StringOrInt:
		return n.kind == text || n.kind == number
	}
	return n.kind == text
}

var typeAllowed = map[Type]string{
	Mapping:     "a mapping is allowed",
	String:      "a string is allowed",
	StringList:  "a comma-separated string is allowed",
	StringOrInt: "a string or a whole number is allowed",
	Integer:     "a whole number is allowed",
	Boolean:     "a boolean is allowed",
}

func (w walker) wrongType(e Entry, n *node, path []string) {
	w.faults.Add(path, "is "+string(n.kind), typeAllowed[e.Type])
}

// badItems is what is wrong with a list, in place of its value.
type badItems string

// parse reads a value's text. Where it is wrong, allowed says what would be right, or is
// "" if the entry says that.
func (w walker) parse(e Entry, s string) (v any, allowed string, ok bool) {
	switch {
	case e.Type == Boolean:
		return s == "true", "", true
	case e.Type == Integer:
		n, ok := canonicalInt(s)
		if !ok || n < e.Min || n > e.Max {
			return int(n), "a whole number of " + e.Allowed() + " is allowed", false
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
	allowed := strings.Replace(e.Allowed(), ", at most", " are allowed, at most", 1)
	for _, item := range strings.Split(s, ",") {
		item = strings.TrimSpace(item)
		v, _, ok := words[e.Word].parse(item)
		switch {
		case !ok:
			bad = append(bad, config.Quote(item))
		case seen[v]:
			return badItems("has " + config.Quote(item) + " twice"), allowed, false
		default:
			seen[v] = true
			vs = append(vs, v)
		}
	}
	switch {
	case len(bad) > 3:
		return badItems("has " + strings.Join(bad[:3], ", ") + " and " + strconv.Itoa(len(bad)-3) + " more"), allowed, false
	case len(bad) > 0:
		return badItems("has " + strings.Join(bad, ", ")), allowed, false
	case len(vs) > maxInList:
		return badItems(fmt.Sprintf("has %d items", len(vs))), allowed, false
	}
	return vs, "", true
}

// lacking reports the required fields that an entry of a map lacks. It looks at
// the whole entry, as whether a field is required can hang on another.
func (w walker) lacking(r *rule, o, entry *object) {
	for _, key := range r.keys {
		below := r.below[key]
		if below.Type == Mapping {
			if c := o.below(key); c != nil && below.wild == nil {
				w.lacking(below, c, entry)
			}
			continue
		}
		if below.Required && !o.given(key) && holds(below.When, entry) {
			w.faults.Add(o.at(key), "is missing", below.Allowed()+" is required")
		}
	}
}

// holds reads a condition such as "attach.kind=veth" below an entry.
func holds(when string, o *object) bool {
	if when == "" {
		return true
	}
	place, want, _ := strings.Cut(when, "=")
	segments := strings.Split(place, ".")
	for _, s := range segments[:len(segments)-1] {
		o = o.in(s)
	}
	return value[string](o, segments[len(segments)-1]) == want
}
