package configdb

import (
	"errors"
	"strconv"
	"strings"
)

// oldDocument finds the old values of a document that a writer without permission to see its secrets has rewritten.
// List elements may have moved: everything in an element that is not secret identifies the old one. By index alone, the
// secret of one element could move to another.
type oldDocument struct {
	m        *Meter
	doc, old JSON
	masked   JSON                     // old as the writer saw it
	lists    map[string]*followedList // by path
}

// followedList maps the elements of a list to their old indices.
type followedList struct {
	now, shown, old []JSON
	was             []int // old index of each element; -1: new or ambiguous
}

var errNew = errors.New("an element that was not there before")

// at returns the old value for a path of the new document.
func (b *oldDocument) at(path []string) (v JSON, err error) {
	now, shown := b.doc, b.masked
	v = b.old
	for i, key := range path {
		if len(now) > 0 && now[0] == '[' {
			list := b.list(path[:i], now, shown, v)
			n, err := strconv.Atoi(key)
			if err != nil || n >= len(list.was) || list.was[n] < 0 || list.was[n] >= len(list.old) {
				return nil, errNew
			}
			now, v = list.now[n], list.old[list.was[n]]
			shown = list.shown[list.was[n]]
			continue
		}
		if now, err = b.m.At(now, path[i:i+1]); err != nil {
			return nil, err
		}
		if v, err = b.m.At(v, path[i:i+1]); err != nil {
			return nil, err
		}
		if shown, err = b.m.At(shown, path[i:i+1]); err != nil { // below a mask, the writer saw nothing
			shown = nil
		}
	}
	return v, nil
}

// list maps the elements of a list and caches the result.
func (b *oldDocument) list(path []string, now, shown, old JSON) *followedList {
	at := strings.Join(path, "\x00")
	if l, known := b.lists[at]; known {
		return l
	}
	l := &followedList{now: b.elements(now), shown: b.elements(shown), old: b.elements(old)}
	l.follow()
	b.lists[at] = l
	return l
}

// follow first matches elements that are equal at the same index, then equal elements that moved, and last, in a list
// of the same length, changed elements at the same index.
func (l *followedList) follow() {
	l.was = make([]int, len(l.now))
	taken := make([]bool, len(l.shown))
	here := len(l.now) == len(l.shown)
	left, gone := map[string][]int{}, map[string][]int{} // indices of the unmatched new and old elements, by text
	for i, e := range l.now {
		l.was[i] = -1
		if here && string(l.shown[i]) == string(e) {
			l.was[i], taken[i] = i, true
		} else {
			left[string(e)] = append(left[string(e)], i)
		}
	}
	for j, e := range l.shown {
		if !taken[j] {
			gone[string(e)] = append(gone[string(e)], j)
		}
	}
	var changed []int
	for text, kept := range left {
		switch had := gone[text]; {
		case len(had) == 0:
			changed = append(changed, kept...)
		case len(had) == len(kept): // otherwise it is ambiguous which of them were removed
			for n, i := range kept {
				l.was[i], taken[had[n]] = had[n], true
			}
		}
	}
	for _, i := range changed {
		if here && !taken[i] {
			l.was[i] = i
		}
	}
}

// elements returns the elements of a list, and nil for any other value.
func (b *oldDocument) elements(v JSON) (out []JSON) {
	if len(v) == 0 || v[0] != '[' {
		return nil
	}
	b.m.count(2 * len(v))
	for s := range parts(v) {
		b.m.make(64)
		out = append(out, v[s.value:s.to])
	}
	return out
}
