package configdb

import (
	"slices"
	"strconv"
)

// node is a value under change. Values that no operation enters remain bytes.
type node struct {
	raw  JSON // valid until the node is expanded
	kind byte // '{', '[' or the first byte of a scalar; 0: not expanded
	keys []string
	subs []*node

	first string // for deep: the key that was there before any merge; "" means keys[0]
	m     *Meter // the meter of the computation
}

// nodeCost is the approximate memory of a node in bytes, including its entry in the parent.
const nodeCost = 144

// expand creates the child nodes of an object or a list.
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
		if o, err := n.m.object(n.raw); err == nil {
			n.keys = make([]string, len(o.members))
			n.allocateChildren(len(o.members))
			for i := range o.members {
				n.keys[i], n.subs[i].raw = o.members[i].Key, o.members[i].Value
			}
		}
	case '[':
		vs := n.m.elements(n.raw)
		n.allocateChildren(len(vs))
		for i, v := range vs {
			n.subs[i].raw = v
		}
	}
}

// allocateChildren allocates the child nodes in one block.
func (n *node) allocateChildren(count int) {
	n.m.make(count * nodeCost)
	all := make([]node, count)
	n.subs = make([]*node, count)
	for i := range all {
		all[i].m = n.m
		n.subs[i] = &all[i]
	}
}

// acceptsKey reports whether a new key may be set in the node.
func (n *node) acceptsKey() bool { return n.kind == '{' }

// get returns the child at a key or index of an expanded node, or nil.
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

// keyOf returns the key or index of the i-th child of an expanded node.
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
	n.chargeMove(i)
	if len(n.subs) == cap(n.subs) {
		n.m.make(3 * 24 * len(n.subs))
	}
	n.keys, n.subs = slices.Insert(n.keys, i, key), slices.Insert(n.subs, i, v)
}

// chargeMove counts the machine words that an insertion or removal at an index moves: one pointer per child, and two
// words for the key of a member. Moving eight bytes costs no more than reading one.
func (n *node) chargeMove(from int) {
	words := 1
	if n.kind == '{' {
		words = 3
	}
	n.m.count(words * (len(n.subs) - from))
}

func (n *node) remove(key string) {
	i, found := n.find(key)
	if !found {
		return
	}
	n.chargeMove(i)
	n.subs = slices.Delete(n.subs, i, i+1)
	if n.kind == '{' {
		n.keys = slices.Delete(n.keys, i, i+1)
	}
}

// json returns the value. It does not copy bytes that were never expanded.
func (n *node) json() JSON {
	if n.kind != '{' && n.kind != '[' {
		return n.raw[:len(n.raw):len(n.raw)]
	}
	size := n.size()
	n.m.make(size)
	return n.append(make([]byte, 0, size))
}

// size returns a lower bound of the length of the value: it ignores escapes in keys.
func (n *node) size() int {
	if n.kind != '{' && n.kind != '[' {
		n.m.count(len(n.raw))
		return len(n.raw)
	}
	size := 1 + max(1, len(n.subs))
	for i, sub := range n.subs {
		if n.kind == '{' {
			size += len(n.keys[i]) + 3
		}
		size += sub.size()
	}
	n.m.count(size)
	return size
}

// append appends the value to b.
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
	return append(b, n.kind+2) // in ASCII, } and ] come two after { and [
}

// nesting returns the nesting depth of a canonical value.
func nesting(v JSON) int {
	limit, depth := 0, 0
	for at := 0; at < len(v); {
		switch n := nests[v[at]]; n {
		case 0:
			at++
		case 2:
			at = skipString(v, at)
		default:
			depth += int(n)
			limit = max(limit, depth)
			at++
		}
	}
	return limit
}
