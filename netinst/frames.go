package netinst

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"edgespan/netinst/netstate"
)

// The frames of all networks are filtered by one nftables table of family bridge. Its base chains and maps belong to
// the host state; its other chains, and the elements of the maps that lead to them, belong to the networks:
//
//	frames (prerouting)   ports: by incoming link    es<n>a<k> -> ES<n>-<k>F   what the adapter may send
//	                                                              tagged -> ES<n>-<k>T   of a trunk (vlan.go)
//	                                                 port      -> ES<n>-PORT   what rules can match
//	                                                              tagged -> ES<n>-TAGS   of a trunk
//	                                                 port      -> ES<n>-PORT<v>   of an access port of VLAN v
//	                                                 es<n>v<i> -> ES<n>-OPEN   any frame
//	leaving (forward)     apps: by outgoing link     es<n>a<k> -> ES<n>-APPS   what rules can match
//	                                                 es<n>a<k> -> ES<n>-TRUNKS   of a trunk
//	                                                 es<n>v<i> -> ES<n>-OPEN
//	node (input)          open: by incoming link     any open port of a cluster -> ES<n>-NODE: drop
//
// Link es<n>a<k> is that of adapter k, es<n>v<i> a tunnel, port the host's interface in the bridge of a switch network
// that is no cluster (cluster.go). An adapter's link of kind tap or external may have a name from the config instead.
// An open port is a port of a switch's bridge that leads to no app: the host's interface, a tunnel or a member. Chain
// ES<n>-<k>F of a local network sends DHCP requests through ES<n>-<k>D, and IPv6 through others (firewall6.go).
//
// So a frame finds its chain in constant time, whatever the number of networks and adapters. A frame from or to a link
// with a name of edgespan's (es and a digit) that no element names is dropped; frames of other links pass.
//
// The table handles a frame before br_netfilter (priority 0) and so before conntrack: a forged packet leaves no trace.
//
// A packet that is in the table while a transaction commits meets the old generation of the rules, but the new one of
// the elements: nf_tables fixes the generation of the rules when a packet enters the base chain, and that of an element
// when it is looked up. So an element must lead to the right chain in both: a network changes only its own elements and
// chains, and neither is replaced when rules change. Elements jump to their chain instead of goto: a packet that
// entered before the chain had rules returns to the rule that drops.

// framePriority is later than that of the tables that former releases made, one for each network: while the network's
// part of the shared table replaces such a table, each frame passes one or the other.
const framePriority = -299

// The maps of the table of frames.
const (
	portsMap = "ports"
	appsMap  = "apps"
	openMap  = "open"
)

// mapSize is many times the number of a node's links. Each map takes half a megabyte of kernel memory.
const mapSize = "size 32768;"

// hostFrames is the host state's part of the table of frames. Links of a network whose frames still have a table of
// their own, as a former release made it, pass until its bridge manager has written its part here.
func hostFrames(ns []HostNetwork) netstate.Chain {
	c := netstate.Chain{Family: netstate.BridgeFamily, Name: GuardTable}
	for _, m := range []string{portsMap, appsMap, openMap} {
		c.Rules = append(c.Rules, "map "+m+" {", "type ifname : verdict;", mapSize, "}")
	}
	chain := func(name string, rules ...string) {
		c.Rules = append(append(append(c.Rules, "chain "+name+" {"), rules...), "}")
	}
	base := func(name, hook string, rules ...string) {
		first := fmt.Sprintf("type filter hook %s priority %d; policy accept;", hook, framePriority)
		chain(name, append([]string{first}, rules...)...)
	}
	for _, d := range []struct{ name, match string }{{"from", "iifname"}, {"to", "oifname"}} {
		var rules []string
		for _, n := range ns {
			if br := d.match + ` "` + string(BridgeName(n.Number)); n.OldFrames {
				rules = append(rules, br+`a*" accept`, br+`v*" accept`)
			}
		}
		for digit := '1'; digit <= '9'; digit++ {
			rules = append(rules, fmt.Sprintf("%s \"%s%c*\" drop", d.match, linkPrefix, digit))
		}
		chain(d.name, rules...)
	}
	base("frames", "prerouting", "iifname vmap @"+portsMap, fmt.Sprintf("iifname \"%s*\" jump from", linkPrefix))
	base("leaving", "forward", "oifname vmap @"+appsMap, fmt.Sprintf("oifname \"%s*\" jump to", linkPrefix))
	base("node", "input", "iifname vmap @"+openMap)
	return c
}

