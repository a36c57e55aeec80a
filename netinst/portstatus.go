package netinst

import (
	"cmp"
	"net/netip"
	"slices"

	"edgespan/netinst/netstate"
)

// PortStatuses joins the ports' configs with the kernel's state of their interfaces (the device network status of the
// seed eve-bridge-manager).
func PortStatuses(configs []PortConfig, interfaces []netstate.Interface) []PortStatus {
	byName := map[string]netstate.Interface{}
	for _, i := range interfaces {
		byName[i.Name] = i
	}
	delete(byName, netstate.Loopback)
	out := make([]PortStatus, 0, len(configs))
	for _, c := range configs {
		i, ok := byName[string(c.IfName)]
		p := PortStatus{
			PortConfig: c, Exists: ok, Up: ok && i.Up, PointToPoint: i.PointToPoint, LinkMTU: i.MTU, Addresses: i.Addresses,
			DefaultRoutes: i.DefaultRoutes,
		}
		if c.VLAN != (VLAN{}) {
			_, found := byName[string(c.VLAN.Parent)]
			p.NoParent = !found
		}
		if len(c.DNSServers) == 0 {
			p.Learnt = learntDNS(i, interfaces)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b PortStatus) int { return cmp.Compare(a.Label, b.Label) })
	return out
}

// DefaultRoute is the route that networks take through p: by the configured gateway, else the best of the kernel's main
// table that p's addresses can use. It is an IPv4 route, as networks are.
//
// A route without a gateway needs an address that is not link-local: zeroconf clients put such a route on every
// interface without DHCP (avahi-autoipd(8)). A gateway outside all subnets of p is a neighbour nevertheless: some
// providers assign an address of /32 (ip-route(8), onlink).
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

// needsOnLink reports whether a gateway is outside all subnets of p: the kernel accepts it as a neighbour only with the
// flag onlink.
func (p PortStatus) needsOnLink(gateway netip.Addr) bool {
	return gateway.Is4() && !slices.ContainsFunc(connected(p), func(a netip.Prefix) bool { return a.Contains(gateway) })
}

// Gateways returns the addresses of p's default gateways, the configured one first.
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

// Describe summarises the attributes of a port that matter to networks.
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
