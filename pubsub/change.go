package pubsub

import (
	"cmp"
	"fmt"
)

// Kind is the kind of a Change.
type Kind uint8

// The kinds of change. Synchronized comes exactly once in the life of a subscription, after the values that were
// retained at its start.
const (
	Created Kind = iota + 1
	Modified
	Deleted
	Synchronized
)

// String returns the name of the kind's constant.
func (k Kind) String() string {
	switch k {
	case Created:
		return "Created"
	case Modified:
		return "Modified"
	case Deleted:
		return "Deleted"
	case Synchronized:
		return "Synchronized"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Change is one step of a reader's view. Old is the value that this reader got last for the key, regardless of changes
// in between; it is zero on Created, and New is zero on Deleted. After a Resend the kind is Modified, with Old equal to
// New unless the value changed too. Synchronized has no scope, key or values.
type Change[V any] struct {
	Kind       Kind
	Scope, Key string
	Old, New   V
}

// Ref names one value of a topic.
type Ref struct{ Scope, Key string }

// String returns scope/key, or the key alone in the empty scope.
func (r Ref) String() string {
	if r.Scope == "" {
		return r.Key
	}
	return r.Scope + "/" + r.Key
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
}

// Entry is one retained value and its owner. Owner is empty for a value restored from the journal that no owner has
// claimed yet.
type Entry[V any] struct {
	Scope, Key string
	Owner      string
	Value      V
}

// OwnedError refuses a change of a key that another owner has (docs/architecture.md, law 8).
type OwnedError struct {
	Topic      string
	Scope, Key string
	Owner      string // of the key
	By         string // who tried to change it
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("%s %s: owned by %s, not by %s", e.Topic, Ref{e.Scope, e.Key}, e.Owner, e.By)
}
