package netinst

import (
	"fmt"
	"slices"

	"edgespan/netinst/netstate"
)

// The chains of local network n with adapters k, and the chains that lead to them; those marked (host) belong to the
// host state (host.go). A jump higher in the map is tried first; "RETURN" leads back to the rule after the jump into
// EGR. "By port of bridge", in ING "by port", is a match on the link in the bridge (physdev); any other "port" is an
// interface of the host.
//
//	filter FORWARD                 filter INPUT               filter OUTPUT
//	 known flow of a local network,  -i es+                     -o es+
//	   bridged or translated         ES-INPUT (host)            ES-OUTPUT (host)
//	   -> ES-PASS (host): ACCEPT     |                          |
//	 -i es+, -o es+                  |                          |
//	   ES-LINKS-FWD (host)           |                          |
//	   |  reply -> ACCEPT            |  known flow -> ACCEPT    |  known flow -> ACCEPT
//	   |  ES-NETS-FWD (host)         |                          |
//	   |  ES-NETS-FROM, -TO (host)   |  ES-NETS-IN (host)       |  ES-NETS-OUT (host)
//	   |   by -i es<n>, -o es<n>     |   by -i es<n>            |   by -o es<n>
//	   |   (hookTree)                |                          |
//	   |    ES<n>-FWD                |    ES<n>-INP             |    ES<n>-OUT
//	   |    source in the subnet,    |    known flow -> ACCEPT  |    known flow, DHCP
//	   |      not from es<n> -> DROP |    by port of bridge     |      -> ACCEPT; by address
//	   |    out, untranslated -> DROP|      -> ES<n>-<k>N       |      -> ES<n>-<k>M
//	   |    known flow -> ACCEPT     |           DHCP, DNS,     |           rules that name
//	   |    -i es<n>   -> ES<n>-EGR  |           ping, rules    |           the node: ACCEPT
//	   |      by port of bridge      |           that name the  |           else  DROP
//	   |        -> ES<n>-<k>E        |           node: ACCEPT   |
//	   |             allow RETURN    |           else  DROP     |
//	   |             else  DROP      |                          |
//	   |    es<n>, port -> es<n>     |                          |
//	   |      -> ES<n>-ING           |                          |
//	   |        by port or address   |                          |
//	   |          -> ES<n>-<k>I      |                          |
//	   |             allow ACCEPT    |                          |
//	   |             else  DROP      |                          |
//	   |    es<n> -> port            |                          |
//	   |      -> ES-EXIT (host)      |                          |
//	   |           ACCEPT            |                          |
//	   '- last: ES-BASE (host): -i es1+, -o es1+, ... -> DROP, in all three
//	 ES-FORWARD (host): from ports that edgespan opened, not to es+ -> DROP
//
// "Rules that name the node": toward the node's own addresses an access rule applies only if it drops, or names the
// addresses that it allows. If all rules of a direction do, N calls E and accepts what returns from it, and M goes to
// I. Packets that an adapter's chain allows are counted by its ES<n>-<k>L, and those to be accepted go there through
// ES<n>-<k>A (flows.go).
//
//	nat POSTROUTING: ES-POSTROUTING (host): by -s <subnet> (sourceBranches) -> ES<n>-POST: -o port -> MASQUERADE
//	nat PREROUTING, OUTPUT: to the node -> ES-MAPS, ES-MAPS-OUT (host): to a port's address -> ES<n>-MAP (portmap.go)
//	nftables table bridge edgespan, before br_netfilter: each adapter's MAC, IP, ARP and ethertypes (frames.go)
//
// A packet is accepted only where this map says ACCEPT, which is written as a jump to ES-PASS (guard.go). Packets that
// no rule matched leave the network's chains and reach ES-BASE.

// Built-in chains and tables.
const (
	tableFilter = "filter"
	tableNAT    = "nat"
	tableRaw    = "raw"
)

const acceptKnown = knownFlows + " -j ACCEPT"

// acceptsKnown accept packets of known flows. In a network with limits they leave out those of the original direction,
// since a limit counts each packet, as a switch does.
func (nw network) acceptsKnown() []string {
	if nw.hasLimits() {
		return []string{"-m conntrack --ctstate RELATED -j ACCEPT", switchReplies}
	}
	return []string{acceptKnown}
}

