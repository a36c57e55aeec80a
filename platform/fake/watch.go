package fake

import (
	"context"
	"maps"
	"slices"

	"edgespan/netinst/netstate"
)

// SetMaxTracked sets the limit of tracked flows and notifies the watchers.
func (h *Host) SetMaxTracked(n int) {
	h.mu.Lock()
	h.maxTracked = n
	h.mu.Unlock()
	h.send(netstate.HostEvent{MaxTracked: &n})
}

// Resync notifies the watchers that events were lost, as after an overflow.
func (h *Host) Resync() {
	h.mu.Lock()
	tracked := h.maxTracked
	ev := netstate.HostEvent{Resync: true, Interfaces: slices.Clone(h.ifaces), MaxTracked: &tracked}
	h.mu.Unlock()
	ev.Forwarding = h.forwarding()
	h.send(ev)
}

// Watch emits the interfaces at once and every change until ctx ends.
func (h *Host) Watch(ctx context.Context, emit func(netstate.HostEvent)) error {
	h.mu.Lock()
	h.watchers++
	n := h.watchers
	h.emit[n] = emit
	ok, tracked := h.ifaces, h.maxTracked
	h.mu.Unlock()
	emit(netstate.HostEvent{Resync: true, Interfaces: slices.Clone(ok), Forwarding: h.forwarding(), MaxTracked: &tracked})
	<-ctx.Done()
	h.mu.Lock()
	delete(h.emit, n)
	h.mu.Unlock()
	return ctx.Err()
}

func (h *Host) send(ev netstate.HostEvent) {
	h.mu.Lock()
	fs := slices.Collect(maps.Values(h.emit))
	h.mu.Unlock()
	for _, f := range fs {
		f(ev)
	}
}
