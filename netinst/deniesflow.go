package netinst

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// DeniesFlow returns a function that reports whether a tracked flow touches an address of this network and the current
// rules would deny it, so that its entry must be deleted: replies and later packets of a tracked flow never pass the
// rules again. So must that of a flow that left by another port than the one that leads to its remote end now: the
// kernel would drop its next packet, and only the one after that would begin it anew.
//
// Allowed flows and flows of others are left alone. The node's own addresses are the gateway and those of the ports;
// another local address counts as a remote end.
func DeniesFlow(in Input) func(netstate.Flow) bool {
	nw, _ := newNetwork(in)
	if nw.isSwitch() {
		return deniesSwitchFlow(nw)
	}
	if nw.withdrawn != "" {
		return deniesWithdrawnFlow(nw)
	}
	fc := newFlowCheck(nw)
	return func(f netstate.Flow) bool { return fc.denied(f) }
}

// Resets returns a function that names the network namespace of the app that has a flow's connection, if that can go on
// no more: it is TCP, began in the app, and left by another port than the one that leads to its remote end now. "" is
// every other flow, and one of an app whose adapter is in no namespace.
func Resets(in Input) func(netstate.Flow) string {
	nw, _ := newNetwork(in)
	if nw.isSwitch() || nw.withdrawn != "" {
		return nil
	}
	fc := newFlowCheck(nw)
	return func(f netstate.Flow) string {
		a, ok := fc.byIP[f.Src.Addr()]
		inNetns := a.Config.Spec.Kind != Tap && a.Config.Spec.Kind != External
		if !ok || f.Zone != fc.zoneOf(f) || f.Proto != protoTCP || !inNetns || !fc.leftByAnotherPort(f) {
			return ""
		}
		return a.Config.Spec.Netns
	}
}

// Owns returns a function that reports whether a flow with an address of this network's apps belongs to the network,
// and not to another one that has the same addresses.
func Owns(in Input) func(netstate.Flow) bool {
	nw, _ := newNetwork(in)
	return func(f netstate.Flow) bool {
		if nw.isSwitch() {
			_, own := nw.vlanOfZone(f.Zone)
			return own
		}
		return f.Zone == nw.zoneOf(f)
	}
}

func newFlowCheck(nw network) flowCheck {
	fc := flowCheck{
		network: nw, byIP: map[netip.Addr]Adapter{}, tableRoutes: nw.routeOrder(),
		nodeAddresses: map[netip.Addr]bool{nw.Config.IPv4.Gateway: true, nw.Config.IPv6.Gateway: true},
		standing:      nw.portmaps(),
	}
	for _, a := range nw.Adapters {
		fc.byIP[a.Lease.IP] = a
		if nw.hasIPv6() {
			fc.byIP[nw.ip6(a)] = a
		}
	}
	for _, p := range nw.Ports {
		for _, a := range p.Addresses {
			fc.nodeAddresses[a.Addr()] = true
		}
	}
	for _, ipv6 := range []bool{false, true} {
		for _, p := range nw.flowPorts(ipv6) {
			fc.staying = append(fc.staying, stayingFlows{p, nw.inOrder(nw.routesBy(p.PortStatus, ipv6))})
		}
	}
	return fc
}

// flowCheck is what decides on a tracked flow of a network: its rules, by the address of the adapter, and the addresses
// and routes that tell which adapter and which port a flow has.
type flowCheck struct {
	network
	byIP          map[netip.Addr]Adapter
	nodeAddresses map[netip.Addr]bool
	tableRoutes   []tableRoute
	staying       []stayingFlows
	standing      []portmap
}

// stayingFlows are a port on which known flows stay, and the routes by which they leave.
type stayingFlows struct {
	flowPort
	routes []tableRoute
}

// flowPortOf returns the port on which a known flow stays, nil for none. A port that shares new flows has a table with
// all static routes: a flow from before such a route by another port does not stay.
func (fc flowCheck) flowPortOf(f netstate.Flow) *PortStatus {
	for _, p := range fc.staying {
		if !slices.Contains(p.addrs, f.ReplyDst.Addr()) {
			continue
		}
		i := slices.IndexFunc(p.routes, func(r tableRoute) bool { return r.dst.Contains(f.Dst.Addr()) })
		if i >= 0 && (p.routes[i].port == nil || p.routes[i].port.Label != p.Label) {
			return nil
		}
		return &p.PortStatus
	}
	return nil
}

// tableRoute is a route of the network's table, through whose port a remote end in dst is reached.
type tableRoute struct {
	dst  netip.Prefix
	port *PortStatus // nil: through no port
}

