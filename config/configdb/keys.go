package configdb

import (
	"strconv"
	"strings"

	"edgespan/config"
)

// KeysOp is the kind of a keys operation.
type KeysOp string

// The keys operations (seed's reference §1.5).
const (
	KeysGet    KeysOp = "get"
	KeysSet    KeysOp = "set"
	KeysDelete KeysOp = "delete"
)

// KeysEdit is a batch of one operation. Its items are applied in order, all or none. Each item is a path of keys and
// list indices; with set, the value follows the path.
type KeysEdit struct {
	Op    KeysOp
	Items [][]JSON
}

// MaxPaths is the maximum number of paths of a keys operation.
const MaxPaths = 10_000

// KeysEditOf parses the body of a keys operation: a list of paths.
func KeysEditOf(op KeysOp, v JSON) (KeysEdit, error) {
	if op != KeysGet && op != KeysSet && op != KeysDelete {
		return KeysEdit{}, malformed("Unknown operation: %s: must be get, set or delete", showValue(JSON(op)))
	}
	if v[0] != '[' {
		return KeysEdit{}, malformed("the keys are %s: must be a list of paths, each a list of keys", kindOf(v))
	}
	e := KeysEdit{Op: op}
	items := v.Elements()
	if len(items) > MaxPaths {
		return KeysEdit{}, tooLarge("too many paths (%d): must be at most %d", len(items), MaxPaths)
	}
	for i, item := range items {
		if item[0] != '[' {
			return KeysEdit{}, malformed("path %d is %s: must be a list of keys", i, kindOf(item))
		}
		path := item.Elements()
		keys := path
		if op == KeysSet && len(path) > 0 {
			keys = path[:len(path)-1]
		}
		if _, err := keyTexts(keys); err != nil {
			return KeysEdit{}, malformed("path %d: %v", i, err)
		}
		e.Items = append(e.Items, path)
	}
	return e, nil
}

// keyTexts returns keys as strings; an integer is a list index or a key of that spelling.
func keyTexts(keys []JSON) ([]string, error) {
	out := make([]string, len(keys))
	for i, k := range keys {
		text, ok := k.Text()
		if !ok {
			text = string(k)
			ok = text != "" && strings.Trim(text, "-0123456789") == ""
		}
		if !ok {
			return nil, malformed("key %d is %s: must be a string or an integer", i, kindOf(k))
		}
		out[i] = text
	}
	return out, nil
}

// Apply returns doc after the operation. A missing document (nil or null) counts as {}. On an error doc is unchanged;
// for an edit from KeysEditOf the error is always of kind Conflict. Get changes nothing.
func (e KeysEdit) Apply(doc JSON) (JSON, error) { return (*Meter)(nil).Apply(e, doc) }

// Apply is KeysEdit.Apply, limited by the meter.
func (m *Meter) Apply(e KeysEdit, doc JSON) (out JSON, err error) {
	defer m.catch(&err)
	if e.Op == KeysGet || len(e.Items) == 0 {
		return doc, nil
	}
	root := &node{raw: doc, m: m}
	if len(doc) == 0 || doc[0] == 'n' {
		root.raw = JSON("{}")
	}
	changed := false
	for _, item := range e.Items {
		if e.Op == KeysDelete && len(item) == 0 {
			continue // as the original does
		}
		var value JSON
		keys := item
		if e.Op == KeysSet {
			if len(item) < 2 {
				return nil, conflict("Keys path %s invalid. Keys path should contain at least one key and value",
					showValue(listOf(item)))
			}
			keys, value = item[:len(item)-1], item[len(item)-1]
		}
		path, err := keyTexts(keys)
		if err != nil {
			return nil, err
		}
		if err := root.edit(path, value); err != nil {
			return nil, err
		}
		changed = true
	}
	if !changed {
		return doc, nil
	}
	out = root.json()
	if nesting(out) > MaxDepth {
		return nil, conflict("the document would be nested too deep: must be at most %d levels", MaxDepth)
	}
	return out, nil
}

// edit sets the value at a path, or removes it if value is nil.
func (n *node) edit(path []string, value JSON) error {
	for i, key := range path[:len(path)-1] {
		next, err := n.step(path, i, key)
		if err != nil {
			return err
		}
		n = next
	}
	last := len(path) - 1
	if _, err := n.step(path, last, path[last]); err != nil && (value == nil || !n.acceptsKey()) {
		return err
	}
	if value == nil {
		n.remove(path[last])
		return nil
	}
	n.m.make(nodeCost)
	n.set(path[last], &node{raw: value, m: n.m})
	return nil
}

