package netinst

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// The guard is the nftables table inet edgespan; it belongs to the host state. Operations of other programs on
// iptables' tables (`iptables -F`, a restore) do not affect it, nor does `nft flush ruleset` on a kernel whose tables
// can have an exclusive owner (docs/operations.md). So they open nothing: an IPv4 packet from or to edgespan's links
// passes only with the packet mark (PassMark) that PassChain sets on packets that a network's chains have accepted.
//
//	forward, input, output, before filter: the mark is removed
//	filter (iptables):                     ES<n>-... -> ES-PASS: mark, ACCEPT
//	forward, input, output, after filter:  without the mark: DROP
//
// A packet that an app sends out of the node leaves with the node's address or not at all: the first packet of a flow
// that no rule has translated comes to the guard's own NAT chain, which drops it, even if others have flushed the rules
// that translate. A flow is then translated or does not exist; a packet of a flow that has another way, and strays, is
// dropped by its network (untranslated), or has no mark. The chain also keeps the kernel's translation on. Without any
// NAT chain, as after `nft delete table ip nat`, the kernel would let the packets of translated flows leave
// untranslated.
//
// A packet that arrives by a port on which edgespan turned forwarding on, and is neither from nor to a network, is not
// forwarded (forward.go). A packet with a source address of a network that arrives by a foreign link is dropped before
// it is tracked. A network's gateway is hidden from the neighbours of other interfaces, who could reach it by a route
// over the node, and the first packet of a flow from one network to the subnet of another is dropped, and so is an ICMP
// error about a flow of the other that leaves by a port. The queries by which the node checks its dnsmasq processes are
// not tracked: it can check them even if the machine can't track more flows.
//
// Packets of flows without an answer that leave by a port are limited by their neighbours there (flows.go).
// Packets of known flows that stay on a port get its mark (keep.go). Those that begin a TCP connection get the size of
// segments that their network and port carry (forward.go).
//
// The cost per packet does not grow with the number of networks: the guard names only their subnets, in sets. Bridged
// packets pass it too (br_netfilter). Links of networks whose chains were written by a former release, which did not
// mark packets, pass without the mark until their chains have been rewritten.

// PassMark is the bit of a packet's mark that means that a chain of edgespan has accepted it.
const PassMark = 0x10000000

// LocalMark is the bit of a packet's mark that means that it comes from an adapter of a local network, and not of a
// switch: if its flow is known, no rule has to check it again (linkChains).
const LocalMark = 0x20000000

// MapMark is the bit of a packet's mark that means that a port map has led it to a network, or back to one: it is
// routed by the table of its destination, and not by that of its source (rulesOfMaps).
const MapMark = 0x40000000

// CheckMark is the bit beside LocalMark that means that the rules check each packet of the adapter's network, and not
// only the first of a flow (limit.go).
const CheckMark = 0x80000000

// PassChain is the host's chain in which every packet ends that a network accepts: it marks and accepts it.
const PassChain = "ES-PASS"

// GuardTable is the name of edgespan's nftables tables: the guard (inet), the table of frames (bridge) and arpGuard
// (arp).
const GuardTable = "edgespan"

// passing changes the filter chains so that they accept packets only through PassChain.
func passing(cs []netstate.Chain) []netstate.Chain {
	for _, c := range cs {
		if c.Family != netstate.IPv4 || c.Table != tableFilter {
			continue
		}
		for i, r := range c.Rules {
			if match, accepts := strings.CutSuffix(r, "-j ACCEPT"); accepts {
				c.Rules[i] = match + "-j " + PassChain
			}
		}
	}
	return cs
}

// closedRules are closedPorts for a chain that IPv6 packets pass too, which they must not match.
func closedRules(ns []HostNetwork) (out []string) {
	for _, r := range closedPorts(ns) {
		out = append(out, "meta nfproto ipv4 "+r)
	}
	return out
}

