package netinst

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"edgespan/netinst/netstate"
)

// HostNetwork is what HostState must know of one network instance. A switch network has no subnet, and that of an
// orphan (a network on the host that no config names) is unknown.
type HostNetwork struct {
	Number int
	Subnet netip.Prefix
	Ports  []HostPort // that it may use
	// Gateway is the address of its bridge; invalid without one.
	Gateway netip.Addr
	// Subnet6 and Gateway6 are those of IPv6; invalid without it. Closed6 means that the node forwarded no IPv6 before.
	Subnet6  netip.Prefix
	Gateway6 netip.Addr
	Closed6  bool
	// Switch means that it is a switch network, and Bridged6 that its chains decide about IPv6 packets.
	Switch, Bridged6 bool
	// VLANs means that it is a switch that keeps VLANs apart.
	VLANs bool
	// Mapped means that a port map may lead packets from it to another network.
	Mapped bool
	// OldFrames means that its frames are filtered by a table of its own, which a former release made.
	OldFrames bool
	// Flows means that packets of its known flows are marked (MarksFlows), Flows6 those of IPv6, too (MarksFlows6).
	Flows, Flows6 bool
	// MayOverlap means that other networks may have its subnet.
	MayOverlap bool
	// FlowLog means that its flows are recorded.
	FlowLog bool
	// VPN means that it has a tunnel, and VPN6 that the tunnel's own packets may be of IPv6.
	VPN, VPN6 bool
	// Sealed is the UDP port of the VXLAN of an encrypted cluster, 0 for another network.
	Sealed uint16
	// Returns means that what comes back to it must be led to it (NeedsReturns).
	Returns bool
}

// HostState is the desired host state that belongs to no network: the root chains with their jumps, the base chain that
// drops what no network accepted, the guard after them, the table of frames with its base chains and maps, arpGuard,
// the forwarding of ports, the tree of policy rules, and that frames with a VLAN tag meet the rules. Without networks
// it is empty, so that every object of edgespan is removed.
//
// Of its chains, only these depend on the networks: the guard's and arpGuard's sets with the rules that read them, the
// rules for ports, and the exceptions for networks of a former release (OldFrames, unmarked). The rules that lead
// packets from the root chains into networks are the Hooks of the networks' own chains and not part of it: a Hook
// (netstate) is a rule of a parent chain, or an element of a map, that jumps to a chain, and not a netfilter hook.
// Unmarked are the numbers of networks whose chains were written by a former release, which set no packet mark: the
// guard lets their links pass.
func HostState(ns []HostNetwork, unmarked ...int) netstate.State {
	s := netstate.State{}
	if len(ns) == 0 {
		return s
	}
	ns = slices.Clone(ns)
	slices.SortFunc(ns, func(a, b HostNetwork) int { return a.Number - b.Number })
	root := func(table, name, builtin, match string, rules ...string) netstate.Chain {
		return netstate.Chain{
			Family: netstate.IPv4, Table: table, Name: name, Rules: rules,
			Hooks: []netstate.Hook{{Parent: builtin, Match: match}},
		}
	}
	from, to := "-i "+linkPrefix+"+", "-o "+linkPrefix+"+"
	opens, closes := forwarding(ns)
	s.Add(opens...)
	if g, needed := arpGuard(ns); needed {
		s.Add(g)
	}
	s.Add(
		root(tableFilter, RootInput, "INPUT", from, fromLocal+knownFlows+" -j "+PassChain, "-j "+netsInput.root,
			"-j "+BaseChain),
		root(tableFilter, RootOutput, "OUTPUT", to, knownFlows+" -j "+PassChain, "-j "+netsOutput.root, "-j "+BaseChain),
		root(tableNAT, RootPostrouting, "POSTROUTING", ""),
		root(tableNAT, RootPrerouting, "PREROUTING", "", toNode+"-j "+mapsArriving),
		root(tableNAT, RootOutput, "OUTPUT", "", toNode+"-j "+mapsOfNode),
		guard(ns, unmarked), hostFrames(ns),
	)
	forward := root(tableFilter, RootForward, "FORWARD", "", closes...)
	if len(closes) == 0 {
		forward.Hooks = nil
	}
	s.Add(forward)
	if slices.ContainsFunc(ns, isSwitch) {
		s.Add(root(tableRaw, RootPrerouting, "PREROUTING", ""))
	}
	for _, name := range []string{mapsArriving, mapsOfNode} {
		s.Add(netstate.Chain{Family: netstate.IPv4, Table: tableNAT, Name: name})
	}
	s.Add(netstate.Chain{Family: netstate.IPv4, Table: tableFilter, Name: mapsAcross},
		root(tableFilter, mapsFromNode, "OUTPUT", "-o lo -m conntrack --ctstate DNAT"))
	for _, c := range linkChains() {
		s.Add(c)
	}
	s.Add(hookTrees(ns)...)
	tree := ruleTree(ns)
	s.Add(tree...)
	s.Add(rulesOfMaps(ns, len(tree) > 0)...)
	s.Add(slices.Concat(host6(ns), flowGate(ns), tunnelGate(ns))...)
	if slices.ContainsFunc(ns, func(n HostNetwork) bool { return n.VLANs }) {
		s.Add(netstate.Sysctl{Key: netstate.TaggedFilter, Value: "1"})
	}
	if slices.ContainsFunc(ns, func(n HostNetwork) bool { return n.FlowLog }) {
		for _, key := range []string{netstate.CountFlows, netstate.TimeFlows, netstate.ReportFlows} {
			s.Add(netstate.Sysctl{Key: key, Value: "1"})
		}
	}
	return s
}

