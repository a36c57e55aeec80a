package kv

import (
	"fmt"
	"strings"
)

// The limits of one transaction, etcd's, and the same in all backends.
const (
	// MaxOps is the most compares, the most Then and the most Else operations.
	MaxOps = 128
	// MaxSize is the most bytes of a transaction as Txn.Size counts them.
	MaxSize = 3 << 19
	// itemSize is what one compare or operation costs beside key and value. On the
	// wire of etcd that is 40 bytes of framing at most and a fleet's prefix of at
	// most 128 bytes, twice for a range.
	itemSize = 320
)

// CompareKind says what a compare looks at.
type CompareKind uint8

// The kinds of compares.
const (
	CompareRevision CompareKind = iota + 1
	CompareValue
	CompareExists
)

// Compare is one condition of a transaction. At, Holds, Exists and Absent make them.
type Compare struct {
	Kind     CompareKind
	Key      Key
	Revision Revision // of CompareRevision
	Value    []byte   // of CompareValue
	Exists   bool     // of CompareExists
}

// At holds if the key was last written by this revision; by 0, if it is absent.
func At(k Key, r Revision) Compare { return Compare{Kind: CompareRevision, Key: k, Revision: r} }

// Holds holds if the key is there with this value.
func Holds(k Key, value []byte) Compare { return Compare{Kind: CompareValue, Key: k, Value: value} }

// Exists holds if the key is there.
func Exists(k Key) Compare { return Compare{Kind: CompareExists, Key: k, Exists: true} }

// Absent holds if the key is not there.
func Absent(k Key) Compare { return Compare{Kind: CompareExists, Key: k} }

// Met says whether the compare holds for what its key has now.
func (c Compare) Met(now Entry) bool {
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

// OpKind says what an operation does.
type OpKind uint8

// The kinds of operations.
const (
	OpGet OpKind = iota + 1
	OpPut
	OpDelete
	OpDeletePrefix
)

// Op is one operation of a transaction. Get, Put, PutLeased, Delete and
// DeletePrefix make them.
type Op struct {
	Kind   OpKind
	Key    Key     // of all but OpDeletePrefix
	Prefix Prefix  // of OpDeletePrefix
	Value  []byte  // of OpPut
	Lease  LeaseID // of OpPut; 0: the key lasts
}

// Get reads a key and sees what earlier operations of its transaction wrote.
func Get(k Key) Op { return Op{Kind: OpGet, Key: k} }

// Put writes a key. A lease that it hung on before lets go of it.
func Put(k Key, value []byte) Op { return Op{Kind: OpPut, Key: k, Value: value} }

// PutLeased writes a key that goes away with a lease.
func PutLeased(k Key, value []byte, id LeaseID) Op {
	return Op{Kind: OpPut, Key: k, Value: value, Lease: id}
}

// Delete removes a key. An absent one is no error.
func Delete(k Key) Op { return Op{Kind: OpDelete, Key: k} }

// DeletePrefix removes all keys below a prefix.
func DeletePrefix(p Prefix) Op { return Op{Kind: OpDeletePrefix, Prefix: p} }

// Txn does all of Then if all compares hold, and all of Else if one does not.
// Neither may write a key twice: not by two puts, nor by a put and a delete,
// nor inside of a prefix that it deletes.
type Txn struct {
	Compares []Compare
	Then     []Op
	Else     []Op
}

// Outcome is what a transaction did.
type Outcome struct {
	Succeeded bool     // all compares held
	Revision  Revision // of the store after it; its own, if it changed something
	Results   []Result // of Then or of Else, one for each operation
}

// Result is what one operation did.
type Result struct {
	Entry   Entry // of a get
	Deleted int   // keys that a delete removed
}

// Size is what counts against MaxSize: keys twice, since a range has two ends,
// values, and a fixed sum for each compare and operation.
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

// Check says what is wrong with a transaction: the form of a key, an unknown
// kind, a limit, or a key that is written twice.
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

// Writes says whether a branch of the transaction has an operation that writes.
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

// String is the transaction for people, values by their length only: they may be secrets.
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
