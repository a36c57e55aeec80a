package fake

import "edgespan/netinst/netstate"

// Break removes an object, and what the kernel removes with it, without an op, and notifies the watchers.
func (h *Host) Break(n int, id netstate.ID) {
	h.mu.Lock()
	h.remove(h.state[n], id)
	h.lose(n, id)
	h.mu.Unlock()
	h.send(netstate.HostEvent{Touched: []int{n}, Host: n == 0})
}

// lose notes that others have removed an object: an op that was planned before, or that needs it of the host state, may
// be out of order.
func (h *Host) lose(n int, id netstate.ID) {
	if h.disturbed[n] = true; n == 0 {
		h.hostLost[id] = true
	}
}

// Kill ends a process of an owner and notifies the watchers at once.
func (h *Host) Kill(n int, name string) {
	h.mu.Lock()
	delete(h.state[n], netstate.ID{Kind: netstate.KindProcess, Name: name})
	h.disturbed[n] = true
	h.mu.Unlock()
	h.send(netstate.HostEvent{Ended: []int{n}})
}

// Flush removes all chains of all owners, as "nft flush ruleset" does, and notifies the watchers if they see it.
func (h *Host) Flush(seen bool) {
	h.mu.Lock()
	for n, st := range h.state {
		for id := range st {
			if id.Kind == netstate.KindChain {
				delete(st, id)
				h.lose(n, id)
			}
		}
	}
	h.mu.Unlock()
	if seen {
		h.send(netstate.HostEvent{Filter: true})
	}
}

// Reboot removes all that does not survive a boot of the machine. No process may watch the host.
func (h *Host) Reboot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state, h.unseen = map[int]netstate.State{}, map[int]netstate.State{}
	h.disturbed, h.hostLost, h.vanished = map[int]bool{}, map[netstate.ID]bool{}, map[string]bool{}
	h.forwardAll = false
}

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
	h.lose(n, id)
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
