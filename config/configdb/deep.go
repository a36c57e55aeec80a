package configdb

import (
	"slices"
	"strings"
)

// deep merges values as Puppet's deep strategy does, quirks included (reference §4.4): {} and null over another value
// leave that value, any value replaces null and false, and a value without a counterpart below is merged with itself.
type deep struct {
	MergeOptions
	key string // the key of the lookup, for messages
	m   *Meter
}

// merge merges values, given from the highest to the lowest.
func (d deep) merge(values []JSON) (JSON, error) {
	if len(values) == 1 {
		return values[0], nil
	}
	out := &node{raw: values[0], m: d.m}
	for _, v := range values[1:] {
		var err error
		if out, err = d.mergeOver(out, &node{raw: v, m: d.m}); err != nil {
			return nil, err
		}
	}
	return out.json(), nil
}

// mergeOver merges high over low.
func (d deep) mergeOver(high, low *node) (*node, error) {
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
		return d.mergeObjects(high, low)
	case high.kind == '{':
		return d.replace(high)
	case high.kind == '[' && low.kind == '[':
		return d.mergeLists(high, low)
	case high.kind == '[':
		return d.withoutKnockouts(high), nil
	}
	return d.replaceScalar(high), nil
}

func (d deep) mergeObjects(high, low *node) (*node, error) {
	d.m.make(24 * len(low.keys))
	out := &node{kind: '{', keys: slices.Clone(low.keys), subs: slices.Clone(low.subs), first: low.firstKey(), m: d.m}
	if len(low.keys) == 0 {
		out.first = high.firstKey()
	}
	for i, key := range high.keys {
		var v *node
		var err error
		if below := low.get(key); below != nil && below.isTruthy() {
			v, err = d.mergeOver(high.subs[i], below)
		} else {
			v, err = d.mergeSelf(high.subs[i], false)
		}
		if err != nil {
			return nil, err
		}
		out.set(key, v)
	}
	return out, nil
}

// copyObject returns a copy of an object whose values can be replaced.
func (d deep) copyObject(n *node) *node {
	d.m.make(nodeCost + 8*len(n.subs))
	return &node{kind: '{', keys: n.keys, subs: slices.Clone(n.subs), first: n.firstKey(), m: d.m}
}

// replace returns an object that replaces a value of another type. All its values except that of its first key are
// merged with themselves.
func (d deep) replace(high *node) (*node, error) {
	out := d.copyObject(high)
	for i, sub := range high.subs {
		if high.keys[i] == out.first {
			continue
		}
		v, err := d.mergeSelf(sub, true)
		if err != nil {
			return nil, err
		}
		out.subs[i] = v
	}
	return out, nil
}

// mergeSelf merges a value with itself. same is set where the original merges a list with the identical list instead of
// a copy, so that it changes the list while iterating over it.
func (d deep) mergeSelf(n *node, same bool) (*node, error) {
	n.expand()
	switch n.kind {
	case 'n', 'f':
		return n, nil
	case '{':
		out := d.copyObject(n)
		for i, sub := range n.subs {
			v, err := d.mergeSelf(sub, true)
			if err != nil {
				return nil, err
			}
			out.subs[i] = v
		}
		return out, nil
	case '[':
		own, theirs := n.subs, n.subs
		if same {
			own = d.removeKnockedOutSelf(n.subs)
			theirs = own
		} else if d.KnockoutPrefix != "" {
			own, theirs = d.removeKnockedOut(own, theirs)
		}
		return d.join(own, theirs, true)
	}
	return d.replaceScalar(n), nil
}

// mergeLists joins two lists, with the elements of the lower one first.
func (d deep) mergeLists(high, low *node) (*node, error) {
	own, theirs := high.subs, low.subs
	if d.KnockoutPrefix != "" {
		own, theirs = d.removeKnockedOut(own, theirs)
	}
	return d.join(own, theirs, false)
}

