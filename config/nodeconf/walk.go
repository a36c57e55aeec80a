package nodeconf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
)

// object is a mapping of the document after the walk: what of it is right, in
// the types of the words, with defaults. A map that nothing was put into is nil.
type object struct {
	path    []string
	values  map[string]any
	given   map[string]bool // in the document, right or wrong
	wrong   map[string]bool
	objects map[string]*object
}

func newObject(path []string) *object {
	return &object{path: path}
}

// put sets an entry of a map of an object.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// in is the object below o, empty if there is none.
func (o *object) in(key string) *object {
	if c := o.objects[key]; c != nil {
		return c
	}
	return newObject(config.Sub(o.path, key))
}

// at is the path of one of o's keys.
func (o *object) at(key string) []string { return config.Sub(o.path, key) }

// keys are those of the objects below o, sorted.
func (o *object) keys() []string { return slices.Sorted(maps.Keys(o.objects)) }

// value is o's value of a key, or the zero value where it is absent or wrong.
func value[T any](o *object, key string) T {
	v, _ := o.values[key].(T)
	return v
}

// items is o's list of a key.
func items[T any](o *object, key string) []T {
	vs := value[[]any](o, key)
	if len(vs) == 0 {
		return nil
	}
	out := make([]T, len(vs))
	for i, v := range vs {
		out[i] = v.(T)
	}
	return out
}

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
	for _, f := range n.fields {
		below := r.below[f.key]
		if below == nil {
			w.faults.Add(o.at(f.key), "unknown key", "known are "+strings.Join(r.keys, ", "))
			continue
		}
		put(&o.given, f.key, true)
		w.field(below, f.value, o, f.key)
	}
	for _, key := range r.keys {
		below := r.below[key]
		switch {
		case o.given[key]:
		case below.Type == Mapping && below.wild == nil && below.requires():
			put(&o.objects, key, w.mapping(below, &node{kind: mapping}, o.at(key)))
		case below.Default != "":
			v, _, _ := w.parse(below.Entry, below.Default)
			put(&o.values, key, v)
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
			put(&o.objects, key, below)
		}
		if n.kind != mapping {
			put(&o.wrong, key, true)
		}
		return
	}
	v, ok := w.leaf(r.Entry, n, o, key)
	switch {
	case !ok:
		put(&o.wrong, key, true)
	case v != nil:
		put(&o.values, key, v)
	default:
		delete(o.given, key) // an empty string where nothing is the default
	}
}

// entries walks a mapping with free keys. Entries that a later layer made
// absent are dropped unseen.
func (w walker) entries(r *rule, n *node, o *object) {
	key := words[r.keyWord]
	o.given = make(map[string]bool, len(n.fields))
	o.objects = make(map[string]*object, len(n.fields))
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
		put(&into.given, f.key, true)
		n := w.withoutAbsent(f.value, o, f.key)
		w.field(r.wild, n, into, f.key)
		if below := into.objects[f.key]; below != nil && r.wild.wild == nil {
			w.lacking(r.wild, below, below)
		}
		if into == o {
			rename(o, f.key, name)
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

// rename moves what was found under a key as written to its canonical spelling;
// its paths stay as written.
func rename(o *object, from, to string) {
	if from == to {
		return
	}
	move(o.values, from, to)
	move(o.objects, from, to)
	move(o.given, from, to)
	move(o.wrong, from, to)
}

func move[V any](m map[string]V, from, to string) {
	if v, ok := m[from]; ok {
		m[to] = v
		delete(m, from)
	}
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
			if c := o.objects[key]; c != nil && below.wild == nil {
				w.lacking(below, c, entry)
			}
			continue
		}
		if below.Required && !o.given[key] && holds(below.When, entry) {
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
