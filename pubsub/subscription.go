package pubsub

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Selector selects the keys of a subscription: those of one scope or of all scopes, filtered by Match. A nil Match
// accepts every key. Match is called under the topic's lock: it must be pure and fast, and must not use topics.
//
// Every change calls each Match of its scope, and each Match for all scopes. If there is a subscription per network or
// app, use Key, which selects one key of a scope, or Stem, which selects the keys of all scopes that have it before
// their "#": they are looked up without calling other subscriptions (WithStems).
type Selector struct {
	Scope     string
	AllScopes bool
	Match     func(scope, key string) bool
	Key       string
	Stem      string
}

func (s Selector) matches(r Ref) bool {
	return (s.AllScopes || s.Stem != "" || s.Scope == r.Scope) && (s.Key == "" || s.Key == r.Key) &&
		(s.Stem == "" || s.Stem == stemOf(r.Key)) && (s.Match == nil || s.Match(r.Scope, r.Key))
}

// The states of a subscription's signal. Between two Drains it goes from quiet to due with the first change, and from
// due to rung by whichever publisher calls wake, so that wake is called once, however many publishers race.
const (
	signalNone int32 = iota
	signalDue
	signalSent
)

// Subscription is one reader's view of a topic. It holds at most one pending entry per key, however slow the reader is,
// and no other values.
type Subscription[V any] struct {
	topic  *Topic[V]
	sel    Selector
	wake   func()
	signal atomic.Int32

	mu          sync.Mutex // taken after the topic's
	pending     map[Ref]*entry[V]
	first, last *entry[V] // by first touch
}

// entry is what a reader has not received yet about one key: the value that it got last, and the value that is retained
// now.
type entry[V any] struct {
	ref        Ref
	mark       bool // the end of the replay, not a key
	from, to   maybe[V]
	resent     bool
	prev, next *entry[V]
}

// Subscribe starts a view of the selected keys. The retained values are its first changes, Created by scope and then by
// key; Synchronized follows.
//
// wake signals that Drain has something to return. It is called at most once between two Drains, in the publisher's
// goroutine without a lock held, and once for the replay, usually before Subscribe returns. It must be cheap and never
// block. A nil wake is for a reader that polls.
func (t *Topic[V]) Subscribe(sel Selector, wake func()) *Subscription[V] {
	s := &Subscription[V]{topic: t, sel: sel, wake: wake}
	t.attach(s)
	wakeReaders([]*Subscription[V]{s})
	return s
}