// untranslated drops packets that NAT has not changed and will not change: packets of no tracked flow (INVALID,
// UNTRACKED), for which xt_conntrack checks only the state, and packets of a flow whose first packet met no masquerade
// (the entry of a first packet is not CONFIRMED yet). Replies to an incoming flow carry the app's own address.
const untranslated = "-m conntrack ! --ctstate SNAT --ctstatus CONFIRMED --ctdir ORIGINAL -j DROP"

// dropForged drops a packet that has a source address of the network and arrives by another link. It precedes the rule
// for known flows, which matches only addresses and ports: with rp_filter off or loose, no other check looks at the
// incoming link.
func (nw network) dropForged() string {
	return "-s " + nw.Config.IPv4.Subnet.Masked().String() + " ! -i " + string(nw.bridge) + " -j DROP"
}

// chainName is a chain of network n. Its part is one that all adapters share (FWD, EGR, ING, INP, OUT, POST, of a
// switch RAW; with port maps MAP, MOUT and MIN; of frames APPS, PORT, OPEN, NODE), or an adapter's number with E, I, N,
// M, L or A, of frames with F or D, of the guard with H; EB<i>, IB<i>, NB<i> and MB<i> are the buckets of its limits
// (limit.go), and XE and XI log what it may not send and receive. SIZE (forward.go), FLOWS and FLOWS6 (keep.go), NEIGH
// and H (flows.go) are of the guard.
func chainName(n int, part string) string { return fmt.Sprintf("%s%d-%s", chainPrefix, n, part) }

func (nw network) chainName(part string) string { return chainName(nw.n, part) }

func (nw network) adapterChain(a Adapter, part string) string {
	return nw.chainName(fmt.Sprint(a.Lease.Number) + part)
}

func chainID(table, name string) netstate.ID {
	return netstate.Chain{Family: netstate.IPv4, Table: table, Name: name}.ID()
}

// sharedChainIDs are the chains that must exist before any adapter of the network passes a packet.
func (nw network) sharedChainIDs() []netstate.ID {
	var ids []netstate.ID
	for _, part := range []string{"FWD", "EGR", "ING", "INP", "OUT"} {
		ids = append(ids, chainID(tableFilter, nw.chainName(part)))
	}
	if nw.isSwitch() {
		return append(append(ids, chainID(tableRaw, nw.chainName("RAW"))), nw.ids6("FWD", "EGR", "ING", "RAW")...)
	}
	ids = append(ids, nw.ids6("FWD", "EGR", "ING", "INP", "OUT")...)
	for _, c := range nw.answerChains() {
		ids = append(ids, c.ID())
	}
	// an inactive network has no adapter
	return append(ids, chainID(tableNAT, nw.chainName("POST")))
}

// adapterChainIDs are the chains of one adapter.
func (nw network) adapterChainIDs(a Adapter) []netstate.ID {
	var ids []netstate.ID
	parts := []string{"L", "A", "E", "I", "N", "M"}
	if nw.isSwitch() {
		parts = parts[:4] // a switch has no path to the node
	}
	for _, part := range parts {
		ids = append(ids, chainID(tableFilter, nw.adapterChain(a, part)))
	}
	for _, c := range slices.Concat(nw.limitChains(a), nw.deniedChains(a)) {
		ids = append(ids, c.ID())
	}
	if len(nw.families()) > 1 {
		for _, c := range nw.deniedChains6(a) {
			ids = append(ids, c.ID())
		}
	}
	six := []string{"C", "A", "E", "I", "N", "M"}
	if nw.isSwitch() {
		six = six[:4]
	}
	for _, part := range six {
		ids = append(ids, nw.ids6(fmt.Sprint(a.Lease.Number)+part)...)
	}
	if !nw.isSwitch() {
		ids = append(ids, netstate.Chain{Family: netstate.InetFamily, Table: GuardTable,
			Name: nw.adapterChain(a, "H")}.ID())
	}
	for _, c := range nw.adapterFrames(a) {
		ids = append(ids, c.ID())
	}
	return ids
}

// chains are all chains of the network.
func (nw network) chains() []netstate.Chain {
	if nw.isSwitch() {
		return passing(append(nw.switchChains(), nw.switchChains6()...))
	}
	out := slices.Concat([]netstate.Chain{nw.forward()}, nw.egress(), nw.ingress(), nw.input(), nw.output(),
		nw.frameChains())
	if !nw.Config.Inactive {
		out = append(append(append(out, nw.postrouting()), nw.flowMarkChains()...), nw.mapChains()...)
		out = append(append(out, nw.sizeChain()...), nw.neighbourChains()...)
	}
	out = append(append(out, nw.crossChains()...), nw.answerChains()...)
	for _, a := range nw.Adapters {
		out = append(out, nw.adapterChains(a)...)
	}
	if nw.withdrawn != "" {
		return passing(nw.withdrawnChains(out))
	}
	return passing(append(out, nw.chains6()...))
}