// toNode matches packets to the node's own addresses.
const toNode = "-m addrtype --dst-type LOCAL "

// knownFlows matches packets of flows that were accepted before, in both directions.
const knownFlows = "-m conntrack --ctstate RELATED,ESTABLISHED"

// fromLocal matches what the table of frames has marked, unless each packet must pass the rules.
var fromLocal = fmt.Sprintf("-m mark --mark %#x/%#x ", LocalMark, LocalMark|CheckMark)

// linkChains are the host's constant chains for forwarded packets from and to edgespan's links. The root chains of
// INPUT and OUTPUT do the same for packets to and from the node itself.
//
// A packet of a known flow, one that a network has accepted, is accepted here, before the hooks of the networks: its
// cost does not grow with their number. In the original direction of its flow it must also have the mark of a local
// network, and be translated, or stay in its bridge. A translated flow is known before it has an answer: the kernel
// confirms its entry only after all rules have accepted its first packet. Others go on to their network: a switch
// checks each packet of that direction (switch.go), also one that NAT of another program has changed, and a local
// network drops what leaves untranslated. Packets whose mark another program has removed take the longer way too, to
// the same end.
func linkChains() []netstate.Chain {
	chain := func(name string, rules ...string) netstate.Chain {
		return netstate.Chain{Family: netstate.IPv4, Table: tableFilter, Name: name, Rules: rules}
	}
	from, to := "-i "+linkPrefix+"+", "-o "+linkPrefix+"+"
	links := chain(linksForward, knownFlows+" --ctdir REPLY -j "+PassChain, "-j "+netsForward, "-j "+BaseChain)
	links.Hooks = []netstate.Hook{{Parent: "FORWARD", Match: from}, {Parent: "FORWARD", Match: to}}
	pass := chain(PassChain, fmt.Sprintf("-j MARK --set-xmark %#x/%#x", PassMark, PassMark), "-j ACCEPT")
	pass.Hooks = []netstate.Hook{
		{Parent: "FORWARD", Match: from + " " + to + " " + fromLocal + knownFlows + " -m physdev --physdev-is-bridged"},
		{Parent: "FORWARD", Match: from + " ! " + to + " " + fromLocal +
			"-m conntrack --ctstate SNAT --ctstatus CONFIRMED --ctdir ORIGINAL"},
	}
	var base []string
	for digit := '1'; digit <= '9'; digit++ { // a prefix alone would match foreign links, such as one named estate0
		links := fmt.Sprintf("%s%c+", linkPrefix, digit)
		base = append(base, "-i "+links+" -j DROP", "-o "+links+" -j DROP")
	}
	return []netstate.Chain{
		pass, links,
		// The first releases hung networks in the last of these chains.
		chain(netsForward, from+" -j "+netsFrom.root, to+" -j "+netsTo.root, "-j "+RootForward),
		chain(netsFrom.root), chain(netsTo.root), chain(netsInput.root), chain(netsOutput.root),
		chain(BaseChain, base...), chain(ExitChain, "-j "+PassChain),
	}
}

