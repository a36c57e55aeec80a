package netinst

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// The limits of an adapter's concurrent flows, outgoing and incoming together. Tracked flows are a table of the whole
// machine (nf_conntrack_max): without a limit one app can fill it, and no program can open a flow any more, including
// the node's own management.

const (
	// DefaultMaxFlows is the limit of an adapter whose config sets none.
	DefaultMaxFlows = 8192
	// minShares is the minimum number of shares on a node: fewer adapters share as if they were this many.
	minShares = 16
	// maxLimit is the largest rate and burst of iptables' limit (libxt_limit.c).
	maxLimit = 10000
)

// Sharers returns the number of shares of the tracked flows on a node with n adapters: the next power of two, so that
// shares change seldom; 0 for the minimum.
func Sharers(n int) int {
	shares := minShares
	for shares < n {
		shares *= 2
	}
	if shares == minShares {
		return 0
	}
	return shares
}

// FlowShare is the maximum that each adapter of a node may use of a table of maxTracked flows, 0 if that is unknown:
// half of the table for all of them together. A rewritten counter starts at 0 while its flows live on, so there may be
// twice as many for a while; the node's own requests on behalf of apps, such as DNS queries, use the other half too.
func FlowShare(maxTracked, sharers int) int {
	return maxTracked / 2 / max(sharers, minShares)
}

func (nw network) flowBound(a Adapter) int {
	return FlowBound(a.Config.Spec, nw.Config, nw.MaxTracked)
}

// FlowBound is the limit of one adapter: the configured one, and at most its share.
func FlowBound(u AdapterSpec, c NetworkInstanceConfig, maxTracked int) int {
	n := u.MaxFlows
	if n == 0 {
		n = DefaultMaxFlows
	}
	if share := FlowShare(maxTracked, c.Sharers); maxTracked > 0 {
		if c.HasIPv6() || c.BridgesIPv6() { // the flows of each family are counted by themselves
			share /= 2
		}
		n = min(n, max(1, share))
	}
	return n
}

// flowChains hold the limit of an adapter: packets that its rules allow pass through L, whose only verdict is DROP, and
// packets that the rules accept pass through A.
//
// Only the first packet of a flow reaches the counter (its entry is not CONFIRMED yet): the counter walks the list of
// its flows, and a flow without answers is NEW with each packet. L is a separate chain because a rewritten chain counts
// from 0: changed rules do not touch it.
//
// The counter leaves out closed TCP flows (nf_conncount.c, already_closed), which stay in the table for 120 s
// (nf_conntrack_tcp_timeout_time_wait): an app that keeps opening and closing would fill it. So the TCP flows that an
// adapter opens per second are limited too, and with them the closed ones: 120 s times maxFlows/8 are 15 times its
// limit, less than the half of the table that 16 adapters share. A lower limit would slow down an honest busy server.
func (nw network) flowChains(a Adapter) []netstate.Chain {
	part := func(p string) string { return fmt.Sprint(a.Lease.Number) + p }
	n := nw.flowBound(a)
	return []netstate.Chain{
		nw.filter(part("L"), nil, []string{
			fmt.Sprintf("-m conntrack ! --ctstatus CONFIRMED -m connlimit --connlimit-above %d --connlimit-mask 0 "+
				"--connlimit-saddr -j DROP", n),
			"! -p tcp -j RETURN",
			"-m conntrack --ctstatus CONFIRMED -j RETURN",
			fmt.Sprintf("-m limit --limit %d/sec --limit-burst %d -j RETURN", min(max(4, n/8), maxLimit),
				min(max(64, n/2), maxLimit)),
			"-j DROP",
		}),
		nw.filter(part("A"), nil, []string{"-j " + nw.adapterChain(a, "L"), "-j ACCEPT"}),
	}
}

// allowTarget returns the target of an allow in the chains of an adapter: the counter, then RETURN in those that
// return, otherwise ACCEPT.
func (nw network) allowTarget(a Adapter, verdict string) string {
	if verdict == "RETURN" {
		return "-g " + nw.adapterChain(a, "L")
	}
	return "-g " + nw.adapterChain(a, "A")
}

// dnsFrames limits an adapter's queries to its gateway's DNS: dnsmasq forwards those it cannot answer from a new port
// each, and each is a flow of the node for 30 s (nf_conntrack_udp_timeout): 15,360 flows by default. An unanswered
// query stays open for 10 s, and dnsmasq accepts no more than forwardMax: an adapter has fewer open than that. Queries
// over TCP are counted where they are accepted (gatewayServices).
func (nw network) dnsFrames(a Adapter) string {
	n := nw.flowBound(a)
	return fmt.Sprintf("ether type ip ip daddr %s udp dport 53 limit rate over %d/second burst %d packets counter drop",
		nw.Config.IPv4.Gateway, dnsRate(n), max(128, n/8))
}

// dnsRate is how many queries a second an adapter with a limit of flows may send to its gateway's DNS, for each family.
func dnsRate(flows int) int { return max(16, flows/16) }

