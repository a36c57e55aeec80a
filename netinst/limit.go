package netinst

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"edgespan/netinst/netstate"
)

// A rule with action limit allows the packets that it matches up to a rate, and drops those above it: each packet in
// the original direction of a flow counts, not only the first. Replies always pass, as for any rule.
//
// It has a chain for each direction, its bucket, which drops what exceeds the rate: the rules of iptables that one rule
// of the config becomes, and the chains for other hosts and for the node, share it. A bucket that is written again is
// full. IPv6 has chains and buckets of its own, in nft. Accepted flows take a short way past the rules (linkChains), so
// the frames of a network with a limit have CheckMark, by which all packets of its adapters go the long way: the
// receiver of a packet may be the one with the limit. The table of frames is written before the chains: when the last
// limit goes, packets of flows that it accepted may pass above its rate for the milliseconds between the two.

// RateLimit is the rate of a rule with action limit.
type RateLimit struct {
	Packets int    // 1 to 10000 in one Per
	Per     string // "sec", "min" or "hour", as iptables spells it
	Burst   int    // packets that pass at once after a pause
}

var (
	ratePer   = map[string]string{"s": "sec", "m": "min", "h": "hour"}
	nftPer    = map[string]string{"sec": "second", "min": "minute", "hour": "hour"}
	perSecond = map[string]int{"sec": 1, "min": 60, "hour": 3600}
)

// ParseRate parses a rate such as "10/s", "10/m" or "10/h".
func ParseRate(s string) (RateLimit, bool) {
	number, unit, _ := strings.Cut(s, "/")
	n, err := strconv.ParseUint(number, 10, 16)
	per := ratePer[unit]
	if err != nil || n < 1 || n > maxLimit || per == "" || strconv.FormatUint(n, 10) != number {
		return RateLimit{}, false
	}
	return RateLimit{Packets: int(n), Per: per}, true
}

// MaxBurst is the largest burst of the rate: a bucket that is empty must be full again within a day, which is as far as
// xt_limit's 32 bits count (net/netfilter/xt_limit.c, MAX_CPJ).
func (l RateLimit) MaxBurst() int {
	return min(maxLimit, l.Packets*24*3600/max(perSecond[l.Per], 1))
}

// hasLimits reports whether a rule of any adapter is a limit.
func (nw network) hasLimits() bool {
	return slices.ContainsFunc(nw.Adapters, func(a Adapter) bool {
		return slices.ContainsFunc(a.Config.Spec.ACL, func(r ACLRule) bool { return r.Action == Limit })
	})
}

// bucket is the name of the chain of limit i of an adapter for packets of one way. Those to and from the node share
// that of other hosts, unless what exceeds that one passes.
func (nw network) bucket(a Adapter, w Way, i int) string {
	part := "EB"
	switch observe := a.Config.Spec.Observe; {
	case w == SentToNode && observe:
		part = "NB"
	case w == ReceivedFromNode && observe:
		part = "MB"
	case w == Received, w == ReceivedFromNode:
		part = "IB"
	}
	return nw.adapterChain(a, part+strconv.Itoa(i))
}

// bucketWays are the ways of packets that have a bucket of a limit of their own.
func bucketWays(a Adapter, r ACLRule) (ways []Way) {
	for _, w := range []struct {
		of            Direction
		others, nodes Way
	}{{Egress, Sent, SentToNode}, {Ingress, Received, ReceivedFromNode}} {
		if r.applies(w.of) {
			ways = append(ways, w.others)
		}
		if r.applies(w.of) && a.Config.Spec.Observe && appliesToNode(r) {
			ways = append(ways, w.nodes)
		}
	}
	return ways
}

// targets returns what packets of a way go through that the adapter's rules allow or drop.
func (nw network) targets(a Adapter, w Way, verdict string) targets {
	return targets{allow: nw.allowTarget(a, verdict), drop: nw.dropTarget(a, w, "-j DROP", "-g "),
		bucket: func(i int) string { return "-j " + nw.bucket(a, w, i) }}.observing(a, w)
}

// observing lets pass, of an adapter with Observe, what its rules would deny: by the way of what they allow, so that it
// counts for the limits of flows, and where the first match would deny it, so that no later rule decides. The kernel
// counts it at that rule. Packets to and from the node are denied: the node's own services are not at stake. So are
// those that no rule may allow: other checks drop them before or after these chains.
func (t targets) observing(a Adapter, w Way) targets {
	if t.observes = a.Config.Spec.observes(w); t.observes {
		t.drop = t.allow
	}
	return t
}

func (s AdapterSpec) observes(w Way) bool { return s.Observe && (w == Sent || w == Received) }

// limitChains are the buckets of an adapter's limits, which return what is within the rate.
func (nw network) limitChains(a Adapter) []netstate.Chain { return chainsOf(nw.countedLimits(a)) }

