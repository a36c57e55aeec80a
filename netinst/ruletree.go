package netinst

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// The kernel reads the policy rules one by one for each packet that it routes, also for those from and to the host
// itself: with two rules of each network, a hundred networks halve the packets that the host can receive. So the host
// state has rules that lead a packet past those of other networks, by its source and then by its destination, as a tree
// of prefixes does:
//
//	19000  from 10.0.0.0/8 goto 19002       one rule for each prefix of 8 bits with a network
//	19001  goto 19500                       for a source of no network
//	19002  from 10.0.0.0/12 goto 19022      of 12 bits, and so on by 14, 16, 18 and 20 bits
//	19378  from 10.1.4.0/22 goto 19421
//	19421  from 10.1.5.0/24 goto 20005      the rule of network 5
//	19500  to ...                           the same by destination; 19501 goto 22000
//	20005  from 10.1.5.0/24 lookup 20005    of the network
//	21005  to 10.1.5.0/24 lookup 20005      of the network
//	22000  nop                              the target for packets of no network
//
// The tree only saves time. None of its rules leads a packet past a network's rule that matches it, except 19001 and
// 19501, which have no selector: while the rest of the tree is incomplete they would, so they are added last and
// removed first. The networks' rules belong to the networks; their priorities are larger numbers than those of the
// branches, so the kernel reads them later. It skips a goto whose target does not exist yet.

// The priorities of the tree. The priority of a branch follows from its prefix; if two branches have the same one, a
// packet for either passes the rules of both.
const (
	treeFromBase = 19000
	// ruleMapped is the priority of the rule for packets that a port map has led, before all others.
	ruleMapped = 17999
	treeToBase = 19500
	treeEnd    = 22000
	// treeNetworks is the number of networks from which on the tree saves time.
	treeNetworks = 5
)

// treeLevels are the prefix lengths at which the tree branches, with the first priority of each level, relative to the
// root's, and the number of its priorities. They rise, because a goto leads only to a larger number.
var treeLevels = []struct{ bits, first, count int }{
	{8, 2, 10}, {12, 12, 30}, {14, 42, 64}, {16, 106, 96}, {18, 202, 96}, {20, 298, 96}, {22, 394, 66},
	{25, 460, 24}, {28, 484, 16},
}

// ruleTree returns the policy rules of the tree. There is none for fewer than treeNetworks networks, and none while two
// subnets overlap, as when one network replaces another: then the kernel reads the rules of all networks. Those of
// networks with MayOverlap are before and after it.
func ruleTree(ns []HostNetwork) []netstate.Object {
	var subnets []HostNetwork
	for _, n := range ns {
		if n.Subnet.IsValid() && !n.MayOverlap {
			subnets = append(subnets, n)
		}
	}
	slices.SortFunc(subnets, func(a, b HostNetwork) int { return a.Subnet.Compare(b.Subnet) })
	for i := 1; i < len(subnets); i++ {
		if subnets[i].Subnet.Overlaps(subnets[i-1].Subnet) {
			return nil
		}
	}
	if len(subnets) < treeNetworks {
		return nil
	}
	rules := netstate.State{}
	for _, n := range subnets {
		p := n.Subnet.Masked()
		for _, r := range pathTo(p, treeFromBase, ruleFromBase+n.Number) {
			r.From = r.To
			r.To = ""
			rules.Add(r)
		}
		for _, r := range pathTo(p, treeToBase, ruleToBase+n.Number) {
			rules.Add(r)
		}
	}
	rules.Add(netstate.Rule{Priority: treeFromBase + 1, Goto: treeToBase},
		netstate.Rule{Priority: treeToBase + 1, Goto: treeEnd},
		netstate.Rule{Priority: treeEnd})
	out := make([]netstate.Object, 0, len(rules))
	for _, id := range rules.IDs() {
		out = append(out, rules[id])
	}
	return out
}

// rulesOfMaps lead packets that a port map has led to a network past the rules by source, by which they would leave by
// the port of the network that they come from.
func rulesOfMaps(ns []HostNetwork, tree bool) []netstate.Object {
	switch {
	case !slices.ContainsFunc(ns, func(n HostNetwork) bool { return n.Mapped }):
		return nil
	case tree:
		return []netstate.Object{netstate.Rule{Priority: ruleMapped, Mark: MapMark, Mask: MapMark, Goto: treeToBase}}
	}
	return []netstate.Object{netstate.Rule{Priority: ruleMapped, Mark: MapMark, Mask: MapMark, Goto: ruleToBase},
		netstate.Rule{Priority: ruleToBase}}
}

