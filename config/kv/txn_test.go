package kv

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func many(n int) []Op {
	var ops []Op
	for i := range n {
		ops = append(ops, Get(Key(fmt.Sprint("k", i))))
	}
	return ops
}

func TestWhatATransactionMayBe(t *testing.T) {
	full := make([]byte, MaxSize-itemSize-2)
	for _, c := range []struct {
		what string
		txn  Txn
		want string
		is   error
	}{
		{what: "nothing"},
		{what: "128 of each", txn: Txn{Then: many(128), Else: many(128), Compares: make128()}},
		{what: "129 in Then", txn: Txn{Then: many(129)}, want: "Then: 129", is: ErrTooLarge},
		{what: "129 in Else", txn: Txn{Else: many(129)}, want: "Else: 129", is: ErrTooLarge},
		{what: "129 compares", txn: Txn{Compares: append(make128(), Exists("a"))}, want: "compares: 129", is: ErrTooLarge},
		{what: "1.5 MiB", txn: Txn{Then: []Op{Put("k", full)}}},
		{what: "a byte more", txn: Txn{Then: []Op{Put("k", append(full, 0))}}, want: "1572865 bytes", is: ErrTooLarge},
		{what: "a compare counts", txn: Txn{Then: []Op{Put("k", full)}, Compares: []Compare{Exists("k")}}, want: "bytes",
			is: ErrTooLarge},
		{what: "Else counts", txn: Txn{Else: []Op{Put("k", append(full, 0))}}, want: "bytes", is: ErrTooLarge},
		{what: "a bad key", txn: Txn{Then: []Op{Put("k//", nil)}}, want: `Then 0: key "k//"`, is: ErrInvalid},
		{what: "a bad key to compare", txn: Txn{Compares: []Compare{Exists("")}}, want: "compare 0", is: ErrInvalid},
		{what: "a bad prefix", txn: Txn{Else: []Op{DeletePrefix("k")}}, want: `Else 0: prefix "k"`, is: ErrInvalid},
		{what: "no kind", txn: Txn{Then: []Op{{}}}, want: "kind 0", is: ErrInvalid},
		{what: "no kind of compare", txn: Txn{Compares: []Compare{{Key: "k"}}}, want: "compare 0: kind 0", is: ErrInvalid},
		{what: "a delete with a value", txn: Txn{Then: []Op{{Kind: OpDelete, Key: "k", Value: []byte("v")}}}, want: "kind 3",
			is: ErrInvalid},
		{what: "a prefix with a key", txn: Txn{Then: []Op{{Kind: OpDeletePrefix, Key: "k"}}}, want: "kind 4", is: ErrInvalid},
		{what: "two puts", txn: Txn{Then: []Op{Put("k", nil), Put("k", nil)}}, want: `1: writes "k" as 0 does`,
			is: ErrInvalid},
		{what: "put and delete", txn: Txn{Then: []Op{Put("k", nil), Delete("k")}}, want: `writes "k"`, is: ErrInvalid},
		{what: "put below a prefix", txn: Txn{Then: []Op{DeletePrefix("a/"), Put("a/k", nil)}}, want: `writes "a/k"`,
			is: ErrInvalid},
		{what: "a prefix in a prefix", txn: Txn{Then: []Op{DeletePrefix("a/b/"), DeletePrefix("a/")}},
			want: `deletes below "a/"`, is: ErrInvalid},
		{what: "put beside a prefix",
			txn: Txn{Then: []Op{DeletePrefix("a/"), Put("a", nil), Put("ab", nil), DeletePrefix("b/")}}},
		{what: "put in Then and in Else", txn: Txn{Then: []Op{Put("k", nil)}, Else: []Op{Put("k", nil)}}},
		{what: "get and put", txn: Txn{Then: []Op{Get("k"), Put("k", nil), Get("k")}}},
	} {
		err := c.txn.Check()
		if c.is == nil {
			if err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		if err == nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
	}
}

func make128() []Compare {
	var cs []Compare
	for i := range 128 {
		cs = append(cs, Absent(Key(fmt.Sprint("k", i))))
	}
	return cs
}

func TestWhenACompareHolds(t *testing.T) {
	there := Entry{Key: "k", Value: []byte("v"), ModRevision: 7, Version: 2}
	empty := Entry{Key: "k", ModRevision: 7, Version: 1}
	gone := Entry{Key: "k"}
	for _, c := range []struct {
		what string
		cmp  Compare
		now  Entry
		want bool
	}{
		{"at its revision", AtRevision("k", 7), there, true},
		{"at another", AtRevision("k", 6), there, false},
		{"at 0 while absent", AtRevision("k", 0), gone, true},
		{"at 0 while there", AtRevision("k", 0), there, false},
		{"holds its value", HasValue("k", []byte("v")), there, true},
		{"holds another", HasValue("k", []byte("w")), there, false},
		{"absent holds nothing, not even the empty value", HasValue("k", nil), gone, false},
		{"holds the empty value", HasValue("k", nil), empty, true},
		{"exists", Exists("k"), there, true},
		{"exists while absent", Exists("k"), gone, false},
		{"absent", Absent("k"), gone, true},
		{"absent while there", Absent("k"), there, false},
		{"no kind", Compare{Key: "k"}, gone, false},
	} {
		if got := c.cmp.Holds(c.now); got != c.want {
			t.Errorf("%s: got %v", c.what, got)
		}
	}
}

func TestATransactionInWordsShowsNoValue(t *testing.T) {
	txn := Txn{
		Compares: []Compare{AtRevision("a", 3), HasValue("b", []byte("secret")), Absent("c")},
		Then:     []Op{Put("a", []byte("secret")), Get("b"), Delete("c"), DeletePrefix("d/")},
		Else:     []Op{Get("a")},
	}
	want := `if "a" is at 3; if "b" holds 6 bytes; if "c" exists is false; ` +
		`then put "a" 6 bytes; then get "b"; then delete "c"; then delete below "d/"; else get "a"`
	if got := txn.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !txn.Writes() || (Txn{Then: []Op{Get("a")}}).Writes() || !(Txn{Else: []Op{Delete("a")}}).Writes() {
		t.Error("Writes is wrong")
	}
}