// step returns the child at key of the node at path[:i].
func (n *node) step(path []string, i int, key string) (*node, error) {
	n.expand()
	if n.kind != '{' && n.kind != '[' && len(n.raw) > 0 {
		return nil, unreachable(path, i, n.raw)
	}
	if below := n.get(key); below != nil {
		return below, nil
	}
	return nil, notExisting(path, key)
}

// Get returns the values at the paths of a get; an empty path selects the whole document.
func (e KeysEdit) Get(doc JSON) ([]JSON, error) { return (*Meter)(nil).Get(e, doc) }

// Get is KeysEdit.Get, limited by the meter. The limit includes the size of the answer, since a request may repeat a
// path.
func (m *Meter) Get(e KeysEdit, doc JSON) (out []JSON, err error) {
	defer m.catch(&err)
	out = make([]JSON, len(e.Items))
	root := &node{raw: doc, m: m}
	size := 0
	for i, item := range e.Items {
		path, err := keyTexts(item)
		if err != nil {
			return nil, err
		}
		m.count(64)
		at := root
		for j, key := range path {
			if at, err = at.step(path, j, key); err != nil {
				return nil, err
			}
		}
		if out[i] = at.raw; out[i] == nil {
			out[i] = JSON("null")
		}
		if size += len(out[i]) + 1; size > MaxAnswer {
			m.answer(size)
		}
	}
	return out, nil
}

// ParseKey splits a dotted key into a path. Digits index a list; a key that contains a dot can't be written (seed's
// reference §1.2).
func ParseKey(key string) []string { return strings.Split(key, ".") }

// At returns the value at a path of keys and list indices. The error is of kind Conflict and names the path and the key
// that failed.
func At(doc JSON, path []string) (JSON, error) { return (*Meter)(nil).At(doc, path) }

// At is the function At, limited by the meter.
func (m *Meter) At(doc JSON, path []string) (v JSON, err error) {
	defer m.catch(&err)
	v = doc
	for i, key := range path {
		switch below, found := m.child(v, key); {
		case found:
			v = below
		case len(v) > 0 && v[0] != '{' && v[0] != '[':
			return nil, unreachable(path, i, v)
		default:
			return nil, notExisting(path, key)
		}
	}
	return v, nil
}

// child returns the value at a key of an object or at an index of a list.
func (m *Meter) child(v JSON, key string) (JSON, bool) {
	if len(v) == 0 {
		return nil, false
	}
	m.count(len(v))
	switch v[0] {
	case '{':
		for s := range memberSpans(v) {
			if k := v[s.from+1 : s.value-2]; len(k) >= len(key) && unquote(k) == key {
				return v[s.value:s.to], true
			}
		}
	case '[':
		i, ok := listIndex(key, len(v))
		if !ok {
			return nil, false
		}
		for e := range items(v) {
			if i == 0 {
				return e, true
			}
			i--
		}
	}
	return nil, false
}

// listIndex parses an index of a list with n elements.
func listIndex(key string, n int) (int, bool) {
	i, err := strconv.Atoi(key)
	if err != nil || i < 0 || i >= n || !isDigit(key[0]) {
		return 0, false
	}
	return i, true
}

func notExisting(path []string, key string) *Error {
	return conflict("Keys path doesn't exist %s. Failed on the key %s", pathText(path), config.Truncate(key, shownPath))
}

func unreachable(path []string, i int, leaf JSON) *Error {
	on := "the document"
	if i > 0 {
		on = path[i-1]
	}
	const text = "Leaf value %s found on key %s in keys path %s"
	err := conflict(text, showValue(leaf), config.Truncate(on, shownPath), pathText(path))
	err.path, err.leaf = path[:i], leaf
	err.hide = conflict(text, kindOf(leaf), config.Truncate(on, shownPath), pathText(path)).Text
	return err
}

// shownPath is the approximate number of bytes of a path that a message shows.
const shownPath = 512

// pathText formats a path as the list that a client sends.
func pathText(path []string) string {
	var keys []JSON
	for size, i := 0, 0; i < len(path) && size < shownPath; i++ { // a path from a request may have megabytes
		key := Quote(config.Truncate(path[i], shownPath))
		keys, size = append(keys, key), size+len(key)
	}
	if len(keys) < len(path) {
		keys = append(keys, JSON("…"))
	}
	return string(listOf(keys))
}
