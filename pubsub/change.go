package pubsub

import (
	"cmp"
	"fmt"
)

// Kind says what a Change tells its reader.
type Kind uint8

// The kinds of change. Synchronized comes exactly once in the life of a
// subscription, after the values that were retained when it began.
const (
	Created Kind = iota + 1
	Modified
	Deleted
	Synchronized
)

// String spells the kind as its constant.
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

// Change is one step of a reader's view. Old is what this reader was last given
// for the key, whatever happened meanwhile; it is zero on Created, and New is
// zero on Deleted. After a Resend it is Modified with Old equal to New unless
// the value changed too. Synchronized has neither scope, key nor values.
type Change[V any] struct {
	Kind       Kind
	Scope, Key string
	Old, New   V
}

// Ref names one value of a topic.
type Ref struct{ Scope, Key string }

// String spells the ref as scope/key, or as the key alone in the empty scope.
func (r Ref) String() string {
	if r.Scope == "" {
		return r.Key
	}
	return r.Scope + "/" + r.Key
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
}

// Entry is one retained value and its owner; Owner is empty for a value that
// was restored from the journal and that nobody has claimed yet.
type Entry[V any] struct {
	Scope, Key string
	Owner      string
	Value      V
}

// OwnedError refuses a change of a key that somebody else owns (docs/architecture.md, law 8).
type OwnedError struct {
	Topic      string
	Scope, Key string
	Owner      string // who has the key
	By         string // who wanted to change it
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("%s %s: owned by %s, not by %s", e.Topic, Ref{e.Scope, e.Key}, e.Owner, e.By)
}
