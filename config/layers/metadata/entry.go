package metadata

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
)

// AnyKey replaces the free keys of maps in the path of an entry.
const AnyKey = "*"

// Entry is the description of one place: an entry, a property of an object or the value of a map.
type Entry struct {
	Path                                   []string // AnyKey for free keys of maps
	free                                   []bool   // whether each key of Path is a free key
	Root                                   bool     // an entry, rather than a place below one
	Kind                                   Kind
	Desc, Action, Tag                      string
	Required, ReadOnly, Deprecated, Secret bool
	Strict                                 bool // an unknown key below it is a fault
	Sync                                   bool // shared with the peer controller
	Flag                                   bool // a command-line flag: the value is a string
	Default                                any
	HasDefault                             bool
	Allowed                                string // "an integer from 1 to 12 or 35"
}

// Name formats the path as config.FormatPath does, with a bare * for a free key.
func (e Entry) Name() string {
	parts := make([]string, len(e.Path))
	for i, key := range e.Path {
		if e.free[i] {
			parts[i] = AnyKey
		} else {
			parts[i] = config.FormatPath([]string{key})
		}
	}
	return strings.Join(parts, ".")
}

// Entry returns the description of a place in a config. Levels and unknown keys have none.
func (m *Metadata) Entry(path []string) (Entry, bool) {
	p, at := m.root, walk{}
	for _, key := range path {
		below, known := p.known[key]
		free := p.each != nil
		if free {
			key, below, known = AnyKey, p.each, true
		}
		if !known {
			return Entry{}, false
		}
		at = at.below(key, free, below)
		p = below
	}
	if p.kind == Level {
		return Entry{}, false
	}
	return at.entry(p), true
}

// All iterates over the entries and everything below them, parents first, keys sorted by their bytes.
func (m *Metadata) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) { visit(m.root, walk{}, yield) }
}

func visit(p *param, at walk, yield func(Entry) bool) bool {
	if p.kind != Level && !yield(at.entry(p)) {
		return false
	}
	if p.each != nil {
		return visit(p.each, at.below(AnyKey, true, p.each), yield)
	}
	for _, key := range sorted(p.known) {
		if !visit(p.known[key], at.below(key, false, p.known[key]), yield) {
			return false
		}
	}
	return true
}

// walk is a place with its inherited settings.
type walk struct {
	path []string
	free []bool
	sync bool
}

func (w walk) below(key string, free bool, p *param) walk {
	return walk{config.Below(w.path, key), append(w.free[:len(w.free):len(w.free)], free), p.isSynced(w.sync)}
}

func (w walk) entry(p *param) Entry {
	return Entry{
		Path: w.path, free: w.free, Root: p.entry, Kind: p.kind, Desc: p.desc, Action: p.action, Tag: p.tag,
		Required: p.required, ReadOnly: p.readOnly, Deprecated: p.deprecated, Secret: p.secret, Strict: p.strict,
		Sync: w.sync, Flag: p.flag, Default: p.def, HasDefault: p.hasDefault, Allowed: p.describe(math.MaxInt),
	}
}

// limit is the number of alternatives that a message shows; Entry.Allowed shows all of them.
const limit = 12

// describe formats the permitted values, with at most limit alternatives.
func (p *param) describe(limit int) string {
	switch p.kind {
	case Integer:
		return p.asFlag(described("an integer", p.ints, limit, func(i int64) string { return strconv.FormatInt(i, 10) }))
	case Float:
		return p.asFlag(described("a number", p.floats, limit, showFloat))
	case Boolean:
		if p.flag {
			return "a string that says true or false"
		}
		return "true or false"
	case String:
		return p.text.describe(limit)
	case Map:
		return "an object with free keys"
	case ObjectKind, Level:
	}
	return "an object"
}

func (p *param) asFlag(s string) string {
	if p.flag {
		return "a string that says " + s
	}
	return s
}

func described[T int64 | float64](what string, n *numbers[T], limit int, show func(T) string) string {
	if n == nil {
		return what
	}
	which := n.describe(limit, show)
	if which == "" {
		return "no value at all"
	}
	return what + " " + which
}

func (t *texts) describe(limit int) string {
	switch {
	case t == nil || t.any() && !t.orInteger:
		return "a string"
	case t.any():
		return "a string or an integer"
	}
	var parts []string
	if t.regex != nil {
		parts = append(parts, "a string that matches "+t.pattern)
	}
	if t.ints != nil {
		parts = append(parts, described("a string that says an integer",
			t.ints, limit, func(i int64) string { return strconv.FormatInt(i, 10) }))
	}
	if t.floats != nil {
		parts = append(parts, described("a string that says a number", t.floats, limit, showFloat))
	}
	for _, s := range t.values {
		parts = append(parts, config.Printable(s))
	}
	if len(parts) == 0 {
		return "no value at all"
	}
	return listAlternatives(parts, limit)
}

// listAlternatives formats "a, b or c", or "a, b or 7 others".
func listAlternatives(parts []string, limit int) string {
	if len(parts) > limit {
		parts = append(slices.Clone(parts[:limit-1]), fmt.Sprintf("%d others", len(parts)-limit+1))
	}
	return config.OrList(parts)
}

// names formats the permitted keys of an object for a message.
func (p *param) names() string {
	if len(p.known) == 0 {
		return "must be empty"
	}
	names := sorted(p.known)
	for i, name := range names {
		names[i] = config.FormatPath([]string{name})
	}
	return config.MustBe(listAlternatives(names, limit))
}

func showFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}

// plain formats a value for a message: short, on one line, with a visible type.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return showFloat(v)
	case string:
		return config.Quote(v)
	case []any:
		return "an array"
	case config.Object:
		return "an object"
	}
	return fmt.Sprint(v)
}

func shown(v any) string {
	return config.InvalidValue(plain(v))
}