// frame returns a chain of the network in the table of frames, to which elements of a map lead.
func (nw network) frame(part string, rules []string, hooks ...netstate.Hook) netstate.Chain {
	return netstate.Chain{Family: netstate.BridgeFamily, Table: GuardTable, Name: nw.chainName(part), Rules: rules,
		Hooks: hooks}
}

// byLink is the element of a map for one link.
func byLink(inMap string, link IfName) netstate.Hook {
	return netstate.Hook{Parent: inMap, Match: strconv.Quote(string(link))}
}

// frameChains are the network's chains in the table of frames.
func (nw network) frameChains() []netstate.Chain {
	out := nw.sharedFrameChains()
	for _, a := range nw.Adapters {
		out = append(out, nw.adapterFrames(a)...)
	}
	return out
}

// guardOf are the network's chains that must exist before a port of the bridge passes a frame. None is of the guard
// (guard.go).
func (nw network) guardOf(link string) []netstate.ID {
	ids := nw.sharedChainIDs()
	for _, c := range nw.sharedFrameChains() {
		if slices.ContainsFunc(c.Hooks, func(h netstate.Hook) bool { return h.Match == strconv.Quote(link) }) {
			ids = append(ids, c.ID())
		}
	}
	return ids
}

// sharedFrameChains are the frame chains that serve all adapters of the network.
func (nw network) sharedFrameChains() []netstate.Chain {
	var out []netstate.Chain
	var apps, trunks, tunnels, open []netstate.Hook
	for _, a := range nw.Adapters {
		if hook := byLink(appsMap, nw.hostIfName(a)); len(nw.trunkOf(a)) > 0 {
			trunks = append(trunks, hook)
		} else {
			apps = append(apps, hook)
		}
	}
	if len(apps) > 0 {
		out = append(out, nw.frame("APPS", nw.toApps(), apps...))
	}
	if len(trunks) > 0 { // the filter of the bridge passes it no VLAN of others
		tags := tagged(nw.matchableFrames())
		out = append(out, nw.frame("TRUNKS", append(tags[:len(tags)-1], nw.toApps()...), trunks...))
	}
	if !nw.isCluster() {
		return append(out, nw.portFrames()...)
	}
	for _, t := range nw.tunnelLinks() {
		tunnels = append(tunnels, byLink(portsMap, t), byLink(appsMap, t))
		open = append(open, byLink(openMap, t))
	}
	for _, p := range nw.foreignPorts() {
		open = append(open, byLink(openMap, IfName(p)))
	}
	// OPEN exists without a tunnel too: otherwise it would be removed with the last tunnel, before that tunnel's link.
	out = append(out, nw.frame("OPEN", []string{"accept"}, tunnels...))
	return append(out, nw.frame("NODE", []string{"drop"}, open...))
}

// portFrames are the chains of the host's interfaces in the bridge of a switch, by their VLANs: rules match no other
// frames. A trunk sends those of the switch's VLANs through ES<n>-TAGS. From an access port none with a tag passes.
func (nw network) portFrames() (out []netstate.Chain) {
	if len(nw.joined) == 0 {
		return nil
	}
	rules := nw.withLLDP(nw.matchableFrames(), lldpLimit)
	if len(nw.vlans) == 0 {
		var ports []netstate.Hook
		for _, p := range nw.joined {
			ports = append(ports, byLink(portsMap, p.IfName))
		}
		return []netstate.Chain{nw.frame("PORT", rules, ports...)}
	}
	hooks := map[int][]netstate.Hook{}
	for _, p := range nw.joined {
		vid := nw.Config.AccessVLAN(p.PortConfig)
		hooks[vid] = append(hooks[vid], byLink(portsMap, p.IfName))
	}
	for _, vid := range slices.Sorted(maps.Keys(hooks)) {
		rules := append([]string{nw.markOf(vid)}, rules...)
		if vid != 0 {
			out = append(out, nw.frame(fmt.Sprintf("PORT%d", vid), rules, hooks[vid]...))
			continue
		}
		tags := nw.frame("TAGS", tagged(nw.matchableFrames()))
		out = append(out, tags, nw.frame("PORT", append(nw.taggedTo(tags.Name, nw.vlans), rules...), hooks[vid]...))
	}
	return out
}