// guard returns the table. The links of unmarked networks pass as they did before the table existed.
func guard(ns []HostNetwork, unmarked []int) netstate.Chain {
	c := netstate.Chain{Family: netstate.InetFamily, Name: GuardTable, Rules: slices.Concat(
		nftSet("gateways", "type ipv4_addr;", gatewaysOf(ns), setSize), flowRules(ns), sizeRules, answerSets(ns),
		sealedChains(ns), tunnelSets(ns))}
	lengths, subnets := subnetsOf(ns)
	for _, l := range lengths {
		c.Rules = append(c.Rules, nftSet(subnetSet(l), "type ipv4_addr;", slices.Compact(subnets[l]), setSize)...)
	}
	chain := func(name string, rules ...string) {
		c.Rules = append(append(append(c.Rules, "chain "+name+" {"), rules...), "}")
	}
	chain("wipe", fmt.Sprintf("meta mark set meta mark & %#x", ^uint32(PassMark)))
	chain("wipes", fromOwn+" goto wipe", toOwn+" goto wipe")
	chain("from", spared(unmarked, "iifname", fromOwn)...)
	chain("to", spared(unmarked, "oifname", toOwn)...)
	// What a network sends to another's subnet would leave by its own port, also by an ICMP error that NAT has led there.
	chain("crosses", toOwn+" accept", fromOwn+" drop")
	// The node reaches the gateways over lo. Its own requests may have such an address as their source.
	chain("visits", fromOwn+" accept", "iifname \"lo\" accept", "ct direction reply accept", "drop")
	marked := fmt.Sprintf("meta mark & %#x == %#x ", PassMark, PassMark)
	own := func(match string) string { return fmt.Sprintf("%s \"%s*\" ", match, linkPrefix) }
	from, to := "meta nfproto ipv4 "+own("iifname")+"jump from", "meta nfproto ipv4 "+own("oifname")+"jump to"
	for _, h := range []struct {
		name        string
		early, rest []string // early: the first rule accepts packets of foreign links
	}{
		{"forward", nil, []string{from, to}},
		{"input", []string{own("iifname !=") + "accept"}, []string{from}},
		{"output", []string{own("oifname !=") + "accept"}, []string{to}},
	} {
		before := []string{"type filter hook " + h.name + " priority -1; policy accept;", marked + "jump wipes"}
		after := slices.Concat([]string{"type filter hook " + h.name + " priority 10; policy accept;"}, h.early,
			[]string{marked + "accept"}, h.rest)
		switch h.name {
		case "forward": // most packets meet the first rule alone
			before = append(append(slices.Insert(before, 1, quickly), sizeRule),
				inSubnets("ct state new,related ", "ip daddr", lengths, "goto crosses")...)
			after = slices.Insert(after, 1,
				append(tunnelRule(ns), marked+"ct state established accept", neighbourRule)...)
			after = slices.Concat(after, closedRules(ns), tunnelCloses(ns))
		case "input":
			before = slices.Concat(before, sealedRules(ns), answerRule(ns),
				[]string{"meta nfproto ipv4 ip daddr @gateways goto visits"})
		}
		chain("before-"+h.name, before...)
		chain("after-"+h.name, after...)
	}
	// After iptables' NAT chains (100): only the first packet of a flow that no rule has translated meets it. One that
	// wraps a frame for a tunnel is the node's own, and leaves outside the bridge.
	chain("leaves", slices.Concat([]string{toOwn + " accept"}, tunnelLeaves(ns), []string{fromOwn + " drop"})...)
	chain("after-nat", "type nat hook postrouting priority 110; policy accept;",
		fmt.Sprintf("meta nfproto ipv4 meta iifkind \"bridge\" iifname \"%s*\" jump leaves", linkPrefix))
	// Before tracking (-200) and raw tables of others (-300). The node itself sends by lo.
	chain("arrives", "iifname \"lo\" accept", "drop")
	chain("before-prerouting", append([]string{"type filter hook prerouting priority -310; policy accept;",
		fromOwn + " accept"}, inSubnets("", "ip saddr", lengths, "goto arrives")...)...)
	c.Rules = slices.Concat(c.Rules, ownQuestions, acrossChain(ns), zoneRules(ns))
	return c
}

// quickly accepts a packet of a flow that has an answer, unless its mark is to be removed, or it may begin a TCP
// connection (sizeRule), whose header has the flags there. Other protocols have anything there: of their packets, those
// with this bit meet the other rules, too, in vain.
var quickly = fmt.Sprintf("meta mark & %#x == 0 ct state established @th,104,8 & 0x02 == 0 accept", PassMark)

// spared drops packets of edgespan's links, except of those of unmarked networks.
func spared(unmarked []int, match, own string) (rules []string) {
	for _, n := range unmarked {
		rules = append(rules, fmt.Sprintf("%s %q accept", match, BridgeName(n)))
	}
	return append(rules, own+" drop")
}

