package netinst

import (
	"fmt"

	"edgespan/netinst/netstate"
)

// The chains of network n with adapters k, and the chains of the host that lead to them. A jump higher in the map is
// tried first; "RETURN" leads back to the rule after the jump into EGR.
//
//	filter FORWARD                 filter INPUT               filter OUTPUT
//	  ES-FORWARD (host)              ES-INPUT (host)            ES-OUTPUT (host)
//	   -i es<n>, -o es<n>             -i es<n>, -d <gateway>     -o es<n>
//	   |  ES<n>-FWD                   |  ES<n>-INP               |  ES<n>-OUT
//	   |    our source by a link      |    our source by a link  |    reply, DHCP -> ACCEPT
//	   |      not ours -> DROP        |      not ours -> DROP    |    by address
//	   |    out, untranslated -> DROP |    reply -> ACCEPT       |      -> ES<n>-<k>M
//	   |    reply      -> ACCEPT      |    by port of bridge     |           rules that name
//	   |    -i es<n>   -> ES<n>-EGR   |      -> ES<n>-<k>N       |           the node: ACCEPT
//	   |      by port of bridge       |           DHCP, DNS,     |           else  DROP
//	   |        -> ES<n>-<k>E         |           ping, rules    |
//	   |             allow RETURN     |           that name the  |
//	   |             else  DROP       |           node: ACCEPT   |
//	   |    es<n>, port -> es<n>      |           else  DROP     |
//	   |      -> ES<n>-ING            |                          |
//	   |        by port or address    |                          |
//	   |          -> ES<n>-<k>I       |                          |
//	   |             allow ACCEPT     |                          |
//	   |             else  DROP       |                          |
//	   |    es<n> -> port             |                          |
//	   |      -> ES-EXIT (host)       |                          |
//	   |           other net DROP     |                          |
//	   |           else ACCEPT        |                          |
//	   '- last: ES-BASE (host): -i es<n>, -o es<n> -> DROP, in all three
//
// If the rules name everything that they allow, N calls E and accepts what returns from it, and M is I. Packets that an
// adapter's chain allows are counted by its ES<n>-<k>L (flows.go).
//
//	nat POSTROUTING: ES-POSTROUTING (host): -s <subnet> -> ES<n>-POST: -o port -> MASQUERADE
//	bridge table es<n>, before br_netfilter: each adapter's MAC, IP, ARP and ethertypes
//
// A packet is accepted only where this map says ACCEPT, which is written as a jump to ES-PASS (guard.go). Packets that
// no rule matched leave the network's chains and reach ES-BASE.

// Built-in chains and tables.
const (
	tableFilter = "filter"
	tableNAT    = "nat"
	tableRaw    = "raw"
)

const replies = "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"

// untranslated drops packets that NAT has not changed and will not change: packets of no tracked flow (INVALID,
// UNTRACKED), for which xt_conntrack checks only the state, and packets of a flow whose first packet met no masquerade
// (the entry of a first packet is not CONFIRMED yet). Replies to an incoming flow carry the app's own address.
const untranslated = "-m conntrack ! --ctstate SNAT --ctstatus CONFIRMED --ctdir ORIGINAL -j DROP"

// dropForged drops a packet that has a source address of the network and arrives by another link. It precedes the
// rule for replies, which matches only addresses and ports: with rp_filter off or loose, no other check looks at the
// incoming link.
func (nw network) dropForged() string {
	return "-s " + nw.Config.IPv4.Subnet.Masked().String() + " ! -i " + string(nw.bridge) + " -j DROP"
}

// chainName is a chain of network n: one of the shared parts FWD, EGR, ING, INP, OUT, POST, or an adapter's number with
// E, I, N or M.
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
		return append(ids, chainID(tableRaw, nw.chainName("RAW")), nw.bridgeTableID())
	}
	// an inactive network has no adapter
	return append(ids, chainID(tableNAT, nw.chainName("POST")), nw.bridgeTableID())
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
	return ids
}