// The limit of the absent neighbours that an adapter lets the node look for, on the links of its network's ports.
//
// The node looks for the link address of the next hop of a packet that it forwards: of the destination itself, where
// that is on the port's link. The kernel has room for 1,024 neighbours of each family, which all its network namespaces
// share (gc_thresh3), and while it looks for one, for 3 s, that is not evicted. Without a limit, an app that sends to
// absent addresses of a port's IPv6 prefix, or of a large IPv4 subnet, keeps all others, the node and its other
// containers from finding a neighbour. A packet to the port's gateway, or by a link without neighbours, is not counted.
//
//	inet edgespan: after-forward    first packets, not to a network -> neighbours: from es<n> -> ES<n>-NEIGH
//	    by port and gateway: return; by MAC -> ES<n>-<k>H
//	        next hop of the last ones: return; another, while they are too many: drop
//
// Only packets of flows without an answer count: a neighbour that has answered is there. A neighbour that gets packets
// keeps its place, so that a one-way stream goes on undisturbed. Without spoofGuard, an app may use up the places of
// others of its network.

const (
	// DefaultMaxNeighbours is the limit of an adapter whose config sets none: 16 adapters at their limits do not fill
	// the kernel's table.
	DefaultMaxNeighbours = 64
	// neighbourSeconds is how long a next hop counts after the last packet to it. It is longer than the kernel looks for
	// it (mcast_solicit times retrans_time_ms).
	neighbourSeconds = 5
	// neighboursMap is the map of the guard that leads first packets of networks to their chains.
	neighboursMap = "neighbours"
)

// NeighbourBound is the limit of one adapter.
func NeighbourBound(u AdapterSpec) int { return cmp.Or(u.MaxNeighbours, DefaultMaxNeighbours) }

// neighbourRule leads packets of flows without an answer that leave by no network to the chains of theirs.
const neighbourRule = "ct state new jump neighbours"

// neighbourChains are the chains of the limit. An adapter has its own with any port, and keeps what it counts when the
// port changes.
func (nw network) neighbourChains() []netstate.Chain {
	var rules []string
	for _, p := range slices.Concat(nw.ports, nw.onlyIPv6()) {
		out := fmt.Sprintf("oifname %q ", p.IfName)
		if p.PointToPoint {
			rules = append(rules, out+"return")
			continue
		}
		for _, g := range p.Gateways() {
			rules = append(rules, out+nextHopOf(g.Is6())+g.WithZone("").String()+" return")
		}
	}
	guarded := func(part string) netstate.Chain {
		return netstate.Chain{Family: netstate.InetFamily, Table: GuardTable, Name: nw.chainName(part)}
	}
	var out []netstate.Chain
	limit := func(part, match string, n int) {
		c := guarded(part)
		for _, six := range nw.families() {
			c.Rules = append(c.Rules,
				fmt.Sprintf("meter size %d { %stimeout %ds } return", n, nextHopOf(six), neighbourSeconds))
		}
		c.Rules = append(c.Rules, "counter drop")
		rules = append(rules, match+"goto "+c.Name)
		out = append(out, c)
	}
	for _, a := range nw.Adapters {
		limit(fmt.Sprint(a.Lease.Number)+"H", "ether saddr "+a.Lease.MAC+" ", NeighbourBound(a.Config.Spec))
	}
	if !nw.Config.SpoofGuard { // what has the MAC of no adapter
		limit("H", "", DefaultMaxNeighbours)
	}
	c := guarded("NEIGH")
	c.Rules, c.Hooks = rules, []netstate.Hook{byLink(neighboursMap, nw.bridge)}
	return append(out, c)
}

func nextHopOf(six bool) string {
	if six {
		return "rt ip6 nexthop "
	}
	return "rt ip nexthop "
}

// Limited is what a limit of an adapter holds.
type Limited int

// What limits hold, and how many kinds of them there are; 0 for a rule that is no limit.
const (
	LimitedFlows Limited = iota + 1
	LimitedDHCP
	LimitedDNS
	LimitedFragments
	LimitedNeighbours
	limitedKinds
)

// Drops are the packets that the limits of an adapter have dropped, by Limited.
type Drops [limitedKinds]uint64

// Any reports whether there are any.
func (d Drops) Any() bool { return d != Drops{} }

// Sum is their number.
func (d Drops) Sum() (n uint64) {
	for _, packets := range d {
		n += packets
	}
	return n
}