func (nw network) filter(part string, hooks []netstate.Hook, rules []string) netstate.Chain {
	return netstate.Chain{
		Family: netstate.IPv4, Table: tableFilter, Name: nw.chainName(part), Hooks: hooks, Rules: rules,
	}
}

func (nw network) forward() netstate.Chain {
	br := string(nw.bridge)
	egr, ing := nw.chainName("EGR"), nw.chainName("ING")
	rules := []string{nw.dropForged()}
	if !nw.Config.SpoofGuard { // policy rules and NAT would treat it as a packet of the network that has the address
		rules = append(rules, "! -s "+nw.Config.IPv4.Subnet.Masked().String()+" -i "+br+" ! -o "+br+" -j DROP")
	}
	if nw.Config.Mapped {
		rules = append(rules, "-i "+br+" -o "+linkPrefix+"+ "+ledByMap+" -g "+nw.chainName("MOUT"))
	}
	if NeedsReturns(nw.Config) { // a map of another network leads to the app here that has the address of the one there
		rules = append(rules, "-i "+br+" "+ledByMap+" -j DROP")
	}
	if nw.Config.Translates() {
		rules = append(rules, "-i "+br+" ! -o "+br+" "+untranslated)
	}
	rules = append(rules, nw.acceptsKnown()...)
	rules = append(rules, "-i "+br+" -j "+egr, "-i "+br+" -o "+br+" -j "+ing)
	for _, p := range nw.ports {
		if !nw.Config.IPv4.MayOverlap { // no host outside can say which network an address is of
			rules = append(rules, "-i "+string(p.IfName)+" -o "+br+" -j "+ing)
		}
		rules = append(rules, "-i "+br+" -o "+string(p.IfName)+" -j "+ExitChain)
	}
	for _, p := range nw.leftPorts(false) {
		rules = append(rules, "-i "+br+" -o "+string(p.IfName)+" "+knownFlows+" -j "+ExitChain)
	}
	return nw.filter("FWD", []netstate.Hook{netsFrom.hook(nw.n), netsTo.hook(nw.n)}, rules)
}

func (nw network) egress() []netstate.Chain {
	rules, branches := nw.toAdapters("EGR", "-m physdev --physdev-in ", "", "E")
	return append(branches, nw.filter("EGR", nil, append(rules, "-j DROP")))
}

const (
	toPort  = "-m physdev --physdev-out "
	bridged = " --physdev-is-bridged"
)

// ingress distinguishes adapters by the link to which the bridge sends the packet; for a routed packet the bridge has
// not chosen one yet, so it is matched by address.
func (nw network) ingress() []netstate.Chain {
	rules, branches := nw.toAdapters("ING", toPort, bridged, "I")
	// A bridged packet that matched no rule above is for a link of no adapter: its address must not lead it into the chain
	// of another adapter.
	rules = append(rules, "-m physdev"+bridged+" -j DROP")
	byAddress, more := nw.toAddresses("ING", "I")
	return append(slices.Concat(branches, more), nw.filter("ING", nil, append(append(rules, byAddress...), "-j DROP")))
}

// input filters packets from adapters to the node. The guard hides the gateway's address from other interfaces.
func (nw network) input() []netstate.Chain {
	rules, branches := nw.toAdapters("INP", "-m physdev --physdev-in ", "", "N")
	rules = append(append(nw.acceptsKnown(), rules...), "-j DROP")
	return append(branches, nw.filter("INP", []netstate.Hook{netsInput.hook(nw.n)}, rules))
}

// output matches by address: legacy iptables refuses physdev-out in chains that OUTPUT leads to. DHCP answers may be
// broadcast and belong to no tracked connection.
func (nw network) output() []netstate.Chain {
	rules, branches := nw.toAddresses("OUT", "M")
	rules = append([]string{acceptKnown, "-p udp -m udp --sport 67 --dport 68 -j ACCEPT"}, rules...)
	hooks := []netstate.Hook{netsOutput.hook(nw.n)}
	if nw.hasPortmaps() {
		hooks = append(hooks, nw.fromNodeByMap())
	}
	return append(branches, nw.filter("OUT", hooks, append(rules, "-j DROP")))
}

