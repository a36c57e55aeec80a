package fake

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// SetNoVLANs makes the host one whose kernel has no VLANs, or one that has them, as it is at first.
func (h *Host) SetNoVLANs(none bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noVLANs = none
}

// vlan refuses a VLAN that can't be created.
func (h *Host) vlan(w netstate.Link) error {
	if h.noVLANs {
		return fmt.Errorf("the kernel has no 802.1Q (module 8021q): %w", errTaken)
	}
	if h.exists(w.Name) == nil {
		return fmt.Errorf("interface name %s is in use by another link: %w", w.Name, errTaken)
	}
	return h.exists(w.Tag.Parent)
}

// followVLANs lets the interfaces of VLANs come, go and get their carrier with ops of their owner, and notifies the
// watchers.
func (h *Host) followVLANs(op netstate.Op) {
	h.mu.Lock()
	before := h.ifaces
	for _, it := range op.Items {
		name := it.ID().Name
		at := slices.IndexFunc(h.ifaces, func(i netstate.Interface) bool { return i.Name == name })
		created, _ := it.Want.(netstate.Link)
		switch {
		case created.Tag != nil:
			h.ifaces = append(slices.Clone(h.ifaces), netstate.Interface{Name: name, MTU: 1500})
			slices.SortFunc(h.ifaces, func(a, b netstate.Interface) int { return strings.Compare(a.Name, b.Name) })
		case op.Kind == netstate.KindLink && op.Verb == netstate.Remove && at >= 0:
			h.ifaces = slices.Delete(slices.Clone(h.ifaces), at, at+1)
		case op.Kind == netstate.KindPort && op.Verb == netstate.Add && at >= 0 &&
			h.state[netstate.PortsNumber][netstate.ID{Kind: netstate.KindLink, Name: name}] != nil:
			h.ifaces = slices.Clone(h.ifaces)
			h.ifaces[at].Up = true
		}
	}
	now, changed := h.ifaces, len(h.ifaces) > 0 && (len(before) != len(h.ifaces) || &before[0] != &h.ifaces[0])
	h.mu.Unlock()
	if changed {
		h.send(netstate.HostEvent{Interfaces: now, HostRouting: true, Forwarding: h.forwarding()})
	}
}
