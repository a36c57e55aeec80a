package netinst

import (
	"cmp"
	"net/netip"
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
		p := PortStatus{
			PortConfig: c, Exists: ok, Up: ok && i.Up, LinkMTU: i.MTU, Addresses: i.Addresses, DefaultRoutes: i.DefaultRoutes,
		}
		if len(c.DNSServers) == 0 {
			p.Learnt = learntDNS(i, seen)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b PortStatus) int { return cmp.Compare(a.Label, b.Label) })
	return out
}

// DefaultRoute is the one that networks take through p: by the configured gateway, else
// the best of the kernel's main table that p's addresses can use. It is an IPv4 route, as
// networks are.
//
// One without a gateway needs an address that is not link-local: zeroconf clients put
// such a route on every interface without DHCP (avahi-autoipd(8)). A gateway on no subnet
// of p is a neighbour all the same: providers give out an address of /32 (ip-route(8), onlink).
func (p PortStatus) DefaultRoute() (netstate.DefaultRoute, bool) {
	routes := p.DefaultRoutes
	if p.Gateway.IsValid() {
		routes = []netstate.DefaultRoute{netstate.DefaultVia(p.Gateway)}
	}
	for _, r := range routes {
		own := func(a netip.Prefix) bool { return a.Addr() == r.Gateway }
		global := func(a netip.Prefix) bool { return !a.Addr().IsLinkLocalUnicast() }
		if r.IPv6 || slices.ContainsFunc(p.Addresses, own) || !r.Gateway.IsValid() &&
			!slices.ContainsFunc(connected(p), global) {
			continue
		}
		r.OnLink = r.OnLink || p.needsOnLink(r.Gateway)
		return r, true
	}
	return netstate.DefaultRoute{}, false
}

// needsOnLink says whether a gateway is on no subnet of p: the kernel takes it for a
// neighbour only if it is told so.
func (p PortStatus) needsOnLink(gateway netip.Addr) bool {
	return gateway.Is4() && !slices.ContainsFunc(connected(p), func(a netip.Prefix) bool { return a.Contains(gateway) })
}

// Gateways are the addresses of p's default gateways, the configured one first.
func (p PortStatus) Gateways() []netip.Addr {
	var out []netip.Addr
	if p.Gateway.IsValid() {
		out = append(out, p.Gateway)
	}
	for _, r := range p.DefaultRoutes {
		if r.Gateway.IsValid() && !slices.Contains(out, r.Gateway) {
			out = append(out, r.Gateway)
		}
	}
	return out
}

// Describe is the port in a few words: those that change what networks can do with it.
func (p PortStatus) Describe() string {
	switch {
	case !p.Exists:
		return "missing"
	case !p.Up:
		return "down"
	}
	addrs := slices.DeleteFunc(slices.Clone(p.Addresses),
		func(a netip.Prefix) bool { return a.Addr().IsLinkLocalUnicast() })
	if len(addrs) == 0 {
		return "up without address"
	}
	text := addrs[0].String()
	for _, a := range addrs[1:] {
		text += "," + a.String()
	}
	if r, out := p.DefaultRoute(); out {
		return "up with " + text + " " + r.String()
	}
	return "up with " + text + ", without default route"
}
