package configdb

import (
	"bytes"
	"cmp"
	"slices"
)

// Member is one key of an object with its value. The key is a decoded Go string; half of a surrogate pair in it has the
// three bytes that UTF-8 would give its number.
type Member struct {
	Key   string
	Value JSON

	text JSON // the bytes "key":value within the document; nil for a new member
}

// Object is a JSON object with decoded top-level keys; the values remain bytes. The zero value has no members. An
// Object is immutable and shares memory with its source.
type Object struct {
	text    JSON // nil: JSON builds it
	members []Member
}

// ObjectOf converts a canonical value, from Parse or another function of this package, to an object. It reads only the
// top level.
func ObjectOf(v JSON) (Object, error) { return (*Meter)(nil).object(v) }

// Object is ObjectOf, limited by the meter.
func (m *Meter) Object(v JSON) (o Object, err error) {
	defer m.catch(&err)
	return m.object(v)
}

// memberCost is the memory of a member in bytes without its key.
const memberCost = 64

// countFrom is the document size from which members are counted before memory for them is allocated.
const countFrom = 4 << 10

func (m *Meter) object(v JSON) (Object, error) {
	if len(v) == 0 || v[0] != '{' {
		return Object{}, malformed("the document is %s: must be one JSON object", kindOf(v))
	}
	n := min(len(v)/16, 64)
	if len(v) >= countFrom {
		m.count(len(v))
		n = 0
		for range memberSpans(v) {
			n++
		}
	}
	m.count(len(v))
	m.make(n * memberCost)
	o := Object{text: v, members: make([]Member, 0, n)}
	size := 0
	for s := range memberSpans(v) {
		o.members = append(o.members, Member{Value: v[s.value:s.to], text: v[s.from:s.to]})
		size += s.value - s.from - len(`"":`)
	}
	m.make(2 * size)
	keys := make([]byte, 0, size)
	for _, m := range o.members {
		keys = append(keys, m.text[1:len(m.text)-len(m.Value)-2]...)
	}
	all := string(keys) // one allocation for all keys
	for i := range o.members {
		one := &o.members[i]
		size := len(one.text) - len(one.Value) - len(`"":`)
		one.Key, all = all[:size], all[size:]
		if bytes.IndexByte(one.text[:size+2], '\\') >= 0 {
			m.make(size)
			one.Key = unquote(one.text[1 : size+1])
		}
	}
	return o, nil
}

// NewObject returns an object with these members, in any order; of equal keys the last counts.
func NewObject(ms []Member) Object {
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms, byKey)
	out := ms[:0]
	for i, m := range ms {
		if i+1 == len(ms) || ms[i+1].Key != m.Key {
			out = append(out, m)
		}
	}
	return Object{members: out}
}

func byKey(a, b Member) int { return cmp.Compare(a.Key, b.Key) }

func (o Object) Len() int { return len(o.members) }

// Members returns the members sorted by the bytes of their keys. The caller must not change them.
func (o Object) Members() []Member { return o.members }

// Get returns the value of a key.
func (o Object) Get(key string) (JSON, bool) {
	i, found := o.index(key)
	if !found {
		return nil, false
	}
	return o.members[i].Value, true
}

func (o Object) index(key string) (int, bool) {
	return slices.BinarySearchFunc(o.members, key, func(m Member, key string) int { return cmp.Compare(m.Key, key) })
}

// JSON returns the object in canonical form.
func (o Object) JSON() JSON {
	if o.text != nil {
		return o.text
	}
	b := append(make([]byte, 0, o.size()), '{')
	for i, m := range o.members {
		if i > 0 {
			b = append(b, ',')
		}
		b = m.append(b)
	}
	return append(b, '}')
}

// size returns the approximate length of the object's JSON.
func (o Object) size() int {
	if o.text != nil {
		return len(o.text)
	}
	size := len("{}")
	for _, m := range o.members {
		size += len(m.text) + 1
		if m.text == nil {
			size += len(m.Key) + len(`"":`) + len(m.Value)
		}
	}
	return size
}

// JSON returns the object in canonical form, limited like an answer.
func (m *Meter) JSON(o Object) (text JSON, err error) {
	defer m.catch(&err)
	return m.json(o), nil
}

