package configdb

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// lru caches the most recently used values within a bound of bytes. It is safe for concurrent use.
type lru[V any] struct {
	limit int // bytes
	use   cacheUse

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

// CacheUse counts the uses of a cache. A hit needed no computation and no read of the store.
type CacheUse struct{ Hits, Misses uint64 }

type cacheUse struct{ hits, misses atomic.Uint64 }

func (u *cacheUse) add(hit bool) {
	if hit {
		u.hits.Add(1)
	} else {
		u.misses.Add(1)
	}
}

func (u *cacheUse) load() CacheUse { return CacheUse{u.hits.Load(), u.misses.Load()} }

// overhead estimates the cost of an entry in addition to its key and value, in bytes: the element, the item and its
// place in the map.
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

// put caches a value of the given size in bytes. It skips values above an eighth of the bound, which would evict too
// much.
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
