package configdb

import (
	"errors"
	"strconv"
	"strings"
)

// before finds what a document had before it was written anew by somebody who may not see its
// secrets. Elements of lists go and come: which of the old ones a new one is says all of it that
// is no secret. Taken by its index alone the secret of one would become another's.
type before struct {
	m        *Meter
	doc, old JSON
	masked   JSON                 // old as the writer was shown it
	lists    map[string]*followed // by their path
}

// followed is a list and what it was.
type followed struct {
	now, shown, old []JSON
	was             []int // the old index of each element; -1: it is new, or may be one of several
}

var errNew = errors.New("an element that was not there before")

// at is what the old document has at a path of the new one.
func (b *before) at(path []string) (v JSON, err error) {
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
		if shown, err = b.m.At(shown, path[i:i+1]); err != nil { // below a mask: nothing of it was shown
			shown = nil
		}
	}
	return v, nil
}

// list follows the elements of a list.
func (b *before) list(path []string, now, shown, old JSON) *followed {
	at := strings.Join(path, "\x00")
	if l, known := b.lists[at]; known {
		return l
	}
	l := &followed{now: b.elements(now), shown: b.elements(shown), old: b.elements(old)}
	l.follow()
	b.lists[at] = l
	return l
}

// follow finds the elements that say what they said at their place, then those that moved, and
// last, in a list of the same length, those that were changed where they are.
func (l *followed) follow() {
	l.was = make([]int, len(l.now))
	taken := make([]bool, len(l.shown))
	here := len(l.now) == len(l.shown)
	left, gone := map[string][]int{}, map[string][]int{} // of the new and the old ones
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
	for text, is := range left {
		switch had := gone[text]; {
		case len(had) == 0:
			changed = append(changed, is...)
		case len(had) == len(is): // else nobody knows which of them went
			for n, i := range is {
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

// elements are those of a list; none of anything else.
func (b *before) elements(v JSON) (out []JSON) {
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
