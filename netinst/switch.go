package netinst

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// A switch network is a separate bridge, with or without open ports: ports of the host, and the tunnels and members of
// a cluster. It has no address, DHCP, DNS or routes: packets of its apps are bridged, and filtered by the same rules as
// on a local network. Packets from one open port to another are not filtered.
//
//	raw PREROUTING: ES-PREROUTING (host): -i es<n> -> ES<n>-RAW: CT --zone 20000+n
//
//	filter FORWARD                 filter INPUT, OUTPUT
//	   ES-LINKS-FWD (host)           -i es<n> -> ES<n>-INP: DROP
//	   |                             -o es<n> -> ES<n>-OUT: DROP
//	   |  reply -> ACCEPT
//	   |  ES-NETS-FROM, -TO (host): -i es<n>, -o es<n>
//	   |  ES<n>-FWD
//	   |    reply      -> ACCEPT: a known flow, in the reply direction alone
//	   |    -i es<n>   -> ES<n>-EGR: by port of bridge -> ES<n>-<k>E; open port RETURN
//	   |    -o es<n>   -> ES<n>-ING: by port of bridge -> ES<n>-<k>I; open port ACCEPT
//	   '- last: ES-BASE (host): DROP, also what would be routed into or out of a switch
//
// Its flows are tracked in a separate conntrack zone: the addresses on a switch are assigned by others and may be those
// of another network of the node, and neither replies nor NAT may match the entries of that network.
//
// The rules check every packet of a flow's original direction again. On a local network the spoof guard knows which
// adapter may send from an address; here it knows only the MAC, so an entry of one app must not let another's packets
// pass.

const switchReplies = "-m conntrack --ctstate RELATED,ESTABLISHED --ctdir REPLY -j ACCEPT"

// Zone is the conntrack zone of switch network n.
func Zone(n int) uint16 { return uint16(tableBase + n) }

func (nw network) isSwitch() bool { return nw.Config.Type == Switch }

// switchChains returns all chains of a switch network.
func (nw network) switchChains() []netstate.Chain {
	br := string(nw.bridge)
	egr, ing := nw.chainName("EGR"), nw.chainName("ING")
	out := []netstate.Chain{
		nw.zone(),
		nw.filter("FWD", []netstate.Hook{netsFrom.hook(nw.n), netsTo.hook(nw.n)}, []string{
			switchReplies, "-i " + br + " -j " + egr, "-i " + br + " -o " + br + " -j " + ing,
		}),
		nw.filter("INP", []netstate.Hook{netsInput.hook(nw.n)}, []string{"-j DROP"}),
		nw.filter("OUT", []netstate.Hook{netsOutput.hook(nw.n)}, []string{"-j DROP"}),
	}
	out = slices.Concat(out, nw.switchEgress(), nw.switchIngress(), nw.frameChains())
	for _, a := range nw.Adapters {
		out = append(out, nw.adapterChains(a)...)
	}
	return out
}

// switchACL is aclChains of a switch network. Any station may serve DHCP on the segment: the client asks, the server
// answers.
func (nw network) switchACL(a Adapter) []aclChain {
	acl := a.Config.Spec.ACL
	part := func(p string) netstate.Chain { return nw.filter(fmt.Sprint(a.Lease.Number)+p, nil, nil) }
	sent, received := nw.targets(a, Sent, "RETURN"), nw.targets(a, Received, "ACCEPT")
	ask := uncounted("-p udp -m udp --sport 68 --dport 67 " + sent.allow)
	answer := uncounted("-p udp -m udp --sport 67 --dport 68 " + received.allow)
	return []aclChain{
		{part("E"), Sent, append(ask, nw.chain(acl, Egress, sent, nw.matching(Egress, nil), always)...)},
		{part("I"), Received, append(answer, nw.chain(acl, Ingress, received, nw.matching(Ingress, nil), always)...)},
	}
}

func (nw network) zone() netstate.Chain {
	return netstate.Chain{
		Family: netstate.IPv4, Table: tableRaw, Name: nw.chainName("RAW"),
		Hooks: []netstate.Hook{netsSwitched.hook(nw.n)},
		Rules: nw.zoneRules(),
	}
}

func (nw network) switchEgress() []netstate.Chain {
	chains := nw.egress()
	c := &chains[len(chains)-1]
	var open []string
	for _, p := range nw.openPorts("+") {
		open = append(open, "-m physdev --physdev-in "+p+" -j RETURN")
	}
	c.Rules = append(open, c.Rules...)
	return chains
}

// switchIngress matches by port of the bridge alone: the address of an app is not assigned by edgespan.
func (nw network) switchIngress() []netstate.Chain {
	rules, branches := nw.toAdapters("ING", toPort, bridged, "I")
	for _, p := range nw.openPorts("+") {
		rules = append(rules, toPort+p+bridged+" -j ACCEPT")
	}
	return append(branches, nw.filter("ING", nil, append(rules, "-j DROP")))
}

