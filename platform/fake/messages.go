package fake

import (
	"context"

	"edgespan/netinst/netstate"
)

// WatchMessages emits what SendMessages sends on a link until ctx ends.
func (h *Host) WatchMessages(ctx context.Context, link string, _ func(string) int, emit func(netstate.Messages)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages[link] = &emit
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.messages[link] == &emit { // and not that of a later process
			delete(h.messages, link)
		}
	})
}

// SendMessages emits messages to who watches their link, and reports whether anyone does.
func (h *Host) SendMessages(m netstate.Messages) bool {
	h.mu.Lock()
	emit := h.messages[m.Link]
	h.mu.Unlock()
	if emit != nil {
		(*emit)(m)
	}
	return emit != nil
}

// SetHeldLeases sets the leases in a file.
func (h *Host) SetHeldLeases(file string, leases ...netstate.HeldLease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases[file] = leases
}

// HeldLeases returns what SetHeldLeases has set.
func (h *Host) HeldLeases(file string) ([]netstate.HeldLease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases[file], nil
}
