package verdict

import (
	"net/netip"
	"slices"

	"edgespan/netinst"
	"edgespan/netinst/probe"
)

// ICMP6 is the IP protocol number of ICMPv6, and EchoRequest6 the type of it that ping sends (RFC 4443).
const (
	ICMP6        = 58
	EchoRequest6 = 128
	echoReply6   = 129
	maxError6    = 4 // types 1 to 4 are errors
)

// The ports of DHCPv6 (RFC 8415 §7.2), and the address of its servers on a link.
const (
	dhcp6Client = 546
	dhcp6Server = 547
)

var (
	dhcp6Servers = netip.MustParseAddr("ff02::1:2")
	linkLocal6   = netip.MustParsePrefix("fe80::/64")
	bridge6      = netip.MustParseAddr("fe80::1") // each bridge's link-local address
	anywhere6    = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
)

// hiding are extension headers that no app may send, and the fragment header.
var hiding = []uint8{0, 43, 44, 51, 60, 135, 139, 140}

// minMTU6 is the MTU that a link with IPv6 must have (RFC 8200 §5).
const minMTU6 = 1280

// readIPv6 finds out whether a local network has IPv6, and its addresses. Own is its port, nil for none.
func (n *network) readIPv6(own *netinst.PortStatus) {
	c := n.Config.IPv6
	if n.isSwitch() || n.withdrawn || c.Mode == "" || n.mtu(own) < minMTU6 {
		return
	}
	n.hasIPv6 = true
	n.world.subnets[c.Subnet.Masked()] = n
	n.world.gateways[c.Gateway] = n
	n.world.lengths = append(n.world.lengths, c.Subnet.Bits())
	for _, a := range n.byKey {
		n.byIP[n.address6Of(a)] = a
	}
}

// readShared6 is readShared for IPv6. A prefix that is routed to the node is not shared: it belongs to one provider.
func (n *network) readShared6(own *netinst.PortStatus) (labels []string) {
	equals := n.Equals[probe.OfIPv6(n.Config.Port)]
	shares := n.hasIPv6 && n.Config.Share && n.Config.IPv6.NAT && !n.Config.Inactive && own != nil
	if !shares || !slices.Contains(equals, own.Label) {
		return nil
	}
	for _, p := range n.Ports {
		addressed := slices.ContainsFunc(p.Addresses, func(a netip.Prefix) bool { return isGlobal6(a.Addr()) })
		usable := p.Exists && p.Up && leads6(p) && addressed && p.Matches(n.Config.Port)
		if p.Label != own.Label && usable && slices.Contains(equals, p.Label) {
			n.uses6[p.Label] = true
			labels = append(labels, p.Label)
		}
	}
	return labels
}

// readRoutes6 finds the IPv6 routes by the network's port, beside which others share new flows.
func (n *network) readRoutes6(own *netinst.PortStatus, shared []string) {
	c := n.Config.IPv6
	if !n.hasIPv6 {
		return
	}
	for _, a := range own.Addresses {
		if isGlobal6(a.Addr()) && a.Masked() != c.Subnet.Masked() {
			n.routes = append(n.routes, way{Route: Route{Destination: a.Masked(), Port: own.Label}, port: own})
		}
	}
	if r, ok := own.DefaultRoute6(); ok {
		def := Route{Destination: anywhere6, Gateway: r.Gateway, Port: own.Label, Shared: shared}
		n.routes = append(n.routes, way{Route: def, port: own})
	}
}

func isGlobal6(a netip.Addr) bool { return a.Is6() && !a.IsLinkLocalUnicast() }

// mtu is the network's MTU: the configured one, else that of its port, else 1500.
func (n *network) mtu(own *netinst.PortStatus) int {
	list := []int{n.Config.MTU, n.Input.MTU, 1500}
	if own != nil {
		list = slices.Insert(list, 1, own.MTU, own.LinkMTU)
	}
	return list[slices.IndexFunc(list, func(m int) bool { return m > 0 })]
}

// passes6 reports whether the apps of a network may send IPv6 at all.
func (n *network) passes6() bool { return n.hasIPv6 || n.Config.BridgesIPv6() }

// address6Of returns an adapter's own IPv6 address: on a switch network the lowest that was observed, if possible not
// that of its link.
func (n *network) address6Of(a *netinst.Adapter) netip.Addr {
	if n.isSwitch() {
		if own := lowest(a.ObservedAddresses, isGlobal6); own.IsValid() {
			return own
		}
		return lowest(a.ObservedAddresses, netip.Addr.Is6)
	}
	return netinst.AdapterIP6(n.Config, a.Config.Spec, a.Lease)
}

