package netinst

import (
	"fmt"
	"strings"

	"edgespan/netinst/netstate"
)

func (nw network) bridgeTableID() netstate.ID {
	return netstate.Chain{Family: netstate.BridgeFamily, Name: string(nw.bridge)}.ID()
}

// bridgeTable is the network's table of family bridge. It handles a frame before br_netfilter (priority 0) and so
// before conntrack: a forged packet leaves no trace. It drops frames of edgespan's links that have no chain; "es1a*"
// cannot match a link of network 10, since a digit never equals 'a'.
func (nw network) bridgeTable() netstate.Chain {
	c := netstate.Chain{Family: netstate.BridgeFamily, Name: string(nw.bridge)}
	for _, a := range nw.Adapters {
		c.Rules = append(c.Rules, nw.frameChain(a)...)
	}
	cluster := nw.isCluster()
	if nw.enslaved() != "" && !cluster { // no rule applies to IPv6, nor to frames with a tag
		c.Rules = append(c.Rules, openFrames("port")...)
	}
	// One rule for each port, and no set in the table: nf_tables evaluates a rule by the generation in which the walk
	// began, but a set element by that of the lookup, so a walk during a commit could miss its port and drop the packet.
	c.Rules = append(c.Rules, "chain frames {", "type filter hook prerouting priority -300; policy accept;")
	for _, a := range nw.Adapters {
		c.Rules = append(c.Rules, fmt.Sprintf("iifname %q goto a%d", nw.hostIfName(a), a.Lease.Number))
	}
	if p := nw.enslaved(); p != "" && !cluster {
		c.Rules = append(c.Rules, fmt.Sprintf("iifname %q goto port", p))
	}
	c.Rules = append(c.Rules, fmt.Sprintf("iifname \"%sa*\" drop", nw.bridge))
	if nw.isSwitch() && len(nw.Config.Tunnels) == 0 { // a switch that is being removed
		c.Rules = append(c.Rules, fmt.Sprintf("iifname \"%sv*\" drop", nw.bridge))
	}
	c.Rules = append(c.Rules, "}")
	if cluster {
		c.Rules = append(c.Rules, nw.clusterFrames()...)
	}
	return c
}

// frameChain lists the frames that one adapter may send and drops the rest. It names what passes, since a match on a
// field that a frame lacks never holds. "ether type" reads the tag of a tagged frame, which is neither IPv4 nor ARP.
func (nw network) frameChain(a Adapter) []string {
	mac, ip := a.Lease.MAC, a.Lease.IP.String()
	dhcp, asks := nw.dhcpFrames(a)
	pass := []string{"ether type ip accept", "ether type arp accept"}
	switch guard := nw.Config.SpoofGuard; {
	case guard && nw.isSwitch(): // other systems assign its addresses
		pass = []string{"ether type ip accept", "ether type arp arp htype 1 arp hlen 6 arp saddr ether " + mac + " accept"}
	case guard:
		arp := "ether type arp arp htype 1 arp ptype ip arp hlen 6 arp plen 4 arp saddr ether " + mac + " arp saddr ip "
		pass = []string{
			"ether type ip ip saddr " + ip + " accept",
			// An ARP request from 0.0.0.0 probes whether an address is taken (RFC 5227 §2.1.1). For an address that is not the
			// adapter's own, the probe would be the conflict that makes another host's probe fail.
			arp + "0.0.0.0 arp daddr ip " + ip + " accept",
			arp + ip + " accept",
		}
	}
	out := append(asks, fmt.Sprintf("chain a%d {", a.Lease.Number))
	if nw.Config.SpoofGuard {
		out = append(out, "ether saddr != "+mac+" drop")
	}
	return append(append(append(out, dhcp...), pass...), "drop", "}")
}

// dhcpFrames returns the rules for frames of an adapter to the ports of DHCP and to its gateway's DNS, and the chain
// that they need. A sender to a client's port (68) is the client's DHCP server: clients look at no other port. To a
// server's port (67) of a local network a client sends only its own requests: dnsmasq uses the hardware address in the
// payload and not the frame's, and answers a relay at the address that it names (RFC 2131 §2: op, htype and hlen at
// octet 0, giaddr of 4 octets at 24, chaddr at 28, behind the 8 octets of UDP).
//
// Ports and payload are in the first fragment; later ones cannot be checked here and are useless without it. A frame
// too short for a match is dropped.
func (nw network) dhcpFrames(a Adapter) (rules, chain []string) {
	const toClient = "ether type ip udp dport 68 drop"
	switch {
	case nw.isSwitch() && a.Config.UnderlayConfig.DHCPServer:
		return nil, nil
	case nw.isSwitch():
		return []string{toClient}, nil
	}
	own := fmt.Sprintf("udp sport 68 @th,64,24 0x010106 @th,256,80 0x%s accept", strings.ReplaceAll(a.Lease.MAC, ":", ""))
	name := fmt.Sprintf("d%d", a.Lease.Number)
	chain = []string{"chain " + name + " {"}
	if nw.Config.SpoofGuard {
		for _, src := range []string{"0.0.0.0", a.Lease.IP.String()} {
			chain = append(chain, "ether type ip ip saddr "+src+" "+own)
		}
	} else {
		chain = append(chain, "ether type ip "+own)
	}
	return []string{toClient, dhcpLimit, "ether type ip udp dport 67 goto " + name, nw.dnsFrames(a)},
		append(chain, "drop", "}")
}

// dhcpLimit limits the requests of an adapter to the dnsmasq that all adapters of its network share: without it, a
// flood from one adapter starved all others. A client sends some four messages for a lease.
const dhcpLimit = "ether type ip udp dport 67 limit rate over 8/second burst 32 packets drop"

// openFrames is a chain that lists the frames that rules can match, from any sender.
func openFrames(name string) []string {
	return []string{"chain " + name + " {", "ether type ip accept", "ether type arp accept", "drop", "}"}
}
