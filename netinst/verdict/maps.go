package verdict

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"

	"edgespan/netinst"
)

// portMap is a rule with action portmap at one address of one port of the node.
type portMap struct {
	rule *netinst.ACLRule
	net  *network // of the app to which it leads
	to   *netinst.Adapter
	port string // label
	addr netip.Addr
}

// readMaps finds the port maps: each stands at the addresses of the ports that its network uses.
func (w *World) readMaps() {
	for _, n := range w.networks {
		if n.isSwitch() || n.withdrawn {
			continue
		}
		for i := range n.Adapters {
			a := &n.Adapters[i]
			if n.byKey[a.Config.Key()] == nil {
				continue
			}
			for j := range a.Config.Spec.ACL {
				if r := &a.Config.Spec.ACL[j]; r.Action == netinst.MapPort {
					n.placeMap(a, r)
				}
			}
		}
	}
}

func (n *network) placeMap(a *netinst.Adapter, r *netinst.ACLRule) {
	for _, p := range n.Ports {
		if !n.uses[p.Label] || r.PortLabel != "" && !p.Matches(r.PortLabel) {
			continue
		}
		for _, own := range addresses(&p) {
			m := portMap{rule: r, net: n, to: a, port: p.Label, addr: own.Addr()}
			n.world.maps[m.addr] = append(n.world.maps[m.addr], m)
		}
	}
}

// takes reports whether a map takes a packet to its address: of a client outside if it arrives by that port.
func (m portMap) takes(p Packet) bool {
	r := m.rule
	switch {
	case p.From == Outside && p.Port != m.port:
		return false
	case r.IP.IsValid() && !r.IP.Contains(p.Src):
		return false
	}
	return (p.Proto == TCP || p.Proto == UDP) && coversProtocol(r, p.Proto, false) &&
		coversPort([]netinst.PortRange{r.Portmap.Ports}, p.DstPort)
}

// target returns the app's port for a port of the node.
func (m portMap) target(port uint16) uint16 {
	return m.rule.Portmap.Target.First + (port - m.rule.Portmap.Ports.First)
}

// mapped returns the packet as a port map leads it to an app; found is false if no map takes it.
func (w *World) mapped(p Packet) (led Packet, m portMap, found bool) {
	for _, m := range w.maps[p.Dst] {
		if m.takes(p) {
			led = p
			led.Dst, led.DstPort, led.mapped = m.to.Lease.IP, m.target(p.DstPort), p.DstPort
			return led, m, true
		}
	}
	return p, portMap{}, false
}

// coversMapped reports whether a rule with action portmap has led a packet to its adapter.
func coversMapped(r *netinst.ACLRule, e ends) bool {
	m := portMap{rule: r}
	return e.mapped != 0 && coversPort([]netinst.PortRange{r.Portmap.Ports}, e.mapped) &&
		m.target(e.mapped) == e.localPort && coversProtocol(r, e.proto, false) && (!r.IP.IsValid() || r.IP.Contains(e.remote))
}

// throughMap answers for a packet of an app that a map leads to another app. Both ends' rules apply to where it leads.
func (n *network) throughMap(a *netinst.Adapter, p Packet, m portMap) Answer {
	switch {
	case m.to == a:
		return deny(OwnMap)
	case n.world.isNode(p.Src):
		return deny(ForgedSource)
	case m.net != n && !n.Config.IPv4.Subnet.Contains(p.Src):
		return deny(Untranslatable)
	}
	out := n.decide(a, netinst.Egress, p.outgoing(nil, false))
	if !out.Allows {
		return denied(out)
	}
	x := m.led(p, m.net.decide(m.to, netinst.Ingress, p.incoming(nil, false)))
	x.Checks = append([]Check{out}, x.Checks...)
	if m.net == n && n.Config.IPv4.Subnet.Contains(p.Src) && x.Allowed() { // or it would be answered directly
		x.Src = n.Config.IPv4.Gateway
	}
	return x
}

// led answers for a packet that a map leads to an app, if its rules allow.
func (m portMap) led(p Packet, in Check) Answer {
	x := arrives(m.to, p, in)
	if x.Allowed() {
		x.Verdict, x.Dst, x.DstPort = Translate, p.Dst, p.DstPort
	}
	return x
}

// changedMaps returns the addresses of the node whose port maps lead elsewhere, or under other rules, in two worlds.
func changedMaps(a, b *World) (list []netip.Prefix) {
	of := func(w *World, addr netip.Addr) (list []any) {
		for _, m := range w.maps[addr] {
			list = append(list, *m.rule, m.port, m.to.Config.Key(), m.to.Lease.IP, m.to.Config.Spec.ACL,
				m.to.Config.Spec.Observe)
		}
		return list
	}
	for _, w := range []*World{a, b} {
		for addr := range w.maps {
			if !reflect.DeepEqual(of(a, addr), of(b, addr)) {
				list = append(list, netip.PrefixFrom(addr, addr.BitLen()))
			}
		}
	}
	return list
}

// mapsTo returns the maps that lead to an adapter, in order.
func (w *World) mapsTo(key netinst.AdapterKey) (list []portMap) {
	for _, maps := range w.maps {
		for _, m := range maps {
			if m.to.Config.Key() == key {
				list = append(list, m)
			}
		}
	}
	slices.SortFunc(list, func(a, b portMap) int {
		return cmp.Or(cmp.Compare(a.port, b.port), a.addr.Compare(b.addr), cmp.Compare(a.rule.Name, b.rule.Name))
	})
	return list
}

// mapRules are rules that begin and end, seen from the sender, where the maps do to which a packet is sent, and where
// the rules do that apply to what they lead to.
func (w *World) mapRules(p Packet) (list []netinst.ACLRule) {
	for _, m := range w.maps[p.Dst] {
		if p.From == Outside && m.port != p.Port {
			continue
		}
		list = append(list, netinst.ACLRule{Protocol: m.rule.Protocol, Ports: []netinst.PortRange{m.rule.Portmap.Ports}})
		for _, r := range m.to.Config.Spec.ACL {
			if r.Direction != netinst.Egress {
				r.Ports, r.LocalPort = m.before(r.LocalPort), r.Ports
				list = append(list, r)
			}
		}
		if n := w.members[p.Adapter]; p.From == App && n != nil && n.byKey[p.Adapter] != nil {
			for _, r := range n.byKey[p.Adapter].Config.Spec.ACL {
				if r.Direction != netinst.Ingress {
					r.Ports = m.before(r.Ports)
					list = append(list, r)
				}
			}
		}
	}
	return list
}

// before returns the ports of the node that a map leads to ports of the app.
func (m portMap) before(ports []netinst.PortRange) (list []netinst.PortRange) {
	node, app := m.rule.Portmap.Ports, m.rule.Portmap.Target
	for _, r := range ports {
		if first, last := max(r.First, app.First), min(r.Last, app.Last); first <= last {
			list = append(list, netinst.PortRange{First: node.First + first - app.First, Last: node.First + last - app.First})
		}
	}
	return list
}