// routeOrder returns the network's routes in the order in which the kernel tries them.
func (nw network) routeOrder() []tableRoute {
	var list []netstate.Route
	for _, o := range append(nw.routes(), nw.portRoutes6()...) {
		if r, ok := o.(netstate.Route); ok && r.Type == netstate.Unicast {
			list = append(list, r)
		}
	}
	return nw.inOrder(list)
}

func (nw network) inOrder(list []netstate.Route) []tableRoute {
	byName := map[string]*PortStatus{}
	for i, p := range nw.Ports {
		byName[string(p.IfName)] = &nw.Ports[i]
	}
	var ws []tableRoute
	for _, r := range list {
		ws = append(ws, tableRoute{netip.MustParsePrefix(r.Dst), byName[r.Dev]})
	}
	slices.SortStableFunc(ws, func(a, b tableRoute) int { return cmp.Compare(b.dst.Bits(), a.dst.Bits()) })
	return ws
}

// portOf returns the port by which packets go to a remote end, nil for none. It also stands for the port by which they
// arrive, which conntrack does not record.
func (fc flowCheck) portOf(remote netip.Addr) *PortStatus {
	for _, w := range fc.tableRoutes {
		if w.dst.Contains(remote) {
			return w.port
		}
	}
	return nil
}

// isAppAddress reports whether an address is one that only an adapter of a network may have.
func (fc flowCheck) isAppAddress(a netip.Addr) bool {
	if six := fc.Config.IPv6; a.Is6() {
		return six.Subnet.Contains(a) && a != six.Gateway
	}
	s := fc.Config.IPv4.Subnet
	return s.Contains(a) && a != fc.Config.IPv4.Gateway && a != lastAddress(s)
}

func (fc flowCheck) denied(f netstate.Flow) bool {
	src, dst := f.Src.Addr(), f.Dst.Addr()
	switch {
	case f.Zone != fc.zoneOf(f): // of another network, whose addresses may be the same
		return false
	case fc.Config.IPv4.MayOverlap && src.Is4() && fc.isAppAddress(src) && fc.nodeAddresses[dst]: // what it may ask
		_, ok := fc.byIP[src]
		return !ok || !fc.isGatewayService(f)
	case fc.mappedElsewhere(f):
		return true
	case f.ReplySrc.IsValid() && f.ReplySrc != f.Dst && (fc.isAppAddress(f.ReplySrc.Addr()) || fc.isAppAddress(src)):
		return fc.deniedMapped(f)
	case fc.isAppAddress(src):
		from, ok := fc.byIP[src]
		return !ok || !fc.maySend(from, f) || fc.leftByAnotherPort(f)
	case fc.isAppAddress(dst):
		to, ok := fc.byIP[dst]
		return !ok || !fc.mayReceive(to, f)
	}
	return false
}

// leftByAnotherPort reports whether a flow was translated to an address of another port than the one by which its
// remote end is reached now, and does not stay there (keep.go). Other translations are those of other programs.
func (fc flowCheck) leftByAnotherPort(f netstate.Flow) bool {
	at := func(p PortStatus) bool {
		return slices.ContainsFunc(p.Addresses, func(a netip.Prefix) bool { return a.Addr() == f.ReplyDst.Addr() })
	}
	now := fc.portOf(f.Dst.Addr())
	if now == nil || f.ReplyDst.Addr() == f.Src.Addr() || at(*now) || fc.flowPortOf(f) != nil {
		return false
	}
	return slices.ContainsFunc(fc.Ports, at)
}

func (fc flowCheck) maySend(a Adapter, f netstate.Flow) bool {
	rules := a.Config.Spec
	p := packet{proto: f.Proto, remote: f.Dst, local: f.Src, hosts: fc.hostAddresses(a)}
	dst := f.Dst.Addr()
	outward := rules.allows(Egress, p, otherHost)
	node := fc.isGatewayService(f) || rules.allows(Egress, p, nodeItself)
	switch {
	case fc.nodeAddresses[dst]:
		return node
	case fc.isAppAddress(dst):
		to, ok := fc.byIP[dst]
		return ok && outward && fc.mayReceive(to, f)
	case dst.IsMulticast() || dst == lastAddress(fc.Config.IPv4.Subnet) || dst == broadcast:
		return outward || node // reaches the node and the other adapters
	}
	if p.port = fc.flowPortOf(f); p.port == nil {
		p.port = fc.portOf(dst)
	}
	return rules.allows(Egress, p, otherHost)
}

