package netinst

import (
	"fmt"
	"net/netip"
	"slices"

	"edgespan/netinst/netstate"
)

// A rule with action portmap leads packets for ports of the node to an app:
//
//	nat PREROUTING, OUTPUT: ES-PREROUTING, ES-OUTPUT (host): to the node's own addresses
//	  ES-MAPS, ES-MAPS-OUT (host): to an address of a port, by that port or from an adapter, or from the node itself
//	    ES<n>-MAP: [from clients] to address and port: DNAT to the app
//	filter OUTPUT, by lo: ES-MAPS-NODE (host): to the subnet: ES<n>-OUT
//	nat POSTROUTING: ES<n>-POST: from the network itself: SNAT to the gateway, or the answer would not come back this way
//
// The rules of nat only translate: the verdict is that of the adapter's ingress chain, where the rule accepts only what
// was sent to its port and translated (--ctstate DNAT, --ctorigdstport). Filter is written before nat, so that
// accepting precedes translating. Only the first packet of a flow to the node meets the tables of maps.
//
// A map stands at the addresses of the ports that the network uses, its own and those of its static routes, and goes
// with them. Clients keep their address, except those of the same network. The rules of a sender apply to what the map
// leads to, and not to the address of the node that it was sent to.

// Portmap is the ports of a rule with action portmap: those of the node, and as many of the app.
type Portmap struct{ Ports, Target PortRange }

// mapSuffix ends the names of the chains with maps.
const mapSuffix = "-MAP"

// target returns the app's port for a port of the node.
func (m Portmap) target(port uint16) (uint16, bool) {
	if port < m.Ports.First || port > m.Ports.Last {
		return 0, false
	}
	return m.Target.First + port - m.Ports.First, true
}

// mapped returns what a port map's rule of the filter table matches.
func (nw network) mapped(r ACLRule) (out []string) {
	ports := r.Portmap.Ports
	r.Action, r.PortLabel, r.Ports, r.LocalPort = Allow, "", nil, []PortRange{r.Portmap.Target}
	for _, m := range nw.matches(r, Ingress, nil) {
		out = append(out, m+" -m conntrack --ctstate DNAT --ctorigdstport "+ports.String())
	}
	return out
}

// maps reports whether a port map has led a packet to the adapter.
func (r ACLRule) maps(p packet) bool {
	target, in := r.Portmap.target(p.mapped)
	if !in || p.mapped == 0 || target != p.local.Port() {
		return false
	}
	r.Action, r.PortLabel, r.Ports, r.LocalPort = Allow, "", nil, nil
	return r.matches(p)
}

// portmap is one port map at one address of a port.
type portmap struct {
	rule    ACLRule
	adapter Adapter
	port    PortStatus
	addr    netip.Addr
}

func (nw network) hasPortmaps() bool {
	return slices.ContainsFunc(nw.Adapters, func(a Adapter) bool {
		return slices.ContainsFunc(a.Config.Spec.ACL, func(r ACLRule) bool { return r.Action == MapPort })
	})
}

// portmaps are the maps that stand now, in order.
func (nw network) portmaps() (all []portmap) {
	for _, a := range nw.Adapters {
		for _, r := range a.Config.Spec.ACL {
			if r.Action != MapPort || r.elsewhere() {
				continue
			}
			for _, p := range nw.ports {
				if r.PortLabel != "" && !p.Matches(r.PortLabel) {
					continue
				}
				for _, own := range connected(p) {
					all = append(all, portmap{r, a, p, own.Addr()})
				}
			}
		}
	}
	return all
}

// dnat is the rule that translates packets to a map's address and ports.
func (m portmap) dnat() string {
	from, to := "", m.adapter.Lease.IP.String()
	if m.rule.names() {
		from = "-s " + m.rule.IP.Masked().String() + " "
	}
	ports, target := m.rule.Portmap.Ports, m.rule.Portmap.Target
	switch {
	case ports == target: // the port stays as it is
	case ports.First == ports.Last:
		to += ":" + target.String()
	default: // a range is moved by its distance from the first port
		to += fmt.Sprintf(":%d-%d/%d", target.First, target.Last, ports.First)
	}
	return fmt.Sprintf("%s-d %s/32 -p %s -m %[3]s --dport %s -j DNAT --to-destination %s", from, m.addr, m.rule.Protocol,
		ports, to)
}

// mapChains is the chain of the network's maps; none without any in the config. It has hooks for the addresses at which
// maps stand.
func (nw network) mapChains() []netstate.Chain {
	if !nw.hasPortmaps() {
		return nil
	}
	c := netstate.Chain{Family: netstate.IPv4, Table: tableNAT, Name: nw.chainName(mapSuffix[1:])}
	for _, m := range nw.portmaps() {
		c.Rules = append(c.Rules, m.dnat())
		to := "-d " + m.addr.String() + "/32"
		for _, h := range []netstate.Hook{
			{Parent: mapsArriving, Match: to + " -i " + string(m.port.IfName)},
			{Parent: mapsArriving, Match: to + fmt.Sprintf(" -m mark --mark %#x/%#x", LocalMark, LocalMark)},
			{Parent: mapsOfNode, Match: to},
		} {
			if !slices.Contains(c.Hooks, h) {
				c.Hooks = append(c.Hooks, h)
			}
		}
	}
	return []netstate.Chain{c}
}

