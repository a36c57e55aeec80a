package netinst

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// FlowPolicy says what becomes of known flows on a port that a network has left.
type FlowPolicy string

// The policies. FlowsReset is empty, as it is the default and was the only one in former releases.
const (
	FlowsReset FlowPolicy = ""      // they end, and begin anew on the port in use
	FlowsKeep  FlowPolicy = "keep"  // they stay, and wait while the port leads nowhere
	FlowsDrain FlowPolicy = "drain" // they stay while the port works
)

// A network that keeps flows has a route table of its own for each port on which flows may stay. A packet of a flow
// that was translated to an address of such a port gets a mark with the port's index before it is routed, and a policy
// rule leads it to the port's table:
//
//	inet edgespan: flows (prerouting, -150)  es<n> -> ES<n>-FLOWS
//	    packet of IPv6 -> ES<n>-FLOWS6, which does the same for it
//	    flow translated to an address of port i -> mark i
//	18000    fwmark 0/MASK goto 19000                 of the host: packets without a mark skip the rules below
//	18005    from 10.1.5.0/24 fwmark i/MASK lookup    the table of network 5 for port i (FlowTable)
//	19000    nop                                      the target
//
// The connection entry itself says by which port a flow began: nothing is stored in marks of connections, an index
// means something to one state of the host alone, and a restart, a new index and a flow from before the policy need no
// care. The tables exist while flows may be on a port, not only after it was left: there is nothing to do when it is.
//
// Such a table has only routes by its port, and ends with unreachable: a packet of a known flow leaves by no other
// port. The first packet of a flow has not been translated yet: it is routed by the network's own table.
//
// A network that shares the load of equal uplinks has such tables too, and its chain gives the first packet of a flow
// the mark of one of these ports by chance, in proportion to their weights. It is translated to an address of that
// port, so that the flow stays there. Destinations with a static route keep their way, as the tables have all of them.
//
// IPv6 has all of this by itself: its ports, its addresses, its routes and its rules. Only the index of a port is that
// of both families. A network whose prefix is routed to the node (ipv6.nat: false) has none of it for IPv6: its packets
// have the app's own address by every port, so nothing tells, or has to tell, by which of them a flow began.

// FlowMask are the bits of a packet's mark that hold the index of a port, from 1 to maxFlowPorts.
const (
	FlowMask     = 0x0f000000
	flowShift    = 24
	maxFlowPorts = 15
)

// flowsMap is the map of the guard that leads packets of a network to its chain.
const flowsMap = "flows"

// FlowTable is the route table of network n for the port of an index.
func FlowTable(n, index int) int { return tableFlowsBase + n*(maxFlowPorts+1) + index }

func (p PortStatus) weight() int { return max(p.Weight, 1) }

func flowMark(index int) uint32 { return uint32(index) << flowShift }

// MarksFlows reports whether a network needs the host's chain that marks packets of known flows.
func MarksFlows(c NetworkInstanceConfig) bool {
	return c.Type != Switch && !c.Inactive && (c.Flows != FlowsReset || c.Share)
}

// MarksFlows6 reports whether it needs that for IPv6, too.
func MarksFlows6(c NetworkInstanceConfig) bool { return MarksFlows(c) && c.HasIPv6() && c.IPv6.NAT }

func (nw network) marksFlows(ipv6 bool) bool {
	if ipv6 {
		return MarksFlows6(nw.Config) && nw.hasIPv6()
	}
	return MarksFlows(nw.Config)
}

// flowPort is a port on which known flows of one family may stay.
type flowPort struct {
	PortStatus
	index int
	addrs []netip.Addr // by which its flows are recognised
}

// flowPorts returns the ports on which known flows of a family stay, whether they are in use or not, by label.
func (nw network) flowPorts(ipv6 bool) []flowPort {
	if nw.withdrawn != "" {
		return nil
	}
	return nw.markedPorts(ipv6, func(p PortStatus) bool { return nw.keepsFlowsOn(p, ipv6) })
}

// sharedPorts returns the equal ports over which new flows of a family are spread, by label, if there are several.
func (nw network) sharedPorts(ipv6 bool) []flowPort {
	own, selector := nw.port, nw.Config.Port
	leads := func(p PortStatus) bool { return p.rank() == 0 }
	if ipv6 {
		own, selector, leads = nw.port6, probe.OfIPv6(selector), leadsOut6
	}
	if !nw.Config.Share || own == nil {
		return nil
	}
	list := nw.markedPorts(ipv6, func(p PortStatus) bool { // the choice may be older than the config
		return p.Exists && p.Up && leads(p) && p.Matches(nw.Config.Port) && slices.Contains(nw.Equals[selector], p.Label)
	})
	if len(list) < 2 || !slices.ContainsFunc(list, isPort(own.Label)) {
		return nil
	}
	return list
}

// sharesOf returns the ports over which new flows of a family are spread.
func (nw network) sharesOf(ipv6 bool) []flowPort {
	if ipv6 {
		return nw.shares6
	}
	return nw.shares
}

