package netinst

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"edgespan/netinst/netstate"
)

// What becomes of a network whose subnet is not its own alone.
//
// One that overlaps addresses of the host is withdrawn (withdrawnChains).
//
// Of a network with ipv4.mayOverlap, others may have the same subnet, gateway and apps' addresses (ADR 0070). Without a
// port, flows of two of them meet on the node alone:
//
//	inet edgespan: zones (-410)   -i es<n>, -o es<n> -> ES<n>-ZONE: conntrack zone 20000+n, in both directions
//	nat ES-MAPS                   -i es<n> -> ES<n>-GW: DNS and ping to the gateway -> DNAT to 169.254.<n>, on the bridge
//	filter ES<n>-<k>N             DHCP, DNS, ping; the node answers nothing else, and asks nothing
//	15000+n, 16000+n              oif es<n>, from 169.254.<n>: lookup the table of network n
//	22000+n                       to the subnet, after the rules of all other networks
//
// The address 169.254.<n> tells the networks apart once a packet has left its bridge: dnsmasq listens on it, and the
// policy rules lead what the node sends from it. The gateway's address has a label, by which dnsmasq leaves it to
// others. DHCP needs no translation: its sockets are bound to the bridge. The node does not forward packets from a
// network without a port. The last rule is for the kernel's check of sources (rp_filter), which drops packets from
// addresses without a route; what the node sends by it ends in the output chain of that network. The kernel puts
// fragments together at -400, for each zone.
//
// With a port (NeedsReturns), packets leave the bridge, and what comes back is led to it:
//
//	inet edgespan: zones             from the bridge through the node: zone 20000+n in the original direction alone, so
//	                                 that what comes back, in no zone, belongs to the flow whose port NAT has chosen
//	  returns-in (-150)              -i es<n> -> ES<n>-OWN: only flows of the network itself
//	                                 replies to a flow of zone 20000+n -> ES<n>-BACK: mark n (ReturnMask)
//	  returns-errors (-150)          the same for ICMP errors of the node, which the kernel then routes again
//	  returns-forward (-1)           out of a bridge, tracked in a zone in both directions -> DROP
//	  returns-out (111)              -o es<n> -> ES<n>-OWN; from another bridge -> DROP
//	15000+n                          iif es<n>: lookup the table of network n, also for the check of what comes back
//	                                 (rp_filter); to the subnet with mark n: the same
//
// Inside the bridge, and between apps and the gateway, flows are in the zone in both directions as without a port:
// else two networks would share the replies' addresses, and NAT would change ports where it must not. What has a mark
// of ES<n>-BACK and is not led back, as without the policy rules, ends in ES<m>-OWN of the network to which it strays.

// sharedLabel is the suffix of the label of a gateway's address that several bridges may have.
const sharedLabel = ":g"

// AnswerAddr is the address of network n at which the node answers its apps, if others may have its subnet. It is
// link-local (RFC 3927), which no subnet is, and used on the node alone: apps never see it.
func AnswerAddr(n int) netip.Addr { return netip.AddrFrom4([4]byte{169, 254, byte(n >> 8), byte(n)}) }

// DNSAddr is the address on which the DNS server of a network with number n listens.
func (c NetworkInstanceConfig) DNSAddr(n int) netip.Addr {
	if c.IPv4.MayOverlap {
		return AnswerAddr(n)
	}
	return c.IPv4.Gateway
}

// Apart reports whether two networks may be on one node: their subnets do not overlap, or one of them is told apart
// without its addresses.
func Apart(a, b NetworkInstanceConfig) bool {
	x, y := a.IPv4, b.IPv4
	return !x.Subnet.IsValid() || !y.Subnet.IsValid() || !x.Subnet.Overlaps(y.Subnet) || x.MayOverlap || y.MayOverlap
}

func (nw network) answerAddress() netstate.Address {
	return netstate.Address{Link: string(nw.bridge), Prefix: netip.PrefixFrom(AnswerAddr(nw.n), 32).String()}
}

// answering are the address at which the node answers, and the settings that it needs on the bridge: the kernel knows
// one route to a subnet and would drop packets that arrive by another bridge, and it would ask for the hardware address
// of an app in the name of the link-local address, to which apps may have no route.
func (nw network) answering() []netstate.Object {
	if !nw.Config.IPv4.MayOverlap {
		return nil
	}
	br := string(nw.bridge)
	return []netstate.Object{nw.answerAddress(), netstate.Sysctl{Key: netstate.RPFilterOf(br), Value: "2", Link: br},
		netstate.Sysctl{Key: netstate.ARPAnnounceOf(br), Value: "2", Link: br}}
}