func (t *Topic[V]) attach(s *Subscription[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	replay := t.selectValues(s.sel)
	for _, r := range sortedRefs(replay) {
		s.note(r, none[V](), some(replay[r]), false)
	}
	s.push(&entry[V]{mark: true})
	s.signal.Store(signalDue)
	t.changeReaders(s.sel, func(readers []*Subscription[V]) []*Subscription[V] { return append(readers, s) })
}

// selectValues returns the selected values.
func (t *Topic[V]) selectValues(sel Selector) map[Ref]V {
	found := map[Ref]V{}
	of := func(scope, key string, v slot[V]) {
		if r := (Ref{scope, key}); sel.matches(r) {
			found[r] = v.value
		}
	}
	switch {
	case sel.Stem != "" && t.stems != nil:
		for r := range t.stems[sel.Stem] {
			of(r.Scope, r.Key, t.retained[r.Scope][r.Key])
		}
	case sel.AllScopes || sel.Stem != "":
		for scope, keys := range t.retained {
			for key, v := range keys {
				of(scope, key, v)
			}
		}
	case sel.Key != "":
		if v, ok := t.retained[sel.Scope][sel.Key]; ok {
			of(sel.Scope, sel.Key, v)
		}
	default:
		for key, v := range t.retained[sel.Scope] {
			of(sel.Scope, key, v)
		}
	}
	return found
}

// changeReaders changes the list that holds a selector's subscription.
func (t *Topic[V]) changeReaders(sel Selector, change func([]*Subscription[V]) []*Subscription[V]) {
	switch {
	case sel.Stem != "":
		changeList(t.stemmed, sel.Stem, change)
	case sel.AllScopes:
		t.global = change(t.global)
	case sel.Key != "":
		changeList(t.keyed, Ref{sel.Scope, sel.Key}, change)
	default:
		changeList(t.scoped, sel.Scope, change)
	}
}

func changeList[K comparable, V any](lists map[K][]*Subscription[V], k K,
	change func([]*Subscription[V]) []*Subscription[V]) {
	if lists[k] = change(lists[k]); len(lists[k]) == 0 {
		delete(lists, k)
	}
}

// Drain returns the changes since the last Drain, at most one per key, in the order in which keys were first changed.
// It returns nil if the changes cancel out: a key created and deleted, or a value changed and changed back.
func (s *Subscription[V]) Drain() []Change[V] {
	first, n := s.drain()
	if first == nil {
		return nil
	}
	changes := make([]Change[V], 0, n)
	for e := first; e != nil; e = e.next {
		if c, ok := e.change(); ok {
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return changes
}

// Close ends the view: Drain then returns nothing. A wake in flight when Close is called may still come. Close may be
// called repeatedly.
func (s *Subscription[V]) Close() {
	s.topic.detach(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.first, s.last = nil, nil, nil
	s.signal.Store(signalNone)
}

// detach removes a reader; note runs under the same lock.
func (t *Topic[V]) detach(s *Subscription[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changeReaders(s.sel, func(readers []*Subscription[V]) []*Subscription[V] {
		return slices.DeleteFunc(readers, func(other *Subscription[V]) bool { return other == s })
	})
}

// note merges one step of a key into the view and reports whether the reader must be woken. The caller holds the
// topic's lock, so that steps come in order.
func (s *Subscription[V]) note(r Ref, from, to maybe[V], resent bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.pending[r]
	if e == nil {
		// The reader was up to date on this key: it got last what was retained until now.
		e = &entry[V]{ref: r, from: from}
		if s.pending == nil {
			s.pending = map[Ref]*entry[V]{}
		}
		s.pending[r] = e
		s.push(e)
	}
	e.to, e.resent = to, e.resent || resent
	if !e.from.ok && !e.to.ok {
		// Drop it at once, so that keys that come and go do not accumulate for a reader that does not drain.
		delete(s.pending, r)
		s.unlink(e)
	}
	if s.first == nil {
		return false
	}
	s.signal.CompareAndSwap(signalNone, signalDue)
	return s.signal.Load() == signalDue
}

// roomToKeep is the number of entries up to which the map is reused: clearing one that a burst enlarged would slow down
// every later Drain.
const roomToKeep = 64

func (s *Subscription[V]) drain() (first *entry[V], n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, n = s.first, len(s.pending)+1
	s.first, s.last = nil, nil
	if len(s.pending) > roomToKeep {
		s.pending = nil
	} else {
		clear(s.pending)
	}
	s.signal.Store(signalNone)
	return first, n
}

func (s *Subscription[V]) push(e *entry[V]) {
	e.prev = s.last
	if s.last == nil {
		s.first = e
	} else {
		s.last.next = e
	}
	s.last = e
}

func (s *Subscription[V]) unlink(e *entry[V]) {
	if e.prev == nil {
		s.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		s.last = e.prev
	} else {
		e.next.prev = e.prev
	}
}

// change returns the change of an entry, if there is one.
func (e *entry[V]) change() (Change[V], bool) {
	c := Change[V]{Scope: e.ref.Scope, Key: e.ref.Key, Old: e.from.value, New: e.to.value}
	switch {
	case e.mark:
		return Change[V]{Kind: Synchronized}, true
	case !e.from.ok:
		c.Kind = Created
	case !e.to.ok:
		c.Kind = Deleted
	case !e.resent && equal(e.from.value, e.to.value):
		return c, false
	default:
		c.Kind = Modified
	}
	return c, true
}

// wakeReaders wakes readers; no lock is held. It skips a reader that drained meanwhile, or that another publisher has
// woken.
func wakeReaders[V any](readers []*Subscription[V]) {
	for _, s := range readers {
		if s.signal.CompareAndSwap(signalDue, signalSent) && s.wake != nil {
			s.wake()
		}
	}
}
