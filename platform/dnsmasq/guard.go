package dnsmasq

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"edgespan/platform/proc"
)

// guard notices at once when a helper ends by itself. It keeps the event until Watch delivers it.
type guard struct {
	mu      sync.Mutex
	on      map[string]guarded // by process name
	ended   map[int]bool       // by number of the network instance
	pending chan struct{}      // has one element while ended is not empty
	fresh   chan struct{}      // has one element after a helper was added
}

type guarded struct {
	proc.Ident
	stop func()
}

func newGuard() *guard {
	return &guard{on: map[string]guarded{}, ended: map[int]bool{}, pending: make(chan struct{}, 1),
		fresh: make(chan struct{}, 1)}
}

// watch watches the process of a name instead of any other. If that fails, the next observation finds the end.
func (g *guard) watch(name string, number int, id proc.Ident) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.on[name].Ident == id {
		return
	}
	g.drop(name)
	stop, err := id.Watch(func() { g.died(name, number, id) })
	if err == nil {
		g.on[name] = guarded{Ident: id, stop: stop}
		signal(g.fresh)
	}
}

func (g *guard) died(name string, number int, id proc.Ident) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.on[name].Ident != id {
		return // the daemon stopped it
	}
	delete(g.on, name)
	g.ended[number] = true
	signal(g.pending)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // already signaled
	}
}

// leave forgets the process of a name, which is about to be stopped.
func (g *guard) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(name)
}

func (g *guard) drop(name string) {
	if x, ok := g.on[name]; ok {
		x.stop()
		delete(g.on, name)
	}
}

// Watch emits the numbers of the network instances whose helper has ended by itself, until ctx ends. It knows every
// helper that was observed, and each start is observed. It also truncates the helpers' outputs.
func (h *Helpers) Watch(ctx context.Context, emit func(numbers []int)) {
	out := newOutputs(ctx)
	round := time.NewTimer(outRound)
	defer round.Stop()
	grown := out.grown // nil while a round is due
	for {
		select {
		case <-ctx.Done():
			return
		case <-grown:
			grown = nil
			round.Reset(outRound)
			continue
		case <-h.guard.fresh:
			out.forget()
			if grown != nil {
				grown = nil
				round.Reset(outRound)
			}
			continue
		case <-round.C:
			grown = out.grown
			if paths := h.outPaths(); out.trim(paths) {
				grown = nil
				round.Reset(max(outRound, time.Duration(len(paths))*outEach))
			}
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

// Close ends the watches; the helpers keep running.
func (h *Helpers) Close() {
	h.group.Close()
	h.guard.mu.Lock()
	defer h.guard.mu.Unlock()
	for name := range h.guard.on {
		h.guard.drop(name)
	}
}
