package metrics

import (
	"net/url"
	"strconv"
	"time"

	"edgespan/config/httpapi/metrics"
	"edgespan/netinst"
	"edgespan/netinst/hits"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/netinst/watched"
)

// Collect adds the numbers of a snapshot.
func (s Snapshot) Collect(to *metrics.Scrape) {
	to.Add(nodeInfo, 1, s.Version)
	to.Flag(ready, s.Ready)
	to.Count(genera, s.Generation)
	to.Flag(configFault, s.Fault != "")
	s.collectWork(to)
	s.collectNetworks(to)
	s.collectWatched(to)
	s.collectPorts(to)
	s.collectTunnels(to)
	s.collectProbes(to)
	s.collectAdapters(to)
	s.FlowLog.collect(to)
}

func (l FlowLog) collect(to *metrics.Scrape) {
	for kind, n := range l.Recorded {
		to.Count(flowRecords, n, kind)
	}
	for reason, n := range l.Lost {
		to.Count(flowLost, n, reason)
	}
	for name, x := range l.Exports {
		to.Count(flowExported, x.Exported, name)
		to.Count(flowDropped, x.Dropped, name)
		to.Count(flowFailures, x.Failures, name)
		to.Flag(flowFailing, x.Failing, name)
	}
}

// CollectSpans adds what became of the spans of traces; nil without traces.
func CollectSpans(by map[string]uint64, to *metrics.Scrape) {
	for result, n := range by {
		to.Count(spans, n, result)
	}
}

func (s Snapshot) collectNetworks(to *metrics.Scrape) {
	states := map[netinst.NIState]int{}
	for _, state := range []netinst.NIState{netinst.Creating, netinst.Present, netinst.Removing, netinst.CreatingFailed,
		netinst.RemovingFailed, netinst.CheckPresentFailed, netinst.CheckAbsentFailed, netinst.WaitingForDependencies,
		netinst.Unclaimed} {
		states[state] = 0
	}
	for id, st := range s.NetworkStatuses {
		c := s.Networks[id]
		states[st.State]++
		to.Add(netInfo, 1, id, st.DisplayName, string(c.Type), string(st.Bridge))
		to.Flag(netPresent, st.State == netinst.Present, id)
		to.Count(netSwitches, s.Counts.Switches[id], id)
		for selector, choice := range s.Choices[id] {
			if choice.Port != "" {
				to.Add(netUplink, 1, id, selector, choice.Port)
			}
		}
		if n, read := s.Links[string(st.Bridge)]; read {
			netTraffic.add(to, n, id)
		}
	}
	for id := range s.Networks {
		if _, known := s.NetworkStatuses[id]; !known {
			states[netinst.WaitingForDependencies]++
			to.Flag(netPresent, false, id)
		}
	}
	for state, n := range states {
		to.Add(networks, float64(n), string(state))
	}
}

// rcodes are the labels of response codes.
var rcodes = map[watched.Class]string{watched.NoError: "noerror", watched.NXDomain: "nxdomain",
	watched.ServFail: "servfail", watched.Refused: "refused", watched.OtherError: "other"}

// dhcpTypes are the types of DHCP messages that are counted by themselves.
var dhcpTypes = []netstate.DHCPType{netstate.DHCPDiscover, netstate.DHCPOffer, netstate.DHCPRequest, netstate.DHCPAck,
	netstate.DHCPNak, netstate.DHCPRelease, netstate.DHCPDecline, netstate.DHCPInform}

func (s Snapshot) collectWatched(to *metrics.Scrape) {
	for id, c := range s.Watched {
		to.Count(dnsQueries, c.Queries, id)
		for class, label := range rcodes {
			to.Count(dnsAnswers, c.Answers[class], id, label)
		}
		for _, kind := range dhcpTypes {
			if n := c.DHCP[kind]; n > 0 {
				to.Count(dhcpMessages, n, id, string(kind))
			}
		}
		to.Count(malformed, c.Malformed, id)
		to.Count(unread, c.UnreadDNS, id, "dns")
		to.Count(unread, c.UnreadDHCP, id, "dhcp")
	}
}

// limits are the labels of what adapters' limits hold.
var limits = map[netinst.Limited]string{netinst.LimitedFlows: "flows", netinst.LimitedDHCP: "dhcp",
	netinst.LimitedDNS: "dns", netinst.LimitedFragments: "fragments", netinst.LimitedNeighbours: "neighbours"}

func (s Snapshot) collectAdapters(to *metrics.Scrape) {
	var oldest time.Time
	for _, app := range s.Apps {
		for index, spec := range app.Adapters {
			key := netinst.AdapterKey{AppUUID: app.UUID, Index: index}
			id := app.UUID.String() + "/" + strconv.Itoa(index)
			st := s.Adapters[key]
			to.Add(adapterInfo, 1, id, spec.NetworkInstance.String(), app.DisplayName, string(st.Link.HostIfName))
			if app.Activate {
				to.Flag(adapterActive, st.Activated && st.Error == "", id)
			}
			if n, read := s.Links[string(st.Link.HostIfName)]; read {
				adapterTraffic.add(to, n.Reversed(), id)
			}
			for of, limit := range limits {
				if n := st.Link.Dropped[of]; n > 0 {
					to.Count(limitDrops, n, id, limit)
				}
			}
			totals, read := s.Hits(key, spec.NetworkInstance)
			collectRules(to, id, spec, totals)
			if !read.IsZero() && (oldest.IsZero() || read.Before(oldest)) {
				oldest = read
			}
		}
	}
	if !oldest.IsZero() {
		to.Add(rulesRead, float64(oldest.UnixMilli())/1000)
	}
}

