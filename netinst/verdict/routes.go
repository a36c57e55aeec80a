package verdict

import (
	"cmp"
	"net/netip"
	"slices"

	"edgespan/netinst"
	"edgespan/netinst/probe"
)

// way is a route of a network with its port, nil for one to an app of the network.
type way struct {
	Route

	port *netinst.PortStatus
}

var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// wayTo returns the route by which packets of the network reach an address: of several the one with the longest prefix,
// and of equal ones the first. nil means that there is none.
func (n *network) wayTo(a netip.Addr) *way {
	var best *way
	for i := range n.routes {
		if r := &n.routes[i]; r.Destination.Contains(a) && (best == nil || r.Destination.Bits() > best.Destination.Bits()) {
			best = r
		}
	}
	return best
}

// source returns the address that a packet on this way gets: that of the port in the subnet of the next hop, else the
// port's first.
func (r *way) source(dst netip.Addr) netip.Addr {
	next := r.Gateway
	if !next.IsValid() {
		next = dst
	}
	addrs := addresses(r.port)
	for _, a := range addrs {
		if a.Contains(next) {
			return a.Addr()
		}
	}
	if len(addrs) == 0 {
		return netip.Addr{}
	}
	return addrs[0].Addr()
}

// addresses returns a port's IPv4 addresses.
func addresses(p *netinst.PortStatus) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(p.Addresses), func(a netip.Prefix) bool { return !a.Addr().Is4() })
}

// readRoutes finds the ports that a network uses and its routes: static ones, the subnets of its port, and the port's
// default route.
func (n *network) readRoutes() {
	switch {
	case n.withdrawn:
		return
	case n.isSwitch():
		for _, p := range n.Ports {
			if n.Config.Port != "" && p.Matches(n.Config.Port) && !n.Config.Inactive {
				n.uses[p.Label] = true
			}
		}
		return
	}
	own := n.portFor(n.Config.Port, false, netip.Addr{})
	n.readIPv6(own)
	if n.Config.Inactive {
		return
	}
	if own != nil {
		n.uses[own.Label] = true
	}
	shared := n.readShared(own)
	own6 := n.portFor6(own)
	shared6 := n.readShared6(own6)
	n.readStatic(own, own6)
	if own == nil {
		return
	}
	n.readRoutes6(own6, shared6)
	for _, a := range addresses(own) {
		n.routes = append(n.routes, way{Route: Route{Destination: a.Masked(), Port: own.Label}, port: own})
	}
	if r, ok := own.DefaultRoute(); ok {
		def := Route{Destination: anywhere, Gateway: r.Gateway, Port: own.Label, Shared: shared}
		n.routes = append(n.routes, way{Route: def, port: own})
	}
}

// readShared finds the ports beside a network's own over which its new flows are spread.
func (n *network) readShared(own *netinst.PortStatus) (labels []string) {
	if own == nil || !n.Config.Share || !slices.Contains(n.Equals[n.Config.Port], own.Label) {
		return nil
	}
	for _, p := range n.Ports {
		if _, leads := p.DefaultRoute(); leads && p.Label != own.Label && p.Exists && p.Up && len(addresses(&p)) > 0 &&
			p.Matches(n.Config.Port) && slices.Contains(n.Equals[n.Config.Port], p.Label) {
			n.uses[p.Label] = true
			labels = append(labels, p.Label)
		}
	}
	return labels
}

