package netinst

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// unreachableMetric is the highest metric. The unreachable default route with it is the last that a network's table
// tries: without it, a packet that no other route matches would go on to the main table.
const unreachableMetric = 4294967295

var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// routes returns the routes of the network's own table. Of two routes to one destination the earlier in this order
// wins: the subnet itself, static routes, subnets of the port, the port's default gateway.
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
		r.Table = table
		objs = append(objs, nw.unicast(dst, r))
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
			add(anywhere, byPort(*nw.port, r.Gateway, r.OnLink))
		}
	}
	return objs
}

// byPort returns a route through a port: to a gateway, or on link if the gateway is not valid.
func byPort(p PortStatus, gateway netip.Addr, onLink bool) netstate.Route {
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

// staticRoutes returns the configured routes that can be applied now, by name: of those to one destination the one of
// lowest cost whose port works.
func (nw network) staticRoutes() []StaticRoute {
	best := map[netip.Prefix]StaticRoute{}
	usable := slices.DeleteFunc(nw.configuredRoutes(), func(r StaticRoute) bool { return nw.routeFault(r) != "" })
	for _, r := range usable {
		to := r.Destination.Masked()
		if other, beside := best[to]; !beside || nw.preferred(r, other) < 0 {
			best[to] = r
		}
	}
	return slices.DeleteFunc(usable, func(r StaticRoute) bool { return best[r.Destination.Masked()].Name != r.Name })
}

// preferred compares two routes to one destination.
func (nw network) preferred(a, b StaticRoute) int {
	return cmp.Or(order(nw.fails(a), nw.fails(b)), cmp.Compare(a.Cost, b.Cost))
}

// fails reports whether a route leaves by a port that does not work.
func (nw network) fails(r StaticRoute) bool {
	if nw.inside(r) {
		return false
	}
	p, _ := nw.portOf(r)
	if r.Destination.Addr().Is6() {
		return nw.Failing[probe.OfIPv6(p.Label)]
	}
	return nw.Failing[p.Label]
}

// routeFault returns why a static route cannot be applied now, "" if it can: a route through a port waits until the
// port exists and has the gateway as a neighbour. The kernel would refuse it before, and one route must not prevent a
// whole network from working.
func (nw network) routeFault(r StaticRoute) string {
	if nw.inside(r) {
		return ""
	}
	p, why := nw.portOf(r)
	switch {
	case r.Destination.Addr().Is6() && !nw.hasIPv6():
		return "the network has no IPv6"
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
	if slices.Contains(p.Gateways(), a) || a.Is6() && a.IsLinkLocalUnicast() {
		return !slices.ContainsFunc(p.Addresses, func(own netip.Prefix) bool { return own.Addr() == a })
	}
	if a.Is6() {
		return slices.ContainsFunc(p.Addresses, func(own netip.Prefix) bool { return own.Contains(a) && own.Addr() != a })
	}
	return slices.ContainsFunc(connected(p), func(own netip.Prefix) bool {
		edge := own.Bits() < 31 && (a == own.Masked().Addr() || a == lastAddress(own))
		return own.Contains(a) && a != own.Addr() && !edge
	})
}

// inside reports whether a route's gateway is in the network's own subnet, as an app that routes is.
func (nw network) inside(r StaticRoute) bool {
	return r.Port == "" && nw.Config.IPv4.Subnet.Contains(r.Gateway)
}

// portOf returns the port of a static route, or why there is none: of several, one that has the route's gateway as a
// neighbour comes first.
func (nw network) portOf(r StaticRoute) (PortStatus, string) {
	choose, own := nw.choose, nw.port
	if r.Destination.Addr().Is6() {
		choose, own = nw.choose6, nw.port6
	}
	switch {
	case r.Port != "":
		p, why := choose(r.Port)
		if why != "" || !r.Gateway.IsValid() || reaches(p, r.Gateway) {
			return p, why
		}
		return choosePort(r.Port, nw.Ports, func(p PortStatus) bool { return !r.Gateway.IsValid() || reaches(p, r.Gateway) })
	case own != nil:
		return *own, ""
	}
	return PortStatus{}, "the network has no port"
}

func (nw network) staticRoute(r StaticRoute) netstate.Route {
	if nw.inside(r) {
		return netstate.Route{Dev: string(nw.bridge), Via: r.Gateway.String()}
	}
	p, _ := nw.portOf(r)
	return byPort(p, r.Gateway, p.needsOnLink(r.Gateway))
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

// rules returns the policy rules that look up packets from and to the subnet in the network's table.
func (nw network) rules() []netstate.Object {
	subnet := nw.Config.IPv4.Subnet.Masked().String()
	if nw.Config.IPv4.MayOverlap {
		return nw.answerRules(subnet)
	}
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

// asksByOwnTable reports whether the queries of the network's DNS server to other servers need the network's table.
// They have the node's own address, so they are routed by the main table, where the port may have another default route
// than the configured one, or none. The rule matches only sockets that are bound to the port: no other traffic of the
// host may change its route.
func (nw network) asksByOwnTable() bool {
	return nw.port != nil && nw.under == nil && len(nw.upstreamServers()) > 0 && otherDefault(*nw.port)
}

// otherDefault reports whether networks have another default route by a port than the host's main table has, if any.
func otherDefault(p PortStatus) bool {
	way, out := p.DefaultRoute()
	i := slices.IndexFunc(p.DefaultRoutes, func(r netstate.DefaultRoute) bool { return !r.IPv6 })
	return out && (i < 0 || p.DefaultRoutes[i].Gateway != way.Gateway)
}

// offersDefault reports whether apps get a default route by DHCP, so that one with several adapters takes that of a
// network which leads out. Air-gapped networks have none. One of an uplink keeps it while the uplink does not work: an
// app would look for it until the next renewal of its lease. One of other ports alone has it while one of these has.
func (nw network) offersDefault() bool {
	selected := slices.DeleteFunc(slices.Clone(nw.Ports), func(p PortStatus) bool { return !p.Matches(nw.Config.Port) })
	byRoute := func(r StaticRoute) bool { return r.Destination.Masked() == anywhere }
	byPort := func(p PortStatus) bool {
		_, out := p.DefaultRoute()
		return out || p.Uplink
	}
	return nw.Config.Port != "" && (len(selected) == 0 || slices.ContainsFunc(selected, byPort) ||
		slices.ContainsFunc(nw.Config.Routes, byRoute))
}

const classlessOption = "option:classless-static-route"

// maxOptionLine is the longest line of options that dnsmasq reads, without its end (2.90: MAXDNAME - 2). It would read
// the rest as another line.
const maxOptionLine = 1023

// appGateways are the addresses of apps that are gateways of IPv4 routes, by the config, in the order of the routes: no
// more than an option of DHCP holds.
func (nw network) appGateways() (list []netip.Addr) {
	for _, r := range nw.configuredRoutes() {
		if nw.inside(r) && r.Destination.Addr().Is4() && !slices.Contains(list, r.Gateway) && len(list) < maxOption/6 {
			list = append(list, r.Gateway)
		}
	}
	return list
}

// gatewayRanges give a client with the address of such a gateway a tag of its own (classlessOptions). The ranges are
// for clients with a reservation alone, and so for the one that has this address reserved.
//
// A reservation could set a tag by itself, but dnsmasq 2.90 crashes when it reads reservations again after one with a
// tag was used: rfc2131.c links the tag to others, which dhcp_netid_free then frees.
func (nw network) gatewayRanges() (lines []string) {
	for _, gw := range nw.appGateways() {
		lines = append(lines, fmt.Sprintf("dhcp-range=tag:known,set:%s,%s,%s,%s%s", nw.gatewayTag(gw), gw, gw,
			netmask(nw.Config.IPv4.Subnet), leaseTime))
	}
	return lines
}

// classlessOptions are the lines of option 121. An app that is the gateway of routes gets them without its own, which
// would lead its packets back to itself: its address has a tag. The lines depend on the config and the ports alone, so
// that no app that comes or goes changes them.
func (nw network) classlessOptions() (lines []string) {
	words, gateways := nw.classlessRoutes(netip.Addr{}, len(classlessOption))
	others := ""
	for _, gw := range gateways {
		tag := nw.gatewayTag(gw)
		others += "tag:!" + tag + ","
		own := "tag:" + tag + "," + classlessOption
		if words, _ := nw.classlessRoutes(gw, len(own)); len(words) > 0 {
			lines = append(lines, own+","+strings.Join(words, ","))
		}
	}
	if len(words) > 0 {
		lines = append(lines, others+classlessOption+","+strings.Join(words, ","))
	}
	return lines
}

// gatewayTag is dnsmasq's tag of an address: the same whichever others there are.
func (nw network) gatewayTag(of netip.Addr) string {
	base, addr := nw.Config.IPv4.Subnet.Masked().Addr().As4(), of.As4()
	return fmt.Sprint("gateway", binary.BigEndian.Uint32(addr[:])-binary.BigEndian.Uint32(base[:]))
}

// classlessRoutes returns the pairs of option 121 for the app at an address, in a line that begins with so many octets,
// and the apps that are gateways of them, which need a tag each. A client that uses the option ignores option 3, so it
// includes the default route. Routes that do not fit are routed by the network's gateway anyway.
func (nw network) classlessRoutes(of netip.Addr, begins int) (words []string, gateways []netip.Addr) {
	octets, text := maxOption, maxOptionLine-begins
	seen := map[netip.Prefix]bool{nw.Config.IPv4.Subnet.Masked(): true}
	add := func(dst netip.Prefix, via netip.Addr, tag string) bool {
		dst = dst.Masked()
		size, long := 1+(dst.Bits()+7)/8+4, len(","+dst.String()+","+via.String()+tag)
		if !dst.Addr().Is4() || seen[dst] || size > octets || long > text {
			return false
		}
		seen[dst] = true
		octets, text = octets-size, text-long
		words = append(words, dst.String(), via.String())
		return true
	}
	gw := nw.Config.IPv4.Gateway
	routes, tagged := nw.staticRoutes(), nw.appGateways()
	for _, r := range routes {
		switch tag := ""; {
		case !nw.inside(r) || !slices.Contains(tagged, r.Gateway):
		case r.Gateway == of:
			seen[r.Destination.Masked()] = true
		default:
			if !slices.Contains(gateways, r.Gateway) {
				tag = "tag:!" + nw.gatewayTag(r.Gateway) + ","
			}
			if add(r.Destination, r.Gateway, tag) && tag != "" {
				gateways = append(gateways, r.Gateway)
			}
		}
	}
	if nw.offersDefault() {
		add(anywhere, gw, "")
	}
	for _, r := range routes {
		add(r.Destination, gw, "")
	}
	if nw.port != nil {
		for _, p := range connected(*nw.port) {
			add(p, gw, "")
		}
	}
	return words, gateways
}
