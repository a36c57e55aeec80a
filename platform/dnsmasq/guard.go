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
	proc.Guard[string] // by process name
	mu                 sync.Mutex
	ended              map[int]bool  // by number of the network instance
	pending            chan struct{} // has one element while ended is not empty
	fresh              chan struct{} // has one element after a helper was added
}

func newGuard() *guard {
	return &guard{ended: map[int]bool{}, pending: make(chan struct{}, 1), fresh: make(chan struct{}, 1)}
}

// watch watches the process of a name instead of any other.
func (g *guard) watch(name string, number int, id proc.Ident) {
	if g.Watch(name, id, func() { g.died(number) }) {
		signal(g.fresh)
	}
}

func (g *guard) died(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended[number] = true
	signal(g.pending)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // already signaled
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
	h.guard.Close()
}