func (nw network) countedLimits(a Adapter) []aclChain {
	var out []aclChain
	limits := 0
	for _, r := range a.Config.Spec.ACL {
		if r.Action != Limit {
			continue
		}
		for _, w := range bucketWays(a, r) {
			over, drop, drop6 := Hit{r.Name, Exceeded}, "-j DROP", "counter drop"
			if a.Config.Spec.observes(w) {
				over.Kind, drop, drop6 = Observed, "-j RETURN", "counter return"
			}
			c := netstate.Chain{Family: netstate.IPv4, Table: tableFilter, Name: nw.bucket(a, w, limits)}
			rate := fmt.Sprintf("-m limit --limit %d/%s --limit-burst %d -j RETURN", r.Limit.Packets, r.Limit.Per, r.Limit.Burst)
			out = append(out, aclChain{c, w, append(uncounted(rate), counted{drop, over})})
			if len(nw.families()) > 1 {
				six := netstate.Chain{Family: netstate.IP6Family, Table: GuardTable, Name: c.Name}
				rate := fmt.Sprintf("limit rate %d/%s burst %d packets return", r.Limit.Packets, nftPer[r.Limit.Per], r.Limit.Burst)
				out = append(out, aclChain{six, w, append(uncounted(rate), counted{drop6, over})})
			}
		}
		limits++
	}
	return out
}

// Way is the way of the packets that a chain of an adapter filters.
type Way string

// The ways. Of an adapter whose rules toward the node have the same effect as toward other hosts, packets to and from
// the node count as Sent and Received.
const (
	Sent                 = Way(Egress)
	Received             = Way(Ingress)
	SentToNode       Way = "to the node"
	ReceivedFromNode Way = "from the node"
)

// HitKind is what a packet counts for that meets a rule of the kernel.
type HitKind uint8

// The kinds.
const (
	NoHit    HitKind = iota
	Matched          // the access rule decides about it
	Exceeded         // it is above the rate of the access rule, which has counted it as Matched too
	// Observed: the access rule would deny it, and lets it pass because its adapter has Observe. Of a limit, which has
	// counted it as Matched too, it is above the rate.
	Observed
)

// Hit is what the packets count for that meet one rule of the kernel: the name of the access rule, or "" for the drop
// behind the last.
type Hit struct {
	Rule string
	Kind HitKind
}

// CountedChain is a chain of the kernel, with the Hit of each of its rules, in order.
type CountedChain struct {
	ID   netstate.ID
	Way  Way
	Hits []Hit
}

// CountedChains returns a function that returns the chains that count the hits of the access rules of an adapter; none
// if the network does not have it. It must not be called concurrently. Packets of a flow that is known already pass
// before these chains, except in a network with limits.
func CountedChains(in Input) func(AdapterKey) []CountedChain {
	var nw *network
	return func(k AdapterKey) []CountedChain {
		if nw == nil {
			made, _ := newNetwork(in)
			nw = &made
		}
		i := slices.IndexFunc(nw.Adapters, func(a Adapter) bool { return a.Config.Key() == k })
		if i < 0 || nw.withdrawn != "" {
			return nil
		}
		return nw.countedChains(nw.Adapters[i])
	}
}

func (nw network) countedChains(a Adapter) (out []CountedChain) {
	chains := nw.aclChains(a)
	if len(nw.families()) > 1 {
		chains = append(chains, nw.aclChains6(a)...)
	}
	for _, c := range append(chains, nw.countedLimits(a)...) {
		x := CountedChain{ID: c.chain.ID(), Way: c.way}
		for _, r := range c.rules {
			x.Hits = append(x.Hits, r.hit)
		}
		if slices.ContainsFunc(x.Hits, func(h Hit) bool { return h.Kind != NoHit }) {
			out = append(out, x)
		}
	}
	return out
}

// aclChain is a chain of an adapter that has its access rules.
type aclChain struct {
	chain netstate.Chain // without rules
	way   Way
	rules []counted
}

func chainsOf(list []aclChain) []netstate.Chain {
	out := make([]netstate.Chain, len(list))
	for i, c := range list {
		out[i] = c.chain
		out[i].Rules = ruleTexts(c.rules)
	}
	return out
}

// The limits of a network's helpers, without a config. 10,000 reservations need some 10 MB; dnsmasq has a process for
// each query by TCP, at most 20.
const (
	DefaultMemory    = 512 // MiB
	DefaultProcessor = 100 // percent of one core
	DefaultProcesses = 64
)

// ProcessLimits are the limits of a network's helpers.
type ProcessLimits = netstate.ProcessLimits

// HelperLimits are the limits of the network's helpers.
func (c NetworkInstanceConfig) HelperLimits() ProcessLimits {
	return ProcessLimits{Memory: cmp.Or(c.Limits.Memory, DefaultMemory),
		Processor: cmp.Or(c.Limits.Processor, DefaultProcessor), Processes: cmp.Or(c.Limits.Processes, DefaultProcesses)}
}
