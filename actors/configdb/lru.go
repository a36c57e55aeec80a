package configdb

import (
	"container/list"
	"sync"
)

// lru keeps what was used last, within a bound of bytes. All methods may be called at once.
type lru[V any] struct {
	limit int // bytes

	mu    sync.Mutex
	size  int // bytes
	order *list.List
	items map[string]*list.Element // of *item[V]
}

type item[V any] struct {
	key   string
	value V
	size  int
}

// overhead is about what an entry costs beside its key and its value: the element, the item,
// its place in the map. Bytes.
const overhead = 256

func newLRU[V any](limit int) *lru[V] {
	return &lru[V]{limit: limit, order: list.New(), items: map[string]*list.Element{}}
}

func (l *lru[V]) get(key string) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.items[key]
	if e == nil {
		var none V
		return none, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*item[V]).value, true
}

// put keeps a value of so many bytes. What is larger than an eighth of the bound is not kept: it would
// drive out too much.
func (l *lru[V]) put(key string, value V, size int) {
	size += len(key) + overhead
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.items[key]; e != nil {
		l.drop(e)
	}
	if size > l.limit/8 {
		return
	}
	l.items[key] = l.order.PushFront(&item[V]{key, value, size})
	for l.size += size; l.size > l.limit; {
		l.drop(l.order.Back())
	}
}

func (l *lru[V]) drop(e *list.Element) {
	it := e.Value.(*item[V])
	l.order.Remove(e)
	delete(l.items, it.key)
	l.size -= it.size
}

func (l *lru[V]) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order.Init()
	clear(l.items)
	l.size = 0
}