// chains are all chains of the network.
func (nw network) chains() []netstate.Chain {
	if nw.isSwitch() {
		return passing(nw.switchChains())
	}
	out := []netstate.Chain{nw.forward(), nw.egress(), nw.ingress(), nw.input(), nw.output(), nw.bridgeTable()}
	if !nw.Config.Inactive {
		out = append(out, nw.postrouting())
	}
	for _, a := range nw.Adapters {
		out = append(out, nw.adapterChains(a)...)
	}
	if nw.withdrawn != "" {
		return passing(nw.withdrawnChains(out))
	}
	return passing(out)
}

func (nw network) filter(part string, hooks []netstate.Hook, rules []string) netstate.Chain {
	return netstate.Chain{
		Family: netstate.IPv4, Table: tableFilter, Name: nw.chainName(part), Hooks: hooks, Rules: rules,
	}
}

func (nw network) forward() netstate.Chain {
	br := string(nw.bridge)
	egr, ing := nw.chainName("EGR"), nw.chainName("ING")
	rules := []string{
		nw.dropForged(),
		"-i " + br + " ! -o " + br + " " + untranslated,
		replies,
		"-i " + br + " -j " + egr,
		"-i " + br + " -o " + br + " -j " + ing,
	}
	for _, p := range nw.ports {
		rules = append(rules,
			"-i "+string(p.IfName)+" -o "+br+" -j "+ing,
			"-i "+br+" -o "+string(p.IfName)+" -j "+ExitChain)
	}
	hooks := []netstate.Hook{
		{Parent: RootForward, Match: "-i " + br},
		{Parent: RootForward, Match: "-o " + br},
	}
	return nw.filter("FWD", hooks, rules)
}

func (nw network) physdevIn(a Adapter) string {
	return "-m physdev --physdev-in " + string(nw.hostIfName(a))
}

func (nw network) egress() netstate.Chain {
	var rules []string
	for _, a := range nw.Adapters {
		to := nw.adapterChain(a, "E")
		rules = append(rules, nw.physdevIn(a)+" -g "+to)
	}
	return nw.filter("EGR", nil, append(rules, "-j DROP"))
}

// ingress distinguishes adapters by the port that the bridge chose; a routed packet has none yet and is matched by
// address.
func (nw network) ingress() netstate.Chain {
	var rules []string
	for _, a := range nw.Adapters {
		to := nw.adapterChain(a, "I")
		host := string(nw.hostIfName(a))
		rules = append(rules, "-m physdev --physdev-out "+host+" --physdev-is-bridged -g "+to)
	}
	// A bridged packet that matched no rule above is for a port of no adapter: its address must not lead it into the chain
	// of another adapter.
	rules = append(rules, "-m physdev --physdev-is-bridged -j DROP")
	for _, a := range nw.Adapters {
		rules = append(rules, "-d "+a.Lease.IP.String()+"/32 -g "+nw.adapterChain(a, "I"))
	}
	return nw.filter("ING", nil, append(rules, "-j DROP"))
}

// input filters packets from adapters to the node. It also hides the gateway's address from the neighbours of other
// interfaces, who could reach it by a route over the node; the node itself reaches it over lo.
func (nw network) input() netstate.Chain {
	rules := []string{"-i lo -j RETURN", nw.dropForged(), replies}
	for _, a := range nw.Adapters {
		to := nw.adapterChain(a, "N")
		rules = append(rules, nw.physdevIn(a)+" -g "+to)
	}
	hooks := []netstate.Hook{
		{Parent: RootInput, Match: "-i " + string(nw.bridge)},
		{Parent: RootInput, Match: "-d " + nw.Config.IPv4.Gateway.String() + "/32 ! -i " + linkPrefix + "+"},
	}
	return nw.filter("INP", hooks, append(rules, "-j DROP"))
}

