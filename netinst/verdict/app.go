package verdict

import (
	"net/netip"

	"edgespan/netinst"
)

// The ports of DHCP: servers and clients.
const (
	dhcpServer = 67
	dhcpClient = 68
	dns        = 53
)

var everybody = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// fromApp answers for a packet that an app sends.
func (w *World) fromApp(p Packet) Answer {
	n := w.members[p.Adapter]
	if n == nil || n.byKey[p.Adapter] == nil {
		return deny(NotActive)
	}
	a := n.byKey[p.Adapter]
	own := n.addressOf(a)
	if !p.Src.IsValid() {
		p.Src = own
	}
	if guard := n.frame(a, p, own); guard != "" {
		return deny(guard)
	}
	if n.isSwitch() {
		return n.onSwitch(a, p)
	}
	subnet := n.Config.IPv4.Subnet
	gateway := n.Config.IPv4.Gateway
	switch {
	case p.Dst == own:
		return deny(OwnAddress)
	case p.Dst == everybody || p.Dst.IsMulticast() || p.Dst == last(subnet):
		return n.broadcast(a, p)
	case n.withdrawn && !subnet.Contains(p.Dst):
		return deny(WithdrawnSubnet)
	case n.withdrawn && p.Dst == gateway:
		return deny(WithdrawnSubnet)
	case n.mayOverlap() && w.isNode(p.Dst):
		return n.asksNode(a, p)
	case n.isAnswer(p.Dst):
		return deny(HiddenGateway)
	case w.isNode(p.Dst) && p.Dst != gateway:
		if led, m, found := w.mapped(p); found {
			return n.throughMap(a, led, m)
		}
		return n.toNode(a, p)
	case p.Dst == gateway:
		return n.toNode(a, p)
	case subnet.Contains(p.Dst):
		return n.bridged(a, p, p.Dst, nil)
	case p.Dst.IsLoopback() || zeroNet.Contains(p.Dst):
		return deny(NotRoutable)
	}
	return n.routed(a, p)
}

var zeroNet = netip.PrefixFrom(netip.IPv4Unspecified(), 8)

// isNode reports whether packets of networks to an address reach the node: it is one of its own, or a port's broadcast
// address.
func (w *World) isNode(a netip.Addr) bool {
	if w.own[a] || w.gateways[a] != nil {
		return true
	}
	for _, p := range w.ports {
		for _, own := range p.Addresses {
			if own.Addr().Is4() && own.Bits() < 31 && last(own) == a {
				return true
			}
		}
	}
	return false
}

// frame returns the guard that drops a packet before any rule, "" for none. On a switch network the guard knows an
// app's MAC, and any address may be its own.
func (n *network) frame(a *netinst.Adapter, p Packet, own netip.Addr) BuiltIn {
	asks := p.asksDHCP()
	unset := asks && p.Src.IsUnspecified() // a client that has no address yet
	switch {
	case !n.isSwitch() && n.Config.SpoofGuard && p.Src != own && !unset:
		return SpoofGuard
	case p.Proto == UDP && p.DstPort == dhcpClient && !(n.isSwitch() && a.Config.Spec.DHCPServer):
		return DHCPGuard
	case p.Proto == UDP && p.DstPort == dhcpServer && !asks && !n.isSwitch():
		return DHCPGuard
	}
	return ""
}

// essential reports whether a packet to the node is DHCP, DNS or ping to the network's gateway.
func (n *network) essential(p Packet) bool {
	gateway := p.Dst == n.Config.IPv4.Gateway || p.Dst == n.Config.IPv6.Gateway
	switch p.Proto {
	case ICMP6:
		return gateway && p.Dst.Is6() && p.ICMPType == EchoRequest6
	case UDP:
		return gateway && p.DstPort == dns || p.Dst.Is4() && p.asksDHCP() && (gateway || p.Dst == everybody)
	case TCP:
		return gateway && p.DstPort == dns
	case ICMP:
		return gateway && p.Dst.Is4() && p.ICMPType == EchoRequest
	}
	return false
}

func (n *network) toNode(a *netinst.Adapter, p Packet) Answer {
	c := Check{Adapter: a.Config.Key(), Direction: netinst.Egress, BuiltIn: Essentials, Allows: true}
	if !n.essential(p) {
		c = n.decide(a, netinst.Egress, p.outgoing(nil, true))
	}
	switch {
	case !c.Allows:
		return denied(c)
	case p.Src.Is4() && n.world.isNode(p.Src):
		return deny(ForgedSource, c)
	}
	return Answer{Verdict: Allow, Checks: []Check{c}, To: Node, Src: p.Src}
}

// asksNode answers for a packet to the node from an app whose addresses others may have.
func (n *network) asksNode(a *netinst.Adapter, p Packet) Answer {
	switch {
	case n.isAnswer(p.Dst):
		return deny(HiddenGateway)
	case !n.essential(p):
		return deny(MayOverlap)
	case p.DstPort != dhcpServer && !n.Config.IPv4.Subnet.Contains(p.Src): // the node has no way back
		return deny(ForgedSource)
	}
	return n.toNode(a, p)
}

