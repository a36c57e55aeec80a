package netinst

import (
	"cmp"
	"fmt"
	"slices"

	"edgespan/netinst/netstate"
)

// HostPort is an interface of the host by which traffic of networks leaves. The kernel forwards by the link that a
// packet arrives at (net.ipv4.conf.<link>.forwarding), so answers to apps need forwarding to be on there, and then the
// kernel would forward any packet that arrives there.
type HostPort struct {
	IfName string
	// Opened means that the host did not forward packets from this interface before edgespan turned forwarding on.
	// Packets for no network are then dropped, as they were not forwarded before.
	Opened bool
	// HostForwards are foreign links between which and this one the host forwards by itself.
	HostForwards []string
}

// forwards makes the kernel forward packets that arrive by the network's bridge. Where other networks may have the
// subnet it must only if packets leave the node: it answers with error messages, which its routes may lead to another
// network (returnChains).
func (nw network) forwards() []netstate.Object {
	if nw.Config.IPv4.MayOverlap && !NeedsReturns(nw.Config) {
		return nil
	}
	br := string(nw.bridge)
	return []netstate.Object{netstate.Sysctl{Key: netstate.ForwardingOf(br), Value: "1", Link: br}}
}

// portsOf returns the ports of networks, each once.
func portsOf(ns []HostNetwork) []HostPort {
	var ports []HostPort
	for _, n := range ns {
		ports = append(ports, n.Ports...)
	}
	slices.SortFunc(ports, func(a, b HostPort) int { return cmp.Compare(a.IfName, b.IfName) })
	return slices.CompactFunc(ports, func(a, b HostPort) bool { return a.IfName == b.IfName })
}

// forwarding opens the ports of networks (turns forwarding on), and closes them for all other traffic. The chains for
// edgespan's links take every packet to a network, before these rules or after them. A foreign bridge forwards frames
// as before. The guard closes the ports, too, also toward foreign links that are named like edgespan's (closedPorts).
func forwarding(ns []HostNetwork) (opens []netstate.Object, closes []string) {
	for _, p := range portsOf(ns) {
		opens = append(opens, netstate.Sysctl{Key: netstate.ForwardingOf(p.IfName), Value: "1"})
		if !p.Opened {
			continue
		}
		for _, other := range p.HostForwards {
			closes = append(closes, "-i "+p.IfName+" -o "+other+" -j RETURN")
		}
		closes = append(closes, "-i "+p.IfName+" ! -o "+linkPrefix+"+ -m physdev ! --physdev-is-bridged -j DROP")
	}
	return opens, closes
}

// closedPorts are the rules of the guard that close what forwarding opened, so that nothing is forwarded after a flush
// of iptables' tables: they follow those that take every packet from or to a network. Frames that a foreign bridge
// carries arrive and leave by that bridge.
func closedPorts(ns []HostNetwork) []string {
	var rules []string
	for _, p := range portsOf(ns) {
		if !p.Opened {
			continue
		}
		in := fmt.Sprintf("iifname %q ", p.IfName)
		rules = append(rules, in+"meta iifkind \"bridge\" "+fmt.Sprintf("oifname %q accept", p.IfName))
		for _, other := range p.HostForwards {
			rules = append(rules, in+fmt.Sprintf("oifname %q accept", other))
		}
		rules = append(rules, in+"drop")
	}
	return rules
}

// sizesMap is the map of the guard that leads packets which begin a TCP connection to the chain of their network.
const sizesMap = "sizes"

// sizeRule sends such packets there, in both directions, before any rule lets them pass.
const sizeRule = "tcp flags syn jump sizes"

// sizeRules are the map and the chain that reads it, and those of neighbourRule.
var sizeRules = []string{"map " + neighboursMap + " {", "type ifname : verdict;", setSize, "}",
	"chain neighbours {", toOwn + " return", "iifname vmap @" + neighboursMap, "}",
	"map " + sizesMap + " {", "type ifname : verdict;", setSize, "}",
	"chain sizes {", "iifname vmap @" + sizesMap, "oifname vmap @" + sizesMap, "}"}

// The headers of IP and TCP without options, in octets.
const (
	headers4 = 20 + 20
	headers6 = 40 + 20
)

// sizeChain limits the segments of TCP connections to what the network and its ports carry (MSS, RFC 9293 §3.7.1). The
// other end learns it from the first packet: a connection then needs no ICMP message, which firewalls on the path may
// drop (RFC 2923 §2.1), and an app may have a larger MTU on its link than DHCP has told it.
func (nw network) sizeChain() []netstate.Chain {
	var rules []string
	limit := func(match string, mtu int) {
		rules = append(rules, fmt.Sprintf("%smeta nfproto ipv4 tcp option maxseg size set %d", match, mtu-headers4))
		if nw.hasIPv6() {
			rules = append(rules, fmt.Sprintf("%smeta nfproto ipv6 tcp option maxseg size set %d", match, mtu-headers6))
		}
	}
	if nw.mtu < defaultMTU {
		limit("", nw.mtu)
	}
	for _, p := range slices.Concat(nw.ports, nw.onlyIPv6()) {
		if m := p.mtu(); m > 0 && m < nw.mtu {
			limit(fmt.Sprintf("iifname %q ", p.IfName), m)
			limit(fmt.Sprintf("oifname %q ", p.IfName), m)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	return []netstate.Chain{{Family: netstate.InetFamily, Table: GuardTable, Name: nw.chainName("SIZE"), Rules: rules,
		Hooks: []netstate.Hook{byLink(sizesMap, nw.bridge)}}}
}

// onlyIPv6 are the ports that IPv6 alone uses.
func (nw network) onlyIPv6() []PortStatus {
	return slices.DeleteFunc(slices.Clone(nw.ports6), func(p PortStatus) bool {
		return slices.ContainsFunc(nw.ports, func(q PortStatus) bool { return q.Label == p.Label })
	})
}

// maxHostForwards bounds HostPort.HostForwards: a host that forwards by itself on more links does so on all of them
// (netstate.ForwardAll), and then nothing needs closing.
const maxHostForwards = 64

// HostPorts returns the existing ports that a network may use by its config: not only the one in use, so that a
// failover needs no wait.
func HostPorts(c NetworkInstanceConfig, ports []PortConfig, f netstate.Forwarding) []HostPort {
	if c.Type == Switch || c.Inactive || c.HasVPN() { // of a tunnel, only its own packets leave by ports
		return nil
	}
	var out []HostPort
	for _, p := range ports {
		name := string(p.IfName)
		on, off := slices.Contains(f.On, name), slices.Contains(f.Off, name)
		if !on && !off || !usedBy(c, p) {
			continue
		}
		h := HostPort{IfName: name, Opened: !f.All && (off || slices.Contains(f.Opened, name))}
		if h.Opened {
			h.HostForwards = hostForwardingLinks(f)
		}
		out = append(out, h)
	}
	return out
}

// hostForwardingLinks returns the links by which the host forwards by its own choice.
func hostForwardingLinks(f netstate.Forwarding) []string {
	var out []string
	for _, l := range f.On {
		// The kernel accepts almost any name, and other programs chose it: "x+" would be a pattern in a rule, and a quotation
		// mark its end.
		if _, err := ParseIfName(l); err == nil && !slices.Contains(f.Opened, l) {
			out = append(out, l)
		}
	}
	return out[:min(len(out), maxHostForwards)]
}
