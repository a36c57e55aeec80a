package kv

import (
	"fmt"
	"strings"
)

// Limits of one transaction. They are etcd's and apply to all backends.
const (
	// MaxOps is the maximum number of compares, of Then operations and of Else operations.
	MaxOps = 128
	// MaxSize is the maximum size of a transaction in bytes, as Txn.Size counts them.
	MaxSize = 3 << 19
	// itemSize is the cost of one compare or operation in addition to its key and value. On the wire of etcd that is at
	// most 40 bytes of framing and a fleet's prefix of at most 128 bytes, twice for a range.
	itemSize = 320
)

// CompareKind is the property of a key that a compare checks.
type CompareKind uint8

// The kinds of compares.
const (
	CompareRevision CompareKind = iota + 1
	CompareValue
	CompareExists
)

// Compare is one condition of a transaction. Create it with At, Holds, Exists or Absent.
type Compare struct {
	Kind     CompareKind
	Key      Key
	Revision Revision // for CompareRevision
	Value    []byte   // for CompareValue
	Exists   bool     // for CompareExists
}

// AtRevision holds if revision r was the last to write the key; for r 0, if the key is absent.
func AtRevision(k Key, r Revision) Compare {
	return Compare{Kind: CompareRevision, Key: k, Revision: r}
}

// HasValue holds if the key exists with this value.
func HasValue(k Key, value []byte) Compare { return Compare{Kind: CompareValue, Key: k, Value: value} }

// Exists holds if the key exists.
func Exists(k Key) Compare { return Compare{Kind: CompareExists, Key: k, Exists: true} }

// Absent holds if the key does not exist.
func Absent(k Key) Compare { return Compare{Kind: CompareExists, Key: k} }

// Holds reports whether the compare holds for the present entry of its key.
func (c Compare) Holds(now Entry) bool {
	switch c.Kind {
	case CompareRevision:
		return now.ModRevision == c.Revision
	case CompareValue:
		return now.Exists() && string(now.Value) == string(c.Value)
	case CompareExists:
		return now.Exists() == c.Exists
	}
	return false
}

// OpKind is the kind of an operation.
type OpKind uint8

// The kinds of operations.
const (
	OpGet OpKind = iota + 1
	OpPut
	OpDelete
	OpDeletePrefix
)

// Op is one operation of a transaction. Create it with Get, Put, PutLeased, Delete or DeletePrefix.
type Op struct {
	Kind   OpKind
	Key    Key     // for all kinds but OpDeletePrefix
	Prefix Prefix  // for OpDeletePrefix
	Value  []byte  // for OpPut
	Lease  LeaseID // for OpPut; 0: the key has no lease
}

// Get reads a key, including the writes of earlier operations of its transaction.
func Get(k Key) Op { return Op{Kind: OpGet, Key: k} }

// Put writes a key without a lease and detaches the key from any lease that it had.
func Put(k Key, value []byte) Op { return Op{Kind: OpPut, Key: k, Value: value} }

// PutLeased writes a key that the store removes when the lease ends.
func PutLeased(k Key, value []byte, id LeaseID) Op {
	return Op{Kind: OpPut, Key: k, Value: value, Lease: id}
}

// Delete removes a key. Deleting an absent key is no error.
func Delete(k Key) Op { return Op{Kind: OpDelete, Key: k} }

// DeletePrefix removes all keys below a prefix.
func DeletePrefix(p Prefix) Op { return Op{Kind: OpDeletePrefix, Prefix: p} }

// Txn executes all of Then if all compares hold, and otherwise all of Else. Neither may write a key twice: not by two
// puts, not by a put and a delete, and not below a prefix that it deletes.
type Txn struct {
	Compares []Compare
	Then     []Op
	Else     []Op
}

// TxnResult is the result of a transaction.
type TxnResult struct {
	Succeeded bool     // all compares held
	Revision  Revision // the store's revision after the transaction; the transaction's own if it changed something
	Results   []Result // one for each operation of Then or of Else
}

// Result is the result of one operation.
type Result struct {
	Entry   Entry // of a get
	Deleted int   // number of keys that a delete removed
}

// Size returns the size that MaxSize limits: values, keys twice, since a range has two ends, and itemSize for each
// compare and operation.
func (t Txn) Size() int {
	size := 0
	for _, c := range t.Compares {
		size += itemSize + 2*len(c.Key) + len(c.Value)
	}
	for _, ops := range [][]Op{t.Then, t.Else} {
		for _, op := range ops {
			size += itemSize + 2*len(op.Key) + 2*len(op.Prefix) + len(op.Value)
		}
	}
	return size
}

