package fake

import "edgespan/netinst/netstate"

// RemoveSilently removes an object and drops the event. Only a full observation notices that a chain is missing, as
// on a real host.
func (h *Host) RemoveSilently(n int, id netstate.ID) {
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

// LearnDNS changes the interfaces without an event, as if a file had changed unnoticed: the next RereadDNS finds it.
func (h *Host) LearnDNS(is ...netstate.Interface) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unread = is
}

// RereadDNS notifies the watchers of LearnDNS's change.
func (h *Host) RereadDNS() {
	h.mu.Lock()
	is := h.unread
	h.unread = nil
	h.mu.Unlock()
	if is != nil {
		h.SetInterfaces(is...)
	}
}
