package history

import (
	"slices"
	"testing"

	"edgespan/config/revision"
)

// Each part of a change-set has as many objects as its transaction has room for, by count and
// by size, and all of them together are what was to be put.
func TestPartsAreAsLargeAsATransactionTakes(t *testing.T) {
	item := (revision.Txn{Then: []revision.Op{revision.Put("k", nil)}}).Size()
	put := func(size int) revision.Op { return revision.Put("k", make([]byte, size-item)) }
	some := func(n, size int) []revision.Op { return slices.Repeat([]revision.Op{put(size)}, n) }
	third := partSize / 3
	for name, c := range map[string]struct {
		puts []revision.Op
		want []int // objects of each part
	}{
		"none":                       {nil, nil},
		"one":                        {some(1, item), []int{1}},
		"as many as one takes":       {some(partObjects, item), []int{partObjects}},
		"one more":                   {some(partObjects+1, item), []int{partObjects, 1}},
		"twice as many and one":      {some(2*partObjects+1, item), []int{partObjects, partObjects, 1}},
		"as large as one takes":      {slices.Concat(some(2, third), some(1, partSize-2*third)), []int{3}},
		"an octet more":              {slices.Concat(some(2, third), some(1, partSize-2*third+1)), []int{2, 1}},
		"large ones, twice":          {slices.Repeat(slices.Concat(some(2, third), some(1, partSize-2*third)), 2), []int{3, 3}},
		"a small one and a full one": {[]revision.Op{put(item), put(partSize)}, []int{1, 1}},
	} {
		var sizes []int
		got := parts(c.puts)
		for _, p := range got {
			sizes = append(sizes, len(p))
		}
		if !slices.Equal(sizes, c.want) || !slices.EqualFunc(slices.Concat(got...), c.puts, func(a, b revision.Op) bool { return len(a.Value) == len(b.Value) }) {
			t.Errorf("%s: parts of %d, want %d", name, sizes, c.want)
		}
	}
}

func TestAPlanFitsIntoATransactionToTheLastOctet(t *testing.T) {
	item := (revision.Txn{Then: []revision.Op{revision.Put("k", nil)}}).Size()
	ops := func(n int) revision.Txn {
		return revision.Txn{Then: slices.Repeat([]revision.Op{revision.Put("k", nil)}, n)}
	}
	value := func(size int) revision.Txn {
		return revision.Txn{Then: []revision.Op{revision.Put("k", make([]byte, size-item))}}
	}
	for name, c := range map[string]struct {
		t    revision.Txn
		want bool
	}{
		"all ops":       {ops(revision.MaxOps), true},
		"an op more":    {ops(revision.MaxOps + 1), false},
		"all octets":    {value(revision.MaxSize), true},
		"an octet more": {value(revision.MaxSize + 1), false},
	} {
		if got := fits(c.t); got != c.want {
			t.Errorf("%s: fits %v, want %v", name, got, c.want)
		}
	}
}
