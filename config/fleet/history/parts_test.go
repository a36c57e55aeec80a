package history

import (
	"slices"
	"testing"

	"edgespan/config/kv"
)

// Each part of a change-set has as many objects as its transaction has room for, by count and by size, and all of them
// together are the objects to put.
func TestPartsAreAsLargeAsATransactionTakes(t *testing.T) {
	item := (kv.Txn{Then: []kv.Op{kv.Put("k", nil)}}).Size()
	put := func(size int) kv.Op { return kv.Put("k", make([]byte, size-item)) }
	some := func(n, size int) []kv.Op { return slices.Repeat([]kv.Op{put(size)}, n) }
	third := partSize / 3
	for name, c := range map[string]struct {
		puts []kv.Op
		want []int // objects of each part
	}{
		"none":                  {nil, nil},
		"one":                   {some(1, item), []int{1}},
		"as many as one takes":  {some(partObjects, item), []int{partObjects}},
		"one more":              {some(partObjects+1, item), []int{partObjects, 1}},
		"twice as many and one": {some(2*partObjects+1, item), []int{partObjects, partObjects, 1}},
		"as large as one takes": {slices.Concat(some(2, third), some(1, partSize-2*third)), []int{3}},
		"an octet more":         {slices.Concat(some(2, third), some(1, partSize-2*third+1)), []int{2, 1}},
		"large ones, twice": {slices.Repeat(slices.Concat(some(2, third), some(1, partSize-2*third)), 2),
			[]int{3, 3}},
		"a small one and a full one": {[]kv.Op{put(item), put(partSize)}, []int{1, 1}},
	} {
		var sizes []int
		got := groupPuts(c.puts)
		for _, p := range got {
			sizes = append(sizes, len(p))
		}
		if !slices.Equal(sizes, c.want) || !slices.EqualFunc(slices.Concat(got...),
			c.puts, func(a, b kv.Op) bool { return len(a.Value) == len(b.Value) }) {
			t.Errorf("%s: parts of %d, want %d", name, sizes, c.want)
		}
	}
}

func TestAPlanFitsIntoATransactionToTheLastOctet(t *testing.T) {
	item := (kv.Txn{Then: []kv.Op{kv.Put("k", nil)}}).Size()
	ops := func(n int) kv.Txn {
		return kv.Txn{Then: slices.Repeat([]kv.Op{kv.Put("k", nil)}, n)}
	}
	value := func(size int) kv.Txn {
		return kv.Txn{Then: []kv.Op{kv.Put("k", make([]byte, size-item))}}
	}
	for name, c := range map[string]struct {
		t    kv.Txn
		want bool
	}{
		"all ops":       {ops(kv.MaxOps), true},
		"an op more":    {ops(kv.MaxOps + 1), false},
		"all octets":    {value(kv.MaxSize), true},
		"an octet more": {value(kv.MaxSize + 1), false},
	} {
		if got := fits(c.t); got != c.want {
			t.Errorf("%s: fits %v, want %v", name, got, c.want)
		}
	}
}
