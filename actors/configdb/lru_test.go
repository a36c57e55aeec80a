package configdb

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestLRUKeepsWhatWasUsedLast(t *testing.T) {
	l := newLRU[int](10 * (overhead + 1 + 100))
	for i := range 10 {
		l.put(fmt.Sprint(i), i, 100)
	}
	l.get("0")
	l.put("a", 10, 100)
	if _, ok := l.get("1"); ok {
		t.Error("1 is kept, which was used least")
	}
	for _, key := range []string{"0", "2", "9", "a"} {
		if _, ok := l.get(key); !ok {
			t.Errorf("%s is lost", key)
		}
	}
	l.put("large", 1, l.limit/8)
	if _, ok := l.get("large"); ok {
		t.Error("what would drive out an eighth is kept")
	}
	l.put("2", 22, l.limit) // too large now: the old value must not stay
	if v, ok := l.get("2"); ok {
		t.Errorf("an old value stays: %d", v)
	}
	l.clear()
	if _, ok := l.get("0"); ok || l.size != 0 {
		t.Errorf("it has %d bytes after clear", l.size)
	}
}

func TestLRUStaysWithinItsBound(t *testing.T) {
	l := newLRU[int](100_000)
	for range 10_000 {
		l.put(fmt.Sprint(rand.IntN(500)), 1, rand.IntN(10_000))
		size := 0
		for e := l.order.Front(); e != nil; e = e.Next() {
			size += e.Value.(*item[int]).size
		}
		if size != l.size || size > l.limit || len(l.items) != l.order.Len() {
			t.Fatalf("%d bytes are counted, %d are there, %d are allowed; %d items of %d", l.size, size, l.limit, len(l.items),
				l.order.Len())
		}
	}
}
