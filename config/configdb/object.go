package configdb

import (
	"bytes"
	"cmp"
	"slices"
)

// Member is one key of an object with its value. The key is spelled as a Go string, half of
// a surrogate pair in it as the three bytes that its number would have in UTF-8.
type Member struct {
	Key   string
	Value JSON

	text JSON // "key":value, where it lies in a document
}

// Object is a JSON object with its top-level members at hand; what is below them is bytes.
// The zero value has none. Nobody changes one: it shares with what it was made of.
type Object struct {
	text    JSON // nil: made when it is asked for
	members []Member
}

// ObjectOf is a value as an object. The value is canonical (Parse, or what this package made): only
// its top level is looked at.
func ObjectOf(v JSON) (Object, error) { return (*Meter)(nil).object(v) }

// Object is ObjectOf within a bound.
func (m *Meter) Object(v JSON) (o Object, err error) {
	defer m.catch(&err)
	return m.object(v)
}

// memberCost is what a member takes beside its key.
const memberCost = 64

// countFrom is from what length on the values of a document are counted before there is made a place for them.
const countFrom = 4 << 10

func (m *Meter) object(v JSON) (Object, error) {
	if len(v) == 0 || v[0] != '{' {
		return Object{}, malformed("the document is %s: must be one JSON object", kindOf(v))
	}
	n := min(len(v)/16, 64)
	if len(v) >= countFrom {
		m.count(len(v))
		n = 0
		for range spans(v) {
			n++
		}
	}
	m.count(len(v))
	m.make(n * memberCost)
	o := Object{text: v, members: make([]Member, 0, n)}
	size := 0
	for s := range spans(v) {
		o.members = append(o.members, Member{Value: v[s.value:s.to], text: v[s.from:s.to]})
		size += s.value - s.from - len(`"":`)
	}
	m.make(2 * size)
	keys := make([]byte, 0, size)
	for _, m := range o.members {
		keys = append(keys, m.text[1:len(m.text)-len(m.Value)-2]...)
	}
	all := string(keys) // one string for all keys
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

// NewObject is an object of these members, in any order; of equal keys the last counts.
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

// Len is how many members the object has.
func (o Object) Len() int { return len(o.members) }

// Members are those of the object, in the order of the bytes of their keys. They are not to be
// changed.
func (o Object) Members() []Member { return o.members }

// Get is the value of a key.
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

// JSON is the object in canonical form.
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

// size is about how long the object is.
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

// JSON is the object in canonical form, as an answer.
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

// span is where one member of an object lies in it, or one element of a list (then from is
// value).
type span struct{ from, value, to int }

// spans are those of the members of a canonical object.
func spans(v JSON) func(yield func(span) bool) {
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

// parts are the spans of the members of an object, or of the elements of a list.
func parts(v JSON) func(yield func(span) bool) {
	if v[0] == '{' {
		return spans(v)
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

// Elements are those of a canonical list, none of any other value.
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

// items are the elements of a canonical list.
func items(j JSON) func(yield func(JSON) bool) {
	return func(yield func(JSON) bool) {
		for s := range parts(j) {
			if !yield(j[s.value:s.to]) {
				return
			}
		}
	}
}

// Values counts the members and elements of a canonical value, at any depth.
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

// listOf is a list of these values.
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

// skip is where the value ends that begins at a place of a canonical document.
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

// skipString looks for the quote that ends a string: one before which stands an even number of
// backslashes.
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

// nests says which bytes matter to skipNested.
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
