package netinst

import (
	"fmt"
	"strings"

	"edgespan/netinst/netstate"
)

// The flows that an adapter may have at a time, those that it opens and those that are
// opened to it together. Tracked flows are a table of the whole machine
// (nf_conntrack_max): without a bound one app fills it, and nobody opens a flow any more,
// the node's own management included.

const (
	// DefaultMaxFlows is an adapter's bound where its config has none.
	DefaultMaxFlows = 8192
	// fewAdapters are the adapters of a node that share as they would if they were so many.
	fewAdapters = 16
	// maxLimit is the largest rate and burst that iptables' limit takes (libxt_limit.c).
	maxLimit = 10000
)

// Sharers is the number of adapters among which a node with n of them shares its tracked
// flows: the next power of two, so that shares change seldom; 0 for the fewest.
func Sharers(n int) int {
	shares := fewAdapters
	for shares < n {
		shares *= 2
	}
	if shares == fewAdapters {
		return 0
	}
	return shares
}

// FlowShare is the most that each of a node's adapters may have of a table of maxTracked
// flows, 0 where that is not known: half of the table together. A counter that is written
// anew begins at 0 while the flows live on, so that they may be twice as many for a while;
// what the node itself asks for apps, as their DNS questions, is in the other half too.
func FlowShare(maxTracked, sharers int) int {
	return maxTracked / 2 / max(sharers, fewAdapters)
}

func (nw network) flowBound(a Adapter) int {
	return FlowBound(a.Config.UnderlayConfig, nw.Config, nw.MaxTracked)
}

// FlowBound is the bound of one adapter: what its config says, and no more than its share.
func FlowBound(u UnderlayNetworkConfig, c NetworkInstanceConfig, maxTracked int) int {
	n := u.MaxFlows
	if n == 0 {
		n = DefaultMaxFlows
	}
	if maxTracked > 0 {
		n = min(n, max(1, FlowShare(maxTracked, c.Sharers)))
	}
	return n
}

// flowChains hold the bound of an adapter: what its rules allow goes through L, out of
// which leads no verdict but DROP, and what they accept through A.
//
// Only the first packet of a flow is put to the counter (its entry is not CONFIRMED yet): the counter walks the list
// of its flows, and a flow of packets that nobody answers is NEW with each of them. L stands alone because a chain
// that is written anew counts from 0: changed rules leave it.
//
// The counter leaves out TCP flows that were closed (nf_conncount.c, already_closed), which stay
// in the table for 120 s (nf_conntrack_tcp_timeout_time_wait): who opens and closes without end
// would fill it. So what an adapter opens by TCP in a second is bounded too, and with it what it
// leaves behind: 120 s times maxFlows/8 are 15 times its bound, less than the half of the table
// that 16 adapters share. Less would hold up a server that is busy and honest.
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

// allowing is what an allow becomes in the chains of an adapter: counted, and then a
// RETURN in those that return, else an ACCEPT.
func (nw network) allowing(a Adapter, verdict string) string {
	if verdict == "RETURN" {
		return "-g " + nw.adapterChain(a, "L")
	}
	return "-g " + nw.adapterChain(a, "A")
}

// dnsFrames bounds what an adapter asks of its gateway's DNS: what dnsmasq doesn't know it asks
// on, from a port of its own each, and that is a flow of the node's for 30 s
// (nf_conntrack_udp_timeout): 15,360 flows by default. One that nobody answers is open for 10 s, and
// dnsmasq takes no more once forwardMax are: an adapter has less open than that. Those by
// TCP are counted where they are allowed (essentials).
func (nw network) dnsFrames(a Adapter) string {
	n := nw.flowBound(a)
	return fmt.Sprintf("ether type ip ip daddr %s udp dport 53 limit rate over %d/second burst %d packets drop",
		nw.Config.IPv4.Gateway, max(16, n/16), max(128, n/8))
}

// CountingChains are the chains of a State whose drops are counted for people: each adapter's bound.
func CountingChains(s netstate.State) []netstate.ID {
	var ids []netstate.ID
	for _, id := range s.IDs() {
		if IsCounting(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// IsCounting says whether an object is such a chain.
func IsCounting(id netstate.ID) bool {
	return id.Kind == netstate.KindChain && ofAdapter(id.Name) && strings.HasSuffix(id.Name, "L")
}

// DroppedText says what the bound of an adapter has dropped lately, "" for nothing.
func (s UnderlayNetworkStatus) DroppedText() string {
	if s.Dropped == 0 {
		return ""
	}
	return fmt.Sprintf("%d packets of new flows dropped: more than %d flows, or too many TCP connections a second "+
		"(maxFlows)", s.Dropped, s.MaxFlows)
}