func (fc flowCheck) mayReceive(a Adapter, f netstate.Flow) bool {
	end := otherHost
	p := packet{proto: f.Proto, remote: f.Src, local: f.Dst, hosts: fc.hostAddresses(a)}
	if fc.nodeAddresses[f.Src.Addr()] {
		if f.Proto == protoUDP && f.Src.Port() == 67 && f.Dst.Port() == 68 {
			return true
		}
		end = nodeItself
	} else if !fc.isAppAddress(f.Src.Addr()) {
		p.port = fc.portOf(f.Src.Addr())
	}
	return a.Config.Spec.allows(Ingress, p, end)
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// isGatewayService mirrors gatewayServices; the kind of an ICMP flow is unknown here, and one that is tracked toward
// the gateway was an echo.
func (fc flowCheck) isGatewayService(f netstate.Flow) bool {
	gateway := f.Dst.Addr() == fc.Config.IPv4.Gateway || f.Dst.Addr() == fc.Config.IPv6.Gateway
	switch {
	case f.Proto == protoUDP && f.Dst.Port() == 67 && f.Src.Port() == 68:
		return gateway || f.Dst.Addr() == broadcast
	case f.Proto == protoUDP || f.Proto == protoTCP:
		return gateway && f.Dst.Port() == 53
	}
	return gateway && (f.Proto == protoICMP || f.Proto == protoICMP6)
}

// MayDeny reports whether flows tracked before an op on a network's chains may be denied after it, so that they must be
// compared with the rules. A new adapter counts, since its address may be older than it is, and so do port maps, which
// lead flows. Chains that only distinguish adapters deny nothing while none of their rules is removed. Nor does a
// network without adapters.
func MayDeny(op netstate.Op) bool {
	return op.Kind == netstate.KindChain && slices.ContainsFunc(op.Items, func(it netstate.Item) bool {
		want, _ := it.Want.(netstate.Chain)
		have, _ := it.Have.(netstate.Chain)
		name := it.ID().Name
		switch {
		case ofFrames(want) || ofFrames(have):
			return false
		case ofAdapter(name), strings.HasSuffix(name, mapSuffix):
			return true
		case it.Have == nil:
			return false
		}
		return slices.ContainsFunc(have.Rules, func(r string) bool { return !slices.Contains(want.Rules, r) })
	})
}

// ofFrames reports whether a chain filters no tracked flow: it is for frames, or a table of the host.
func ofFrames(c netstate.Chain) bool {
	return c.Family.Native() && c.Family != netstate.IP6Family || c.IsTable()
}

// ofAdapter reports whether a chain belongs to one adapter: its part begins with a number.
func ofAdapter(id string) bool {
	part := id[strings.LastIndexByte(id, '-')+1:]
	return strings.IndexAny(part, "0123456789") == 0
}

// deniesSwitchFlow is DeniesFlow for a switch network. Its addresses are learnt and not assigned, so an end of a flow
// with an unknown owner may be any adapter whose addresses are unknown: the entry is kept only if each of them would
// allow it. An entry removed without need is recreated by the next packet of its original direction, if the rules allow
// that.
func deniesSwitchFlow(nw network) func(netstate.Flow) bool {
	return func(f netstate.Flow) bool {
		vid, own := nw.vlanOfZone(f.Zone)
		if !own || dhcpAsked(f) {
			return false
		}
		out := packet{proto: f.Proto, remote: f.Dst, local: f.Src}
		in := packet{proto: f.Proto, remote: f.Src, local: f.Dst}
		return !nw.allAllow(vid, f.Src.Addr(), Egress, out) || !nw.allAllow(vid, f.Dst.Addr(), Ingress, in)
	}
}

// allAllow reports whether every adapter that may have an address in a VLAN allows a packet of one direction: those
// known to have it, else all adapters whose addresses are unknown.
func (nw network) allAllow(vid int, addr netip.Addr, d Direction, p packet) bool {
	known, ok := false, true
	nw.Adapters = slices.DeleteFunc(slices.Clone(nw.Adapters), func(a Adapter) bool {
		return !a.Config.Spec.InVLAN(vid)
	})
	sameFamily := func(other netip.Addr) bool { return other.Is4() == addr.Is4() }
	for _, a := range nw.Adapters {
		if slices.Contains(a.ObservedAddresses, addr) {
			known = true
			ok = ok && a.Config.Spec.allows(d, p, otherHost)
		}
	}
	if known {
		return ok
	}
	for _, a := range nw.Adapters {
		if !slices.ContainsFunc(a.ObservedAddresses, sameFamily) && !a.Config.Spec.allows(d, p, otherHost) {
			return false
		}
	}
	return true
}

// dhcpAsked reports whether a flow is DHCP that every adapter may use.
func dhcpAsked(f netstate.Flow) bool {
	return f.Proto == protoUDP && (f.Src.Port() == 68 && f.Dst.Port() == 67 || f.Src.Port() == 546 && f.Dst.Port() == 547)
}
