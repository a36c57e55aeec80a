package verdict

import (
	"net/netip"
	"strconv"

	"edgespan/netinst"
)

// ends are the two ends of a flow as an adapter's rules see them: remote is the other end, local the adapter. Port is
// the host's port that the packet passes, nil for none. Node means that the remote end is the node itself.
type ends struct {
	proto                 uint8
	remote                netip.Addr
	remotePort, localPort uint16
	port                  *netinst.PortStatus
	node                  bool
	mapped                uint16 // as of Packet
	name                  netinst.Hostname
}

// outgoing returns the ends of a packet as the sender sees them; incoming as the receiver does.
func (p Packet) outgoing(port *netinst.PortStatus, node bool) ends {
	return ends{p.Proto, p.Dst, p.DstPort, p.SrcPort, port, node, 0, p.Name}
}

func (p Packet) incoming(port *netinst.PortStatus, node bool) ends {
	return ends{p.Proto, p.Src, p.SrcPort, p.DstPort, port, node, p.mapped, p.Name}
}

// decide applies an adapter's rules of one direction. An adapter with observe lets pass what they would deny, unless
// the remote end is the node.
func (n *network) decide(a *netinst.Adapter, d netinst.Direction, e ends) Check {
	c := n.rulesDecide(a, d, e)
	if a.Config.Spec.Observe && !e.node {
		c.Observed = !c.Allows || c.Limit.Packets > 0
		c.Allows = true
	}
	return c
}

// rulesDecide applies the rules as they are written: the first that matches, else the drop at the end.
func (n *network) rulesDecide(a *netinst.Adapter, d netinst.Direction, e ends) Check {
	c := Check{Adapter: a.Config.Key(), Direction: d}
	for i := range a.Config.Spec.ACL {
		r := &a.Config.Spec.ACL[i]
		if r.Direction != d && r.Direction != netinst.Both {
			continue
		}
		covered, surely := n.covers(r, e)
		if covered && !surely {
			c.Depends = append(c.Depends, r.Name)
			continue
		}
		if covered {
			c.Rule, c.Allows, c.Limit = r.Name, r.Action != netinst.Drop, r.Limit
			return c
		}
	}
	c.BuiltIn = ImplicitDrop
	return c
}

// covers reports whether a rule decides about a flow; not surely if that depends on the addresses of a host, or on that
// of a remote end of which only the name is known. A rule that allows covers the node's own addresses only if it names
// them, and not by a host; one that drops covers them as others.
func (n *network) covers(r *netinst.ACLRule, e ends) (covered, surely bool) {
	allows := r.Action == netinst.Allow || r.Action == netinst.Limit
	has, surely := n.hostOf(r, e)
	switch {
	case r.Action == netinst.MapPort:
		return coversMapped(r, e), true
	case !allows && r.Action != netinst.Drop:
		return false, true
	case e.node && allows && (!r.IP.IsValid() || r.IP.Bits() == 0) && r.Set == nil:
		return false, true
	case surely && !has:
		return false, true
	case r.PortLabel != "" && (e.port == nil || !e.port.Matches(r.PortLabel)):
		return false, true
	case !coversProtocol(r, e.proto, e.remote.Is6()) || !coversPort(r.Ports, e.remotePort) ||
		!coversPort(r.LocalPort, e.localPort):
		return false, true
	case e.remote.IsValid():
		return (r.Set == nil || r.Set.Contains(e.remote)) && (!r.IP.IsValid() || r.IP.Contains(e.remote)), surely
	case r.IP.IsValid() && !r.IP.Addr().Is4():
		return false, true
	}
	return true, surely && r.Set == nil && (!r.IP.IsValid() || r.IP.Bits() == 0)
}

// coversProtocol: ports are those of tcp and udp, and icmp of IPv6 is ICMPv6.
func coversProtocol(r *netinst.ACLRule, proto uint8, six bool) bool {
	icmp := uint8(ICMP)
	if six {
		icmp = ICMP6
	}
	ported := proto == TCP || proto == UDP
	if !ported && len(r.Ports)+len(r.LocalPort) > 0 {
		return false
	}
	switch r.Protocol {
	case "":
		return true
	case "tcp":
		return proto == TCP
	case "udp":
		return proto == UDP
	case "icmp":
		return proto == icmp
	case "1":
		return proto == icmp
	}
	return r.Protocol == strconv.Itoa(int(proto)) && proto != 0
}

func coversPort(ranges []netinst.PortRange, port uint16) bool {
	for _, r := range ranges {
		if r.First <= port && port <= r.Last {
			return true
		}
	}
	return len(ranges) == 0
}