func (nw network) postrouting() netstate.Chain {
	c := netstate.Chain{
		Family: netstate.IPv4, Table: tableNAT, Name: nw.chainName("POST"),
		Hooks: []netstate.Hook{sourceHook(nw.Config.IPv4.Subnet)},
	}
	for _, p := range nw.ports {
		if nw.Config.Translates() {
			c.Rules = append(c.Rules, "-o "+string(p.IfName)+" -j MASQUERADE")
		}
	}
	if nw.hasPortmaps() {
		c.Rules = append(c.Rules, nw.hairpin())
	}
	return c
}

// adapterChains filter what one adapter may send (E), receive (I), send to the node's own addresses (N) and receive
// from them (M). Packets in N and M pass no port of the host, so a rule that names one matches nothing there.
//
// If the rules apply alike toward the node and toward other hosts, N calls E and M goes to I: a copy would double the
// cost in every restore and every observation. All chains of an adapter are written and removed in one transaction, so
// that no packet meets one of them without the other.
func (nw network) adapterChains(a Adapter) []netstate.Chain {
	return slices.Concat(nw.flowChains(a), nw.limitChains(a), nw.deniedChains(a), chainsOf(nw.aclChains(a)))
}

// aclChains are the chains of an adapter that have its access rules, with what the rules count.
func (nw network) aclChains(a Adapter) []aclChain {
	if nw.isSwitch() {
		return nw.switchACL(a)
	}
	acl := a.Config.Spec.ACL
	accepts := nw.allowTarget(a, "ACCEPT")
	sent, received := nw.targets(a, Sent, "RETURN"), nw.targets(a, Received, "ACCEPT")
	node := uncounted("-j "+nw.adapterChain(a, "E"), "-j ACCEPT") // E returns what it allows
	if !a.Config.Spec.alike(Egress) {
		node = nw.chain(acl, Egress, nw.targets(a, SentToNode, "ACCEPT"), nw.matching(Egress, nil), appliesToNode)
	}
	fromNode := uncounted("-g " + nw.adapterChain(a, "I"))
	switch {
	case nw.Config.IPv4.MayOverlap: // the node answers, and nothing else
		node, fromNode = uncounted("-j DROP"), uncounted("-j DROP")
	case !a.Config.Spec.alike(Ingress):
		to := nw.targets(a, ReceivedFromNode, "ACCEPT")
		fromNode = nw.chain(acl, Ingress, to, nw.matching(Ingress, nil), appliesToNode)
	}
	four := func(part string, w Way, rules []counted) aclChain {
		return aclChain{nw.filter(fmt.Sprint(a.Lease.Number)+part, nil, nil), w, rules}
	}
	return []aclChain{
		four("E", Sent, nw.chain(acl, Egress, sent, nw.matching(Egress, nw.Ports), always)),
		four("I", Received, nw.chain(acl, Ingress, received, nw.matching(Ingress, nw.Ports), always)),
		four("N", SentToNode, append(uncounted(nw.gatewayServices(accepts)...), node...)),
		four("M", ReceivedFromNode, fromNode),
	}
}

// maxDNSByTCP is the limit of an adapter's concurrent connections to its gateway's DNS: dnsmasq serves 20 of all
// adapters together (MAX_PROCS), each for up to 150 s, and the listener waits meanwhile.
const (
	dnsByTCP    = "-p tcp -m tcp --dport 53 "
	maxDNSByTCP = 4
)

// gatewayServices are the requests that every adapter may send to its gateway: DHCP, DNS and ping.
func (nw network) gatewayServices(accepts string) []string {
	gw := "-d " + nw.Config.DNSAddr(nw.n).String() + "/32 "
	return []string{
		"-d 255.255.255.255/32 -p udp -m udp --sport 68 --dport 67 " + accepts,
		"-d " + nw.Config.IPv4.Gateway.String() + "/32 -p udp -m udp --sport 68 --dport 67 " + accepts,
		gw + "-p udp -m udp --dport 53 " + accepts,
		gw + dnsByTCP + fmt.Sprintf("-m conntrack ! --ctstatus CONFIRMED -m connlimit --connlimit-above %d "+
			"--connlimit-mask 0 --connlimit-saddr -j DROP", maxDNSByTCP),
		gw + dnsByTCP + accepts,
		gw + "-p icmp -m icmp --icmp-type 8 " + accepts,
	}
}