// ways are those that packets of an adapter may take, with the labels of the directions.
var ways = []struct {
	way       netinst.Way
	direction string
}{
	{netinst.Sent, "egress"}, {netinst.SentToNode, "egress"},
	{netinst.Received, "ingress"}, {netinst.ReceivedFromNode, "ingress"},
}

// collectRules adds the hits of the rules of an adapter. A rule that has decided nothing counts 0, so that its first
// hit shows as an increase.
func collectRules(to *metrics.Scrape, id string, spec netinst.AdapterSpec, totals map[hits.Key]hits.Total) {
	for _, r := range spec.ACL {
		var t, observed hits.Total
		for _, w := range ways {
			t = t.Add(totals[hits.Key{Rule: r.Name, Way: w.way}])
			observed = observed.Add(totals[hits.Key{Rule: r.Name, Way: w.way, Observed: true}])
		}
		if r.Action == netinst.Limit {
			to.Count(ruleExceeded, t.Exceeded, id, r.Name)
		} else { // a limit has counted them already
			t = t.Add(observed)
		}
		to.Count(rulePackets, t.Packets, id, r.Name)
		if t.Packets > 0 { // a third of the answer of a node with many rules
			to.Count(ruleBytes, t.Bytes, id, r.Name)
		}
	}
	drops := map[string]uint64{"egress": 0, "ingress": 0}
	for _, w := range ways {
		drops[w.direction] += totals[hits.Key{Way: w.way}].Packets // those that only observe let pass do not count
	}
	for direction, n := range drops {
		to.Count(denied, n, id, direction)
	}
}

func (s Snapshot) collectPorts(to *metrics.Scrape) {
	for label, c := range s.Ports {
		st := s.PortStatuses[label]
		to.Add(portInfo, 1, label, string(c.IfName))
		to.Flag(portUp, st.Exists && st.Up, label)
		if n, read := s.Links[string(c.IfName)]; read {
			portTraffic.add(to, n, label)
		}
	}
}

// probed is a series of probes: networks with different periods may probe the same target.
type probed struct{ port, method, target string }

func (s Snapshot) collectProbes(to *metrics.Scrape) {
	type sum struct {
		count, failed uint64
		last          probe.Outcome
		took          time.Duration
		answered      time.Time
	}
	sums := map[probed]*sum{}
	for _, o := range s.Outcomes {
		k := probed{o.ID.Port, string(o.ID.Method), targetOf(o.ID)}
		if sums[k] == nil {
			sums[k] = &sum{}
		}
		x := sums[k]
		x.count, x.failed = x.count+o.Count, x.failed+o.Failed
		for _, last := range o.Last {
			if last.At.After(x.last.At) {
				x.last = last
			}
			if last.OK() && last.At.After(x.answered) {
				x.answered, x.took = last.At, last.Took
			}
		}
	}
	for k, x := range sums {
		to.Count(shots, x.count, k.port, k.method, k.target)
		to.Count(shotsFailed, x.failed, k.port, k.method, k.target)
		if x.last != (probe.Outcome{}) {
			to.Flag(shotOK, x.last.OK(), k.port, k.method, k.target)
		}
		if !x.answered.IsZero() {
			to.Add(shotTook, x.took.Seconds(), k.port, k.method, k.target)
		}
	}
}

// targetOf returns the target of a probe without what may be a secret: the user and the query of a URL.
func targetOf(id probe.ID) string {
	target := id.Target
	if u, err := url.Parse(target); id.Method == probe.HTTP && err == nil {
		target = u.Scheme + "://" + u.Host + u.Path
	}
	if id.IPv6 {
		target += " (IPv6)"
	}
	return target
}

func (s Snapshot) collectWork(to *metrics.Scrape) {
	for _, result := range []string{ResultUnchanged, ResultChanged, ResultFailed} {
		to.Observed(reconciles, s.Counts.Reconciles[result], result)
	}
	for _, kind := range kinds { // 0 is a series, so that the first one shows as an increase
		to.Count(opsFailed, s.Counts.Failed[kind], kind)
		to.Count(repairs, s.Counts.Repaired[kind], kind)
	}
	to.Add(opsFailing, float64(s.Failing))
	type group struct{ kind, state string }
	groups, waiting := map[group]int{}, map[string]int{}
	for _, a := range s.Actors {
		kind := ActorKind(a.ID)
		groups[group{kind, a.State}]++
		waiting[kind] += a.Waiting
	}
	for g, n := range groups {
		to.Add(actors, float64(n), g.kind, g.state)
	}
	for kind, n := range waiting {
		to.Add(mailbox, float64(n), kind)
		to.Count(restarts, s.Counts.Restarts[kind], kind)
	}
	for _, h := range s.Helpers {
		to.Add(helpers, float64(h.Processes), h.Program)
		to.Add(memory, float64(h.Memory), h.Program)
	}
}

// add adds what a link has counted, as the side that receives and transmits by it sees it.
func (t traffic) add(to *metrics.Scrape, n netstate.LinkCounters, label string) {
	for i, v := range [...]uint64{n.Received.Bytes, n.Received.Packets, n.Received.Errors, n.Received.Drops,
		n.Sent.Bytes, n.Sent.Packets, n.Sent.Errors, n.Sent.Drops} {
		to.Count(t[i], v, label)
	}
}