// withLLDP adds LLDP to rules that end with drop, if the network passes it.
func (nw network) withLLDP(rules []string, limit string) []string {
	if !nw.passesLLDP() {
		return rules
	}
	return slices.Insert(slices.Clone(rules), len(rules)-1, "ether type lldp "+limit+"accept")
}

// matchable are the rules that accept only the frames that access rules can match, from any sender.
var matchable = []string{"ether type ip accept", "ether type arp accept", "drop"}

// adapterFrames list the frames that one adapter may send and drop the rest. They name what passes, since a match on a
// field that a frame lacks never holds. "ether type" reads the tag of a tagged frame, which is neither IPv4 nor ARP.
func (nw network) adapterFrames(a Adapter) []netstate.Chain {
	mac, ip := a.Lease.MAC, a.Lease.IP.String()
	dhcp, asks := nw.dhcpFrames(a)
	packet, mark := "ether type ip ", uint32(LocalMark)
	if nw.hasLimits() {
		mark |= CheckMark
	}
	accept := fmt.Sprintf("meta mark set meta mark | %#x accept", mark)
	if nw.isSwitch() {
		accept = "accept"
	}
	arp := []string{"ether type arp accept"}
	sender := ""
	var rules []string
	if nw.Config.SpoofGuard {
		sender = "ether saddr " + mac + " "
		rules = []string{"ether saddr != " + mac + " drop"}
	}
	switch guard := nw.Config.SpoofGuard; {
	case guard && nw.isSwitch(): // other systems assign its addresses
		arp = []string{"ether type arp arp htype 1 arp hlen 6 arp saddr ether " + mac + " accept"}
	case guard:
		own := "ether type arp arp htype 1 arp ptype ip arp hlen 6 arp plen 4 arp saddr ether " + mac + " arp saddr ip "
		packet += "ip saddr " + ip + " "
		arp = []string{
			// An ARP request from 0.0.0.0 probes whether an address is taken (RFC 5227 §2.1.1). For an address that is not the
			// adapter's own, the probe would be the conflict that makes another host's probe fail.
			own + "0.0.0.0 arp daddr ip " + ip + " accept",
			own + ip + " accept",
		}
	}
	// Most valid frames pass the first rule: the rules below are about fragments, about UDP up to port 68, which is the
	// second number of a header of TCP, too, and of other protocols any number, about ARP and about other senders.
	first := sender + packet
	rules = slices.Concat(nw.answerFrames(), []string{first + "@nh,48,16 & 0x3fff == 0 @th,16,16 > 68 " + accept,
		nw.fragmentLimit(a, fragment4), first + "ip protocol != 17 " + accept}, rules)
	pass := append([]string{packet + accept}, arp...)
	six, sixChains := nw.sixFrames(a)
	rules = append(append(append(append(rules, dhcp...), pass...), six...), "drop")
	tags := nw.taggedFrames(a, rules, sixChains)
	rules = nw.withLLDP(rules, lldpLimit)
	if len(nw.vlans) > 0 {
		rules = append([]string{nw.markOf(a.Config.Spec.VLAN)}, rules...)
	}
	if len(tags) > 0 {
		rules = append(nw.taggedTo(tags[0].Name, nw.trunkOf(a)), rules...)
	}
	f := nw.frame(fmt.Sprint(a.Lease.Number)+"F", rules, byLink(portsMap, nw.hostIfName(a)))
	return slices.Concat(asks, sixChains, tags, []netstate.Chain{f})
}

// taggedFrames are the chain T of an adapter that is a trunk, and the chains that it needs: the same rules for the
// packets in its tagged frames.
func (nw network) taggedFrames(a Adapter, rules []string, chains []netstate.Chain) []netstate.Chain {
	if len(nw.trunkOf(a)) == 0 {
		return nil
	}
	list := []netstate.Chain{nw.frame(fmt.Sprint(a.Lease.Number)+"T", tagged(rules))}
	for _, c := range chains {
		c.Name, c.Rules = c.Name+"T", tagged(c.Rules)
		list = append(list, c)
	}
	for i, r := range list[0].Rules {
		for _, c := range chains {
			if strings.HasSuffix(r, " goto "+c.Name) {
				list[0].Rules[i] = r + "T"
			}
		}
	}
	return list
}

