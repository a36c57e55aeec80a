package pubsub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrNotRetained reports a Resend of a key without a value.
var ErrNotRetained = errors.New("no value is retained")

// Publisher changes the keys of one owner. Its only state is the owner's name: an actor that crashed and restarted with
// the same name simply continues. It is safe for concurrent use.
type Publisher[V any] struct {
	topic *Topic[V]
	owner string
}

// Publisher returns the publisher of an owner. It panics on an empty name, which would own keys without an owner.
func (t *Topic[V]) Publisher(owner string) *Publisher[V] {
	if owner == "" {
		panic("pubsub: publisher of " + t.name + " without an owner")
	}
	return &Publisher[V]{topic: t, owner: owner}
}

// Publish retains a value and notifies the readers of its key. A value equal to the retained one causes no event, but
// claims a key without an owner. With a journal the value is on disk before any reader sees it; if that fails, topic
// and readers are unchanged. *OwnedError: another owner has the key.
func (p *Publisher[V]) Publish(scope, key string, v V) error {
	due, err := p.topic.put(p.owner, Ref{scope, key}, v)
	wakeReaders(due)
	return err
}

// Unpublish withdraws a value. An absent key is no error and causes no event. *OwnedError: another owner has the key; a
// key without an owner may be withdrawn.
func (p *Publisher[V]) Unpublish(scope, key string) error {
	due, err := p.topic.drop(p.owner, Ref{scope, key})
	wakeReaders(due)
	return err
}

// Resend delivers a key's retained value to its readers again, for the handshake of docs/protocol.md, where an equal
// publish would cause no event. ErrNotRetained: the key has no value; *OwnedError: another owner has it.
func (p *Publisher[V]) Resend(scope, key string) error {
	due, err := p.topic.resend(p.owner, Ref{scope, key})
	wakeReaders(due)
	return err
}

// Adopt makes this owner that of a retained key, regardless of its current owner. It is for keys whose owner has gone:
// the router adopts the status keys of a dead bridge manager, and a new manager adopts its own again. It causes no
// event, and an absent key remains absent.
func (p *Publisher[V]) Adopt(scope, key string) {
	p.topic.transfer(Ref{scope, key}, p.owner)
}

// AdoptAll makes this owner that of every key of a scope, including keys without an owner, and returns their refs in
// the order of their keys.
func (p *Publisher[V]) AdoptAll(scope string) []Ref {
	var taken []Ref
	p.topic.mu.RLock()
	keys := slices.Sorted(maps.Keys(p.topic.retained[scope]))
	p.topic.mu.RUnlock()
	for _, key := range keys {
		if r := (Ref{scope, key}); p.topic.transfer(r, p.owner) {
			taken = append(taken, r)
		}
	}
	return taken
}

// transfer gives a key to another owner and reports whether it exists. It waits for a write of the key in flight, so
// that no change of the old owner takes effect afterwards.
func (t *Topic[V]) transfer(r Ref, to string) bool {
	if t.journal != nil {
		t.holds.acquire(r)
		defer t.holds.release(r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.slot(r)
	if !ok {
		return false
	}
	s.owner = to
	t.set(r, s)
	return true
}

func (t *Topic[V]) put(owner string, r Ref, v V) ([]*Subscription[V], error) {
	if t.journal != nil {
		t.holds.acquire(r)
		defer t.holds.release(r)
		if err := t.store(owner, r, v); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, was := t.slot(r)
	if err := t.refuse(owner, r, s); err != nil {
		return nil, err
	}
	if was && equal(s.value, v) {
		t.set(r, slot[V]{owner: owner, value: s.value})
		return nil, nil
	}
	t.set(r, slot[V]{owner: owner, value: v})
	return t.deliver(nil, r, maybe[V]{was, s.value}, some(v), false), nil
}

// store writes a value to the journal if it changes anything. The key's hold ensures that the checks are still valid
// when the value is retained.
func (t *Topic[V]) store(owner string, r Ref, v V) error {
	t.mu.RLock()
	s, was := t.slot(r)
	t.mu.RUnlock()
	if err := t.refuse(owner, r, s); err != nil {
		return err
	}
	if was && equal(s.value, v) {
		return nil
	}
	data, err := t.encode(v)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", t.name, r, err)
	}
	if err := t.journal.Put(t.name, journalKey(r), data); err != nil {
		return fmt.Errorf("store %s %s: %w", t.name, r, err)
	}
	return nil
}

func (t *Topic[V]) drop(owner string, r Ref) ([]*Subscription[V], error) {
	if t.journal != nil {
		t.holds.acquire(r)
		defer t.holds.release(r)
		if err := t.erase(owner, r); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, was := t.slot(r)
	if err := t.refuse(owner, r, s); err != nil || !was {
		return nil, err
	}
	t.unset(r)
	return t.deliver(nil, r, some(s.value), none[V](), false), nil
}

// erase removes a value from the journal before readers are notified: in the other order, a power cut would restore
// what they saw removed.
func (t *Topic[V]) erase(owner string, r Ref) error {
	t.mu.RLock()
	s, was := t.slot(r)
	t.mu.RUnlock()
	if err := t.refuse(owner, r, s); err != nil || !was {
		return err
	}
	if err := t.journal.Delete(t.name, journalKey(r)); err != nil {
		return fmt.Errorf("erase %s %s: %w", t.name, r, err)
	}
	return nil
}

func (t *Topic[V]) resend(owner string, r Ref) ([]*Subscription[V], error) {
	if t.journal != nil { // it may claim the key, so no other change may be in flight
		t.holds.acquire(r)
		defer t.holds.release(r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, was := t.slot(r)
	if !was {
		return nil, fmt.Errorf("resend %s %s: %w", t.name, r, ErrNotRetained)
	}
	if err := t.refuse(owner, r, s); err != nil {
		return nil, err
	}
	t.set(r, slot[V]{owner: owner, value: s.value})
	return t.deliver(nil, r, some(s.value), some(s.value), true), nil
}

// refuse returns an error if owner may not change a slot that another owner has.
func (t *Topic[V]) refuse(owner string, r Ref, s slot[V]) error {
	if s.owner == "" || s.owner == owner {
		return nil
	}
	return &OwnedError{Topic: t.name, Scope: r.Scope, Key: r.Key, Owner: s.owner, By: owner}
}
