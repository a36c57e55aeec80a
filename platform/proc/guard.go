package proc

import "sync"

// Guard watches processes, one for each key, and tells at once when one ends by itself. It is safe for concurrent use.
// The zero value watches none.
type Guard[K comparable] struct {
	mu     sync.Mutex
	on     map[K]guarded
	closed bool
}

type guarded struct {
	Ident
	stop func() // nil: it has ended
}

// Watch watches the process of a key instead of any other, and reports whether it was not watched before. ended is
// called once, in a goroutine, when it ends, unless it has been left. If it can't be watched, the next observation
// finds the end.
func (g *Guard[K]) Watch(k K, id Ident, ended func()) (fresh bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.on[k].Ident == id {
		return false
	}
	g.drop(k)
	stop, err := id.Watch(func() {
		if g.died(k, id) {
			ended()
		}
	})
	if err != nil {
		return false
	}
	if g.on == nil {
		g.on = map[K]guarded{}
	}
	g.on[k] = guarded{Ident: id, stop: stop}
	return true
}

// died notes the end of the process of a key, and reports whether it was still watched: otherwise the daemon stopped
// it. It stays known, so that its end is told once.
func (g *Guard[K]) died(k K, id Ident) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.on[k].Ident != id {
		return false
	}
	g.on[k] = guarded{Ident: id}
	return true
}

// Leave forgets the process of a key, which is about to be stopped.
func (g *Guard[K]) Leave(k K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(k)
}

func (g *Guard[K]) drop(k K) {
	if x, ok := g.on[k]; ok {
		if x.stop != nil {
			x.stop()
		}
		delete(g.on, k)
	}
}

// Running returns the keys whose processes have not ended, in any order.
func (g *Guard[K]) Running() []K {
	g.mu.Lock()
	defer g.mu.Unlock()
	keys := make([]K, 0, len(g.on))
	for k, x := range g.on {
		if x.stop != nil {
			keys = append(keys, k)
		}
	}
	return keys
}

// Close ends the watches for ever; the processes keep running.
func (g *Guard[K]) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for k := range g.on {
		g.drop(k)
	}
}