// dhcpFrames returns the rules for frames of an adapter to the ports of DHCP and to its gateway's DNS, and the chain
// that they need. An adapter without DHCPServer may send nothing to the clients' port (68): a client takes any
// sender for a DHCP server, whatever the source port. To the servers' port (67) of a local network it may send
// only requests of its own: dnsmasq uses the hardware address in the payload and not the frame's, and answers a relay
// at the address in the payload (RFC 2131 §2: op, htype and hlen at octet 0, giaddr of 4 octets at 24, chaddr at 28,
// after the 8 octets of UDP).
//
// Ports and payload are in the first fragment; later ones cannot be checked here and are useless without it. A frame
// too short for a match is dropped.
func (nw network) dhcpFrames(a Adapter) (rules []string, chain []netstate.Chain) {
	const toClient = "ether type ip udp dport 68 drop"
	switch {
	case nw.isSwitch() && a.Config.Spec.DHCPServer:
		return nil, nil
	case nw.isSwitch():
		return []string{toClient}, nil
	}
	own := fmt.Sprintf("udp sport 68 @th,64,24 0x010106 @th,256,80 0x%s accept", strings.ReplaceAll(a.Lease.MAC, ":", ""))
	var asks []string
	if nw.Config.SpoofGuard {
		for _, src := range []string{"0.0.0.0", a.Lease.IP.String()} {
			asks = append(asks, "ether type ip ip saddr "+src+" "+own)
		}
	} else {
		asks = append(asks, "ether type ip "+own)
	}
	c := nw.frame(fmt.Sprint(a.Lease.Number)+"D", append(asks, "drop"))
	return []string{toClient, dhcpLimit, "ether type ip udp dport 67 goto " + c.Name, nw.dnsFrames(a)},
		[]netstate.Chain{c}
}

// dhcpLimit limits the requests of an adapter to the dnsmasq that all adapters of its network share: without it, a
// flood from one adapter starved all others. A client sends some four messages for a lease.
var dhcpLimit = fmt.Sprintf("ether type ip udp dport 67 limit rate over %d/second burst %d packets counter drop",
	dhcpRate, 4*dhcpRate)

const dhcpRate = 8

// DefaultMaxFragments is the limit of the fragments that an adapter sends in a second, if its config sets none.
//
// The kernel keeps the fragments of a datagram until it is complete, for up to 30 s, those of IPv6 for 60 s. It has 4
// MB for those of all networks, for each family (net.ipv4.ipfrag_high_thresh, nf_conntrack_frag6_high_thresh). If
// that is full, no app's fragments are assembled any more. A full-sized one takes 2.5 kB: by default one app can hold
// little more than a quarter of it, of IPv6 less than half.
const DefaultMaxFragments = 10

// fragmentBurst is the burst of fragments, in seconds of their rate: by default three datagrams of 64 kB.
const fragmentBurst = 16

// FragmentBound is the limit of one adapter of a network. A fragment takes memory for the size of its buffer.
func FragmentBound(u AdapterSpec, mtu int) int {
	if u.MaxFragments > 0 {
		return u.MaxFragments
	}
	return max(1, DefaultMaxFragments*defaultMTU/max(defaultMTU, mtu))
}

// The matches of fragments: of IPv4 the flag "more fragments" and the offset, of IPv6 the first header.
const (
	fragments4 = "@nh,48,16 & 0x3fff != 0 limit"
	fragments6 = "ip6 nexthdr 44 limit"
	fragment4  = "ether type ip " + fragments4
	fragment6  = packet6 + fragments6
)

// fragmentLimit limits the fragments of one family.
func (nw network) fragmentLimit(a Adapter, match string) string {
	n := FragmentBound(a.Config.Spec, nw.mtu)
	return fmt.Sprintf("%s rate over %d/second burst %d packets counter drop", match, n, fragmentBurst*n)
}
