package facts

import (
	"slices"
	"strconv"
)

// node is a value that is being changed. What nobody looks into stays bytes.
type node struct {
	raw  JSON // until it is expanded
	kind byte // '{', '[' or another's first byte; 0: not looked at yet
	keys []string
	subs []*node

	first string // of deep: the key that was there first; "" is keys[0]
}

// expand makes the members or elements of a node, as nodes of their own.
func (n *node) expand() {
	if n.kind != 0 {
		return
	}
	n.kind = 'n'
	if len(n.raw) > 0 {
		n.kind = n.raw[0]
	}
	switch n.kind {
	case '{':
		if o, err := ObjectOf(n.raw); err == nil {
			for _, m := range o.members {
				n.keys, n.subs = append(n.keys, m.Key), append(n.subs, &node{raw: m.Value})
			}
		}
	case '[':
		for _, v := range n.raw.Elements() {
			n.subs = append(n.subs, &node{raw: v})
		}
	}
}

// takes says whether a key that is not there may be set.
func (n *node) takes() bool { return n.kind == '{' }

// get is what an expanded node has at a key or index; nil for nothing.
func (n *node) get(key string) *node {
	if i, found := n.find(key); found {
		return n.subs[i]
	}
	return nil
}

func (n *node) find(key string) (int, bool) {
	switch n.kind {
	case '{':
		return slices.BinarySearch(n.keys, key)
	case '[':
		return listIndex(key, len(n.subs))
	}
	return 0, false
}

// keyOf is the key, or the index, of the i-th value of an expanded node.
func (n *node) keyOf(i int) string {
	if n.kind == '[' {
		return strconv.Itoa(i)
	}
	return n.keys[i]
}

func (n *node) set(key string, v *node) {
	i, found := n.find(key)
	if found {
		n.subs[i] = v
		return
	}
	n.keys, n.subs = slices.Insert(n.keys, i, key), slices.Insert(n.subs, i, v)
}

func (n *node) remove(key string) {
	i, found := n.find(key)
	if !found {
		return
	}
	n.subs = slices.Delete(n.subs, i, i+1)
	if n.kind == '{' {
		n.keys = slices.Delete(n.keys, i, i+1)
	}
}

// append writes the value.
func (n *node) append(b []byte) []byte {
	if n.kind != '{' && n.kind != '[' {
		return append(b, n.raw...)
	}
	b = append(b, n.kind)
	for i, sub := range n.subs {
		if i > 0 {
			b = append(b, ',')
		}
		if n.kind == '{' {
			b = append(appendQuoted(b, n.keys[i]), ':')
		}
		b = sub.append(b)
	}
	return append(b, n.kind+2) // } and ] stand two after { and [
}

// nesting is how deep a canonical value is nested.
func nesting(v JSON) int {
	most, depth := 0, 0
	for at := 0; at < len(v); {
		switch n := nests[v[at]]; n {
		case 0:
			at++
		case 2:
			at = skipString(v, at)
		default:
			depth += int(n)
			most = max(most, depth)
			at++
		}
	}
	return most
}