// fromApp6 answers for an IPv6 packet that an app sends.
func (w *World) fromApp6(p Packet) Answer {
	n := w.members[p.Adapter]
	if n == nil || n.byKey[p.Adapter] == nil {
		return deny(NotActive)
	}
	a := n.byKey[p.Adapter]
	switch {
	case !n.passes6():
		return deny(NoIPv6)
	case n.isSwitch():
		return n.onSwitch6(a, p)
	}
	own, link := n.address6Of(a), netinst.EUI64(linkLocal6, a.Lease.MAC)
	if !p.Src.IsValid() {
		p.Src = own
	}
	if guard := frame6(p, own, link); guard != "" {
		return deny(guard)
	}
	toBridge := p.Dst == bridge6 && p.Proto == ICMP6 && p.ICMPType == EchoRequest6
	switch {
	case p.Dst == own || p.Dst == link:
		return deny(OwnAddress)
	case toBridge || n.asksDHCP6(p):
		return Answer{Verdict: Allow, To: Node, Src: p.Src, Checks: []Check{
			{Adapter: p.Adapter, Direction: netinst.Egress, BuiltIn: Essentials, Allows: true}}}
	case p.Dst.IsMulticast():
		return deny(Multicast)
	case p.Src == link || p.Dst.IsLinkLocalUnicast() && p.Dst != bridge6:
		return deny(LinkLocal)
	case p.Dst == bridge6 || w.isNode(p.Dst):
		return n.toNode(a, p)
	case n.Config.IPv6.Subnet.Contains(p.Dst):
		return n.bridged(a, p, p.Dst, nil)
	case p.Dst.IsLoopback() || p.Dst.IsUnspecified():
		return deny(NotRoutable)
	}
	return n.routed6(a, p)
}

func (n *network) asksDHCP6(p Packet) bool {
	return n.Config.IPv6.Mode == netinst.DHCPv6 && p.Dst == dhcp6Servers && p.asksDHCP()
}

// frame6 returns the guard that drops an IPv6 packet before any rule, "" for none. An app sends from its address and
// that of its link alone, whatever the network's spoofGuard says.
func frame6(p Packet, own, link netip.Addr) BuiltIn {
	switch {
	case slices.Contains(hiding, p.Proto):
		return HidingHeader
	case p.Src != own && p.Src != link:
		return SpoofGuard
	case p.Proto == ICMP6 && p.ICMPType != EchoRequest6 && p.ICMPType != echoReply6 &&
		(p.ICMPType < 1 || p.ICMPType > maxError6 || p.Src != own):
		return ICMP6Guard
	case p.Proto == UDP && p.DstPort == dhcp6Client:
		return DHCPGuard
	}
	return ""
}

// onSwitch6 is onSwitch for IPv6. As for IPv4, any address may be the app's own.
func (n *network) onSwitch6(a *netinst.Adapter, p Packet) Answer {
	if !p.Src.IsValid() {
		p.Src = n.address6Of(a)
	}
	routes := p.Proto == ICMP6 && slices.Contains([]uint8{130, 134, 137}, p.ICMPType) // asks for listeners, or is a router
	switch server := a.Config.Spec.DHCPServer; {
	case slices.Contains(hiding, p.Proto):
		return deny(HidingHeader)
	case routes && !server:
		return deny(ICMP6Guard)
	case p.Proto == UDP && p.DstPort == dhcp6Client && !server:
		return deny(DHCPGuard)
	}
	return n.onSwitch(a, p)
}

// discovers reports whether a packet is of neighbour discovery, about which no rule of a switch network decides.
func (p Packet) discovers() bool { return p.Proto == ICMP6 && p.ICMPType >= 133 && p.ICMPType <= 136 }

// routed6 answers for an IPv6 packet that leaves the network's subnet.
func (n *network) routed6(a *netinst.Adapter, p Packet) Answer {
	r := n.wayTo(p.Dst)
	switch {
	case n.world.subnetOf(p.Dst) != nil:
		return deny(OtherNetwork)
	case r == nil:
		return deny(NoRoute)
	}
	x := Answer{Verdict: Allow, Checks: []Check{n.decide(a, netinst.Egress, p.outgoing(r.port, false))}, To: Outside,
		Route: &r.Route, Src: p.Src}
	switch {
	case !x.Decided().Allows:
		x = denied(x.Checks...)
		x.Route = &r.Route
	case n.Config.IPv6.NAT:
		x.Verdict, x.Src, x.NATPort = Translate, r.source6(p.Dst), r.port.Label
	}
	return x
}

// source6 returns the address that a packet on this way gets: of the port's the one with the longest prefix in common
// with the destination (RFC 6724 §5, rule 8).
func (r *way) source6(dst netip.Addr) (best netip.Addr) {
	common := -1
	for _, a := range r.port.Addresses {
		if !isGlobal6(a.Addr()) {
			continue
		}
		bits := 0
		for bits < 128 && netip.PrefixFrom(a.Addr(), bits+1).Contains(dst) {
			bits++
		}
		if bits > common {
			best, common = a.Addr(), bits
		}
	}
	return best
}

// fromOutside6 answers for an IPv6 packet that arrives by a port.
func (w *World) fromOutside6(p Packet) Answer {
	port := w.ports[p.Port]
	for _, n := range w.networks {
		switch {
		case !n.isSwitch() || !n.uses[p.Port]:
		case n.passes6():
			return n.fromSegment(p)
		default:
			return deny(NoIPv6)
		}
	}
	switch {
	case port == nil:
		return deny(PortNotUsed)
	case p.Src.IsValid() && w.subnetOf(p.Src) != nil:
		return deny(ForgedSource)
	case p.Src.IsLoopback() || p.Src.IsMulticast() || p.Src.IsUnspecified():
		return deny(NotRoutable)
	}
	return w.enter(p, port)
}