// answerRules are the policy rules of a network with MayOverlap.
func (nw network) answerRules(subnet string) []netstate.Object {
	objs := []netstate.Object{
		netstate.Rule{Priority: ruleAnswerBase + nw.n, From: netip.PrefixFrom(AnswerAddr(nw.n), 32).String(),
			Table: Table(nw.n)},
		netstate.Rule{Priority: ruleBoundBase + nw.n, OIF: string(nw.bridge), Table: Table(nw.n)},
		netstate.Rule{Priority: ruleDNSBase + nw.n, To: subnet, Table: Table(nw.n)},
	}
	if !NeedsReturns(nw.Config) {
		return objs
	}
	objs = append(objs,
		netstate.Rule{Priority: ruleBoundBase + nw.n, IIF: string(nw.bridge), Table: Table(nw.n)},
		netstate.Rule{Priority: ruleBoundBase + nw.n, To: subnet, Mark: returnMark(nw.n), Mask: ReturnMask,
			Table: Table(nw.n)})
	if nw.asksByOwnTable() { // as in rules, at a priority that is free here
		objs = append(objs, netstate.Rule{Priority: ruleBoundBase + nw.n, IIF: "lo", OIF: string(nw.port.IfName), DPort: 53,
			Table: Table(nw.n), After: netstate.Route{Table: Table(nw.n), Dst: anywhere.String()}.ID()})
	}
	return objs
}

// NeedsReturns reports whether packets of a network with MayOverlap leave the node, so that what comes back must be led
// to it, and not to another one with its subnet.
func NeedsReturns(c NetworkInstanceConfig) bool {
	return c.IPv4.MayOverlap && c.Port != "" && c.Type != Switch && !c.Inactive
}

// ReturnMask are the bits of a packet's mark that hold the number of a network to which it comes back (NeedsReturns).
const (
	ReturnMask  = 0x00ffc000
	returnShift = 14
)

func returnMark(n int) uint32 { return uint32(n) << returnShift }

// returnChains keep flows of other networks out of the bridge, and mark what comes back to this one.
func (nw network) returnChains() []netstate.Chain {
	if !NeedsReturns(nw.Config) {
		return nil
	}
	zone, br := fmt.Sprint(Zone(nw.n)), strconv.Quote(string(nw.bridge))
	chain := func(part string, hook netstate.Hook, rules ...string) netstate.Chain {
		return netstate.Chain{Family: netstate.InetFamily, Table: GuardTable, Name: nw.chainName(part), Rules: rules,
			Hooks: []netstate.Hook{hook}}
	}
	return []netstate.Chain{
		chain("OWN", byLink(ownersMap, nw.bridge), "meta nfproto ipv4 ct original zone != "+zone+" drop",
			"meta nfproto ipv4 iifname != "+br+" "+fromOwn+" drop", "accept"),
		chain("BACK", netstate.Hook{Parent: returnsMap, Match: zone}, fmt.Sprintf(
			"meta mark set meta mark & %#x | %#x accept", ^uint32(ReturnMask), returnMark(nw.n))),
	}
}

// answerChains put the flows of the network into a zone, and lead what its apps ask of the gateway to the address that
// only its bridge has.
func (nw network) answerChains() []netstate.Chain {
	if !nw.Config.IPv4.MayOverlap {
		return nil
	}
	var rules []string
	asks := []string{"-p udp -m udp --dport 53", "-p tcp -m tcp --dport 53", "-p icmp -m icmp --icmp-type 8"}
	for _, what := range asks {
		rules = append(rules, fmt.Sprintf("-d %s/32 %s -j DNAT --to-destination %s", nw.Config.IPv4.Gateway, what,
			AnswerAddr(nw.n)))
	}
	zones := []string{fmt.Sprintf("meta nfproto ipv4 ct zone set %d", Zone(nw.n))}
	if NeedsReturns(nw.Config) { // the first zone that a packet gets is its zone
		subnet := nw.Config.IPv4.Subnet.Masked()
		zones = append([]string{fmt.Sprintf("meta nfproto ipv4 ether daddr %s ip saddr %s ip daddr != %s "+
			"ct original zone set %d", BridgeMAC(nw.Config.UUID), subnet, subnet, Zone(nw.n))}, zones...)
	}
	return append(nw.returnChains(), netstate.Chain{
		Family: netstate.InetFamily, Table: GuardTable, Name: nw.chainName("ZONE"), Rules: zones,
		Hooks: []netstate.Hook{byLink(zonesMap4, nw.bridge)},
	}, netstate.Chain{
		Family: netstate.IPv4, Table: tableNAT, Name: nw.chainName("GW"), Rules: rules,
		Hooks: []netstate.Hook{netsAsking.hook(nw.n)},
	})
}

// answerFrames drop what an app sends to the link-local address itself: the limits of frames are for the gateway's.
func (nw network) answerFrames() []string {
	if !nw.Config.IPv4.MayOverlap {
		return nil
	}
	return []string{fmt.Sprintf("ether type ip ip daddr %s drop", AnswerAddr(nw.n))}
}

// zoneOf is the zone in which flows of the network are that look like f.
func (nw network) zoneOf(f netstate.Flow) uint16 {
	if nw.Config.IPv4.MayOverlap && f.Src.Addr().Is4() {
		return Zone(nw.n)
	}
	return 0
}

