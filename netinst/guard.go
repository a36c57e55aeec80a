package netinst

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// The guard is an nftables table that only the host state owns. Operations of other programs on iptables' tables
// (`iptables -F`, a restore, `nft flush ruleset`) do not affect it, so they open nothing: an IPv4 packet from or to
// edgespan's links passes only with the mark that PassChain sets on packets that a network's chains have accepted.
//
//	forward, input, output, before filter: the mark is removed
//	filter (iptables):                     ES<n>-... -> ES-PASS: mark, ACCEPT
//	forward, input, output, after filter:  without the mark: DROP
//
// A packet that an app sends out of the node leaves with the node's address or not at all: after source NAT, the guard
// drops a packet that began its flow and was not translated, even if others have flushed the rules that translate.
//
// A packet that arrives by a port that edgespan opened for networks, and is neither from nor to a network, is not
// forwarded (forward.go). A packet with an address of a network that arrives by a foreign link is dropped before it is
// tracked. The node's own queries to its helpers are not tracked: so it can check them even if the machine can't track
// more flows.
//
// The cost per packet does not grow with the number of networks: the guard names only their subnets, in a set. Bridged
// packets pass it too (br_netfilter). Networks whose chains were written by a release that did not mark packets are
// spared until their chains have been rewritten.

// PassMark is the bit of a packet's mark that means that a chain of edgespan has accepted it.
const PassMark = 0x10000000

// PassChain is the host's chain in which every packet ends that a network accepts.
const PassChain = "ES-PASS"

// GuardTable is the name of the guard.
const GuardTable = "edgespan"

// passChain marks the packets that reach it and accepts them.
func passChain() netstate.Chain {
	return netstate.Chain{
		Family: netstate.IPv4, Table: tableFilter, Name: PassChain,
		Rules: []string{fmt.Sprintf("-j MARK --set-xmark %#x/%#x", PassMark, PassMark), "-j ACCEPT"},
	}
}

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

// closedRules are closedPorts as the rules of a chain that IPv6 passes, too.
func closedRules(ns []HostNetwork) (out []string) {
	for _, r := range closedPorts(ns) {
		out = append(out, "meta nfproto ipv4 "+r)
	}
	return out
}

// guard is the host's table. The links of unmarked networks pass as they did before the table existed.
func guard(ns []HostNetwork, unmarked []int) netstate.Chain {
	c := netstate.Chain{Family: netstate.InetFamily, Name: GuardTable,
		Rules: nftSet("subnets", "type ipv4_addr; flags interval;", subnetsOf(ns))}
	chain := func(name string, rules ...string) {
		c.Rules = append(append(append(c.Rules, "chain "+name+" {"), rules...), "}")
	}
	chain("wipe", fmt.Sprintf("meta mark set meta mark & %#x", ^uint32(PassMark)))
	var inside, leaves, arrives []string
	for _, d := range []struct{ name, match string }{{"from", "iifname"}, {"to", "oifname"}} {
		// A prefix alone would match foreign links, such as one named estate0.
		var wipe, validate []string
		for _, n := range unmarked {
			validate = append(validate, fmt.Sprintf("%s %q accept", d.match, BridgeName(n)))
		}
		for digit := '1'; digit <= '9'; digit++ {
			links := fmt.Sprintf("%s \"%s%c*\" ", d.match, linkPrefix, digit)
			wipe, validate = append(wipe, links+"goto wipe"), append(validate, links+"drop")
			if d.name == "to" {
				inside = append(inside, links+"accept")
			} else {
				leaves, arrives = append(leaves, links+"drop"), append(arrives, links+"accept")
			}
		}
		chain("wipe-"+d.name, wipe...)
		chain(d.name, validate...)
	}
	passed := fmt.Sprintf("meta mark & %#x == %#x accept", PassMark, PassMark)
	from, to := fmt.Sprintf("iifname \"%s*\" jump ", linkPrefix), fmt.Sprintf("oifname \"%s*\" jump ", linkPrefix)
	for _, h := range []struct{ name, from, to string }{{"forward", from, to}, {"input", from, ""}, {"output", "", to}} {
		wipe := []string{"type filter hook " + h.name + " priority -1; policy accept;"}
		validate := []string{"type filter hook " + h.name + " priority 10; policy accept;", passed}
		if h.from != "" {
			wipe, validate = append(wipe, h.from+"wipe-from"), append(validate, "meta nfproto ipv4 "+h.from+"from")
		}
		if h.to != "" {
			wipe, validate = append(wipe, h.to+"wipe-to"), append(validate, "meta nfproto ipv4 "+h.to+"to")
		}
		if h.name == "forward" {
			validate = append(validate, closedRules(ns)...)
		}
		chain("before-"+h.name, wipe...)
		chain("after-"+h.name, validate...)
	}
	chain("inside", inside...)
	chain("leaves", append([]string{"ct status snat accept", "ct direction reply accept",
		fmt.Sprintf("oifname \"%s*\" jump inside", linkPrefix)}, leaves...)...)
	// By bridge alone: a packet that wraps a frame for a tunnel is the node's own, and leaves outside the bridge.
	chain("after-postrouting", "type filter hook postrouting priority 110; policy accept;",
		fmt.Sprintf("meta nfproto ipv4 meta iifkind \"bridge\" iifname \"%s*\" jump leaves", linkPrefix))
	// Before tracking (-200) and foreign raw tables (-300). The node itself sends by lo.
	chain("arrives", append(arrives, "iifname \"lo\" accept", "drop")...)
	chain("before-prerouting", "type filter hook prerouting priority -310; policy accept;",
		"meta nfproto ipv4 ip saddr @subnets goto arrives")
	chain("own-questions", "type filter hook output priority -310; policy accept;", "oifname != \"lo\" accept",
		"meta nfproto ipv4 ip saddr "+netstate.AskingAddr+" notrack", "meta nfproto ipv4 ip daddr "+netstate.AskingAddr+
			" notrack",
		"meta nfproto ipv4 udp dport 67 notrack", "meta nfproto ipv4 udp sport 67 notrack")
	return c
}

// subnetsOf returns the prefixes of networks without those inside another one, as when a network is removed and another
// takes its subnet.
func subnetsOf(ns []HostNetwork) []string {
	var all []netip.Prefix
	for _, n := range ns {
		if n.Subnet.IsValid() {
			all = append(all, n.Subnet.Masked())
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	var out []string
	var last netip.Prefix
	for _, p := range all {
		if last.IsValid() && last.Overlaps(p) {
			continue
		}
		last = p
		out = append(out, p.String())
	}
	return out
}
