package fake

import "edgespan/netinst/netstate"

// RemoveSilently removes an object and drops the event. Only a full observation notices that a chain is missing, as
// on a real host.
func (h *Host) RemoveSilently(n int, id netstate.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, ok := h.state[n][id].(netstate.Chain); ok {
		if h.unseen[n] == nil {
			h.unseen[n] = netstate.State{}
		}
		h.unseen[n][id] = c
	}
	delete(h.state[n], id)
}

// LearnDNS changes the interfaces without an event, as if a file had changed unnoticed: the next RereadDNS finds it.
func (h *Host) LearnDNS(interfaces ...netstate.Interface) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unread = interfaces
}

// RereadDNS notifies the watchers of LearnDNS's change.
func (h *Host) RereadDNS() {
	h.mu.Lock()
	now := h.unread
	h.unread = nil
	h.mu.Unlock()
	if now != nil {
		h.SetInterfaces(now...)
	}
}