// The maps of the guard that lead packets to a chain of a network: zonesMap4 and ownersMap by its bridge, returnsMap by
// its zone.
const (
	zonesMap4  = "zones"
	ownersMap  = "owners"
	returnsMap = "returns"
)

// answersOf returns the link-local addresses of networks with MayOverlap.
func answersOf(ns []HostNetwork) (list []string) {
	for _, n := range ns {
		if n.MayOverlap {
			list = append(list, AnswerAddr(n.Number).String())
		}
	}
	return list
}

// answerSets are the guard's sets of these addresses and of the bridges with one, and the chain for packets to them.
// They come from the node itself or from such a bridge, whose own rules name its own address alone. The answer to
// another network's app may otherwise reach the app that has its address here.
func answerSets(ns []HostNetwork) []string {
	answers := answersOf(ns)
	if answers == nil {
		return nil
	}
	var bridges []string
	for _, n := range ns {
		if n.MayOverlap {
			bridges = append(bridges, fmt.Sprintf("%q", BridgeName(n.Number)))
		}
	}
	return slices.Concat(nftSet("answers", "type ipv4_addr;", answers, setSize),
		nftSet("asking", "type ifname;", bridges, setSize),
		[]string{"chain asks {", "iifname @asking accept", "iifname \"lo\" accept", "drop", "}"})
}

// answerRule leads packets to these addresses to their chain.
func answerRule(ns []HostNetwork) []string {
	if answersOf(ns) == nil {
		return nil
	}
	return []string{"meta nfproto ipv4 ip daddr @answers goto asks"}
}

// zoneRules are the map of zones and the chains that read it, before fragments are put together (-400), and what leads
// packets back to networks.
func zoneRules(ns []HostNetwork) []string {
	if answersOf(ns) == nil {
		return nil
	}
	rules := []string{"map " + zonesMap4 + " {", "type ifname : verdict;", setSize, "}",
		"chain zones-in {", "type filter hook prerouting priority -410; policy accept;", "iifname vmap @" + zonesMap4, "}",
		"chain zones-out {", "type filter hook output priority -300; policy accept;", "oifname vmap @" + zonesMap4, "}"}
	if !slices.ContainsFunc(ns, func(n HostNetwork) bool { return n.Returns }) {
		return rules
	}
	const back = "ct direction reply ct original zone vmap @" + returnsMap
	return append(rules, "map "+ownersMap+" {", "type ifname : verdict;", setSize, "}",
		"map "+returnsMap+" {", "type ct_zone : verdict;", setSize, "}",
		"chain returns-in {", "type filter hook prerouting priority -150; policy accept;", "iifname vmap @"+ownersMap,
		back, "}",
		"chain returns-errors {", "type route hook output priority -150; policy accept;", "ct state related "+back, "}",
		"chain returns-forward {", "type filter hook forward priority -1; policy accept;", toOwn+" accept",
		fromOwn+" ct reply zone != 0 drop", "}",
		"chain returns-out {", "type filter hook postrouting priority 111; policy accept;", "oifname vmap @"+ownersMap, "}")
}

// withdrawnChains are the chains of the network that remain while its subnet is the host's: those for frames and
// packets of its own bridge. A hook that matches an address would filter, drop or translate packets of the host's
// neighbours, who have these addresses.
//
// The node has no address on the bridge then, so no packet that arrives by it is for the node.
func (nw network) withdrawnChains(all []netstate.Chain) []netstate.Chain {
	out := make([]netstate.Chain, 0, len(all))
	for _, c := range all {
		if c.Family.Native() { // of frames: its hooks match links
			out = append(out, c)
			continue
		}
		c.Hooks = slices.DeleteFunc(slices.Clone(c.Hooks), func(h netstate.Hook) bool { return !nw.ofBridge(h.Match) })
		if c.Name == nw.chainName("INP") {
			c.Rules = []string{"-j DROP"}
		}
		out = append(out, c)
	}
	return out
}

// ofBridge reports whether a match covers only packets that come from or go to the bridge.
func (nw network) ofBridge(match string) bool {
	w := strings.Fields(match)
	for i := 1; i < len(w); i++ {
		if (w[i-1] == "-i" || w[i-1] == "-o") && w[i] == string(nw.bridge) && (i < 2 || w[i-2] != "!") {
			return true
		}
	}
	return false
}

// deniesWithdrawnFlow is DeniesFlow for a network that is withdrawn: flows that its apps have begun through a port are
// still translated, and their answers would reach neighbours of the host.
func deniesWithdrawnFlow(nw network) func(netstate.Flow) bool {
	return func(f netstate.Flow) bool {
		isSource := func(a Adapter) bool { return a.Lease.IP == f.Src.Addr() }
		return f.Zone == nw.zoneOf(f) && f.ReplyDst.Addr() != f.Src.Addr() && slices.ContainsFunc(nw.Adapters, isSource)
	}
}

// joinTexts joins the texts that are not empty.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}