func (m *Meter) json(o Object) JSON {
	if o.text == nil {
		m.answer(o.size())
	}
	return o.JSON()
}

func (m Member) append(b []byte) []byte {
	if m.text != nil {
		return append(b, m.text...)
	}
	return append(append(appendQuoted(b, m.Key), ':'), m.Value...)
}

// span holds the offsets of one member of an object, or of one element of a list, where from equals value.
type span struct{ from, value, to int }

// memberSpans iterates over the members of a canonical object.
func memberSpans(v JSON) func(yield func(span) bool) {
	return func(yield func(span) bool) {
		for at := 1; v[at] != '}'; {
			if v[at] == ',' {
				at++
			}
			s := span{from: at}
			s.value = skip(v, at) + 1
			s.to = skip(v, s.value)
			if !yield(s) {
				return
			}
			at = s.to
		}
	}
}

// parts iterates over the members of an object or the elements of a list.
func parts(v JSON) func(yield func(span) bool) {
	if v[0] == '{' {
		return memberSpans(v)
	}
	return func(yield func(span) bool) {
		for at := 1; v[at] != ']'; {
			if v[at] == ',' {
				at++
			}
			to := skip(v, at)
			if !yield(span{at, at, to}) {
				return
			}
			at = to
		}
	}
}

// Elements returns the elements of a canonical list, and nil for any other value.
func (j JSON) Elements() []JSON { return (*Meter)(nil).elements(j) }

func (m *Meter) elements(j JSON) []JSON {
	if len(j) == 0 || j[0] != '[' {
		return nil
	}
	n := 0
	if len(j) >= countFrom {
		m.count(len(j))
		for range items(j) {
			n++
		}
	}
	m.count(len(j))
	m.make(n * 24)
	out := make([]JSON, 0, n)
	for e := range items(j) {
		out = append(out, e)
	}
	return out
}

// items iterates over the elements of a canonical list.
func items(j JSON) func(yield func(JSON) bool) {
	return func(yield func(JSON) bool) {
		for s := range parts(j) {
			if !yield(j[s.value:s.to]) {
				return
			}
		}
	}
}

// Values returns the number of members and elements of a canonical value, at any depth.
func Values(v JSON) int {
	n := 0
	for at := 0; at < len(v); {
		switch v[at] {
		case '"':
			at = skipString(v, at)
			continue
		case ',':
			n++
		case '{', '[':
			if v[at+1] != v[at]+2 {
				n++
			}
		}
		at++
	}
	return n
}

func (m *Meter) listOf(vs []JSON) JSON {
	size := len("[]")
	for _, v := range vs {
		size += len(v) + 1
	}
	m.answer(size)
	return listOf(vs)
}

// listOf returns a list of these values.
func listOf(vs []JSON) JSON {
	size := len("[]")
	for _, v := range vs {
		size += len(v) + 1
	}
	b := append(make([]byte, 0, size), '[')
	for i, v := range vs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return append(b, ']')
}

// skip returns the end of the value that begins at an offset of a canonical document.
func skip(v JSON, at int) int {
	switch v[at] {
	case '"':
		return skipString(v, at)
	case '{', '[':
		return skipNested(v, at)
	}
	for at < len(v) && v[at] != ',' && v[at] != '}' && v[at] != ']' {
		at++
	}
	return at
}

// skipString returns the end of a string. Its closing quote follows an even number of backslashes.
func skipString(v JSON, at int) int {
	for from := at + 1; ; {
		quote := from + bytes.IndexByte(v[from:], '"')
		back := quote
		for v[back-1] == '\\' {
			back--
		}
		if (quote-back)%2 == 0 {
			return quote + 1
		}
		from = quote + 1
	}
}

// nests maps the bytes that affect nesting: 2 is a quote, 1 and -1 are brackets.
var nests = [256]int8{'"': 2, '{': 1, '[': 1, '}': -1, ']': -1}

func skipNested(v JSON, at int) int {
	for depth := 0; ; {
		switch n := nests[v[at]]; n {
		case 0:
			at++
		case 2:
			at = skipString(v, at)
		default:
			at++
			if depth += int(n); depth == 0 {
				return at
			}
		}
	}
}