// pathTo returns the rules that lead a packet to a prefix from the root at base to the rule of a network.
func pathTo(p netip.Prefix, base, leaf int) (path []netstate.Rule) {
	at := base
	step := func(by netip.Prefix, to int) {
		path = append(path, netstate.Rule{Priority: at, To: by.String(), Goto: to})
		at = to
	}
	for _, l := range treeLevels {
		if l.bits >= p.Bits() {
			break
		}
		by := netip.PrefixFrom(p.Addr(), l.bits).Masked()
		number := int(binary.BigEndian.Uint32(by.Addr().AsSlice()) >> (32 - l.bits))
		step(by, base+l.first+number%l.count)
	}
	step(p, leaf)
	return path
}

// fewAdapters is the number of adapters up to which the chains of a network lead to each by a rule of its own. With
// more, they are trees as well: by the digits of the adapters' links, or by prefixes of their addresses.
const fewAdapters = 16

// toAdapters returns the rules of a network's chain that lead a packet to the chain of its adapter, by the name of a
// link in the bridge between the words match and rest, and the branches to which some of them lead. What a branch does
// not know is dropped, as after the rules.
func (nw network) toAdapters(part, match, rest, of string) (rules []string, branches []netstate.Chain) {
	stem := string(nw.bridge) + "a"
	var numbers []string
	to := map[string]string{}
	leaf := func(digits string) string { return match + stem + digits + rest + " -g " + to[digits] }
	for _, a := range nw.Adapters {
		link := string(nw.hostIfName(a))
		digits, numbered := strings.CutPrefix(link, stem)
		if !numbered || len(nw.Adapters) <= fewAdapters { // named by the config
			rules = append(rules, match+link+rest+" -g "+nw.adapterChain(a, of))
			continue
		}
		numbers, to[digits] = append(numbers, digits), nw.adapterChain(a, of)
	}
	var under func(prefix string, numbers []string) []string
	under = func(prefix string, numbers []string) (rules []string) {
		if len(numbers) == 1 {
			return []string{leaf(numbers[0])}
		}
		next := map[string][]string{}
		for _, n := range numbers {
			by := n[:min(len(n), len(prefix)+1)]
			next[by] = append(next[by], n)
		}
		for _, by := range slices.Sorted(maps.Keys(next)) {
			switch {
			case by == prefix:
				rules = append(rules, leaf(prefix))
			case len(next[by]) == 1:
				rules = append(rules, leaf(next[by][0]))
			default:
				c := nw.filter(part+by, nil, append(under(by, next[by]), "-j DROP"))
				branches = append(branches, c)
				rules = append(rules, match+stem+by+"+"+rest+" -g "+c.Name)
			}
		}
		return rules
	}
	if len(numbers) > 0 {
		rules = append(rules, under("", numbers)...)
	}
	return rules, branches
}

// toAddresses does the same by the destination of a packet.
func (nw network) toAddresses(part, of string) (rules []string, branches []netstate.Chain) {
	var under func(list []Adapter, bits int) []string
	under = func(list []Adapter, bits int) (rules []string) {
		if len(list) <= fewAdapters || bits > 28 {
			for _, a := range list {
				rules = append(rules, "-d "+a.Lease.IP.String()+"/32 -g "+nw.adapterChain(a, of))
			}
			return rules
		}
		next := map[netip.Prefix][]Adapter{}
		for _, a := range list {
			by := netip.PrefixFrom(a.Lease.IP, bits).Masked()
			next[by] = append(next[by], a)
		}
		if len(next) == 1 {
			return under(list, bits+4)
		}
		for _, by := range slices.SortedFunc(maps.Keys(next), netip.Prefix.Compare) {
			c := nw.filter(fmt.Sprintf("%s-%s-%d", part, by.Addr(), bits), nil, append(under(next[by], bits+4), "-j DROP"))
			branches = append(branches, c)
			rules = append(rules, "-d "+by.String()+" -g "+c.Name)
		}
		return rules
	}
	return under(nw.Adapters, 4), branches
}
