package configdb

import (
	"slices"
	"strconv"
	"strings"
)

// MergeStrategy names how the values of one key from several sources are merged.
type MergeStrategy string

// The strategies of Puppet (reference fuel-configdb §4.4).
const (
	MergeFirst  MergeStrategy = "first"
	MergeUnique MergeStrategy = "unique"
	MergeHash   MergeStrategy = "hash"
	MergeDeep   MergeStrategy = "deep"
)

// MergeOptions are a strategy and, for MergeDeep, its options. The zero value is MergeFirst.
type MergeOptions struct {
	Strategy         MergeStrategy
	KnockoutPrefix   string // "": none
	SortMergedArrays bool
	MergeHashArrays  bool
}

func (o MergeOptions) check() error {
	switch o.Strategy {
	case "", MergeFirst, MergeUnique, MergeHash, MergeDeep:
		return nil
	}
	return malformed("merge: invalid value %s: must be first, unique, hash or deep", showValue(JSON(o.Strategy)))
}

// optionsKey is the key from which Puppet reads its merge rules. Lookups never find it.
const optionsKey = "lookup_options"

// Lookups finds keys in the same sources and merges each root once.
type Lookups struct {
	m       *Meter
	o       MergeOptions
	sources []Object
	roots   map[string]root
}

type root struct {
	value JSON
	found bool
	err   error
}

// LookupKeys starts lookups in sources, given from the highest to the lowest.
func (m *Meter) LookupKeys(o MergeOptions, sources []Object) *Lookups {
	return &Lookups{m: m, o: o, sources: sources, roots: map[string]root{}}
}

// Find finds a key as Puppet's lookup does: it merges the values that the sources have at the root of the key, then
// follows the rest of the key into the result. The caller chooses the merge; lookup_options in the data are left to the
// client. Each source counts as a separate entry of hiera.yaml. A missing key is no error. A key whose values can't be
// merged, or that leads through a value without keys, is an error of kind Conflict; a misspelt key is of kind
// Malformed.
func (l *Lookups) Find(key string) (v JSON, found bool, err error) {
	defer l.m.catch(&err)
	o := l.o
	if err := o.check(); err != nil {
		return nil, false, err
	}
	l.m.make((1 + strings.Count(key, ".")) * segmentCost) // a key may have hundreds of thousands of segments
	path, err := splitKey(key)
	if err != nil || key == optionsKey || strings.HasPrefix(key, optionsKey+".") {
		return nil, false, err
	}
	l.m.count(64 + len(key))
	at, known := l.roots[path[0].text]
	if !known {
		at.value, at.found, at.err = l.m.lookupRoot(o, l.sources, path[0].text)
		l.roots[path[0].text] = at
	}
	if !at.found || at.err != nil {
		return nil, false, at.err
	}
	return l.m.dig(key, at.value, path[1:])
}

func (m *Meter) lookupRoot(o MergeOptions, sources []Object, root string) (v JSON, found bool, err error) {
	var values []JSON
	for _, s := range sources {
		m.count(64)
		if v, has := s.Get(root); has {
			values = append(values, v)
			if o.Strategy == "" || o.Strategy == MergeFirst {
				break
			}
		}
	}
	if len(values) == 0 {
		return nil, false, nil
	}
	switch o.Strategy {
	case MergeUnique:
		v, err = m.unique(root, values)
	case MergeHash:
		v, err = m.mergeHashes(root, values)
	case MergeDeep:
		v, err = deep{o, root, m}.merge(values)
	default:
		v = values[0]
	}
	return v, err == nil, err
}

// dig follows a path into a value as Puppet does: an index applies to lists only, and an unquoted number is not a key
// of an object.
func (m *Meter) dig(key string, v JSON, path []segment) (JSON, bool, error) {
	for _, s := range path {
		switch {
		case len(v) == 0 || v[0] == 'n':
			return nil, false, nil
		case v[0] == '[' && s.index >= 0, v[0] == '{':
			name := s.text
			if v[0] == '[' {
				name = strconv.Itoa(s.index)
			}
			below, found := m.child(v, name)
			if !found || v[0] == '{' && s.index != noIndex {
				return nil, false, nil
			}
			v = below
		case v[0] == '[' && s.index == badIndex:
			return nil, false, nil
		default:
			return nil, false, conflict("key %s: %s has no key %s: an object is needed there", key, kindOf(v), s.text)
		}
	}
	return v, true, nil
}

// MergeData merges the data of all sources into one object. Each key has the value that Find returns, or the value of
// the highest source if the values can't be merged. lookup_options are merged as hashes, as Puppet does. MergeUnique is
// an error of kind Malformed: it has no meaning for objects.
func (m *Meter) MergeData(o MergeOptions, sources []Object) (out Object, err error) {
	defer m.catch(&err)
	if err := o.check(); err != nil {
		return Object{}, err
	}
	if o.Strategy == MergeUnique {
		return Object{}, malformed("merge: invalid value unique: must be first, hash or deep for all of the data")
	}
	layers := slices.Clone(sources)
	slices.Reverse(layers)
	out, _ = m.merge(layers, false)
	m.make(memberCost * out.Len())
	members := slices.Clone(out.Members())
	for i, at := range members {
		one := o
		if at.Key == optionsKey {
			one = MergeOptions{Strategy: MergeHash}
		}
		if one.Strategy == "" || one.Strategy == MergeFirst {
			continue
		}
		if v, _, err := m.lookupRoot(one, sources, at.Key); err == nil {
			members[i] = Member{Key: at.Key, Value: v}
		}
	}
	return Object{members: members}, nil
}

