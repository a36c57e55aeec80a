package verdict

import (
	"net/netip"

	"edgespan/netinst"
)

// fromNode answers for a packet that the node itself sends.
func (w *World) fromNode(p Packet) Answer {
	ownDHCP := p.Proto == UDP && (p.SrcPort == dhcpServer || p.DstPort == dhcpServer) // checks of the DHCP servers
	if led, m, found := w.mapped(p); found && !ownDHCP {
		if !p.Src.IsValid() {
			led.Src = p.Dst // the kernel's choice toward an address of its own
		}
		return m.led(led, m.net.decide(m.to, netinst.Ingress, led.incoming(nil, true)))
	}
	return w.deliver(p)
}

// deliver answers for a packet of the node itself that no map takes.
func (w *World) deliver(p Packet) Answer {
	n := w.subnetOf(p.Dst)
	if to := w.members[p.Adapter]; to != nil && to.mayOverlap() && !to.withdrawn && p.Dst.Is4() {
		n = to
	}
	switch {
	case w.isNode(p.Dst):
		return ofHost(p, Node)
	case n != nil && n.mayOverlap() && p.Dst.Is4():
		return deny(MayOverlap)
	case n == nil:
		return ofHost(p, Outside)
	case n.byIP[p.Dst] == nil:
		return deny(NoAdapter)
	}
	gateway := n.Config.IPv4.Gateway
	if p.Dst.Is6() {
		gateway = n.Config.IPv6.Gateway
	}
	if !p.Src.IsValid() {
		p.Src = gateway
	}
	to := n.byIP[p.Dst]
	in := Check{Adapter: to.Config.Key(), Direction: netinst.Ingress, BuiltIn: Essentials, Allows: true}
	if !p.answersDHCP() {
		in = n.decide(to, netinst.Ingress, p.incoming(nil, true))
	}
	return arrives(to, p, in)
}

// ofHost answers for a packet that only the host's own firewall decides about.
func ofHost(p Packet, to Place) Answer {
	return Answer{Verdict: Allow, Checks: []Check{{BuiltIn: HostsOwn, Allows: true}}, To: to, Src: p.Src}
}

// arrives answers for a packet that reaches an adapter, if its rules allow.
func arrives(to *netinst.Adapter, p Packet, in Check) Answer {
	if !in.Allows {
		return denied(in)
	}
	return Answer{Verdict: Allow, Checks: []Check{in}, To: App, Adapter: to.Config.Key(), Src: p.Src}
}

// fromOutside answers for a packet that arrives by a port.
func (w *World) fromOutside(p Packet) Answer {
	port := w.ports[p.Port]
	if port == nil {
		return deny(PortNotUsed)
	}
	for _, n := range w.networks {
		if n.isSwitch() && n.uses[p.Port] {
			return n.fromSegment(p)
		}
	}
	if p.Src.IsValid() && (w.isNode(p.Src) || w.subnetOf(p.Src) != nil) {
		return deny(ForgedSource)
	}
	if p.Src.IsValid() && isMartian(p.Src) {
		return deny(NotRoutable)
	}
	if led, m, found := w.mapped(p); found {
		return m.led(led, m.net.decide(m.to, netinst.Ingress, led.incoming(port, false)))
	}
	return w.enter(p, port)
}

// enter answers for a packet from outside that no map takes.
func (w *World) enter(p Packet, port *netinst.PortStatus) Answer {
	n := w.subnetOf(p.Dst)
	if to := w.members[p.Adapter]; to != nil && to.mayOverlap() && !to.withdrawn && p.Dst.Is4() {
		n = to
	}
	switch {
	case w.gateways[p.Dst] != nil:
		return deny(HiddenGateway)
	case w.isNode(p.Dst):
		return ofHost(p, Node)
	case n == nil:
		return deny(NotForNetworks)
	case n.Config.Inactive:
		return deny(NotActive)
	case !n.usesFor(p.Dst)[p.Port]:
		return deny(PortNotUsed)
	case n.mayOverlap() && p.Dst.Is4():
		return deny(MayOverlap)
	case n.byIP[p.Dst] == nil:
		return deny(NoAdapter)
	}
	to := n.byIP[p.Dst]
	return arrives(to, p, n.decide(to, netinst.Ingress, p.incoming(port, false)))
}

// fromSegment answers for a packet that enters a switch network by its port.
func (n *network) fromSegment(p Packet) Answer {
	to := n.byIP[p.Dst]
	if to == nil {
		return deny(NoAdapter)
	}
	// A trunk port carries every VLAN of the network.
	if vid := n.Config.AccessVLAN(n.world.ports[p.Port].PortConfig); vid != 0 && !to.Config.Spec.InVLAN(vid) {
		return deny(OtherVLAN)
	}
	return arrives(to, p, n.receives(to, p))
}

// forgedFor reports whether packets from an address outside never reach an adapter, whatever its rules. On a switch
// network any station may have any address.
func (w *World) forgedFor(key netinst.AdapterKey, a netip.Addr) bool {
	if n := w.members[key]; n != nil && n.isSwitch() {
		return false
	}
	if a.Is6() {
		return w.subnetOf(a) != nil || a.IsLoopback() || a.IsMulticast() || a.IsUnspecified()
	}
	return w.isNode(a) || w.subnetOf(a) != nil || isMartian(a)
}

// isMartian reports whether no host can have an address: the kernel drops it as a source.
func isMartian(a netip.Addr) bool {
	return a.IsLoopback() || a.IsMulticast() || a == everybody || zeroNet.Contains(a)
}