// Check returns an error for a malformed key, an unknown kind, an exceeded limit, or a key that is written twice.
func (t Txn) Check() error {
	for _, part := range []struct {
		name string
		n    int
	}{{"compares", len(t.Compares)}, {"Then", len(t.Then)}, {"Else", len(t.Else)}} {
		if part.n > MaxOps {
			return fmt.Errorf("transaction: %s: %d: %w: must be at most %d", part.name, part.n, ErrTooLarge, MaxOps)
		}
	}
	if size := t.Size(); size > MaxSize {
		return fmt.Errorf("transaction: %d bytes: %w: must be at most %d", size, ErrTooLarge, MaxSize)
	}
	for i, c := range t.Compares {
		if c.Kind < CompareRevision || c.Kind > CompareExists {
			return fmt.Errorf("transaction: compare %d: kind %d: %w: must be At, Holds, Exists or Absent", i, c.Kind,
				ErrInvalid)
		}
		if err := c.Key.Check(); err != nil {
			return fmt.Errorf("transaction: compare %d: %w", i, err)
		}
	}
	if err := checkOps(t.Then); err != nil {
		return fmt.Errorf("transaction: Then %w", err)
	}
	if err := checkOps(t.Else); err != nil {
		return fmt.Errorf("transaction: Else %w", err)
	}
	return nil
}

func checkOps(ops []Op) error {
	written := map[Key]int{}
	prefixes := map[Prefix]int{}
	for i, op := range ops {
		if err := op.check(); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
		switch op.Kind {
		case OpPut, OpDelete:
			if first, twice := written[op.Key]; twice {
				return fmt.Errorf("%d: writes %q as %d does: %w: must be written once", i, op.Key, first, ErrInvalid)
			}
			written[op.Key] = i
		case OpDeletePrefix:
			for p, first := range prefixes {
				if p.Has(Key(op.Prefix)) || op.Prefix.Has(Key(p)) {
					return fmt.Errorf("%d: deletes below %q as %d does below %q: %w: must be written once",
						i, op.Prefix, first, p, ErrInvalid)
				}
			}
			prefixes[op.Prefix] = i
		case OpGet:
		}
	}
	for k, first := range written {
		for p, i := range prefixes {
			if p.Has(k) {
				return fmt.Errorf("%d: deletes below %q, where %d writes %q: %w: must be written once",
					i, p, first, k, ErrInvalid)
			}
		}
	}
	return nil
}

func (op Op) check() error {
	switch op.Kind {
	case OpGet, OpPut, OpDelete:
		if op.Prefix != "" || op.Kind != OpPut && (op.Value != nil || op.Lease != 0) {
			break
		}
		return op.Key.Check()
	case OpDeletePrefix:
		if op.Key != "" || op.Value != nil || op.Lease != 0 {
			break
		}
		return op.Prefix.Check()
	}
	return fmt.Errorf("operation of kind %d: %w: must be made by Get, Put, PutLeased, Delete or DeletePrefix",
		op.Kind, ErrInvalid)
}

// Writes reports whether a branch of the transaction has a writing operation.
func (t Txn) Writes() bool {
	for _, ops := range [][]Op{t.Then, t.Else} {
		for _, op := range ops {
			if op.Kind != OpGet {
				return true
			}
		}
	}
	return false
}

// String formats the transaction for people, with only the lengths of values: they may be secrets.
func (t Txn) String() string {
	var b strings.Builder
	for _, c := range t.Compares {
		switch c.Kind {
		case CompareRevision:
			fmt.Fprintf(&b, "if %q is at %d; ", c.Key, c.Revision)
		case CompareValue:
			fmt.Fprintf(&b, "if %q holds %d bytes; ", c.Key, len(c.Value))
		case CompareExists:
			fmt.Fprintf(&b, "if %q exists is %v; ", c.Key, c.Exists)
		}
	}
	writeOps(&b, "then", t.Then)
	writeOps(&b, "else", t.Else)
	return strings.TrimSuffix(b.String(), "; ")
}

func writeOps(b *strings.Builder, word string, ops []Op) {
	for _, op := range ops {
		switch op.Kind {
		case OpGet:
			fmt.Fprintf(b, "%s get %q; ", word, op.Key)
		case OpPut:
			fmt.Fprintf(b, "%s put %q %d bytes; ", word, op.Key, len(op.Value))
		case OpDelete:
			fmt.Fprintf(b, "%s delete %q; ", word, op.Key)
		case OpDeletePrefix:
			fmt.Fprintf(b, "%s delete below %q; ", word, op.Prefix)
		}
	}
}