// unique returns the union of lists and scalars, the highest first. The highest source may have a value of any type,
// since Puppet turns that value into a list before it checks types.
func (m *Meter) unique(key string, values []JSON) (JSON, error) {
	var all []JSON
	for i, v := range values {
		if i > 0 && v[0] == '{' {
			return nil, conflict("key %s: %s can't be merged by unique: must be a list or a scalar", key, kindOf(v))
		}
		if i > 0 && v[0] == 'n' {
			return nil, conflict("key %s: null can't be merged by unique: must be a list or a scalar", key)
		}
		one := m.flatten(nil, v)
		if i == 0 && len(values) == 1 && v[0] == '[' {
			one = m.flatten(nil, m.listOf(m.distinct(m.elements(v))))
		}
		m.make(128 * len(one))
		all = append(all, one...)
	}
	if len(values) > 1 {
		all = m.distinct(all)
	}
	return m.listOf(all), nil
}

func (m *Meter) flatten(out []JSON, v JSON) []JSON {
	if v[0] != '[' {
		m.make(128) // lists grow by a quarter
		return append(out, v)
	}
	m.count(len(v))
	for e := range items(v) {
		out = m.flatten(out, e)
	}
	return out
}

// distinct returns the values without those that equal an earlier one.
func (m *Meter) distinct(vs []JSON) []JSON {
	m.make(64 * len(vs))
	seen := make(map[string]bool, len(vs))
	out := make([]JSON, 0, len(vs))
	for _, v := range vs {
		if id := m.identity(v); !seen[id] {
			seen[id] = true
			out = append(out, v)
		}
	}
	return out
}

// mergeHashes merges objects; each key has the value of the highest object with that key.
func (m *Meter) mergeHashes(key string, values []JSON) (JSON, error) {
	if len(values) == 1 {
		return values[0], nil
	}
	layers := make([]Object, len(values))
	for i, v := range values {
		o, err := m.object(v)
		if err != nil {
			return nil, conflict("key %s: %s can't be merged by hash: must be an object", key, kindOf(v))
		}
		layers[len(values)-1-i] = o
	}
	merged, _ := m.merge(layers, false)
	return m.json(merged), nil
}

// segment is one part of a key in Puppet's spelling.
type segment struct {
	text   string
	index  int // of a list; or noIndex, badIndex
	quoted bool
}

// segmentCost is the memory of a segment in bytes.
const segmentCost = 40

const (
	noIndex  = -1 // not a number
	badIndex = -2 // a number below 0 or too large
)

// splitKey parses a key in Puppet's spelling: segments joined by dots, a segment that contains a dot or a quote in
// single or double quotes, blanks around a segment ignored. A number is an index.
func splitKey(key string) ([]segment, error) {
	if key != "" && !strings.ContainsAny(key, `'".`) {
		return []segment{{text: key, index: noIndex}}, nil
	}
	out := make([]segment, 0, 1+strings.Count(key, "."))
	for rest := key; ; {
		rest = strings.TrimLeft(rest, " \t\n\r\f\v")
		s := segment{index: noIndex}
		end := strings.IndexAny(rest, `'".`)
		switch {
		case rest == "" || end == 0 && rest[0] == '.':
			return nil, keySyntax(key)
		case end == 0:
			end = strings.IndexByte(rest[1:], rest[0])
			if end < 1 {
				return nil, keySyntax(key)
			}
			s.text, s.quoted, rest = rest[1:end+1], true, strings.TrimLeft(rest[end+2:], " \t\n\r\f\v")
		case end < 0:
			s.text, rest = strings.TrimSpace(rest), ""
		default:
			s.text, rest = strings.TrimSpace(rest[:end]), rest[end:]
		}
		if !s.quoted {
			s.asIndex()
		}
		out = append(out, s)
		if rest == "" {
			return out, nil
		}
		if rest[0] != '.' {
			return nil, keySyntax(key)
		}
		rest = rest[1:]
	}
}

func (s *segment) asIndex() {
	digits := strings.TrimLeft(s.text, "+-")
	if digits == "" || len(s.text)-len(digits) > 1 || strings.Trim(digits, "0123456789") != "" {
		return
	}
	n, err := strconv.Atoi(s.text)
	if err != nil || n < 0 {
		s.index = badIndex
		return
	}
	s.index = n
}

func keySyntax(key string) *Error {
	return malformed("key %s is misspelt: must be parts joined by dots, '' or \"\" around one that has a dot in it",
		showValue(JSON(key)))
}
