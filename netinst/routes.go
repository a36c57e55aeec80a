package netinst

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// unreachableMetric is the highest metric: it is of the route that ends a network's table when no other matches, so
// that a packet never falls through to the main table.
const unreachableMetric = 4294967295

var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// routes is the network's own table. Of two routes to one destination the earlier in this order wins: the subnet
// itself, static routes, subnets of the port, the port's default gateway.
func (nw network) routes() []netstate.Object {
	table := Table(nw.n)
	subnet := nw.Config.IPv4.Subnet.Masked()
	taken := map[netip.Prefix]bool{}
	objs := []netstate.Object{netstate.Route{
		Table: table, Dst: anywhere.String(), Type: netstate.Unreachable, Metric: unreachableMetric,
	}}
	add := func(dst netip.Prefix, r netstate.Route) {
		dst = dst.Masked()
		if !dst.Addr().Is4() || taken[dst] {
			return
		}
		taken[dst] = true
		if r.Dev == string(nw.bridge) {
			r.After = nw.address().ID()
		}
		r.Table, r.Dst, r.Type = table, dst.String(), netstate.Unicast
		objs = append(objs, r)
	}
	add(subnet, netstate.Route{Dev: string(nw.bridge), Src: nw.Config.IPv4.Gateway.String()})
	for _, r := range nw.staticRoutes() {
		add(r.Destination, nw.staticRoute(r))
	}
	if nw.port != nil {
		for _, p := range connected(*nw.port) {
			add(p, netstate.Route{Dev: string(nw.port.IfName), Src: p.Addr().String()})
		}
		if r, ok := nw.port.DefaultRoute(); ok {
			add(anywhere, by(*nw.port, r.Gateway, r.OnLink))
		}
	}
	return objs
}

// by returns a route through a port: to a gateway, or on link if the gateway is not valid.
func by(p PortStatus, gateway netip.Addr, onLink bool) netstate.Route {
	r := netstate.Route{Dev: string(p.IfName), OnLink: onLink}
	if gateway.IsValid() {
		r.Via = gateway.String()
	}
	return r
}

// configuredRoutes returns the static routes by name.
func (nw network) configuredRoutes() []StaticRoute {
	rs := slices.Clone(nw.Config.Routes)
	slices.SortFunc(rs, func(a, b StaticRoute) int { return strings.Compare(a.Name, b.Name) })
	return rs
}

// staticRoutes returns the configured routes that can be applied now, by name.
func (nw network) staticRoutes() []StaticRoute {
	return slices.DeleteFunc(nw.configuredRoutes(), func(r StaticRoute) bool { return nw.routeFault(r) != "" })
}

// routeFault returns why a static route cannot be applied now: a route through a port waits for the port, and for an
// address there from which its gateway is reached. The kernel would refuse it, and one route must not prevent a whole
// network from working.
func (nw network) routeFault(r StaticRoute) string {
	if nw.inside(r) {
		return ""
	}
	p, why := nw.portOf(r)
	switch {
	case why != "":
		return why
	case r.Gateway.IsValid() && !reaches(p, r.Gateway):
		return fmt.Sprintf("gateway %s is on no subnet of port %s (%s)", r.Gateway, p.Label, p.IfName)
	}
	return ""
}

// routeFaults is the network's warning about its static routes, "" for none.
func (nw network) routeFaults() string {
	var faults []string
	if nw.Config.Inactive {
		return "" // it has no routes
	}
	for _, r := range nw.configuredRoutes() {
		// Problems of the network's own port are reported once, as PortError.
		if why := nw.routeFault(r); why != "" && (r.Port != "" || nw.port != nil) {
			faults = append(faults, fmt.Sprintf("route %s is left out: %s", r.Name, why))
		}
	}
	return strings.Join(faults, "; ")
}

// reaches reports whether a port has a neighbour with this address: in the subnet of one of its own addresses, or as
// its default gateway, which may be on link by a route of the kernel's main table alone.
func reaches(p PortStatus, a netip.Addr) bool {
	if slices.Contains(p.Gateways(), a) {
		return !slices.ContainsFunc(p.Addresses, func(own netip.Prefix) bool { return own.Addr() == a })
	}
	return slices.ContainsFunc(connected(p), func(own netip.Prefix) bool {
		edge := own.Bits() < 31 && (a == own.Masked().Addr() || a == lastAddress(own))
		return own.Contains(a) && a != own.Addr() && !edge
	})
}

// inside reports whether a route's gateway is one of the network's own hosts.
func (nw network) inside(r StaticRoute) bool {
	return r.Port == "" && nw.Config.IPv4.Subnet.Contains(r.Gateway)
}

// portOf returns the port of a static route, or why there is none: of several, one that has the route's gateway as a
// neighbour comes first.
func (nw network) portOf(r StaticRoute) (PortStatus, string) {
	switch {
	case r.Port != "":
		return choosePort(r.Port, nw.Ports, func(p PortStatus) bool { return !r.Gateway.IsValid() || reaches(p, r.Gateway) })
	case nw.port != nil:
		return *nw.port, ""
	}
	return PortStatus{}, "the network has no port"
}

func (nw network) staticRoute(r StaticRoute) netstate.Route {
	if nw.inside(r) {
		return netstate.Route{Dev: string(nw.bridge), Via: r.Gateway.String()}
	}
	p, _ := nw.portOf(r)
	return by(p, r.Gateway, p.needsOnLink(r.Gateway))
}

// connected returns a port's IPv4 addresses with their prefix lengths, in order.
func connected(p PortStatus) []netip.Prefix {
	var ps []netip.Prefix
	for _, a := range p.Addresses {
		if a.Addr().Is4() {
			ps = append(ps, a)
		}
	}
	slices.SortFunc(ps, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return ps
}

// rules lead packets from and to the subnet through the network's table.
func (nw network) rules() []netstate.Object {
	subnet := nw.Config.IPv4.Subnet.Masked().String()
	objs := []netstate.Object{
		netstate.Rule{Priority: ruleFromBase + nw.n, From: subnet, Table: Table(nw.n)},
		netstate.Rule{Priority: ruleToBase + nw.n, To: subnet, Table: Table(nw.n)},
	}
	if nw.asksByOwnTable() {
		objs = append(objs, netstate.Rule{
			Priority: ruleDNSBase + nw.n, OIF: string(nw.port.IfName), DPort: 53, Table: Table(nw.n),
			After: netstate.Route{Table: Table(nw.n), Dst: anywhere.String()}.ID(),
		})
	}
	return objs
}

// asksByOwnTable reports whether the network's DNS server needs the network's table: it queries from the node's own
// address, by the main table, where the port may have another route than the configured one, or none. Only queries from
// sockets bound to the port use it: no other traffic of the host may change its route.
func (nw network) asksByOwnTable() bool {
	if nw.port == nil || len(nw.upstreamServers()) == 0 {
		return false
	}
	way, out := nw.port.DefaultRoute()
	i := slices.IndexFunc(nw.port.DefaultRoutes, func(r netstate.DefaultRoute) bool { return !r.IPv6 })
	return out && (i < 0 || nw.port.DefaultRoutes[i].Gateway != way.Gateway)
}
