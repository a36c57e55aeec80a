package facts

import (
	"bytes"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// deep merges values as Puppet's deep strategy does, quirks included (reference §4.4): {} over
// something else leaves it, null leaves what is below it, false and null are
// replaced by anything, and what is new goes through the same rules as if it stood over itself.
type deep struct {
	MergeOptions
	key string // that is looked up, for messages
}

// merge goes from the highest to the lowest.
func (d deep) merge(values []JSON) (JSON, error) {
	if len(values) == 1 {
		return values[0], nil
	}
	out := &node{raw: values[0]}
	for _, v := range values[1:] {
		var err error
		if out, err = d.over(out, &node{raw: v}); err != nil {
			return nil, err
		}
	}
	return out.append(nil), nil
}

// over puts high over low.
func (d deep) over(high, low *node) (*node, error) {
	high.expand()
	low.expand()
	switch {
	case high.kind == 'n':
		return low, nil
	case low.kind == 'n' || low.kind == 'f':
		return high, nil
	case high.kind == '{' && len(high.keys) == 0:
		return low, nil
	case high.kind == '{' && low.kind == '{':
		return d.objects(high, low)
	case high.kind == '{':
		return d.replace(high)
	case high.kind == '[' && low.kind == '[':
		return d.lists(high, low)
	case high.kind == '[':
		return d.without(high), nil
	}
	return d.scalar(high), nil
}

func (d deep) objects(high, low *node) (*node, error) {
	out := &node{kind: '{', keys: slices.Clone(low.keys), subs: slices.Clone(low.subs), first: low.firstKey()}
	if len(low.keys) == 0 {
		out.first = high.firstKey()
	}
	for i, key := range high.keys {
		var v *node
		var err error
		if below := low.get(key); below != nil && below.truthy() {
			v, err = d.over(high.subs[i], below)
		} else {
			v, err = d.self(high.subs[i], false)
		}
		if err != nil {
			return nil, err
		}
		out.set(key, v)
	}
	return out, nil
}

// replace is an object that takes the place of something else. All keys but its first are
// merged with themselves.
func (d deep) replace(high *node) (*node, error) {
	out := &node{kind: '{', keys: high.keys, subs: slices.Clone(high.subs), first: high.firstKey()}
	for i, sub := range high.subs {
		if high.keys[i] == out.first {
			continue
		}
		v, err := d.self(sub, true)
		if err != nil {
			return nil, err
		}
		out.subs[i] = v
	}
	return out, nil
}

// self is a value over itself: same says that the original merges it with the very same list rather than
// with a copy, which is then changed under its hands.
func (d deep) self(n *node, same bool) (*node, error) {
	n.expand()
	switch n.kind {
	case 'n', 'f':
		return n, nil
	case '{':
		out := &node{kind: '{', keys: n.keys, subs: slices.Clone(n.subs), first: n.firstKey()}
		for i, sub := range n.subs {
			v, err := d.self(sub, true)
			if err != nil {
				return nil, err
			}
			out.subs[i] = v
		}
		return out, nil
	case '[':
		ours, theirs := n.subs, n.subs
		if same {
			ours = d.knockOutSame(n.subs)
			theirs = ours
		} else if d.KnockoutPrefix != "" {
			ours, theirs = d.knockOut(ours, theirs)
		}
		return d.join(ours, theirs, true)
	}
	return d.scalar(n), nil
}

// lists joins two lists, the elements of the lower first.
func (d deep) lists(high, low *node) (*node, error) {
	ours, theirs := high.subs, low.subs
	if d.KnockoutPrefix != "" {
		ours, theirs = d.knockOut(ours, theirs)
	}
	return d.join(ours, theirs, false)
}

// join is what is left of two lists in one; self says that they have the same elements.
func (d deep) join(ours, theirs []*node, self bool) (*node, error) {
	out := &node{kind: '['}
	if d.MergeHashArrays && allObjects(ours) && allObjects(theirs) {
		for i, low := range theirs {
			var err error
			switch {
			case i < len(ours) && self && ours[i] == low:
				low, err = d.self(low, true)
			case i < len(ours):
				low, err = d.over(ours[i], low)
			}
			if err != nil {
				return nil, err
			}
			out.subs = append(out.subs, low)
		}
		if len(ours) > len(theirs) {
			out.subs = append(out.subs, ours[len(theirs):]...)
		}
	} else {
		seen := map[string]bool{}
		for _, n := range slices.Concat(theirs, ours) {
			if id := identity(n.append(nil)); !seen[id] {
				seen[id] = true
				out.subs = append(out.subs, n)
			}
		}
	}
	if d.SortMergedArrays {
		return out, d.sort(out.subs)
	}
	return out, nil
}

func allObjects(ns []*node) bool {
	for _, n := range ns {
		if n.expand(); n.kind != '{' {
			return false
		}
	}
	return true
}

// knockOut takes the elements out of theirs that ours names behind the prefix, and those names
// out of ours; the prefix alone takes all.
func (d deep) knockOut(ours, theirs []*node) (left, rest []*node) {
	gone := map[string]bool{}
	for _, n := range ours {
		text, is := n.text()
		switch {
		case is && text == d.KnockoutPrefix:
			theirs = nil
		case is && d.unprefixed(text) != text:
			gone[text], gone[d.unprefixed(text)] = true, true
		default:
			left = append(left, n)
		}
	}
	for _, n := range theirs {
		if text, is := n.text(); !is || !gone[text] {
			rest = append(rest, n)
		}
	}
	return left, rest
}

// knockOutSame is knockOut of a list from itself, as it comes out where elements are taken from
// the list that is being gone through: those behind one that was taken are passed over.
func (d deep) knockOutSame(list []*node) []*node {
	if d.KnockoutPrefix == "" {
		return list
	}
	list = slices.Clone(list)
	if slices.ContainsFunc(list, func(n *node) bool { text, is := n.text(); return is && text == d.KnockoutPrefix }) {
		return nil
	}
	kept := 0
	for i := 0; i < len(list); i++ {
		text, is := list[i].text()
		if item := d.unprefixed(text); is && item != text {
			list = slices.DeleteFunc(list, func(n *node) bool { other, is := n.text(); return is && (other == item || other == text) })
			continue
		}
		list[kept] = list[i]
		kept++
	}
	return list[:min(kept, len(list))]
}

// without is a list without what would knock out.
func (d deep) without(list *node) *node {
	if d.KnockoutPrefix == "" {
		return list
	}
	left, _ := d.knockOut(list.subs, nil)
	return &node{kind: '[', subs: left}
}

// scalar is a scalar that takes the place of something else.
func (d deep) scalar(high *node) *node {
	if text, is := high.text(); is && d.KnockoutPrefix != "" && d.unprefixed(text) != text {
		return &node{raw: JSON(`""`)}
	}
	return high
}

// unprefixed is a text without the prefix, which may begin any of its lines.
func (d deep) unprefixed(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, d.KnockoutPrefix)
	}
	return strings.Join(lines, "\n")
}

