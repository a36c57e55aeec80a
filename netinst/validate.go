package netinst

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// Validate returns a function that reports whether a tracked flow touches an address of this network and the current
// rules would deny it, so that its entry must be deleted: replies and later packets of a tracked flow never pass the
// rules again. So must that of a flow that left by another port than the one that leads to its remote end now: the
// kernel would drop its next packet, and only the one after that would begin it anew.
//
// Allowed flows and flows of others are left alone. The node's own addresses are the gateway and those of the ports;
// another local address counts as a remote end.
func Validate(in Input) func(netstate.Flow) bool {
	nw, _ := newNetwork(in)
	if nw.isSwitch() {
		return validateSwitch(nw)
	}
	if nw.withdrawn != "" {
		return denyWithdrawn(nw)
	}
	j := newValidator(nw)
	return func(f netstate.Flow) bool { return j.denied(f) }
}

// Resets returns a function that names the network namespace of the app that has a flow's connection, if that can go on
// no more: it is TCP, began in the app, and left by another port than the one that leads to its remote end now. "" is
// every other flow, and one of an app whose adapter is in no namespace.
func Resets(in Input) func(netstate.Flow) string {
	nw, _ := newNetwork(in)
	if nw.isSwitch() || nw.withdrawn != "" {
		return nil
	}
	j := newValidator(nw)
	return func(f netstate.Flow) string {
		a, ok := j.byIP[f.Src.Addr()]
		inNetns := a.Config.Spec.Kind != Tap && a.Config.Spec.Kind != External
		if !ok || f.Src.Addr().Is6() || f.Zone != j.zoneOf(f) || f.Proto != protoTCP || !inNetns ||
			!j.leftByAnotherPort(f) {
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

func newValidator(nw network) validator {
	j := validator{
		network: nw, byIP: map[netip.Addr]Adapter{}, tableRoutes: nw.routeOrder(),
		nodeAddresses: map[netip.Addr]bool{nw.Config.IPv4.Gateway: true, nw.Config.IPv6.Gateway: true},
		standing:      nw.portmaps(),
	}
	for _, a := range nw.Adapters {
		j.byIP[a.Lease.IP] = a
		if nw.hasIPv6() {
			j.byIP[nw.ip6(a)] = a
		}
	}
	for _, p := range nw.Ports {
		for _, a := range p.Addresses {
			j.nodeAddresses[a.Addr()] = true
		}
	}
	return j
}

type validator struct {
	network
	byIP          map[netip.Addr]Adapter
	nodeAddresses map[netip.Addr]bool
	tableRoutes   []tableRoute
	standing      []portmap
}

// tableRoute is a route of the network's table, through whose port a remote end in dst is reached.
type tableRoute struct {
	dst  netip.Prefix
	port *PortStatus // nil: through no port
}

// routeOrder returns the network's routes in the order in which the kernel tries them.
func (nw network) routeOrder() []tableRoute {
	byName := map[string]*PortStatus{}
	for i, p := range nw.Ports {
		byName[string(p.IfName)] = &nw.Ports[i]
	}
	var ws []tableRoute
	for _, o := range append(nw.routes(), nw.portRoutes6()...) {
		if r, ok := o.(netstate.Route); ok && r.Type == netstate.Unicast {
			ws = append(ws, tableRoute{netip.MustParsePrefix(r.Dst), byName[r.Dev]})
		}
	}
	slices.SortStableFunc(ws, func(a, b tableRoute) int { return cmp.Compare(b.dst.Bits(), a.dst.Bits()) })
	return ws
}

// portOf returns the port by which packets go to a remote end, nil for none. It also stands for the port by which they
// arrive, which conntrack does not record.
func (j validator) portOf(remote netip.Addr) *PortStatus {
	for _, w := range j.tableRoutes {
		if w.dst.Contains(remote) {
			return w.port
		}
	}
	return nil
}

// isAppAddress reports whether an address is one that only an adapter of a network may have.
func (j validator) isAppAddress(a netip.Addr) bool {
	if six := j.Config.IPv6; a.Is6() {
		return six.Subnet.Contains(a) && a != six.Gateway
	}
	s := j.Config.IPv4.Subnet
	return s.Contains(a) && a != j.Config.IPv4.Gateway && a != lastAddress(s)
}

func (j validator) denied(f netstate.Flow) bool {
	src, dst := f.Src.Addr(), f.Dst.Addr()
	switch {
	case f.Zone != j.zoneOf(f): // of another network, whose addresses may be the same
		return false
	case j.Config.IPv4.MayOverlap && src.Is4() && j.isAppAddress(src) && j.nodeAddresses[dst]: // what it may ask
		_, ok := j.byIP[src]
		return !ok || !j.isGatewayService(f)
	case j.mappedElsewhere(f):
		return true
	case f.ReplySrc.IsValid() && f.ReplySrc != f.Dst && (j.isAppAddress(f.ReplySrc.Addr()) || j.isAppAddress(src)):
		return j.deniedMapped(f)
	case j.isAppAddress(src):
		from, ok := j.byIP[src]
		return !ok || !j.maySend(from, f) || j.leftByAnotherPort(f)
	case j.isAppAddress(dst):
		to, ok := j.byIP[dst]
		return !ok || !j.mayReceive(to, f)
	}
	return false
}

// leftByAnotherPort reports whether a flow was translated to an address of another port than the one by which its
// remote end is reached now, and does not stay there (keep.go). Other translations are those of other programs.
func (j validator) leftByAnotherPort(f netstate.Flow) bool {
	at := func(p PortStatus) bool {
		return slices.ContainsFunc(p.Addresses, func(a netip.Prefix) bool { return a.Addr() == f.ReplyDst.Addr() })
	}
	now := j.portOf(f.Dst.Addr())
	if now == nil || f.ReplyDst.Addr() == f.Src.Addr() || at(*now) || j.flowPortOf(f) != nil {
		return false
	}
	return slices.ContainsFunc(j.Ports, at)
}

func (j validator) maySend(a Adapter, f netstate.Flow) bool {
	rules := a.Config.Spec
	p := packet{proto: f.Proto, remote: f.Dst, local: f.Src, hosts: j.hostAddresses(a)}
	dst := f.Dst.Addr()
	outward := rules.allows(Egress, p, otherHost)
	node := j.isGatewayService(f) || rules.allows(Egress, p, nodeItself)
	switch {
	case j.nodeAddresses[dst]:
		return node
	case j.isAppAddress(dst):
		to, ok := j.byIP[dst]
		return ok && outward && j.mayReceive(to, f)
	case dst.IsMulticast() || dst == lastAddress(j.Config.IPv4.Subnet) || dst == broadcast:
		return outward || node // reaches the node and the other adapters
	}
	if p.port = j.flowPortOf(f); p.port == nil {
		p.port = j.portOf(dst)
	}
	return rules.allows(Egress, p, otherHost)
}

func (j validator) mayReceive(a Adapter, f netstate.Flow) bool {
	end := otherHost
	p := packet{proto: f.Proto, remote: f.Src, local: f.Dst, hosts: j.hostAddresses(a)}
	if j.nodeAddresses[f.Src.Addr()] {
		if f.Proto == protoUDP && f.Src.Port() == 67 && f.Dst.Port() == 68 {
			return true
		}
		end = nodeItself
	} else if !j.isAppAddress(f.Src.Addr()) {
		p.port = j.portOf(f.Src.Addr())
	}
	return a.Config.Spec.allows(Ingress, p, end)
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// isGatewayService mirrors gatewayServices; the kind of an ICMP flow is unknown here, and one that is tracked toward
// the gateway was an echo.
func (j validator) isGatewayService(f netstate.Flow) bool {
	gateway := f.Dst.Addr() == j.Config.IPv4.Gateway || f.Dst.Addr() == j.Config.IPv6.Gateway
	switch {
	case f.Proto == protoUDP && f.Dst.Port() == 67 && f.Src.Port() == 68:
		return gateway || f.Dst.Addr() == broadcast
	case f.Proto == protoUDP || f.Proto == protoTCP:
		return gateway && f.Dst.Port() == 53
	}
	return gateway && (f.Proto == protoICMP || f.Proto == protoICMP6)
}

// MayDeny reports whether flows tracked before an op on a network's chains may be denied after it, so that they must be
// validated. A new adapter counts: its address may be older than it is. So do port maps, which lead flows. Chains that
// only distinguish adapters deny nothing while none of their rules is removed, nor does a network without adapters.
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

// validateSwitch is Validate for a switch network. Its addresses are learnt and not assigned, so an end of a flow with
// an unknown owner may be any adapter whose addresses are unknown: the entry is kept only if each of them would allow
// it. An entry removed without need is recreated by the next packet of its original direction, if the rules allow that.
func validateSwitch(nw network) func(netstate.Flow) bool {
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