func isPort(label string) func(flowPort) bool {
	return func(p flowPort) bool { return p.Label == label }
}

// markedPorts returns the ports that a mark can name and that accepts selects, by label, with their addresses of a
// family. Their indexes count the ports that the network may use by its config, so that none changes when a port goes
// or comes. An address that two ports have does not tell by which of them a flow began: such flows are treated as by
// FlowsReset.
func (nw network) markedPorts(ipv6 bool, accepts func(PortStatus) bool) []flowPort {
	if !nw.marksFlows(ipv6) {
		return nil
	}
	var list []flowPort
	owners := map[netip.Addr]int{}
	index := 0
	for _, p := range nw.Ports { // by label
		if !usedBy(nw.Config, p.PortConfig) {
			continue
		}
		addrs := flowAddresses(p, ipv6)
		for _, a := range addrs {
			owners[a]++
		}
		if index++; index <= maxFlowPorts && accepts(p) {
			list = append(list, flowPort{p, index, addrs})
		}
	}
	for i := range list {
		list[i].addrs = slices.DeleteFunc(list[i].addrs, func(a netip.Addr) bool { return owners[a] > 1 })
	}
	return slices.DeleteFunc(list, func(p flowPort) bool { return len(p.addrs) == 0 })
}

// flowAddresses returns the addresses of a port to which flows of a family may be translated, each once, in order.
func flowAddresses(p PortStatus, ipv6 bool) []netip.Addr {
	var list []netip.Addr
	for _, a := range p.Addresses {
		if a := a.Addr(); a.Is6() == ipv6 && !(ipv6 && a.IsLinkLocalUnicast()) {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// keepsFlowsOn reports whether the flows of a family on a port stay there. With Share, those on the port in use are
// marked even if there is no other port: the mark must be there before another one is added.
func (nw network) keepsFlowsOn(p PortStatus, ipv6 bool) bool {
	own, name := nw.port, p.Label
	if ipv6 {
		own, name = nw.port6, probe.OfIPv6(p.Label)
	}
	inUse := own != nil && own.Label == p.Label || slices.ContainsFunc(nw.sharesOf(ipv6), isPort(p.Label))
	if nw.Config.Share && inUse {
		return p.Exists
	}
	switch nw.Config.Flows {
	case FlowsKeep:
		return p.Exists
	case FlowsReset:
		return false
	}
	return p.Exists && p.Up && !nw.Broken[name]
}

// setFlowMark are the words that give a packet the mark of a port, or 0 for none, and end its way through the chain.
func setFlowMark(index int) string {
	return fmt.Sprintf("meta mark set meta mark & %#x | %#x accept", ^uint32(FlowMask), flowMark(index))
}

// flowMarkChains mark the packets of known flows that stay on a port, and the first ones of flows that are spread.
func (nw network) flowMarkChains() []netstate.Chain {
	if !nw.marksFlows(false) {
		return nil
	}
	chain := func(part string, rules ...string) netstate.Chain {
		return netstate.Chain{Family: netstate.InetFamily, Table: GuardTable, Name: nw.chainName(part), Rules: rules}
	}
	four := chain("FLOWS", nw.flowMarkRules(false)...)
	four.Hooks = []netstate.Hook{{Parent: flowsMap, Match: strconv.Quote(string(nw.bridge))}}
	if !nw.marksFlows(true) {
		return []netstate.Chain{four}
	}
	six := chain("FLOWS6", nw.flowMarkRules(true)...)
	four.Rules = slices.Insert(four.Rules, 0, "meta nfproto ipv6 goto "+six.Name)
	return []netstate.Chain{four, six}
}

// flowMarkRules are the rules for the packets of one family.
func (nw network) flowMarkRules(ipv6 bool) (rules []string) {
	field, family := "ip daddr", "ipv4"
	if ipv6 {
		field, family = "ip6 daddr", "ipv6"
	}
	for _, p := range nw.flowPorts(ipv6) {
		for _, a := range p.addrs {
			rules = append(rules, fmt.Sprintf("ct status snat ct reply %s %s %s", field, a, setFlowMark(p.index)))
		}
	}
	shares, left := nw.sharesOf(ipv6), 0
	for _, p := range shares {
		left += p.weight()
	}
	for i, p := range shares {
		chance := "meta nfproto " + family + " ct state new "
		if i < len(shares)-1 {
			chance += fmt.Sprintf("meta random < %d ", uint64(p.weight())<<32/uint64(left))
			left -= p.weight()
		}
		rules = append(rules, chance+setFlowMark(p.index))
	}
	return append(rules, setFlowMark(0)) // the bits of another program would be taken for an index
}

// leftPorts are the ports that a family of the network has left, and on which its known flows stay, if the rules for
// ports must let these pass: where each packet meets the limits of its adapter.
func (nw network) leftPorts(ipv6 bool) []flowPort {
	if !nw.hasLimits() {
		return nil
	}
	used := nw.ports
	if ipv6 {
		used = nw.ports6
	}
	return slices.DeleteFunc(nw.flowPorts(ipv6), func(p flowPort) bool {
		return slices.ContainsFunc(used, func(q PortStatus) bool { return q.Label == p.Label })
	})
}

// flowRouting returns the tables of the ports on which flows of a family may be, and the rules that lead to them.
func (nw network) flowRouting(ipv6 bool) []netstate.Object {
	var objs []netstate.Object
	subnet, all := nw.Config.IPv4.Subnet.Masked(), anywhere
	if ipv6 {
		subnet, all = nw.Config.IPv6.Subnet, anywhere6
	}
	for _, p := range nw.flowPorts(ipv6) {
		table := FlowTable(nw.n, p.index)
		end := netstate.Route{Table: table, Dst: all.String(), Type: netstate.Unreachable, Metric: unreachableMetric}
		objs = append(objs, end, netstate.Rule{Priority: ruleFlowsBase + nw.n, From: subnet.String(), IPv6: ipv6,
			Mark: flowMark(p.index), Mask: FlowMask, Table: table, After: end.ID()})
		for _, r := range nw.routesBy(p.PortStatus, ipv6) {
			r.Table = table
			objs = append(objs, r)
		}
	}
	return objs
}

// routesBy returns the routes of a family that the network has by a port, or would have if it used it: of two to one
// destination the earlier in the order of routes wins. A port without carrier has none: the kernel may refuse them.
func (nw network) routesBy(p PortStatus, ipv6 bool) []netstate.Route {
	if !p.Up {
		return nil
	}
	var list []netstate.Route
	taken := map[netip.Prefix]bool{}
	add := func(dst netip.Prefix, r netstate.Route) {
		if dst = dst.Masked(); !dst.IsValid() || dst.Addr().Is6() != ipv6 || taken[dst] {
			return
		}
		taken[dst] = true
		list = append(list, nw.unicast(dst, r))
	}
	own := nw.Config.Port != "" && p.Matches(nw.Config.Port)
	shared := slices.ContainsFunc(nw.sharesOf(ipv6), isPort(p.Label))
	if shared {
		add(nw.Config.IPv4.Subnet, netstate.Route{Dev: string(nw.bridge), Src: nw.Config.IPv4.Gateway.String()})
		add(nw.Config.IPv6.Subnet, netstate.Route{Dev: string(nw.bridge)})
	}
	for _, r := range nw.configuredRoutes() {
		by := own
		if r.Port != "" {
			by = p.Matches(r.Port)
		}
		if by && !nw.inside(r) && (!r.Gateway.IsValid() || reaches(p, r.Gateway)) {
			add(r.Destination, byPort(p, r.Gateway, p.needsOnLink(r.Gateway)))
		}
	}
	if shared { // first packets are routed here too
		for _, r := range nw.staticRoutes() {
			add(r.Destination, nw.staticRoute(r))
		}
	}
	for _, a := range connected(p) {
		add(a, netstate.Route{Dev: string(p.IfName), Src: a.Addr().String()})
	}
	for _, dst := range connected6(p) {
		add(dst, netstate.Route{Dev: string(p.IfName)})
	}
	if r, out := p.DefaultRoute(); out && own {
		add(anywhere, byPort(p, r.Gateway, r.OnLink))
	}
	if r, out := p.DefaultRoute6(); out && own {
		add(anywhere6, byPort(p, r.Gateway, r.OnLink))
	}
	return list
}

// unicast completes a route to a destination.
func (nw network) unicast(dst netip.Prefix, r netstate.Route) netstate.Route {
	r.Dst, r.Type = dst.String(), netstate.Unicast
	if dst.Addr().Is6() {
		r.Metric = metric6
	}
	if r.Dev == string(nw.bridge) && dst.Addr().Is6() {
		r.After = nw.addresses6()[0].ID()
	} else if r.Dev == string(nw.bridge) {
		r.After = nw.address().ID()
	}
	return r
}

// flowRules are the guard's map to the chains of networks that keep flows, and the base chain that reads it.
func flowRules(ns []HostNetwork) []string {
	if !slices.ContainsFunc(ns, keepsFlows) {
		return nil
	}
	return []string{"map " + flowsMap + " {", "type ifname : verdict;", setSize, "}", "chain before-routing {",
		"type filter hook prerouting priority -150; policy accept;", "iifname vmap @" + flowsMap, "}"}
}

func keepsFlows(n HostNetwork) bool { return n.Flows }

// flowGate are the host's rules around those of networks that keep flows: a packet without a mark skips them.
func flowGate(ns []HostNetwork) (rules []netstate.Object) {
	for _, x := range []struct{ ipv6, needed bool }{
		{false, slices.ContainsFunc(ns, keepsFlows)},
		{true, slices.ContainsFunc(ns, func(n HostNetwork) bool { return n.Flows6 })},
	} {
		if x.needed {
			rules = append(rules, netstate.Rule{Priority: ruleFlowsBase, Mask: FlowMask, Goto: treeFromBase, IPv6: x.ipv6},
				netstate.Rule{Priority: treeFromBase, IPv6: x.ipv6})
		}
	}
	return rules
}