// join chooses a switch's ports, and returns the one that stands for them in the status and why there is none. One port
// that is down or missing does not stop a switch that has others.
func (nw *network) join() (PortStatus, string) {
	joined, faults := switchPorts(nw.Config.Port, nw.Ports)
	why := strings.Join(faults, "; ")
	if nw.joined = joined; len(joined) == 0 {
		return PortStatus{}, why
	}
	if nw.spans() {
		nw.joinFault = why
	}
	return joined[max(0, slices.IndexFunc(joined, func(p PortStatus) bool { return p.Up }))], why
}

// enslaved returns the host's interfaces in the bridge.
func (nw network) enslaved() (links []string) {
	for _, p := range nw.joined {
		links = append(links, string(p.IfName))
	}
	return links
}

// spans reports whether the bridge runs the spanning tree protocol (IEEE 802.1D): the config gives it several ports,
// and the segments behind two of them may be one. The kernel answers a BPDU of an app, which could make it block a
// port, by disabling the adapter's port (netstate.Port.Guarded): no table of nftables sees these frames.
func (nw network) spans() bool {
	ports := slices.DeleteFunc(slices.Clone(nw.Ports), func(p PortStatus) bool { return !p.Matches(nw.Config.Port) })
	return nw.isSwitch() && nw.Config.Port != "" && len(ports) > 1
}

// Attributes of bridges: a priority by which no bridge becomes the root that has a better one, which is any switch with
// its factory settings, and the bit of the address 01:80:c2:00:00:0e in group_fwd_mask.
const (
	lastPriority = 0xf000
	lldpMask     = 1 << 0x0e
)

// bridgeAttrs are the bridge's attributes that differ from those of edgespan's other bridges.
func (nw network) bridgeAttrs() map[string]uint64 {
	attrs := map[string]uint64{}
	if len(nw.vlans) > 0 {
		attrs = netstate.VLANAttrs()
	}
	if nw.spans() {
		attrs["stp_state"], attrs["priority"] = 1, lastPriority
	}
	if nw.passesLLDP() {
		attrs["group_fwd_mask"] = lldpMask
	}
	if len(attrs) == 0 {
		return nil
	}
	return attrs
}

func (nw network) passesLLDP() bool { return nw.isSwitch() && nw.Config.ForwardLLDP }

// lldpLimit limits the LLDP frames of one sender: a station sends one each 30 s, and few when something changes (IEEE
// 802.1AB §9.2).
const lldpLimit = "limit rate 8/second burst 32 packets "

// The chains of a switch network's IPv6 packets, if its mode is bridged, in the table ip6 edgespan (firewall6.go). A
// bridge's packets pass it too. They decide as those above do for IPv4. Neighbour discovery and multicast listener
// messages pass: the frames of apps (bridgedFrames) have checked theirs.
//
//	prerouting   by-link: es<n> -> ES<n>-RAW: ct zone set 20000+n
//	forward      from, to: es<n> -> ES<n>-FWD
//	               what is routed -> drop; neighbour discovery, reply -> accept
//	               ES<n>-EGR: by port of bridge -> ES<n>-<k>E: allow -> ES<n>-<k>C: return; open port return
//	               ES<n>-ING: by port of bridge -> ES<n>-<k>I: allow -> ES<n>-<k>A; open port accept
func (nw network) switchChains6() []netstate.Chain {
	if !nw.Config.BridgesIPv6() {
		return nil
	}
	br := nw.bridge
	var egr, ing []string
	for _, p := range nw.openPorts("*") {
		egr, ing = append(egr, fmt.Sprintf("physdev in %q return", p)), append(ing, fmt.Sprintf("physdev out %q accept", p))
	}
	for _, a := range nw.Adapters {
		egr = append(egr, fmt.Sprintf("physdev in %q goto %s", nw.hostIfName(a), nw.adapterChain(a, "E")))
		ing = append(ing, fmt.Sprintf("physdev out %q goto %s", nw.hostIfName(a), nw.adapterChain(a, "I")))
	}
	out := []netstate.Chain{
		nw.six("RAW", nw.zoneRules6(), byLink(zonesMap, br)),
		nw.six("FWD", []string{
			fmt.Sprintf("iifname != %q drop", br), fmt.Sprintf("oifname != %q drop", br), neighbours6,
			"icmpv6 type >= 130 icmpv6 type <= 132 ip6 hoplimit 1 accept", "icmpv6 type 143 ip6 hoplimit 1 accept",
			"ct direction reply ct state established,related accept",
			"jump " + nw.chainName("EGR"), "jump " + nw.chainName("ING"), "drop",
		}, byLink(fromMap, br), byLink(toMap, br)),
		nw.six("EGR", append(egr, "drop")), nw.six("ING", append(ing, "drop")),
	}
	for _, a := range nw.Adapters {
		out = append(out, nw.adapterChains6(a)...)
	}
	return out
}

