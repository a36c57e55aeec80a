package netinst

import (
	"net/netip"

	"edgespan/netinst/netstate"
)

// lastMetric is the highest metric of a route: the unreachable default below all
// others, so that a network's packets never fall through to the main table.
const lastMetric = 4294967295

const anywhere = "0.0.0.0/0"

// routes adds the network's own table and the two rules that lead to it.
func (b *builder) routes() {
	table, subnet := Table(b.n), b.Config.IPv4.Subnet
	b.state.Add(
		netstate.Rule{Priority: ruleFromBase + b.n, From: subnet.String(), Table: table},
		netstate.Rule{Priority: ruleToBase + b.n, To: subnet.String(), Table: table},
		netstate.Route{Table: table, Dst: subnet.String(), Type: netstate.Unicast, Dev: b.br, Src: b.Config.IPv4.Gateway.String()},
		netstate.Route{Table: table, Dst: anywhere, Type: netstate.Unreachable, Metric: lastMetric},
	)
	if b.port.Label == "" {
		return
	}
	b.portRoutes(table, b.port)
	if gw, ok := gatewayOf(b.port); ok {
		b.state.Add(netstate.Route{Table: table, Dst: anywhere, Type: netstate.Unicast, Dev: string(b.port.IfName), Via: gw.String()})
	}
	for _, r := range b.Config.Routes {
		b.staticRoute(table, r)
	}
}

// portRoutes adds the subnets that a port is connected to.
func (b *builder) portRoutes(table int, p PortStatus) {
	for _, a := range p.Addresses {
		if a.Addr().Is4() && !a.IsSingleIP() {
			b.state.Add(netstate.Route{
				Table: table, Dst: a.Masked().String(), Type: netstate.Unicast, Dev: string(p.IfName), Src: a.Addr().String(),
			})
		}
	}
}

// gatewayOf is the first gateway that can be reached through one of the port's
// subnets; the kernel refuses a route over any other.
func gatewayOf(p PortStatus) (netip.Addr, bool) {
	for _, gw := range p.Gateways {
		if reaches(p, gw) {
			return gw, true
		}
	}
	return netip.Addr{}, false
}

func reaches(p PortStatus, gw netip.Addr) bool {
	for _, a := range p.Addresses {
		if gw.Is4() && a.Masked().Contains(gw) {
			return true
		}
	}
	return false
}

// staticRoute adds one configured route: over its gateway, on the network itself
// if the gateway is an app of it, else on its port. One whose port is not usable,
// or can't reach the gateway, is left out: the kernel would refuse it.
func (b *builder) staticRoute(table int, r StaticRoute) {
	route := netstate.Route{Table: table, Dst: r.Destination.Masked().String(), Type: netstate.Unicast}
	if r.Gateway.IsValid() && b.Config.IPv4.Subnet.Contains(r.Gateway) {
		route.Dev, route.Via = b.br, r.Gateway.String()
		b.state.Add(route)
		return
	}
	p := b.port
	if r.Port != "" {
		var why string
		if p, why = ChoosePort(r.Port, b.Ports); why != "" {
			return
		}
		b.portRoutes(table, p)
	}
	route.Dev = string(p.IfName)
	if r.Gateway.IsValid() {
		if !reaches(p, r.Gateway) {
			return
		}
		route.Via = r.Gateway.String()
	}
	b.state.Add(route)
}

// exits are the ports that the network's packets may leave by: its own, and those
// of its static routes.
func (b *builder) exits() []PortStatus {
	if b.port.Label == "" {
		return nil
	}
	out := []PortStatus{b.port}
	for _, r := range b.Config.Routes {
		if r.Port == "" {
			continue
		}
		if p, why := ChoosePort(r.Port, b.Ports); why == "" && !containsPort(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func containsPort(ps []PortStatus, p PortStatus) bool {
	for _, o := range ps {
		if o.Label == p.Label {
			return true
		}
	}
	return false
}
