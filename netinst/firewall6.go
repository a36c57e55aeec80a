package netinst

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// The chains of a local network's IPv6 packets, in the nftables table ip6 edgespan. They decide as those of iptables do
// for IPv4 (firewall.go), and have their names. Base chains and maps belong to the host state, the other chains and the
// elements that lead to them to the networks:
//
//	forward      from, to: by link           es<n> -> ES<n>-FWD
//	               known flow -> accept
//	               neighbour discovery inside the bridge -> accept (chain V has checked it)
//	               -i es<n> -> ES<n>-EGR: by source -> ES<n>-<k>E: allow -> ES<n>-<k>C: return, else drop
//	               to es<n> -> ES<n>-ING: by destination -> ES<n>-<k>I: allow -> ES<n>-<k>A: accept, else drop
//	               -o port -> accept
//	input        input: by incoming link     es<n> -> ES<n>-INP: by source -> ES<n>-<k>N
//	output       output: by outgoing link    es<n> -> ES<n>-OUT: by destination -> ES<n>-<k>M
//	postrouting  nat: by incoming link       es<n> -> ES<n>-POST: -o port -> masquerade
//
// In each hook, what no chain accepts is dropped if its link has a name of edgespan's. One table for verdicts and
// translation has no moment in which one of them is there without the other, and no operation of others on iptables'
// tables reaches it. It decides beside the chains of others, and before or after them: a packet passes if all accept it
// (docs/adr/0065-ipv6.md).
//
// The table of frames lets an adapter send only from its address, and sends to its link only what is for it: so
// adapters are told by address.

// The maps of the table, by the names of links.
const (
	fromMap, toMap, inputMap, outputMap, natMap, zonesMap = "from", "to", "input", "output", "nat", "by-link"
)

func (nw network) six(part string, rules []string, hooks ...netstate.Hook) netstate.Chain {
	return netstate.Chain{Family: netstate.IP6Family, Table: GuardTable, Name: nw.chainName(part), Rules: rules,
		Hooks: hooks}
}

const (
	knownFlows6   = "ct state established,related accept"
	neighbours6   = "icmpv6 type >= 133 icmpv6 type <= 136 ip6 hoplimit 255 accept"
	unknownFlows6 = "ct state invalid drop"
)

// acceptsKnown6 is acceptsKnown for IPv6.
func (nw network) acceptsKnown6() []string {
	if nw.hasLimits() {
		return []string{"ct state related accept", "ct direction reply ct state established accept"}
	}
	return []string{knownFlows6}
}

// chains6 are the chains of the network for IPv6 packets.
func (nw network) chains6() []netstate.Chain {
	if !nw.hasIPv6() {
		return nil
	}
	br := nw.bridge
	out := []netstate.Chain{nw.forward6(), nw.egress6(), nw.ingress6(), nw.input6(), nw.output6()}
	if nw.Config.IPv6.NAT && !nw.Config.Inactive {
		var rules []string
		for _, p := range nw.ports6 {
			rules = append(rules, fmt.Sprintf("oifname %q masquerade", p.IfName))
		}
		out = append(out, nw.six("POST", rules, byLink(natMap, br)))
	}
	for _, a := range nw.Adapters {
		out = append(out, nw.adapterChains6(a)...)
	}
	return out
}

func (nw network) forward6() netstate.Chain {
	br, own := nw.bridge, fmt.Sprintf("iifname %q oifname %q ", nw.bridge, nw.bridge)
	rules := []string{
		fmt.Sprintf("ip6 saddr %s iifname != %q drop", nw.Config.IPv6.Subnet, br),
		own + fmt.Sprintf("icmpv6 type >= %d icmpv6 type <= %d ip6 hoplimit 255 accept", icmp6Solicit, icmp6Advert),
	}
	if nw.Config.IPv6.NAT { // a flow that NAT has not changed, and will not change
		rules = append(rules, fmt.Sprintf("iifname %q oifname != %q ct direction original ct status confirmed "+
			"ct status & snat == 0 drop", br, br))
	}
	rules = append(append(rules, nw.acceptsKnown6()...), unknownFlows6,
		fmt.Sprintf("iifname %q jump %s", br, nw.chainName("EGR")), own+"jump "+nw.chainName("ING"))
	for _, p := range nw.ports6 {
		rules = append(rules, fmt.Sprintf("iifname %q oifname %q jump %s", p.IfName, br, nw.chainName("ING")),
			fmt.Sprintf("iifname %q oifname %q accept", br, p.IfName))
	}
	for _, p := range nw.leftPorts(true) {
		rules = append(rules, fmt.Sprintf("iifname %q oifname %q %s", br, p.IfName, knownFlows6))
	}
	return nw.six("FWD", append(rules, "drop"), byLink(fromMap, br), byLink(toMap, br))
}

