package fake

import "edgespan/netinst/netstate"

// Lose removes an object and the event that would have told of it. That a chain is gone only a full
// look sees, as on a real host.
func (h *Host) Lose(n int, id netstate.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, is := h.state[n][id].(netstate.Chain); is {
		if h.unseen[n] == nil {
			h.unseen[n] = netstate.State{}
		}
		h.unseen[n][id] = c
	}
	delete(h.state[n], id)
}

// LearnDNS changes the interfaces as where a file has changed and nobody told: the next RereadDNS finds it.
func (h *Host) LearnDNS(is ...netstate.Interface) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unread = is
}

// RereadDNS tells what LearnDNS has changed.
func (h *Host) RereadDNS() {
	h.mu.Lock()
	is := h.unread
	h.unread = nil
	h.mu.Unlock()
	if is != nil {
		h.SetInterfaces(is...)
	}
}
