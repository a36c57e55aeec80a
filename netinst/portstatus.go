package netinst

import (
	"cmp"
	"slices"

	"edgespan/netinst/netstate"
)

// PortStatuses joins the ports' configs with what the kernel shows of their
// interfaces: the seed's device network status.
func PortStatuses(configs []PortConfig, seen []netstate.Interface) []PortStatus {
	byName := map[string]netstate.Interface{}
	for _, i := range seen {
		byName[i.Name] = i
	}
	delete(byName, netstate.Loopback)
	out := make([]PortStatus, 0, len(configs))
	for _, c := range configs {
		i, ok := byName[string(c.IfName)]
		s := PortStatus{PortConfig: c, Exists: ok, Up: ok && i.Up, LinkMTU: i.MTU, Addresses: i.Addresses}
		if c.Gateway.IsValid() {
			s.Gateways = append(s.Gateways, c.Gateway)
		}
		for _, g := range i.Gateways {
			if !slices.Contains(s.Gateways, g) {
				s.Gateways = append(s.Gateways, g)
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b PortStatus) int { return cmp.Compare(a.Label, b.Label) })
	return out
}