// output matches by address: legacy iptables refuses physdev-out in chains that OUTPUT leads to. DHCP answers may be
// broadcast and belong to no tracked connection.
func (nw network) output() netstate.Chain {
	rules := []string{replies, "-p udp -m udp --sport 67 --dport 68 -j ACCEPT"}
	for _, a := range nw.Adapters {
		to := nw.adapterChain(a, "M")
		rules = append(rules, "-d "+a.Lease.IP.String()+"/32 -g "+to)
	}
	hooks := []netstate.Hook{{Parent: RootOutput, Match: "-o " + string(nw.bridge)}}
	return nw.filter("OUT", hooks, append(rules, "-j DROP"))
}

func (nw network) postrouting() netstate.Chain {
	c := netstate.Chain{
		Family: netstate.IPv4, Table: tableNAT, Name: nw.chainName("POST"),
		Hooks: []netstate.Hook{{Parent: RootPostrouting, Match: "-s " + nw.Config.IPv4.Subnet.Masked().String()}},
	}
	for _, p := range nw.ports {
		c.Rules = append(c.Rules, "-o "+string(p.IfName)+" -j MASQUERADE")
	}
	return c
}

// adapterChains filter what one adapter may send (E), receive (I), send to the node's own addresses (N) and receive
// from them (M). Packets in N and M pass no port, so a rule that names one matches nothing there.
//
// If the rules apply alike toward the node and toward other hosts, N calls E and M calls I: a copy would double the
// cost in every restore and every observation. All chains of an adapter are written and removed in one transaction, so
// that no packet meets one of them without the other.
func (nw network) adapterChains(a Adapter) []netstate.Chain {
	acl := a.Config.UnderlayConfig.ACL
	part := func(p string) string { return fmt.Sprint(a.Lease.Number) + p }
	returns, accepts := nw.allowTarget(a, "RETURN"), nw.allowTarget(a, "ACCEPT")
	node := []string{"-j " + nw.adapterChain(a, "E"), "-j ACCEPT"} // E returns what it allows
	if !alike(acl, Egress) {
		node = chain(acl, Egress, accepts, nil, appliesToNode)
	}
	fromNode := []string{"-g " + nw.adapterChain(a, "I")}
	if !alike(acl, Ingress) {
		fromNode = chain(acl, Ingress, accepts, nil, appliesToNode)
	}
	return append(nw.flowChains(a),
		nw.filter(part("E"), nil, chain(acl, Egress, returns, nw.Ports, always)),
		nw.filter(part("I"), nil, chain(acl, Ingress, accepts, nw.Ports, always)),
		nw.filter(part("N"), nil, append(nw.gatewayServices(accepts), node...)),
		nw.filter(part("M"), nil, fromNode),
	)
}

// maxDNSByTCP is the limit of an adapter's concurrent connections to its gateway's DNS: dnsmasq serves 20 of all
// adapters together (MAX_PROCS), each for up to 150 s, and the listener waits meanwhile.
const (
	dnsByTCP    = "-p tcp -m tcp --dport 53 "
	maxDNSByTCP = 4
)

// gatewayServices are the requests that every adapter may send to its gateway: DHCP, DNS and ping.
func (nw network) gatewayServices(accepts string) []string {
	gw := "-d " + nw.Config.IPv4.Gateway.String() + "/32 "
	return []string{
		"-d 255.255.255.255/32 -p udp -m udp --sport 68 --dport 67 " + accepts,
		gw + "-p udp -m udp --sport 68 --dport 67 " + accepts,
		gw + "-p udp -m udp --dport 53 " + accepts,
		gw + dnsByTCP + fmt.Sprintf("-m conntrack ! --ctstatus CONFIRMED -m connlimit --connlimit-above %d "+
			"--connlimit-mask 0 --connlimit-saddr -j DROP", maxDNSByTCP),
		gw + dnsByTCP + accepts,
		gw + "-p icmp -m icmp --icmp-type 8 " + accepts,
	}
}
