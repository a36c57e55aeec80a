package facts

import (
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
	Path     []string // keys and indices of lists; none: the whole document
	Old, New JSON     // nil where there is none
}

// Diff are the steps that make b of a, in their order: objects are compared key by key, lists element by
// element between what is equal at their beginnings and ends, anything else by its bytes: 1.0 is not 1. Secrets
// are to be masked before; one that has changed then shows no difference.
func Diff(a, b JSON) []Difference {
	var d differ
	d.value(nil, a, b)
	return d.out
}

type differ struct{ out []Difference }

func (d *differ) add(op string, path []string, older, newer JSON) {
	d.out = append(d.out, Difference{Op: op, Path: path, Old: older, New: newer})
}

func (d *differ) value(path []string, a, b JSON) {
	switch {
	case same(a, b):
	case len(a) == 0:
		d.add(OpAdd, path, nil, b)
	case len(b) == 0:
		d.add(OpRemove, path, a, nil)
	case a[0] == '{' && b[0] == '{' && !isMasked(a) && !isMasked(b):
		d.objects(path, a, b)
	case a[0] == '[' && b[0] == '[':
		d.lists(path, a.Elements(), b.Elements())
	default:
		d.add(OpReplace, path, a, b)
	}
}

func (d *differ) objects(path []string, a, b JSON) {
	before, _ := ObjectOf(a)
	after, _ := ObjectOf(b)
	for _, m := range before.Members() {
		v, _ := after.Get(m.Key)
		d.value(sub(path, m.Key), m.Value, v)
	}
	for _, m := range after.Members() {
		if _, had := before.Get(m.Key); !had {
			d.value(sub(path, m.Key), nil, m.Value)
		}
	}
}

func (d *differ) lists(path []string, a, b []JSON) {
	first := 0
	for first < min(len(a), len(b)) && same(a[first], b[first]) {
		first++
	}
	for len(a) > first && len(b) > first && same(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	both := min(len(a), len(b))
	for i := first; i < both; i++ {
		d.value(sub(path, strconv.Itoa(i)), a[i], b[i])
	}
	for i := len(a) - 1; i >= both; i-- { // from the end, so that no index moves
		d.add(OpRemove, sub(path, strconv.Itoa(i)), a[i], nil)
	}
	for i := both; i < len(b); i++ {
		d.add(OpAdd, sub(path, strconv.Itoa(i)), nil, b[i])
	}
}

func sub(path []string, key string) []string { return append(path[:len(path):len(path)], key) }

// Pointer is the path as a JSON Pointer (RFC 6901).
func (d Difference) Pointer() string {
	var b strings.Builder
	for _, key := range d.Path {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String()
}

// MarshalJSON is the step as an operation of a JSON Patch.
func (d Difference) MarshalJSON() ([]byte, error) {
	ms := []Member{{Key: "op", Value: Quote(d.Op)}, {Key: "path", Value: Quote(d.Pointer())}}
	if d.New != nil {
		ms = append(ms, Member{Key: "value", Value: d.New})
	}
	return NewObject(ms).JSON(), nil
}

// String is the step in one line for a person: "+ path: new", "- path: old", "~ path: old -> new".
func (d Difference) String() string {
	switch d.Op {
	case OpAdd:
		return "+ " + spell(d.Path) + ": " + d.New.String()
	case OpRemove:
		return "- " + spell(d.Path) + ": " + d.Old.String()
	}
	return "~ " + spell(d.Path) + ": " + d.Old.String() + " -> " + d.New.String()
}
