package netinst

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"edgespan/netinst/netstate"
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

// flowPort is a port on which known flows may stay.
type flowPort struct {
	PortStatus
	index int
	addrs []netip.Addr // by which its flows are recognised
}

// flowPorts returns the ports on which known flows stay, whether they are in use or not, by label.
func (nw network) flowPorts() []flowPort {
	if nw.withdrawn != "" {
		return nil
	}
	return nw.markedPorts(nw.keepsFlowsOn)
}

// sharedPorts returns the equal ports over which new flows are spread, by label, if there are several.
func (nw network) sharedPorts() []flowPort {
	if !nw.Config.Share {
		return nil
	}
	list := nw.markedPorts(func(p PortStatus) bool {
		return p.Exists && p.Up && p.rank() == 0 && slices.Contains(nw.Equals[nw.Config.Port], p.Label)
	})
	if len(list) < 2 || nw.port == nil || !slices.ContainsFunc(list, isPort(nw.port.Label)) {
		return nil
	}
	return list
}

func isPort(label string) func(flowPort) bool {
	return func(p flowPort) bool { return p.Label == label }
}

// markedPorts returns the ports that a mark can name and which accepts, by label. Their indexes count the ports that
// the network may use by its config, so that none changes when a port goes or comes. An address that two ports have
// does not tell by which of them a flow began: such flows are treated as by FlowsReset.
func (nw network) markedPorts(accepts func(PortStatus) bool) []flowPort {
	if !MarksFlows(nw.Config) {
		return nil
	}
	var list []flowPort
	owners := map[netip.Addr]int{}
	index := 0
	for _, p := range nw.Ports { // by label
		if !usedBy(nw.Config, p.PortConfig) {
			continue
		}
		for _, a := range connected(p) {
			owners[a.Addr()]++
		}
		if index++; index > maxFlowPorts || !accepts(p) {
			continue
		}
		x := flowPort{PortStatus: p, index: index}
		for _, a := range connected(p) {
			x.addrs = append(x.addrs, a.Addr())
		}
		list = append(list, x)
	}
	for i := range list {
		list[i].addrs = slices.DeleteFunc(list[i].addrs, func(a netip.Addr) bool { return owners[a] > 1 })
	}
	return slices.DeleteFunc(list, func(p flowPort) bool { return len(p.addrs) == 0 })
}

// keepsFlowsOn reports whether the flows on a port stay there. With Share, those on the port in use are marked even if
// there is no other port: the mark must be there before another one is added.
func (nw network) keepsFlowsOn(p PortStatus) bool {
	if nw.Config.Share && (nw.port != nil && nw.port.Label == p.Label || slices.ContainsFunc(nw.shares, isPort(p.Label))) {
		return p.Exists
	}
	switch nw.Config.Flows {
	case FlowsKeep:
		return p.Exists
	case FlowsReset:
		return false
	}
	return p.Exists && p.Up && p.rank() < rankNoAddress && !nw.Broken[p.Label]
}

// flowPortOf returns the port on which a known flow stays, nil for none.
func (nw network) flowPortOf(f netstate.Flow) *PortStatus {
	for _, p := range nw.flowPorts() {
		if slices.Contains(p.addrs, f.ReplyDst.Addr()) {
			return &p.PortStatus
		}
	}
	return nil
}

// flowChain marks the packets of known flows that stay on a port.
func (nw network) flowChain() []netstate.Chain {
	if !MarksFlows(nw.Config) {
		return nil
	}
	set := func(mark uint32) string {
		return fmt.Sprintf("meta mark set meta mark & %#x | %#x accept", ^uint32(FlowMask), mark)
	}
	var rules []string
	for _, p := range nw.flowPorts() {
		for _, a := range p.addrs {
			rules = append(rules, fmt.Sprintf("ct status snat ct reply ip daddr %s %s", a, set(flowMark(p.index))))
		}
	}
	left := 0
	for _, p := range nw.shares {
		left += p.weight()
	}
	for i, p := range nw.shares {
		chance := "meta nfproto ipv4 ct state new "
		if i < len(nw.shares)-1 {
			chance += fmt.Sprintf("meta random < %d ", uint64(p.weight())<<32/uint64(left))
			left -= p.weight()
		}
		rules = append(rules, chance+set(flowMark(p.index)))
	}
	return []netstate.Chain{{
		Family: netstate.InetFamily, Table: GuardTable, Name: nw.chainName("FLOWS"),
		Rules: append(rules, set(0)), // the bits of another program would be taken for an index
		Hooks: []netstate.Hook{{Parent: flowsMap, Match: strconv.Quote(string(nw.bridge))}},
	}}
}

// flowRouting returns the tables of the ports on which flows may be, and the rules that lead to them.
func (nw network) flowRouting() []netstate.Object {
	var objs []netstate.Object
	subnet := nw.Config.IPv4.Subnet.Masked().String()
	for _, p := range nw.flowPorts() {
		table := FlowTable(nw.n, p.index)
		end := netstate.Route{Table: table, Dst: anywhere.String(), Type: netstate.Unreachable, Metric: unreachableMetric}
		objs = append(objs, end, netstate.Rule{Priority: ruleFlowsBase + nw.n, From: subnet, Mark: flowMark(p.index),
			Mask: FlowMask, Table: table, After: end.ID()})
		for _, r := range nw.routesBy(p.PortStatus) {
			r.Table = table
			objs = append(objs, r)
		}
	}
	return objs
}

// routesBy returns the routes that the network has by a port, or would have if it used it: of two to one destination
// the earlier in the order of routes wins. A port without carrier has none: the kernel may refuse them.
func (nw network) routesBy(p PortStatus) []netstate.Route {
	if !p.Up {
		return nil
	}
	var list []netstate.Route
	taken := map[netip.Prefix]bool{}
	add := func(dst netip.Prefix, r netstate.Route) {
		if dst = dst.Masked(); dst.Addr().Is4() && !taken[dst] {
			taken[dst] = true
			if r.Dev == string(nw.bridge) {
				r.After = nw.address().ID()
			}
			r.Dst, r.Type = dst.String(), netstate.Unicast
			list = append(list, r)
		}
	}
	own := nw.Config.Port != "" && p.Matches(nw.Config.Port)
	shared := slices.ContainsFunc(nw.shares, isPort(p.Label))
	if shared {
		add(nw.Config.IPv4.Subnet, netstate.Route{Dev: string(nw.bridge), Src: nw.Config.IPv4.Gateway.String()})
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
	if r, out := p.DefaultRoute(); out && own {
		add(anywhere, byPort(p, r.Gateway, r.OnLink))
	}
	return list
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
func flowGate(ns []HostNetwork) []netstate.Object {
	if !slices.ContainsFunc(ns, keepsFlows) {
		return nil
	}
	return []netstate.Object{netstate.Rule{Priority: ruleFlowsBase, Mask: FlowMask, Goto: treeFromBase},
		netstate.Rule{Priority: treeFromBase}}
}
