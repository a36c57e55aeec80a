package pubsub

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Topic is a set of retained values, each under a scope and a key. It is safe for concurrent use.
type Topic[V any] struct {
	name    string
	journal Journal // nil: nothing is persisted
	encode  func(V) ([]byte, error)
	decode  func([]byte) (V, error)

	// holds is taken before mu, and only with a journal.
	holds keyLocks

	mu       sync.RWMutex
	retained map[string]map[string]slot[V] // by scope, key
	scoped   map[string][]*Subscription[V] // readers of one scope
	keyed    map[Ref][]*Subscription[V]    // readers of one key
	stemmed  map[string][]*Subscription[V] // readers of one stem in all scopes
	global   []*Subscription[V]            // readers of all scopes
	stems    map[string]map[Ref]bool       // the retained refs by stem; nil without WithStems
}

// slot is one retained value; an empty owner means that it is unclaimed.
type slot[V any] struct {
	owner string
	value V
}

// maybe is a value that may be absent.
type maybe[V any] struct {
	ok    bool
	value V
}

// equal reports whether a publish changes nothing. The value published first is kept.
func equal[V any](a, b V) bool { return reflect.DeepEqual(a, b) }

func some[V any](v V) maybe[V] { return maybe[V]{ok: true, value: v} }
func none[V any]() maybe[V]    { return maybe[V]{} }

// Option sets up a Topic.
type Option[V any] func(*Topic[V])

// WithJournal makes the topic persistent: each change is on disk before any reader sees it (docs/architecture.md, law
// 3). See Restore.
func WithJournal[V any](j Journal, encode func(V) ([]byte, error), decode func([]byte) (V, error)) Option[V] {
	return func(t *Topic[V]) { t.journal, t.encode, t.decode = j, encode, decode }
}

// WithStems indexes the values by the stem of their keys, the part before "#", so that a reader of one stem costs
// nothing for the others.
func WithStems[V any]() Option[V] {
	return func(t *Topic[V]) { t.stems = map[string]map[Ref]bool{} }
}

// stemOf returns the part of a key before "#".
func stemOf(key string) string {
	s, _, _ := strings.Cut(key, "#")
	return s
}

// NewTopic returns an empty topic. The name is that in the table of docs/protocol.md; it identifies the topic in errors
// and in the journal.
func NewTopic[V any](name string, opts ...Option[V]) *Topic[V] {
	t := &Topic[V]{
		name:     name,
		retained: map[string]map[string]slot[V]{},
		scoped:   map[string][]*Subscription[V]{},
		keyed:    map[Ref][]*Subscription[V]{},
		stemmed:  map[string][]*Subscription[V]{},
	}
	for _, o := range opts {
		o(t)
	}
	return t
}

// Name returns the topic's name.
func (t *Topic[V]) Name() string { return t.name }

// Get returns the retained value of a key.
func (t *Topic[V]) Get(scope, key string) (V, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s, ok := t.slot(Ref{scope, key})
	return s.value, ok
}

// List returns the retained values of one scope by key, in a new map.
func (t *Topic[V]) List(scope string) map[string]V {
	t.mu.RLock()
	defer t.mu.RUnlock()
	values := make(map[string]V, len(t.retained[scope]))
	for key, s := range t.retained[scope] {
		values[key] = s.value
	}
	return values
}

// All returns every retained value with its owner, by scope and then by key.
func (t *Topic[V]) All() []Entry[V] {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := 0
	for _, keys := range t.retained {
		n += len(keys)
	}
	entries := make([]Entry[V], 0, n)
	for scope, keys := range t.retained {
		for key, s := range keys {
			entries = append(entries, Entry[V]{Scope: scope, Key: key, Owner: s.owner, Value: s.value})
		}
	}
	slices.SortFunc(entries, func(a, b Entry[V]) int {
		return compareRefs(Ref{a.Scope, a.Key}, Ref{b.Scope, b.Key})
	})
	return entries
}

// ListStem returns the retained values of one stem in all scopes, by scope and then by key. The topic needs WithStems.
func (t *Topic[V]) ListStem(name string) []Entry[V] {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var entries []Entry[V]
	for _, r := range slices.SortedFunc(maps.Keys(t.stems[name]), compareRefs) {
		s, _ := t.slot(r)
		entries = append(entries, Entry[V]{Scope: r.Scope, Key: r.Key, Owner: s.owner, Value: s.value})
	}
	return entries
}

// The functions below are called with t.mu held.

func (t *Topic[V]) slot(r Ref) (slot[V], bool) {
	s, ok := t.retained[r.Scope][r.Key]
	return s, ok
}

func (t *Topic[V]) set(r Ref, s slot[V]) {
	keys := t.retained[r.Scope]
	if keys == nil {
		keys = map[string]slot[V]{}
		t.retained[r.Scope] = keys
	}
	keys[r.Key] = s
	if t.stems != nil {
		of := t.stems[stemOf(r.Key)]
		if of == nil {
			of = map[Ref]bool{}
			t.stems[stemOf(r.Key)] = of
		}
		of[r] = true
	}
}

func (t *Topic[V]) unset(r Ref) {
	delete(t.retained[r.Scope], r.Key)
	if len(t.retained[r.Scope]) == 0 {
		delete(t.retained, r.Scope) // scopes are UUIDs: they come and go forever
	}
	if of := t.stems[stemOf(r.Key)]; of != nil {
		if delete(of, r); len(of) == 0 {
			delete(t.stems, stemOf(r.Key))
		}
	}
}

// deliver notes a step with every reader of the ref, and appends those that must be woken to due.
func (t *Topic[V]) deliver(due []*Subscription[V], r Ref, from, to maybe[V], resent bool) []*Subscription[V] {
	for _, readers := range [...][]*Subscription[V]{t.scoped[r.Scope], t.keyed[r], t.stemmed[stemOf(r.Key)], t.global} {
		for _, s := range readers {
			if s.sel.matches(r) && s.note(r, from, to, resent) {
				if due == nil {
					due = make([]*Subscription[V], 0, len(readers))
				}
				due = append(due, s)
			}
		}
	}
	return due
}

func sortedRefs[V any](m map[Ref]V) []Ref {
	return slices.SortedFunc(maps.Keys(m), compareRefs)
}
