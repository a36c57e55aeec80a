package netinst

import (
	"cmp"
	"net/netip"
	"slices"

	"edgespan/netinst/netstate"
)

// Validate returns a function that reports whether a tracked flow touches an address of this network and the current
// rules would deny it, so that its entry must be deleted: replies and later packets of a tracked flow never pass the
// rules again.
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
	j := validator{network: nw, byIP: map[netip.Addr]Adapter{}, own: map[netip.Addr]bool{in.Config.IPv4.Gateway: true},
		ways: nw.routeOrder()}
	for _, a := range nw.Adapters {
		j.byIP[a.Lease.IP] = a
	}
	for _, p := range in.Ports {
		for _, a := range p.Addresses {
			j.own[a.Addr()] = true
		}
	}
	return func(f netstate.Flow) bool { return j.denied(f) }
}

type validator struct {
	network
	byIP map[netip.Addr]Adapter
	own  map[netip.Addr]bool
	ways []way
}

// way is a route of the network's table, by which a remote end in dst is reached.
type way struct {
	dst  netip.Prefix
	port *PortStatus // nil: by no port
}

// routeOrder returns the network's routes in the order in which the kernel tries them.
func (nw network) routeOrder() []way {
	byName := map[string]*PortStatus{}
	for i, p := range nw.Ports {
		byName[string(p.IfName)] = &nw.Ports[i]
	}
	var ws []way
	for _, o := range nw.routes() {
		if r, is := o.(netstate.Route); is && r.Type == netstate.Unicast {
			ws = append(ws, way{netip.MustParsePrefix(r.Dst), byName[r.Dev]})
		}
	}
	slices.SortStableFunc(ws, func(a, b way) int { return cmp.Compare(b.dst.Bits(), a.dst.Bits()) })
	return ws
}

// portOf returns the port by which packets go to a remote end, nil for none. It also stands for the port by which they
// arrive, which conntrack does not record.
func (j validator) portOf(remote netip.Addr) *PortStatus {
	for _, w := range j.ways {
		if w.dst.Contains(remote) {
			return w.port
		}
	}
	return nil
}

// app reports whether an address is one that only an adapter of a network may have.
func (j validator) app(a netip.Addr) bool {
	s := j.Config.IPv4.Subnet
	return s.Contains(a) && a != j.Config.IPv4.Gateway && a != lastAddress(s)
}

func (j validator) denied(f netstate.Flow) bool {
	src, dst := f.Src.Addr(), f.Dst.Addr()
	switch {
	case f.Zone != 0: // of a switch network, whose addresses may be the same
		return false
	case j.app(src):
		from, is := j.byIP[src]
		return !is || !j.maySend(from, f)
	case j.app(dst):
		to, is := j.byIP[dst]
		return !is || !j.mayReceive(to, f)
	}
	return false
}

func (j validator) maySend(a Adapter, f netstate.Flow) bool {
	acl := a.Config.UnderlayConfig.ACL
	p := packet{proto: f.Proto, remote: f.Dst, local: f.Src}
	dst := f.Dst.Addr()
	outward := allowed(acl, Egress, p, always)
	node := j.essential(f) || allowed(acl, Egress, p, appliesToNode)
	switch {
	case j.own[dst]:
		return node
	case j.app(dst):
		to, is := j.byIP[dst]
		return is && outward && j.mayReceive(to, f)
	case dst.IsMulticast() || dst == lastAddress(j.Config.IPv4.Subnet) || dst == broadcast:
		return outward || node // reaches the node and the other adapters
	}
	p.port = j.portOf(dst)
	return allowed(acl, Egress, p, always)
}

func (j validator) mayReceive(a Adapter, f netstate.Flow) bool {
	keep := always
	p := packet{proto: f.Proto, remote: f.Src, local: f.Dst}
	if j.own[f.Src.Addr()] {
		if f.Proto == protoUDP && f.Src.Port() == 67 && f.Dst.Port() == 68 {
			return true
		}
		keep = appliesToNode
	} else if !j.app(f.Src.Addr()) {
		p.port = j.portOf(f.Src.Addr())
	}
	return allowed(a.Config.UnderlayConfig.ACL, Ingress, p, keep)
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// essential mirrors the rules of essentials; the kind of an ICMP flow is unknown here, and one that is tracked toward
// the gateway was an echo.
func (j validator) essential(f netstate.Flow) bool {
	gateway := f.Dst.Addr() == j.Config.IPv4.Gateway
	switch {
	case f.Proto == protoUDP && f.Dst.Port() == 67 && f.Src.Port() == 68:
		return gateway || f.Dst.Addr() == broadcast
	case f.Proto == protoUDP || f.Proto == protoTCP:
		return gateway && f.Dst.Port() == 53
	}
	return gateway && f.Proto == protoICMP
}