// egress6 drops first what no rule may allow an app to send: the kernel has assembled fragments by now.
func (nw network) egress6() netstate.Chain {
	rules := []string{fmt.Sprintf("icmpv6 type >= %d drop", icmp6Listeners), "udp dport 546 drop"}
	for _, a := range nw.Adapters {
		rules = append(rules, fmt.Sprintf("ip6 saddr %s goto %s", nw.ip6(a), nw.adapterChain(a, "E")))
	}
	return nw.six("EGR", append(rules, "drop"))
}

func (nw network) ingress6() netstate.Chain {
	var rules []string
	for _, a := range nw.Adapters {
		rules = append(rules, fmt.Sprintf("ip6 daddr %s goto %s", nw.ip6(a), nw.adapterChain(a, "I")))
	}
	return nw.six("ING", append(rules, "drop"))
}

func (nw network) input6() netstate.Chain {
	rules := append(nw.acceptsKnown6(), neighbours6,
		fmt.Sprintf("icmpv6 type %d ip6 daddr %s accept", icmp6Echo, gatewayLinkLocal))
	if nw.Config.IPv6.Mode == DHCPv6 {
		rules = append(rules, "ip6 daddr ff02::1:2 udp sport 546 udp dport 547 accept")
	}
	for _, a := range nw.Adapters {
		rules = append(rules, fmt.Sprintf("ip6 saddr %s goto %s", nw.ip6(a), nw.adapterChain(a, "N")))
	}
	return nw.six("INP", append(rules, "drop"), byLink(inputMap, nw.bridge))
}

func (nw network) output6() netstate.Chain {
	rules := []string{knownFlows6, neighbours6, "udp sport 547 udp dport 546 accept"}
	for _, a := range nw.Adapters {
		rules = append(rules, fmt.Sprintf("ip6 daddr %s goto %s", nw.ip6(a), nw.adapterChain(a, "M")))
	}
	return nw.six("OUT", append(rules, "drop"), byLink(outputMap, nw.bridge))
}

// adapterChains6 is adapterChains for IPv6.
func (nw network) adapterChains6(a Adapter) []netstate.Chain {
	return slices.Concat(nw.flowChains6(a), nw.deniedChains6(a), chainsOf(nw.aclChains6(a)))
}

// flowChains6 is flowChains for IPv6.
func (nw network) flowChains6(a Adapter) []netstate.Chain {
	part, n := fmt.Sprint(a.Lease.Number), nw.flowBound(a)
	return []netstate.Chain{
		nw.six(part+"C", []string{
			fmt.Sprintf("ct status & confirmed == 0 ct count over %d counter drop", n),
			"meta l4proto != 6 return", "ct status confirmed return",
			fmt.Sprintf("limit rate %d/second burst %d packets return", min(max(4, n/8), maxLimit), min(max(64, n/2), maxLimit)),
			"counter drop",
		}),
		nw.six(part+"A", []string{"jump " + nw.adapterChain(a, "C"), "accept"}),
	}
}

// aclChains6 is aclChains for IPv6.
func (nw network) aclChains6(a Adapter) []aclChain {
	if nw.isSwitch() {
		return nw.switchACL6(a)
	}
	acl := a.Config.Spec.ACL
	sent, received := nw.targets6(a, Sent, "C"), nw.targets6(a, Received, "A")
	node := uncounted("jump "+nw.adapterChain(a, "E"), "accept")
	if !a.Config.Spec.alike(Egress) {
		node = nw.chain(acl, Egress, nw.targets6(a, SentToNode, "A"), nw.matching6(Egress, nil), appliesToNode)
	}
	fromNode := uncounted("goto " + nw.adapterChain(a, "I"))
	if !a.Config.Spec.alike(Ingress) {
		to := nw.targets6(a, ReceivedFromNode, "A")
		fromNode = nw.chain(acl, Ingress, to, nw.matching6(Ingress, nil), appliesToNode)
	}
	six := func(part string, w Way, rules []counted) aclChain {
		return aclChain{nw.six(fmt.Sprint(a.Lease.Number)+part, nil), w, rules}
	}
	return []aclChain{
		six("E", Sent, nw.chain(acl, Egress, sent, nw.matching6(Egress, nw.Ports), always)),
		six("I", Received, nw.chain(acl, Ingress, received, nw.matching6(Ingress, nw.Ports), always)),
		six("N", SentToNode, append(uncounted(nw.gatewayServices6("goto "+nw.adapterChain(a, "A"))...), node...)),
		six("M", ReceivedFromNode, fromNode),
	}
}

