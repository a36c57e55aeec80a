package netinst

import (
	"encoding/binary"
	"net/netip"
	"slices"

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
