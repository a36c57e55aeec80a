package api

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/hits"
)

// AppRules are the access rules of an app's adapters with their hits as last read; index is that of one adapter, or "".
func (n *Reader) AppRules(c appnet.AppNetworkConfig, index string) nodeapi.AppRules {
	out := nodeapi.AppRules{App: c.UUID.String(), Name: c.DisplayName, Adapters: []nodeapi.AdapterRules{}}
	for _, i := range slices.Sorted(maps.Keys(c.Adapters)) {
		if index == "" || index == strconv.Itoa(i) {
			out.Adapters = append(out.Adapters, n.adapterRules(c.UUID, i, c.Adapters[i]))
		}
	}
	return out
}

func (n *Reader) adapterRules(app uuid.UUID, index int, u netinst.AdapterSpec) nodeapi.AdapterRules {
	totals, read := n.Hits(netinst.AdapterKey{AppUUID: app, Index: index}, u.NetworkInstance)
	out := nodeapi.AdapterRules{Adapter: AdapterID(app.String(), index), Read: read.UTC(), Rules: []nodeapi.RuleHits{}}
	ways := []netinst.Way{netinst.Sent, netinst.Received, netinst.SentToNode, netinst.ReceivedFromNode}
	for _, r := range u.ACL {
		var t, observed hits.Total
		for _, w := range ways {
			t = t.Add(totals[hits.Key{Rule: r.Name, Way: w}])
			observed = observed.Add(totals[hits.Key{Rule: r.Name, Way: w, Observed: true}])
		}
		if r.Action != netinst.Limit { // which has counted them already
			t = t.Add(observed)
		}
		x := ruleHits(r.Name, string(r.Direction), string(r.Action), t)
		x.Observed = observed.Packets
		out.Rules = append(out.Rules, x)
	}
	for i, w := range ways {
		t, observed := totals[hits.Key{Way: w}], totals[hits.Key{Way: w, Observed: true}]
		if i < 2 || t.Packets > 0 { // toward the node most adapters have the same rules as toward other hosts
			x := ruleHits("", string(w), string(netinst.Drop), t.Add(observed))
			x.Observed = observed.Packets
			out.Rules = append(out.Rules, x)
		}
	}
	if out.Observe = u.Observe; u.Observe {
		out.Shadow = shadowOf(u, totals)
	}
	return out
}

// shadowOf is what the rules of an adapter with Observe would have denied.
func shadowOf(u netinst.AdapterSpec, totals map[hits.Key]hits.Total) (out []nodeapi.RuleHits) {
	add := func(rule string, action netinst.Action, of netinst.Direction) {
		for _, d := range []netinst.Direction{netinst.Egress, netinst.Ingress} {
			if of == d || of == netinst.Both {
				t := totals[hits.Key{Rule: rule, Way: netinst.Way(d), Observed: true}]
				out = append(out, ruleHits(rule, string(d), string(action), t))
			}
		}
	}
	for _, r := range u.ACL {
		if r.Action == netinst.Drop || r.Action == netinst.Limit {
			add(r.Name, r.Action, r.Direction)
		}
	}
	add("", netinst.Drop, netinst.Both)
	return out
}

// lastHits are the rules of an adapter that were hit, the last one first.
func (n *Reader) lastHits(app uuid.UUID, index int, u netinst.AdapterSpec) ([]nodeapi.RuleHits, time.Time) {
	if totals, _ := n.Hits(netinst.AdapterKey{AppUUID: app, Index: index}, u.NetworkInstance); len(totals) == 0 {
		return nil, time.Time{}
	}
	x := n.adapterRules(app, index, u)
	hit := slices.DeleteFunc(x.Rules, func(r nodeapi.RuleHits) bool { return r.Packets == 0 })
	slices.SortStableFunc(hit, func(a, b nodeapi.RuleHits) int { return b.LastHit.Compare(a.LastHit) })
	if len(hit) == 0 {
		return nil, time.Time{}
	}
	return hit[:min(len(hit), nodeapi.MaxHits)], x.Read
}

func ruleHits(name, direction, action string, t hits.Total) nodeapi.RuleHits {
	return nodeapi.RuleHits{Rule: name, Direction: direction, Action: action, Packets: t.Packets, Bytes: t.Bytes,
		Dropped: t.Exceeded, LastHit: t.Last.UTC()}
}