// CountingChains returns the chains of a State whose drops are reported: those with limits of an adapter.
func CountingChains(s netstate.State) []netstate.ID {
	var ids []netstate.ID
	for _, id := range s.IDs() {
		if c, is := s[id].(netstate.Chain); is && LimitsOf(c) != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// countingParts are the last letters of chains with limits, by family; the table is filter, or that of the family.
var countingParts = map[netstate.Family]string{netstate.IPv4: "L", netstate.IP6Family: "C",
	netstate.InetFamily: "H", netstate.BridgeFamily: "FST"}

// LimitsOf returns what each rule of a chain limits, 0 for one that is no limit whose drops are counted; nil if none is
// one.
func LimitsOf(c netstate.Chain) []Limited {
	if !ofAdapter(c.Name) || !strings.Contains(countingParts[c.Family], c.Name[len(c.Name)-1:]) {
		return nil
	}
	of := make([]Limited, len(c.Rules))
	for i, rule := range c.Rules {
		switch {
		case !strings.HasSuffix(rule, "-j DROP") && !strings.HasSuffix(rule, " counter drop") && rule != "counter drop":
		case c.Family == netstate.InetFamily:
			of[i] = LimitedNeighbours
		case strings.Contains(rule, " dport 67 "), strings.Contains(rule, " dport 547 "):
			of[i] = LimitedDHCP
		case strings.Contains(rule, " dport 53 "):
			of[i] = LimitedDNS
		case strings.Contains(rule, " type ip "+fragments4), strings.Contains(rule, " type ip6 "+fragments6):
			of[i] = LimitedFragments
		default:
			of[i] = LimitedFlows
		}
	}
	if !slices.ContainsFunc(of, func(l Limited) bool { return l != 0 }) {
		return nil
	}
	return of
}

// DroppedText describes the recent drops of an adapter's limits, "" for none.
func (s AdapterLink) DroppedText() string {
	var list []string
	say := func(of Limited, format string, limit ...any) {
		if n := s.Dropped[of]; n > 0 {
			list = append(list, fmt.Sprintf("%d "+format, append([]any{n}, limit...)...))
		}
	}
	say(LimitedFlows, "packets of new flows dropped: more than %d flows, or too many TCP connections a second (maxFlows)",
		s.MaxFlows)
	say(LimitedDHCP, "DHCP requests dropped: more than %d a second", dhcpRate)
	say(LimitedDNS, "DNS queries dropped: more than %d a second (maxFlows/16)", dnsRate(s.MaxFlows))
	say(LimitedFragments, "fragments dropped: more than %d a second (maxFragments)", s.MaxFragments)
	say(LimitedNeighbours, "packets to neighbours of a port dropped: more than %d without an answer in %d s "+
		"(maxNeighbours)", s.MaxNeighbours, neighbourSeconds)
	return strings.Join(list, "; ")
}

// What the rules of an adapter deny goes through a chain of its own if the network has a flow log: XE what the app
// sends, XI what it receives. They pass some of it to the group FlowLogGroup, with the name of the chain (NFLOG), and
// drop all. The kernel takes names of 64 octets.
const (
	// FlowLogGroup is the group of nfnetlink_log to which denied packets go. Of each number there may be one listener.
	FlowLogGroup = 15021
	deniedRate   = 10 // a second, of each chain
	deniedBurst  = 20
)

// deniedPart is the last part of the name of the chain for what is denied of a way.
func deniedPart(w Way) string {
	if w == Sent || w == SentToNode {
		return "XE"
	}
	return "XI"
}

// dropTarget returns the words that drop what an adapter's rules deny: plain, or with a flow log those that lead to
// the chain that logs it.
func (nw network) dropTarget(a Adapter, w Way, plain, lead string) string {
	if !nw.Config.FlowLog {
		return plain
	}
	return lead + nw.adapterChain(a, deniedPart(w))
}

// deniedChains are the chains of what an adapter's rules deny.
func (nw network) deniedChains(a Adapter) (list []netstate.Chain) {
	if !nw.Config.FlowLog {
		return nil
	}
	for _, w := range []Way{Sent, Received} {
		part := fmt.Sprint(a.Lease.Number) + deniedPart(w)
		list = append(list, nw.filter(part, nil, []string{
			fmt.Sprintf("-m limit --limit %d/sec --limit-burst %d -j NFLOG --nflog-prefix %s --nflog-group %d", deniedRate,
				deniedBurst, nw.chainName(part), FlowLogGroup), "-j DROP"}))
	}
	return list
}

// deniedChains6 is deniedChains for IPv6.
func (nw network) deniedChains6(a Adapter) (list []netstate.Chain) {
	if !nw.Config.FlowLog {
		return nil
	}
	for _, w := range []Way{Sent, Received} {
		part := fmt.Sprint(a.Lease.Number) + deniedPart(w)
		list = append(list, nw.six(part, []string{
			fmt.Sprintf("limit rate %d/second burst %d packets log prefix %q group %d", deniedRate, deniedBurst,
				nw.chainName(part), FlowLogGroup), "drop"}))
	}
	return list
}

// DeniedBy returns the network and the adapter, by their numbers, and the direction of what a chain with such a name
// denies; false if it is not such a chain.
func DeniedBy(chain string) (network, adapter int, d Direction, ok bool) {
	var way string
	if n, _ := fmt.Sscanf(chain, chainPrefix+"%d-%dX%s", &network, &adapter, &way); n != 3 ||
		network < 1 || adapter < 1 || chain != fmt.Sprintf("%s%d-%dX%s", chainPrefix, network, adapter, way) {
		return 0, 0, "", false
	}
	d = map[string]Direction{"E": Egress, "I": Ingress}[way]
	return network, adapter, d, d != ""
}