// gatewayServices6 is gatewayServices for IPv6.
func (nw network) gatewayServices6(accepts string) []string {
	gw := "ip6 daddr " + nw.Config.IPv6.Gateway.String() + " "
	return []string{
		gw + "udp dport 53 " + accepts,
		gw + fmt.Sprintf("tcp dport 53 ct status & confirmed == 0 ct count over %d drop", maxDNSByTCP),
		gw + "tcp dport 53 " + accepts,
		gw + fmt.Sprintf("icmpv6 type %d ", icmp6Echo) + accepts,
	}
}

// ids6 are the chains of the network that must exist before an adapter passes a packet, and those of one adapter.
func (nw network) ids6(parts ...string) []netstate.ID {
	if len(nw.families()) == 1 {
		return nil
	}
	var ids []netstate.ID
	for _, part := range parts {
		ids = append(ids, nw.six(part, nil).ID())
	}
	return ids
}

// The chains of a local network's IPv6 frames, in the table of frames (frames.go). The MAC of the frames is that of the
// adapter, with spoofGuard or without: for IPv6 the guard is always on, because the rules tell adapters by address.
//
//	ES<n>-<k>F   ... -> ES<n>-<k>S   what the adapter may send: from its address alone
//	                 -> ES<n>-<k>V   ICMPv6: echo and errors, and of neighbour discovery only its own addresses and MAC
//	ES<n>-APPS   to an adapter's link only its addresses, and the groups of neighbour discovery
//
// Router advertisements, redirects, multicast listener messages and answers of DHCPv6 servers come from no app
// (RFC 6105, RFC 7610). Multicast listener reports are not needed: a bridge that never hears a query floods.

// ICMPv6 types (RFC 4443, RFC 4861).
const (
	icmp6Echo, icmp6EchoReply = 128, 129
	icmp6Listeners            = 130 // the first of those that apps may not send through the node
	icmp6RouterSolicit        = 133
	icmp6RouterAdvert         = 134
	icmp6Solicit              = 135
	icmp6Advert               = 136
	protoICMP6                = 58
)

// hidingHeaders are the extension headers behind which a filter cannot tell what a packet is, or does so at a cost that
// the sender chooses (RFC 7045 §2.1): hop-by-hop options, routing, authentication, destination options, mobility, HIP,
// shim6. An app's packets with one of them are dropped.
var hidingHeaders = []int{0, 43, 51, 60, 135, 139, 140}

const fragmentHeader = 44

const packet6 = "ether type ip6 "

// sixFrames are the rules of chain F for IPv6 frames, and the chains that they need.
func (nw network) sixFrames(a Adapter) (rules []string, chains []netstate.Chain) {
	if nw.Config.BridgesIPv6() {
		return nw.bridgedFrames(a)
	}
	if !nw.hasIPv6() {
		return nil, nil
	}
	part := func(p string) string { return fmt.Sprint(a.Lease.Number) + p }
	s, v := nw.frame(part("S"), nil), nw.frame(part("V"), nw.neighbourFrames(a))
	from := packet6 + "ip6 saddr " + nw.ip6(a).String() + " "
	s.Rules = []string{from + "ip6 nexthdr 6 accept", packet6 + fmt.Sprintf("ip6 nexthdr %d goto ", protoICMP6) + v.Name}
	s.Rules = append(s.Rules, nw.fragmentLimit(a, fragment6))
	if nw.Config.IPv6.Mode == DHCPv6 {
		ask := packet6 + "ip6 saddr " + nw.linkLocal(a).String() +
			" ip6 nexthdr 17 ip6 daddr ff02::1:2 udp sport 546 udp dport 547 "
		s.Rules = append(s.Rules, fmt.Sprintf("%slimit rate over %d/second burst %d packets counter drop", ask, dhcpRate,
			4*dhcpRate), ask+"accept")
	}
	s.Rules = append(s.Rules, packet6+"udp dport 546 drop", nw.dnsFrames6(a))
	for _, h := range hidingHeaders {
		s.Rules = append(s.Rules, packet6+fmt.Sprintf("ip6 nexthdr %d drop", h))
	}
	// The kernel assembles fragments before the adapter's rules meet them, but not before this chain: the header that
	// follows must be harmless in the first of them (RFC 6980).
	for _, h := range append([]int{fragmentHeader, protoICMP6}, hidingHeaders...) {
		s.Rules = append(s.Rules, packet6+fmt.Sprintf("ip6 nexthdr %d @nh,320,8 %d drop", fragmentHeader, h))
	}
	s.Rules = append(s.Rules, from+"accept", "drop")
	return []string{"ether saddr " + a.Lease.MAC + " " + packet6 + "goto " + s.Name}, []netstate.Chain{s, v}
}

