package dnsmasq

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"edgespan/platform/proc"
)

// guard knows at once that a helper has ended by itself. What nobody has asked for
// yet is kept: a death between two watchers is told to the second.
type guard struct {
	mu      sync.Mutex
	on      map[string]guarded // by process name
	ended   map[int]bool       // by number of the network instance
	pending chan struct{}      // holds one while ended is not empty
}

type guarded struct {
	proc.Ident
	stop func()
}

func newGuard() *guard {
	return &guard{on: map[string]guarded{}, ended: map[int]bool{}, pending: make(chan struct{}, 1)}
}

// watch watches the process of a name in place of any other. One that can't be
// watched is found by the next look at the host.
func (g *guard) watch(name string, number int, id proc.Ident) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.on[name].Ident == id {
		return
	}
	g.drop(name)
	stop, err := id.Watch(func() { g.died(name, number, id) })
	if err == nil {
		g.on[name] = guarded{id, stop}
	}
}

func (g *guard) died(name string, number int, id proc.Ident) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.on[name].Ident != id {
		return // we have stopped it
	}
	delete(g.on, name)
	g.ended[number] = true
	select {
	case g.pending <- struct{}{}:
	default: // told already
	}
}

// leave forgets the process of a name: it is about to be stopped.
func (g *guard) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(name)
}

func (g *guard) drop(name string) {
	if x, is := g.on[name]; is {
		x.stop()
		delete(g.on, name)
	}
}

// Watch tells the numbers of the network instances of which a helper has ended by
// itself, until ctx ends. It knows every helper that was
// observed, and each start is observed after it. Meanwhile it keeps their outputs short.
func (h *Helpers) Watch(ctx context.Context, emit func(numbers []int)) {
	round := time.NewTimer(outRound)
	defer round.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-round.C:
			round.Reset(h.trimAll())
			continue
		case <-h.guard.pending:
		}
		h.guard.mu.Lock()
		numbers := slices.Sorted(maps.Keys(h.guard.ended))
		clear(h.guard.ended)
		h.guard.mu.Unlock()
		emit(numbers)
	}
}

// Close ends the watches; the helpers run on.
func (h *Helpers) Close() {
	h.guard.mu.Lock()
	defer h.guard.mu.Unlock()
	for name := range h.guard.on {
		h.guard.drop(name)
	}
}