// join joins two lists after knockout; self reports that both come from the same list.
func (d deep) join(own, theirs []*node, self bool) (*node, error) {
	d.m.make(nodeCost + 24*(len(own)+len(theirs)))
	out := &node{kind: '[', m: d.m}
	if d.MergeHashArrays && allObjects(own) && allObjects(theirs) {
		for i, low := range theirs {
			var err error
			switch {
			case i < len(own) && self && own[i] == low:
				low, err = d.mergeSelf(low, true)
			case i < len(own):
				low, err = d.mergeOver(own[i], low)
			}
			if err != nil {
				return nil, err
			}
			out.subs = append(out.subs, low)
		}
		if len(own) > len(theirs) {
			out.subs = append(out.subs, own[len(theirs):]...)
		}
	} else {
		seen := map[string]bool{}
		for _, n := range slices.Concat(theirs, own) {
			if id := d.m.identity(n.json()); !seen[id] {
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

// removeKnockedOut removes from theirs the elements that own names with the prefix, and removes those names from own.
// The prefix alone removes all elements of theirs.
func (d deep) removeKnockedOut(own, theirs []*node) (left, rest []*node) {
	gone := map[string]bool{}
	d.m.make(8 * (len(own) + len(theirs)))
	for _, n := range own {
		text, ok := n.text()
		switch {
		case ok && text == d.KnockoutPrefix:
			theirs = nil
		case ok && d.removePrefix(text) != text:
			d.m.make(128)
			gone[text], gone[d.removePrefix(text)] = true, true
		default:
			left = append(left, n)
		}
	}
	for _, n := range theirs {
		if text, ok := n.text(); !ok || !gone[text] {
			rest = append(rest, n)
		}
	}
	return left, rest
}

// removeKnockedOutSelf is knockOut of a list from itself with the original's result: the original deletes elements
// while it iterates over the list, so it skips the element after each deleted one.
func (d deep) removeKnockedOutSelf(list []*node) []*node {
	if d.KnockoutPrefix == "" {
		return list
	}
	type element struct {
		*node
		text string
		is   bool // a string
	}
	d.m.make(40 * len(list))
	all, times := make([]element, len(list)), map[string]int{}
	for i, n := range list {
		text, ok := n.text()
		if all[i] = (element{n, text, ok}); ok {
			d.m.make(64)
			times[text]++
		}
		if ok && text == d.KnockoutPrefix {
			return nil
		}
	}
	kept := 0
	for i := 0; i < len(all); i++ {
		e := all[i]
		item := d.removePrefix(e.text)
		if !e.is || item == e.text {
			if all[kept].is { // all[kept] is overwritten
				times[all[kept].text]--
			}
			if e.is {
				times[e.text]++
			}
			all[kept] = e
			kept++
			continue
		}
		goes := func(o element) bool { return o.is && (o.text == item || o.text == e.text) }
		if times[item] == 0 && times[e.text] == 1 { // only the element itself goes
			d.m.count(16 * (len(all) - i))
			all = slices.Delete(all, i, i+1)
		} else {
			d.m.count(16 * len(all))
			all = slices.DeleteFunc(all, goes)
		}
		times[item], times[e.text] = 0, 0
	}
	out := make([]*node, min(kept, len(all)))
	for i := range out {
		out[i] = all[i].node
	}
	return out
}

// withoutKnockouts returns a list without its knockout elements.
func (d deep) withoutKnockouts(list *node) *node {
	if d.KnockoutPrefix == "" {
		return list
	}
	left, _ := d.removeKnockedOut(list.subs, nil)
	return &node{kind: '[', subs: left, m: d.m}
}

// replaceScalar returns a scalar that replaces another value; one with the knockout prefix becomes "".
func (d deep) replaceScalar(high *node) *node {
	if text, ok := high.text(); ok && d.KnockoutPrefix != "" && d.removePrefix(text) != text {
		return &node{raw: JSON(`""`), m: d.m}
	}
	return high
}

// removePrefix removes the prefix from the start of each line of a text.
func (d deep) removePrefix(text string) string {
	if d.m.count(len(text)); !strings.Contains(text, d.KnockoutPrefix) {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, d.KnockoutPrefix)
	}
	return strings.Join(lines, "\n")
}

// firstKey returns the key that the object had before any merge added others.
func (n *node) firstKey() string {
	if n.first == "" && len(n.keys) > 0 {
		return n.keys[0]
	}
	return n.first
}

func (n *node) text() (string, bool) {
	n.m.make(len(n.raw))
	n.m.count(len(n.raw))
	return n.raw.Text()
}

func (n *node) isTruthy() bool {
	n.expand()
	return n.kind != 'n' && n.kind != 'f'
}