// neighbourFrames are the rules for an adapter's ICMPv6. A solicitation or advertisement names the adapter's own
// addresses and MAC, in a message of exactly the length that this takes; the address that it asks for is any. The test
// for a duplicate address has no sender, and may carry a nonce (RFC 7527).
func (nw network) neighbourFrames(a Adapter) []string {
	own := []string{nw.ip6(a).String(), nw.linkLocal(a).String()}
	mac := strings.ReplaceAll(a.Lease.MAC, ":", "")
	number := func(ip string) string { return hex.EncodeToString(netip.MustParseAddr(ip).AsSlice()) }
	kind := func(t int) string { return fmt.Sprintf("icmpv6 type %d ip6 hoplimit 255 ", t) }
	over := func(t, rate int) string {
		return packet6 + fmt.Sprintf("icmpv6 type %d limit rate over %d/second burst %d packets drop", t, rate, 4*rate)
	}
	rules := []string{over(icmp6Solicit, 100), over(icmp6Advert, 100), over(icmp6RouterSolicit, 8),
		packet6 + "ip6 saddr :: " + kind(icmp6RouterSolicit) + "ip6 length 8 accept"}
	for _, ip := range own {
		from := packet6 + "ip6 saddr " + ip + " "
		rules = append(rules,
			packet6+"ip6 saddr :: "+kind(icmp6Solicit)+"@th,64,128 0x"+number(ip)+" accept",
			from+kind(icmp6Solicit)+"ip6 length 32 @th,192,64 0x0101"+mac+" accept",
			from+kind(icmp6Solicit)+"ip6 length 24 accept",
			from+kind(icmp6RouterSolicit)+"ip6 length 16 @th,64,64 0x0101"+mac+" accept",
			from+kind(icmp6RouterSolicit)+"ip6 length 8 accept")
		for _, target := range own {
			rules = append(rules,
				from+kind(icmp6Advert)+"ip6 length 32 @th,64,128 0x"+number(target)+" @th,192,64 0x0201"+mac+" accept",
				from+kind(icmp6Advert)+"ip6 length 24 @th,64,128 0x"+number(target)+" accept")
		}
		rules = append(rules, from+fmt.Sprintf("icmpv6 type %d accept", icmp6Echo),
			from+fmt.Sprintf("icmpv6 type %d accept", icmp6EchoReply))
	}
	for errorType := 1; errorType <= 4; errorType++ {
		rules = append(rules, packet6+"ip6 saddr "+own[0]+fmt.Sprintf(" icmpv6 type %d accept", errorType))
	}
	return append(rules, "drop")
}

// dnsFrames6 is dnsFrames for IPv6.
func (nw network) dnsFrames6(a Adapter) string {
	n := nw.flowBound(a)
	return packet6 + fmt.Sprintf("ip6 daddr %s udp dport 53 limit rate over %d/second burst %d packets counter drop",
		nw.Config.IPv6.Gateway, dnsRate(n), max(128, n/8))
}

// toApps are the rules for frames to adapters: of IPv6, to each link only its addresses, because the rules of an
// adapter's chains are found by address; a bridge floods what it does not know to all.
func (nw network) toApps() []string {
	if !nw.hasIPv6() {
		return nw.withLLDP(nw.matchableFrames(), "")
	}
	rules := slices.Clone(matchable[:len(matchable)-1])
	for _, a := range nw.Adapters {
		for _, ip := range []netip.Addr{nw.ip6(a), nw.linkLocal(a)} {
			rules = append(rules, fmt.Sprintf("oifname %q %sip6 daddr %s accept", nw.hostIfName(a), packet6, ip))
		}
	}
	return append(rules, packet6+"ip6 daddr ff02::1 accept", packet6+"ip6 daddr ff02::1:ff00:0/104 accept", "drop")
}
