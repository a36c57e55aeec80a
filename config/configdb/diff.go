package configdb

import (
	"slices"
	"strconv"
	"strings"
)

// The operations of a difference (RFC 6902).
const (
	OpAdd     = "add"
	OpRemove  = "remove"
	OpReplace = "replace"
)

// Difference is one step from one document to another. Its JSON is an operation of a JSON Patch.
type Difference struct {
	Op       string
	Path     []string // keys and list indices; none: the whole document
	Old, New JSON     // nil: none
}

// Diff returns the steps that change a into b, in order. It compares objects key by key, lists element by element after
// their common beginning and end are removed, and other values by their bytes: 1.0 differs from 1. Mask secrets before
// the comparison; a changed secret then shows no difference.
func Diff(a, b JSON) []Difference {
	var d differ
	d.diffValues(nil, a, b)
	return d.out
}

// Diff is the function Diff, limited by the meter.
func (m *Meter) Diff(a, b JSON) (out []Difference, err error) {
	defer m.catch(&err)
	d := differ{m: m}
	d.diffValues(nil, a, b)
	return d.out, nil
}

type differ struct {
	m    *Meter
	out  []Difference
	size int // of the answer, in bytes
}

func (d *differ) add(op string, path []string, older, newer JSON) {
	one := Difference{Op: op, Path: path, Old: older, New: newer}
	if d.size += one.pointerSize() + len(newer) + 64; d.size > MaxAnswer {
		d.m.answer(d.size)
	}
	d.m.count(32 + 16*len(path))
	if len(d.out) == cap(d.out) {
		d.m.make(96 * len(d.out))
		d.out = slices.Grow(d.out, len(d.out)+16)
	}
	d.out = append(d.out, one)
}

func (d *differ) diffValues(path []string, a, b JSON) {
	d.m.count(3 * (len(a) + len(b)))
	switch {
	case d.m.same(a, b):
	case len(a) == 0:
		d.add(OpAdd, path, nil, b)
	case len(b) == 0:
		d.add(OpRemove, path, a, nil)
	case a[0] == '{' && b[0] == '{' && !isMasked(a) && !isMasked(b):
		d.diffObjects(path, a, b)
	case a[0] == '[' && b[0] == '[':
		d.diffLists(path, d.m.elements(a), d.m.elements(b))
	default:
		d.add(OpReplace, path, a, b)
	}
}

func (d *differ) diffObjects(path []string, a, b JSON) {
	before, _ := d.m.object(a)
	after, _ := d.m.object(b)
	for _, m := range before.Members() {
		v, _ := after.Get(m.Key)
		d.diffValues(d.sub(path, m.Key), m.Value, v)
	}
	for _, m := range after.Members() {
		if _, had := before.Get(m.Key); !had {
			d.diffValues(d.sub(path, m.Key), nil, m.Value)
		}
	}
}

func (d *differ) diffLists(path []string, a, b []JSON) {
	first := 0
	for first < min(len(a), len(b)) && d.m.same(a[first], b[first]) {
		first++
	}
	for len(a) > first && len(b) > first && d.m.same(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	both := min(len(a), len(b))
	for i := first; i < both; i++ {
		d.diffValues(d.sub(path, strconv.Itoa(i)), a[i], b[i])
	}
	for i := len(a) - 1; i >= both; i-- { // from the end, so that the indices of the remaining steps stay valid
		d.add(OpRemove, d.sub(path, strconv.Itoa(i)), a[i], nil)
	}
	for i := both; i < len(b); i++ {
		d.add(OpAdd, d.sub(path, strconv.Itoa(i)), nil, b[i])
	}
}

func (d *differ) sub(path []string, key string) []string {
	d.m.make(16 * (len(path) + 1))
	return append(path[:len(path):len(path)], key)
}

var pointers = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer returns the path as a JSON Pointer (RFC 6901).
func (d Difference) Pointer() string {
	var b strings.Builder
	for _, key := range d.Path {
		b.WriteByte('/')
		b.WriteString(pointers.Replace(key))
	}
	return b.String()
}

// MarshalJSON returns the step as an operation of a JSON Patch.
func (d Difference) MarshalJSON() ([]byte, error) { return d.append(nil), nil }

func (d Difference) append(b []byte) []byte {
	b = append(append(b, `{"op":"`...), d.Op...)
	b = appendQuoted(append(b, `","path":`...), d.Pointer())
	if d.New != nil {
		b = append(append(b, `,"value":`...), d.New...)
	}
	return append(b, '}')
}

// Patch returns the steps as a JSON Patch. Its size is limited like that of an answer.
func (m *Meter) Patch(ds []Difference) (out JSON, err error) {
	defer m.catch(&err)
	size := 2
	for _, d := range ds {
		size += len(`{"op":"replace","path":"","value":},`) + len(d.New) + d.pointerSize()
	}
	m.answer(size)
	out = append(make(JSON, 0, size), '[')
	for i, d := range ds {
		if i > 0 {
			out = append(out, ',')
		}
		m.make(2 * d.pointerSize())
		out = d.append(out)
	}
	return append(out, ']'), nil
}

func (d Difference) pointerSize() int {
	size := 0
	for _, key := range d.Path {
		size += len(key) + 1
	}
	return size
}

// String formats the step in one line: "+ path: new", "- path: old" or "~ path: old -> new".
func (d Difference) String() string {
	switch d.Op {
	case OpAdd:
		return "+ " + formatPath(d.Path) + ": " + d.New.String()
	case OpRemove:
		return "- " + formatPath(d.Path) + ": " + d.Old.String()
	}
	return "~ " + formatPath(d.Path) + ": " + d.Old.String() + " -> " + d.New.String()
}