// firstKey is the key of an object that was there first.
func (n *node) firstKey() string {
	if n.first == "" && len(n.keys) > 0 {
		return n.keys[0]
	}
	return n.first
}

func (n *node) text() (string, bool) { return n.raw.Text() }

func (n *node) truthy() bool {
	n.expand()
	return n.kind != 'n' && n.kind != 'f'
}

// sort puts elements into their order, if they have one.
func (d deep) sort(ns []*node) error {
	var fault error
	slices.SortStableFunc(ns, func(a, b *node) int {
		c, is := compare(a.append(nil), b.append(nil))
		if !is && fault == nil {
			fault = conflict("key %s: a merged list can't be sorted: %s stands beside %s: strings or numbers alone are allowed",
				d.key, kindOf(a.append(nil)), kindOf(b.append(nil)))
		}
		return c
	})
	return fault
}

// compare says which of two values is the larger, and false if that has no meaning.
func compare(a, b JSON) (int, bool) {
	x, isText := a.Text()
	y, both := b.Text()
	switch {
	case isText && both:
		return strings.Compare(x, y), true
	case isNumber(a) && isNumber(b):
		return number(a).Cmp(number(b)), true
	case a[0] == '[' && b[0] == '[':
		as, bs := a.Elements(), b.Elements()
		for i := range min(len(as), len(bs)) {
			if c, is := compare(as[i], bs[i]); c != 0 || !is {
				return c, is
			}
		}
		return len(as) - len(bs), true
	}
	return 0, same(a, b)
}

func isNumber(v JSON) bool { return v[0] == '-' || isDigit(v[0]) }

// isFloat tells the literals that Ruby reads as floats from its integers of any size.
func isFloat(v JSON) bool { return bytes.ContainsAny(v, ".eE") }

// number is a number as Ruby holds it.
func number(v JSON) *big.Float {
	if !isFloat(v) {
		i, _ := new(big.Int).SetString(string(v), 10)
		return new(big.Float).SetInt(i)
	}
	f, _ := strconv.ParseFloat(string(v), 64) // beyond the range it is infinite, in Ruby too
	return new(big.Float).SetFloat64(f)
}

// identity is equal for two values that Ruby's eql? holds to be equal: 1.0 and 1.00, but not 1.
func identity(v JSON) string {
	v = v.respelled()
	b := make([]byte, 0, len(v))
	for at := 0; at < len(v); {
		to := at + 1
		switch {
		case v[at] == '"':
			to = skipString(v, at)
			b = append(b, v[at:to]...)
		case isNumber(v[at:]):
			to = skip(v, at)
			b = append(b, plainNumber(v[at:to])...)
		default:
			b = append(b, v[at])
		}
		at = to
	}
	return string(b)
}

func plainNumber(v JSON) string {
	if string(v) == "-0" {
		return "0"
	}
	if !isFloat(v) {
		return string(v)
	}
	f, _ := strconv.ParseFloat(string(v), 64)
	if f == 0 {
		f = 0 // not -0.0
	}
	return strconv.FormatFloat(f, 'e', -1, 64)
}