// fromNodeByMap leads what the node sends to a map to the rules for what it sends to adapters: in filter OUTPUT such a
// packet has its new destination, and still lo as its link (nf_nat_ipv4_local_fn routes it again, inside the hook).
func (nw network) fromNodeByMap() netstate.Hook {
	return netstate.Hook{Parent: mapsFromNode, Match: "-d " + nw.Config.IPv4.Subnet.Masked().String()}
}

// hairpin translates the source of packets that a map leads back into the network they come from: their receiver would
// answer them directly.
func (nw network) hairpin() string {
	to := nw.Config.IPv4.Gateway.String()
	return "-o " + string(nw.bridge) + " -m conntrack --ctstate DNAT -j SNAT --to-source " + to
}

// ledByMap matches packets of a flow's original direction whose destination was translated.
const ledByMap = "-m conntrack --ctstate DNAT --ctdir ORIGINAL"

// crossChains filter the packets from adapters that a map has led to an adapter of any network: MOUT has the rules of
// the sender's network, and MIN those of the receiver's, to which only a network with maps has a hook. A network drops
// all other packets to another one, at the latest in BaseChain.
func (nw network) crossChains() (out []netstate.Chain) {
	if nw.Config.Mapped {
		out = append(out, nw.filter("MOUT", nil, []string{"-j " + nw.chainName("EGR"), "-g " + mapsAcross}))
	}
	if nw.hasPortmaps() {
		out = append(out, nw.filter("MIN", []netstate.Hook{netsAcross.hook(nw.n)}, []string{"-j " + nw.chainName("ING")}))
	}
	return out
}

// mapFor returns where a standing map leads a flow to; invalid without one.
func (fc flowCheck) mapFor(f netstate.Flow) netip.AddrPort {
	for _, m := range fc.standing {
		nums, _ := m.rule.protocols()
		target, in := m.rule.Portmap.target(f.Dst.Port())
		if in && m.addr == f.Dst.Addr() && slices.Contains(nums, f.Proto) &&
			(!m.rule.names() || m.rule.IP.Contains(f.Src.Addr())) {
			return netip.AddrPortFrom(m.adapter.Lease.IP, target)
		}
	}
	return netip.AddrPort{}
}

// mappedElsewhere reports whether a flow goes elsewhere than the maps lead it now, and cannot begin anew by itself: one
// of UDP, which lasts as long as its packets come, and any through a port that the network has left.
func (fc flowCheck) mappedElsewhere(f netstate.Flow) bool {
	own := fc.nodeAddresses[f.Dst.Addr()] && f.ReplySrc.IsValid()
	if !own {
		return false
	}
	to, ours := fc.mapFor(f), fc.isAppAddress(f.ReplySrc.Addr())
	if to.IsValid() {
		return f.Proto == protoUDP && f.ReplySrc != to
	}
	return ours && f.ReplySrc != f.Dst && (f.Proto == protoUDP || !fc.inUse(f.Dst.Addr()))
}

// inUse reports whether an address is one of a port that the network uses.
func (fc flowCheck) inUse(a netip.Addr) bool {
	return slices.ContainsFunc(fc.ports, func(p PortStatus) bool {
		return slices.ContainsFunc(p.Addresses, func(own netip.Prefix) bool { return own.Addr() == a })
	})
}

// deniedMapped is denied for a flow whose destination was translated, as by a port map: the rules of both ends apply to
// where it leads.
func (fc flowCheck) deniedMapped(f netstate.Flow) bool {
	g := f
	g.Dst = f.ReplySrc
	src, dst := g.Src.Addr(), g.Dst.Addr()
	if fc.isAppAddress(src) {
		from, ok := fc.byIP[src]
		if !ok || !from.Config.Spec.allows(Egress, packet{proto: g.Proto, remote: g.Dst, local: g.Src}, otherHost) {
			return true
		}
	}
	if !fc.isAppAddress(dst) {
		return false
	}
	to, ok := fc.byIP[dst]
	if !ok {
		return true
	}
	end := otherHost
	p := packet{proto: g.Proto, remote: g.Src, local: g.Dst, mapped: f.Dst.Port()}
	if fc.nodeAddresses[src] {
		end = nodeItself
	} else if !fc.isAppAddress(src) {
		p.port = fc.portOf(src)
	}
	return !to.Config.Spec.allows(Ingress, p, end)
}
