package netinst

import (
	"fmt"

	"edgespan/netinst/netstate"
)

func (nw network) bridgeTableID() netstate.ID {
	return netstate.Chain{Family: netstate.BridgeFamily, Name: string(nw.bridge)}.ID()
}

// bridgeTable is the network's table of family bridge. It sees a frame before
// br_netfilter does (whose priority is 0), and so before conntrack: a forged
// packet leaves no trace. Frames of our links that have no chain are dropped;
// "es1a*" can't match a link of network 10, since a digit never stands for 'a'.
func (nw network) bridgeTable() netstate.Chain {
	c := netstate.Chain{Family: netstate.BridgeFamily, Name: string(nw.bridge)}
	for _, a := range nw.Adapters {
		c.Rules = append(c.Rules, nw.frameChain(a)...)
	}
	cluster := nw.isCluster()
	if nw.enslaved() != "" && !cluster { // no rule judges IPv6, nor what a tag is before
		c.Rules = append(c.Rules, openFrames("port")...)
	}
	// One rule a port, and no set anywhere in the table: nf_tables judges a rule by
	// the generation in which the walk began, but an element of a set by that of the
	// lookup, so a walk that straddles a commit could miss its port, and drop.
	c.Rules = append(c.Rules, "chain frames {", "type filter hook prerouting priority -300; policy accept;")
	for _, a := range nw.Adapters {
		c.Rules = append(c.Rules, fmt.Sprintf("iifname %q goto a%d", nw.hostIfName(a), a.Lease.Number))
	}
	if p := nw.enslaved(); p != "" && !cluster {
		c.Rules = append(c.Rules, fmt.Sprintf("iifname %q goto port", p))
	}
	c.Rules = append(c.Rules, fmt.Sprintf("iifname \"%sa*\" drop", nw.bridge))
	if nw.isSwitch() && len(nw.Config.Tunnels) == 0 { // one that is on its way out
		c.Rules = append(c.Rules, fmt.Sprintf("iifname \"%sv*\" drop", nw.bridge))
	}
	c.Rules = append(c.Rules, "}")
	if cluster {
		c.Rules = append(c.Rules, nw.clusterFrames()...)
	}
	return c
}

// frameChain lists what one adapter may send as a frame and drops the rest. It
// names what passes, since a match on a field that a frame hasn't never holds.
// "ether type" reads the tag of a tagged frame, which is neither IPv4 nor ARP.
func (nw network) frameChain(a Adapter) []string {
	name := fmt.Sprintf("chain a%d {", a.Lease.Number)
	if !nw.Config.SpoofGuard {
		return openFrames(fmt.Sprintf("a%d", a.Lease.Number))
	}
	mac, ip := a.Lease.MAC, a.Lease.IP
	if nw.isSwitch() { // its addresses are given by others
		return []string{
			name, "ether saddr != " + mac + " drop", "ether type ip accept",
			"ether type arp arp htype 1 arp hlen 6 arp saddr ether " + mac + " accept", "drop", "}",
		}
	}
	arp := "ether type arp arp htype 1 arp ptype ip arp hlen 6 arp plen 4 arp saddr ether " + mac + " arp saddr ip "
	return []string{
		name,
		"ether saddr != " + mac + " drop",
		"ether type ip ip saddr " + ip.String() + " accept",
		"ether type ip ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
		// 0.0.0.0 asks whether an address is taken before it is used (RFC 5227 §2.1.1).
		arp + "0.0.0.0 accept",
		arp + ip.String() + " accept",
		"drop",
		"}",
	}
}

// openFrames is a chain that lists what rules can judge, from whoever it comes.
func openFrames(name string) []string {
	return []string{"chain " + name + " {", "ether type ip accept", "ether type arp accept", "drop", "}"}
}