// A hookTree is the chains that lead packets to the hooks of the networks, by the digits of their bridges' names, so
// that the first packet of a flow meets few of them:
//
//	ES-NETS-FROM       -i es5+  -> ES-NETS-FROM-5    for each first digit with a network
//	ES-NETS-FROM-5     -i es7   -> ES7-FWD           of networks 7 and 70 to 79
//	                   -i es75+ -> ES-NETS-FROM-75   for each first two digits of a network from 100
//	ES-NETS-FROM-75    -i es750 -> ES750-FWD         of networks 750 to 759
//
// The root is constant. A branch stands while it has a network, which the host state contains from before the network
// starts until after it has ended: no network changes what leads to another. What a branch does not accept returns to
// the chain that leads to it, so networks of a former release, which hang in a root, in ES-NETS-FWD or in ES-FORWARD,
// are still found.
type hookTree struct {
	table, root, match string
	has                func(HostNetwork) bool // whether it leads to a network
}

func anyNetwork(HostNetwork) bool   { return true }
func isSwitch(n HostNetwork) bool   { return n.Switch }
func mayOverlap(n HostNetwork) bool { return n.MayOverlap }
func takesMaps(n HostNetwork) bool  { return n.Mapped || n.MayOverlap }

var (
	netsFrom     = hookTree{tableFilter, "ES-NETS-FROM", "-i ", anyNetwork}
	netsTo       = hookTree{tableFilter, "ES-NETS-TO", "-o ", anyNetwork}
	netsInput    = hookTree{tableFilter, "ES-NETS-IN", "-i ", anyNetwork}
	netsOutput   = hookTree{tableFilter, "ES-NETS-OUT", "-o ", anyNetwork}
	netsAcross   = hookTree{tableFilter, mapsAcross, "-o ", takesMaps}
	netsAsking   = hookTree{tableNAT, mapsArriving, "-i ", mayOverlap}
	netsSwitched = hookTree{tableRaw, RootPrerouting, "-i ", isSwitch}
)

// branchesTo returns the digits of the branches that lead to a network.
func branchesTo(n int) []string {
	digits := strconv.Itoa(n)
	if len(digits) < 3 {
		return []string{digits[:1]}
	}
	return []string{digits[:1], digits[:2]}
}

func (t hookTree) branch(digits string) string { return t.root + "-" + digits }

// hook is that of network n for the packets of its bridge.
func (t hookTree) hook(n int) netstate.Hook {
	path := branchesTo(n)
	return netstate.Hook{Parent: t.branch(path[len(path)-1]), Match: t.match + string(BridgeName(n))}
}

// sourceLevels are the prefix lengths at which the chain for sources in POSTROUTING branches, as a hookTree does by
// digits: packets there have no incoming link.
//
//	ES-POSTROUTING          -s 10.0.0.0/8  -> ES-POST-10.0.0.0-8   and so on by 12, 16 and 20 bits
//	ES-POST-10.1.0.0-20     -s 10.1.5.0/24 -> ES5-POST
var sourceLevels = []int{8, 12, 16, 20, 24, 28}

// sourceBranches returns the branches that lead to a subnet.
func sourceBranches(subnet netip.Prefix) []netstate.Chain {
	var path []netstate.Chain
	parent := RootPostrouting
	for _, bits := range sourceLevels {
		if bits >= subnet.Bits() {
			break
		}
		by := netip.PrefixFrom(subnet.Addr(), bits).Masked()
		c := netstate.Chain{Family: netstate.IPv4, Table: tableNAT, Name: fmt.Sprintf("ES-POST-%s-%d", by.Addr(), bits),
			Hooks: []netstate.Hook{{Parent: parent, Match: "-s " + by.String()}}}
		path, parent = append(path, c), c.Name
	}
	return path
}

// sourceHook is the hook for packets of a subnet.
func sourceHook(subnet netip.Prefix) netstate.Hook {
	h := netstate.Hook{Parent: RootPostrouting, Match: "-s " + subnet.Masked().String()}
	if path := sourceBranches(subnet); len(path) > 0 {
		h.Parent = path[len(path)-1].Name
	}
	return h
}

// hookTrees are the branches that lead to networks.
func hookTrees(ns []HostNetwork) []netstate.Object {
	branches := netstate.State{}
	for _, n := range ns {
		for _, c := range sourceBranches(n.Subnet) {
			branches.Add(c)
		}
	}
	for _, t := range []hookTree{netsFrom, netsTo, netsInput, netsOutput, netsAcross, netsAsking, netsSwitched} {
		for _, n := range ns {
			parent := t.root
			for _, digits := range branchesTo(n.Number) {
				c := netstate.Chain{Family: netstate.IPv4, Table: t.table, Name: t.branch(digits),
					Hooks: []netstate.Hook{{Parent: parent, Match: t.match + linkPrefix + digits + "+"}}}
				if t.has(n) {
					branches.Add(c)
				}
				parent = c.Name
			}
		}
	}
	return slices.Collect(maps.Values(branches))
}

