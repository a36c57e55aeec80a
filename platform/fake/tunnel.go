package fake

import (
	"fmt"
	"slices"

	"edgespan/netinst/netstate"
)

// leads refuses a tunnel that has no local address or no route, or whose number is taken.
func (h *Host) leads(l netstate.Link) error {
	if why := h.lost(l.Vxlan); why != "" {
		return fmt.Errorf("%s: %w", why, netstate.ErrWaiting)
	}
	for _, st := range h.state {
		for _, o := range st {
			x, ok := o.(netstate.Link)
			if ok && x.Vxlan != nil && x.Name != l.Name && x.Vxlan.VNI == l.Vxlan.VNI && x.Vxlan.Port == l.Vxlan.Port {
				return fmt.Errorf("number %d is taken by %s: %w", l.Vxlan.VNI, x.Name, netstate.ErrWaiting)
			}
		}
	}
	return nil
}

// lost returns the reason why a tunnel does not work: no interface has its local address, or no subnet and no default
// gateway of any interface leads to its remote end.
func (h *Host) lost(t *netstate.Tunnel) string {
	held, leads := false, false
	for _, i := range h.ifaces {
		for _, a := range i.Addresses {
			held = held || a.Addr() == t.Local
			leads = leads || a.Masked().Contains(t.Remote)
		}
		leads = leads || slices.ContainsFunc(i.DefaultRoutes,
			func(r netstate.DefaultRoute) bool { return r.IPv6 == t.Remote.Is6() })
	}
	switch {
	case !held:
		return t.NoAddress()
	case !leads:
		return t.NoRoute()
	}
	return ""
}

// shown returns an object as an observation shows it.
func (h *Host) shown(o netstate.Object) netstate.Object {
	l, ok := o.(netstate.Link)
	if !ok || l.Vxlan == nil {
		return o
	}
	t := *l.Vxlan
	t.Lost, l.Vxlan = h.lost(&t), &t
	return l
}