// switchACL6 is switchACL for IPv6.
func (nw network) switchACL6(a Adapter) []aclChain {
	acl := a.Config.Spec.ACL
	part := func(p string) netstate.Chain { return nw.six(fmt.Sprint(a.Lease.Number)+p, nil) }
	sent, received := nw.targets6(a, Sent, "C"), nw.targets6(a, Received, "A")
	ask := uncounted("udp sport 546 udp dport 547 goto " + nw.adapterChain(a, "C"))
	answer := uncounted("udp sport 547 udp dport 546 goto " + nw.adapterChain(a, "A"))
	return []aclChain{
		{part("E"), Sent, append(ask, nw.chain(acl, Egress, sent, nw.matching6(Egress, nil), always)...)},
		{part("I"), Received, append(answer, nw.chain(acl, Ingress, received, nw.matching6(Ingress, nil), always)...)},
	}
}

// listenerHeader is the only hop-by-hop header that an app may send: a router alert before a multicast listener message
// (RFC 3810 §5), without which a bridge would not send it its groups.
const listenerHeader = "ip6 nexthdr 0 @nh,320,64 0x3a00050200000100 "

// bridgedFrames are the rules of chain F for IPv6 frames of a switch network's adapter, and the chain S that they need.
// As for IPv4, it may use any address with its own MAC, and an adapter with DHCPServer may be the segment's router too.
func (nw network) bridgedFrames(a Adapter) (rules []string, chains []netstate.Chain) {
	mac, server := strings.ReplaceAll(a.Lease.MAC, ":", ""), a.Config.Spec.DHCPServer
	kind := func(t int) string { return packet6 + fmt.Sprintf("icmpv6 type %d ip6 hoplimit 255 ", t) }
	words := []string{packet6 + "ip6 nexthdr 6 accept", nw.fragmentLimit(a, fragment6)}
	for _, t := range []int{131, 132, 143} {
		words = append(words, packet6+listenerHeader+
			fmt.Sprintf("icmpv6 type %d limit rate 32/second burst 128 packets accept", t))
	}
	for _, h := range hidingHeaders {
		words = append(words, packet6+fmt.Sprintf("ip6 nexthdr %d drop", h))
	}
	for _, h := range append([]int{fragmentHeader, protoICMP6}, hidingHeaders...) {
		words = append(words, packet6+fmt.Sprintf("ip6 nexthdr %d @nh,320,8 %d drop", fragmentHeader, h))
	}
	for _, t := range []int{icmp6RouterSolicit, icmp6Solicit, icmp6Advert} {
		words = append(words, packet6+fmt.Sprintf("icmpv6 type %d ", t)+"limit rate over 100/second burst 400 packets drop")
	}
	if nw.Config.SpoofGuard {
		words = append(words,
			packet6+"ip6 saddr :: icmpv6 type 135 ip6 hoplimit 255 accept",
			kind(icmp6Solicit)+"ip6 length 24 accept", kind(icmp6Solicit)+"ip6 length 32 @th,192,64 0x0101"+mac+" accept",
			kind(icmp6Advert)+"ip6 length 24 accept", kind(icmp6Advert)+"ip6 length 32 @th,192,64 0x0201"+mac+" accept",
			kind(icmp6RouterSolicit)+"ip6 length 8 accept",
			kind(icmp6RouterSolicit)+"ip6 length 16 @th,64,64 0x0101"+mac+" accept",
			packet6+"icmpv6 type 133 drop", packet6+"icmpv6 type 135 drop", packet6+"icmpv6 type 136 drop")
	}
	if !server {
		words = append(words, packet6+"icmpv6 type 130 drop", packet6+"icmpv6 type 134 drop",
			packet6+"icmpv6 type 137 drop", packet6+"udp dport 546 drop")
	}
	s := nw.frame(fmt.Sprint(a.Lease.Number)+"S", append(words, packet6+"accept", "drop"))
	from := ""
	if nw.Config.SpoofGuard {
		from = "ether saddr " + a.Lease.MAC + " "
	}
	return []string{from + packet6 + "goto " + s.Name}, []netstate.Chain{s}
}

// matchableFrames are matchable, and IPv6 where rules match it.
func (nw network) matchableFrames() []string {
	if !nw.Config.BridgesIPv6() {
		return matchable
	}
	return append([]string{packet6 + "accept"}, matchable...)
}