// host6 is the host state's part of the table; without a network with IPv6 there is none.
func host6(ns []HostNetwork) []netstate.Object {
	var subnets, gateways []string
	closed, bridged, switches := false, false, []string{}
	for _, n := range ns {
		bridged = bridged || n.Bridged6
		if n.Switch && !n.Bridged6 {
			switches = append(switches, fmt.Sprintf("%q", BridgeName(n.Number)))
		}
		if n.Subnet6.IsValid() {
			subnets = append(subnets, n.Subnet6.Addr().String())
			gateways = append(gateways, n.Gateway6.String())
			closed = closed || n.Closed6
		}
	}
	if len(subnets) == 0 && !bridged {
		return nil
	}
	c := netstate.Chain{Family: netstate.IP6Family, Name: GuardTable}
	c.Rules = append(nftSet("gateways", "type ipv6_addr;", gateways, setSize),
		nftSet("subnets", "type ipv6_addr;", subnets, setSize)...)
	for _, m := range []string{fromMap, toMap, inputMap, outputMap, natMap} {
		c.Rules = append(c.Rules, "map "+m+" {", "type ifname : verdict;", mapSize, "}")
	}
	chain := func(name string, rules ...string) {
		c.Rules = append(append(append(c.Rules, "chain "+name+" {"), rules...), "}")
	}
	base := func(hook, kind string, priority int, rules ...string) {
		first := fmt.Sprintf("type %s hook %s priority %d; policy accept;", kind, hook, priority)
		chain(hook, append([]string{first}, rules...)...)
	}
	drop := []string{fromOwn + " drop", toOwn + " drop"}
	forward := []string{fromOwn + " ip6 daddr & ffff:ffff:ffff:ffff:: @subnets jump crosses",
		"iifname vmap @" + fromMap, "oifname vmap @" + toMap}
	if len(switches) > 0 { // between open ports of a cluster; those of apps pass no IPv6 there
		c.Rules = append(c.Rules, nftSet("switches", "type ifname;", switches, setSize)...)
		forward = append(forward, "iifname @switches oifname @switches accept")
	}
	forward = slices.Concat(forward, drop, tunnelCloses6(ns))
	if closed {
		forward = append(forward, closed6(ns)...)
	}
	chain("arrives", fromOwn+" accept", "iifname \"lo\" accept", "drop")
	// A packet from a network to another's subnet would leave by the first one's port, and may come back to the other.
	chain("crosses", toOwn+" return", "drop")
	chain("visits", "iifname \"lo\" accept", "ct direction reply accept", "drop")
	if bridged {
		c.Rules = append(c.Rules, "map "+zonesMap+" {", "type ifname : verdict;", mapSize, "}")
		chain("zones", "type filter hook prerouting priority -300; policy accept;", "iifname vmap @"+zonesMap)
	}
	base("prerouting", "filter", -310, "ip6 saddr & ffff:ffff:ffff:ffff:: @subnets goto arrives")
	base("forward", "filter", 0, forward...)
	base("input", "filter", 0, "iifname vmap @"+inputMap, drop[0], "ip6 daddr @gateways goto visits")
	base("output", "filter", 0, "oifname vmap @"+outputMap, drop[1])
	base("postrouting", "nat", 100, "iifname vmap @"+natMap)
	if len(subnets) == 0 {
		return []netstate.Object{c}
	}
	return []netstate.Object{c, netstate.Sysctl{Key: netstate.ForwardAll6, Value: "1"}}
}

// closed6 drops what the node would forward only because edgespan has turned forwarding on: IPv6 has one setting for
// all links. Frames that a foreign bridge carries pass; so does what it routes to a link that is no port, since the two
// cannot be told from each other here.
func closed6(ns []HostNetwork) []string {
	var bridged, ports []string
	for _, p := range portsOf(ns) {
		bridged = append(bridged, fmt.Sprintf("iifname %q oifname %q accept", p.IfName, p.IfName))
		ports = append(ports, fmt.Sprintf("iifname %q drop", p.IfName), fmt.Sprintf("oifname %q drop", p.IfName))
	}
	return append(append(bridged, ports...), "meta iifkind \"bridge\" accept", "drop")
}
