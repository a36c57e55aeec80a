package fake

import (
	"slices"

	"edgespan/netinst/netstate"
)

// SetForwarding turns forwarding on all links on or off, like net.ipv4.ip_forward, and notifies the watchers.
func (h *Host) SetForwarding(all bool) {
	h.mu.Lock()
	h.forwardAll = all
	value := "0"
	if all {
		value = "1"
	}
	for n, st := range h.state {
		for id, o := range st {
			if s, ok := o.(netstate.Sysctl); ok {
				s.Value = value
				if st[id] = s; n > 0 && !all {
					delete(st, id)
				}
			}
		}
	}
	h.mu.Unlock()
	h.send(netstate.HostEvent{Forwarding: h.forwarding()})
}

// forwarding returns the interfaces on which the host forwards.
func (h *Host) forwarding() *netstate.Forwarding {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &netstate.Forwarding{All: h.forwardAll}
	for _, i := range h.ifaces {
		s, own := h.state[0][netstate.ID{Kind: netstate.KindSysctl, Name: netstate.ForwardingOf(i.Name)}].(netstate.Sysctl)
		if own {
			f.Opened = append(f.Opened, i.Name)
		}
		if h.forwardAll || own && s.Value == "1" {
			f.On = append(f.On, i.Name)
		} else {
			f.Off = append(f.Off, i.Name)
		}
	}
	slices.Sort(f.On)
	slices.Sort(f.Off)
	slices.Sort(f.Opened)
	return f
}