// isAnswer reports whether the node answers a network with mayOverlap at an address. No packet may name it.
func (n *network) isAnswer(a netip.Addr) bool {
	x := n.world.gateways[a]
	return x != nil && x.mayOverlap() && a == netinst.AnswerAddr(x.Owner.Number)
}

// bridged answers for a packet to another adapter of the network, the one that has the address hop: its own, or that of
// an app that routes. Both ends must allow.
func (n *network) bridged(a *netinst.Adapter, p Packet, hop netip.Addr, r *Route) Answer {
	out := n.decide(a, netinst.Egress, p.outgoing(nil, false))
	if !out.Allows {
		return denied(out)
	}
	to := n.byIP[hop]
	if to == nil || to == a {
		return deny(NoAdapter, out)
	}
	in := n.decide(to, netinst.Ingress, p.incoming(nil, false))
	if !in.Allows {
		return denied(out, in)
	}
	return Answer{Verdict: Allow, Checks: []Check{out, in}, To: App, Adapter: to.Config.Key(), Src: p.Src, Route: r}
}

// broadcast answers for a packet to all stations of the bridge: each adapter's ingress and, for the node, the rules
// toward it decide about their own copy.
func (n *network) broadcast(a *netinst.Adapter, p Packet) Answer {
	if n.essential(p) {
		return n.toNode(a, p)
	}
	out := n.decide(a, netinst.Egress, p.outgoing(nil, false))
	if !out.Allows {
		return denied(out)
	}
	return Answer{Verdict: Allow, Checks: []Check{out}, To: Segment, Src: p.Src}
}

// routed answers for a packet that leaves the network's subnet.
func (n *network) routed(a *netinst.Adapter, p Packet) Answer {
	r := n.wayTo(p.Dst)
	switch {
	case r != nil && r.port == nil:
		return n.bridged(a, p, r.Gateway, &r.Route)
	case n.world.subnetOf(p.Dst) != nil:
		return deny(OtherNetwork)
	case r == nil:
		return deny(NoRoute)
	case n.world.isNode(p.Src):
		return deny(ForgedSource)
	case !n.Config.IPv4.Subnet.Contains(p.Src):
		return deny(Untranslatable)
	}
	out := n.decide(a, netinst.Egress, p.outgoing(r.port, false))
	if !out.Allows {
		x := denied(out)
		x.Route = &r.Route
		return x
	}
	return n.leaves(r, p, out)
}

// leaves answers for a packet that may leave the node by a port.
func (n *network) leaves(r *way, p Packet, out Check) Answer {
	if !n.Config.Translates() {
		return Answer{Verdict: Allow, Checks: []Check{out}, To: Outside, Route: &r.Route, Src: p.Src}
	}
	return Answer{Verdict: Translate, Checks: []Check{out}, To: Outside, Route: &r.Route, Src: r.source(p.Dst),
		NATPort: r.port.Label}
}

// onSwitch answers for a packet of an app of a switch network: an address that no app is known to have may be behind
// its port, or that of any app.
func (n *network) onSwitch(a *netinst.Adapter, p Packet) Answer {
	out := n.decide(a, netinst.Egress, p.outgoing(nil, false))
	if p.asksDHCP() || p.discovers() {
		out = Check{Adapter: a.Config.Key(), Direction: netinst.Egress, BuiltIn: Essentials, Allows: true}
	}
	if !out.Allows {
		return denied(out)
	}
	to := n.byIP[p.Dst]
	switch {
	case to == nil:
		return Answer{Verdict: Allow, Checks: []Check{out}, To: Segment, Src: p.Src}
	case to == a:
		return deny(OwnAddress)
	case !a.Config.Spec.SharesVLAN(to.Config.Spec):
		return deny(OtherVLAN, out)
	}
	in := n.receives(to, p)
	if !in.Allows {
		return denied(out, in)
	}
	return Answer{Verdict: Allow, Checks: []Check{out, in}, To: App, Adapter: to.Config.Key(), Src: p.Src}
}

// receives decides whether an app of a switch network gets a packet: answers of DHCP and neighbour discovery always.
func (n *network) receives(to *netinst.Adapter, p Packet) Check {
	if p.answersDHCP() || p.discovers() {
		return Check{Adapter: to.Config.Key(), Direction: netinst.Ingress, BuiltIn: Essentials, Allows: true}
	}
	return n.decide(to, netinst.Ingress, p.incoming(nil, false))
}

// asksDHCP reports whether a packet is from the port of DHCP clients to that of servers, of its family.
func (p Packet) asksDHCP() bool {
	client, server := p.dhcpPorts()
	return p.Proto == UDP && p.SrcPort == client && p.DstPort == server
}

// answersDHCP reports whether a packet is from the port of DHCP servers to that of clients, of its family.
func (p Packet) answersDHCP() bool {
	client, server := p.dhcpPorts()
	return p.Proto == UDP && p.SrcPort == server && p.DstPort == client
}

func (p Packet) dhcpPorts() (client, server uint16) {
	if p.Dst.Is6() {
		return dhcp6Client, dhcp6Server
	}
	return dhcpClient, dhcpServer
}

// last returns the last address of a prefix: of a subnet its broadcast address.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := range p.Addr().BitLen() - p.Bits() {
		b[len(b)-1-i/8] |= 1 << (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