// acrossChain marks what a port map has led, after translation (-100): a packet's destination is where it goes.
func acrossChain(ns []HostNetwork) []string {
	if !slices.ContainsFunc(ns, func(n HostNetwork) bool { return n.Mapped }) {
		return nil
	}
	lengths, _ := subnetsOf(ns)
	mark := fmt.Sprintf("meta mark set meta mark | %#x accept", MapMark)
	return slices.Concat([]string{"chain across {", "type filter hook prerouting priority -90; policy accept;",
		"ct status & dnat == 0 accept"}, inSubnets("", "ip daddr", lengths, mark), []string{"}"})
}

// ownQuestions keep the queries by which the node checks its dnsmasq processes untracked.
var ownQuestions = []string{"chain own-questions {", "type filter hook output priority -310; policy accept;",
	"oifname != \"lo\" accept",
	"meta nfproto ipv4 ip saddr " + netstate.AskingAddr + " notrack",
	"meta nfproto ipv4 ip daddr " + netstate.AskingAddr + " notrack",
	"meta nfproto ipv4 udp dport 67 notrack", "meta nfproto ipv4 udp sport 67 notrack", "}"}

// The links that have a name of edgespan's: its prefix and a digit, since the prefix alone would match foreign links,
// such as one named estate0.
const (
	fromOwn = `iifname >= "es1" iifname < "es:"`
	toOwn   = `oifname >= "es1" oifname < "es:"`
)

// gatewaysOf returns the addresses of the networks' bridges.
func gatewaysOf(ns []HostNetwork) []string {
	var out []string
	for _, n := range ns {
		if n.Gateway.IsValid() {
			out = append(out, n.Gateway.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// subnetsOf returns the masked addresses of the networks' subnets, by the lengths of their prefixes. The kernel finds
// an address in such a set at once; a set of prefixes is a tree, in which it takes the longer the more there are.
func subnetsOf(ns []HostNetwork) (lengths []int, by map[int][]string) {
	by = map[int][]string{}
	for _, n := range ns {
		if n.Subnet.IsValid() {
			by[n.Subnet.Bits()] = append(by[n.Subnet.Bits()], n.Subnet.Masked().Addr().String())
		}
	}
	for _, addrs := range by {
		slices.Sort(addrs)
	}
	return slices.Sorted(maps.Keys(by)), by
}

// subnetSet is the set of the subnets with prefixes of a length.
func subnetSet(length int) string { return fmt.Sprintf("subnets%d", length) }

// inSubnets returns rules for the packets that have an address of a network's in a field.
func inSubnets(before, field string, lengths []int, verdict string) (rules []string) {
	for _, l := range lengths {
		mask := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), l).Masked().Addr()
		rules = append(rules, fmt.Sprintf("%smeta nfproto ipv4 %s & %s @%s %s", before, field, mask, subnetSet(l), verdict))
	}
	return rules
}

// arpGuard hides the gateways of networks from the neighbours of every other link: the kernel answers ARP for every
// address it has on any link, and sends requests from any of them. It is the host's table of family arp; without a
// gateway there is none.
func arpGuard(ns []HostNetwork) (netstate.Chain, bool) {
	gateways := slices.Concat(gatewaysOf(ns), answersOf(ns))
	var links []string
	for _, n := range ns {
		if n.Gateway.IsValid() {
			links = append(links, fmt.Sprintf("%q", BridgeName(n.Number)))
		}
	}
	if len(gateways) == 0 {
		return netstate.Chain{}, false
	}
	slices.Sort(links)
	slices.Sort(gateways)
	rules := slices.Concat(nftSet("gateways", "type ipv4_addr;", gateways, setSize),
		nftSet("links", "type ifname;", links, setSize), []string{
			"chain input {", "type filter hook input priority 0; policy accept;",
			"iifname != @links arp daddr ip @gateways drop",
			"}",
			"chain output {", "type filter hook output priority 0; policy accept;",
			"oifname != @links arp saddr ip @gateways drop", "}",
		})
	return netstate.Chain{Family: netstate.ARPFamily, Name: GuardTable, Rules: rules}, true
}

// setSize is that of a set with an element for each network.
const setSize = "size 1024;"

// nftSet is a set of a table of nftables, line by line.
func nftSet(name, kind string, elements []string, more ...string) []string {
	lines := append([]string{"set " + name + " {", kind}, more...)
	if len(elements) > 0 {
		lines = append(lines, "elements = { "+strings.Join(elements, ", ")+" }")
	}
	return append(lines, "}")
}
