package wireguard

import (
	"sync"

	"edgespan/platform/proc"
)

// guard notices at once when a helper ends by itself.
type guard struct {
	ended  chan int
	closed chan struct{}

	mu sync.Mutex
	on map[int]guarded // by number of the network instance
}

type guarded struct {
	proc.Ident
	stop func()
}

func newGuard() *guard {
	return &guard{ended: make(chan int), closed: make(chan struct{}), on: map[int]guarded{}}
}

// watch watches the helper of a network instead of any other. If that fails, the next observation finds the end.
func (g *guard) watch(number int, id proc.Ident) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.on[number].Ident == id {
		return
	}
	g.drop(number)
	stop, err := id.Watch(func() { g.died(number, id) })
	if err == nil {
		g.on[number] = guarded{Ident: id, stop: stop}
	}
}

func (g *guard) died(number int, id proc.Ident) {
	g.mu.Lock()
	known := g.on[number].Ident == id // otherwise the daemon stopped it
	if known {
		delete(g.on, number)
	}
	g.mu.Unlock()
	if !known {
		return
	}
	select {
	case g.ended <- number:
	case <-g.closed:
	}
}

// leave forgets the helper of a network, which is about to be stopped.
func (g *guard) leave(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(number)
}

func (g *guard) drop(number int) {
	if x, ok := g.on[number]; ok {
		x.stop()
		delete(g.on, number)
	}
}

func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for number := range g.on {
		g.drop(number)
	}
	close(g.closed)
}