// readStatic adds the static routes that can be used: of those to one destination one whose port works, then the one of
// lowest cost, then the first by name.
func (n *network) readStatic(own, own6 *netinst.PortStatus) {
	type candidate struct {
		way

		failing bool
		cost    int
	}
	var found []candidate
	for _, r := range n.Config.Routes {
		if r.Destination.Addr().Is6() && !n.hasIPv6 {
			continue
		}
		x := candidate{cost: r.Cost, way: way{Route: Route{Name: r.Name, Destination: r.Destination.Masked(),
			Gateway: r.Gateway}}}
		if r.Port != "" || !n.Config.IPv4.Subnet.Contains(r.Gateway) {
			if x.port = n.portOfRoute(r, own, own6); x.port == nil || r.Gateway.IsValid() && !isNeighbour(x.port, r.Gateway) {
				continue
			}
			x.Port, x.failing = x.port.Label, n.Failing[x.port.Label]
			if r.Destination.Addr().Is6() {
				x.failing = n.Failing[probe.OfIPv6(x.port.Label)]
			}
		}
		found = append(found, x)
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(compareBool(a.failing, b.failing), cmp.Compare(a.cost, b.cost), cmp.Compare(a.Name, b.Name))
	})
	for _, x := range found {
		if !slices.ContainsFunc(n.routes, func(r way) bool { return r.Destination == x.Destination }) {
			n.routes = append(n.routes, x.way)
		}
	}
}

// portOfRoute returns the port of a static route that leaves the node, nil for none. The network then uses that.
func (n *network) portOfRoute(r netinst.StaticRoute, own, own6 *netinst.PortStatus) *netinst.PortStatus {
	six := r.Destination.Addr().Is6()
	switch {
	case r.Port == "" && six:
		return own6
	case r.Port == "":
		return own
	}
	p := n.portFor(r.Port, six, r.Gateway)
	if p != nil {
		n.usesFor(r.Destination.Addr())[p.Label] = true
	}
	return p
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// usesFor returns the labels of the ports that a family uses.
func (n *network) usesFor(a netip.Addr) map[string]bool {
	if a.Is6() && !n.isSwitch() {
		return n.uses6
	}
	return n.uses
}

// portFor6 returns the port that IPv6 leaves by: that of IPv4, if no port has an IPv6 default route.
func (n *network) portFor6(own *netinst.PortStatus) *netinst.PortStatus {
	if own == nil || !n.hasIPv6 {
		return own
	}
	six := n.portFor(n.Config.Port, true, netip.Addr{})
	if !leads6(*six) {
		six = own
	}
	n.uses6[six.Label] = true
	return six
}

func leads6(p netinst.PortStatus) bool {
	_, out := p.DefaultRoute6()
	return out
}

// portFor returns the port for a value of `port`, nil for none: the one that was chosen. A route whose gateway is no
// neighbour there takes another port of that value that has it as a neighbour, if there is one.
func (n *network) portFor(selector string, six bool, gateway netip.Addr) *netinst.PortStatus {
	if selector == "" {
		return nil
	}
	name := selector
	p, _ := netinst.ChoosePort(selector, n.Ports)
	if six {
		name = probe.OfIPv6(selector)
		out := slices.DeleteFunc(slices.Clone(n.Ports), func(q netinst.PortStatus) bool { return !leads6(q) })
		if q, _ := netinst.ChoosePort(selector, out); q.Label != "" {
			p = q
		}
	}
	if label := n.Chosen[name]; label != "" {
		for _, q := range n.Ports {
			if q.Label == label && q.Matches(selector) && q.Exists && q.Up {
				p = q
			}
		}
	}
	if gateway.IsValid() && p.Label != "" && !isNeighbour(&p, gateway) {
		near := slices.DeleteFunc(slices.Clone(n.Ports), func(q netinst.PortStatus) bool { return !isNeighbour(&q, gateway) })
		if q, _ := netinst.ChoosePort(selector, near); q.Label != "" {
			p = q
		}
	}
	if p.Label == "" {
		return nil
	}
	return &p
}

// isNeighbour reports whether an address is on a subnet of a port, or a default gateway of it.
func isNeighbour(p *netinst.PortStatus, a netip.Addr) bool {
	for _, own := range p.Addresses {
		if own.Addr() == a {
			return false
		}
	}
	if slices.Contains(p.Gateways(), a) || a.Is6() && a.IsLinkLocalUnicast() {
		return true
	}
	if a.Is6() {
		return slices.ContainsFunc(p.Addresses, func(own netip.Prefix) bool { return own.Contains(a) })
	}
	for _, own := range addresses(p) {
		if own.Contains(a) && (own.Bits() >= 31 || a != last(own) && a != own.Masked().Addr()) {
			return true
		}
	}
	return false
}
