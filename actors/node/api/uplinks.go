package api

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// portUse is a network that may use a port by one of its selectors, and how it judges the port.
type portUse struct {
	network, selector string
	choice            probe.Choice
	score             probe.Score
}

// portUses returns who may use each port, by label, in the order of the networks' UUIDs. A network that is not
// activated uses none, and no IPv6 uses a port that has none.
func (n *Reader) portUses() map[string][]portUse {
	out := map[string][]portUse{}
	choices := n.Topics.Uplinks.List("")
	for _, id := range slices.Sorted(maps.Keys(choices)) {
		if c, _ := n.Topics.NetworkConfig.Get("", id); c.Inactive {
			continue
		}
		for _, selector := range slices.Sorted(maps.Keys(choices[id])) {
			c := choices[id][selector]
			for _, s := range c.Ports {
				if !probe.IsOfIPv6(selector) || s.Class >= probe.Dead {
					out[s.Label] = append(out[s.Label], portUse{id, selector, c, s})
				}
			}
		}
	}
	return out
}

// judged fills in how networks judge a port, who uses it, and its drain.
func (n *Reader) judged(st *nodeapi.PortStatus, label string, uses []portUse) {
	var words []string
	worst := slices.SortedFunc(slices.Values(uses),
		func(a, b portUse) int { return cmp.Compare(a.score.Class, b.score.Class) })
	for i, u := range worst {
		if words = append(words, u.score.Class.String()); i == 0 {
			st.Loss, st.LatencyMs, st.Changed = u.score.Loss, milliseconds(u.score.Latency), u.score.Since
		}
	}
	st.Probe, st.UsedBy = strings.Join(slices.Compact(words), ", "), n.usedBy(label, uses)
	if d, drained := n.Topics.Drains.Get("", label); drained {
		st.Drained, st.DrainedUntil = true, d.Until
	}
}

// usedBy returns the networks that use a port: those that have chosen it, and a switch network that has it in its
// bridge.
func (n *Reader) usedBy(label string, uses []portUse) []nodeapi.NetworkName {
	ids := map[string]bool{}
	for _, u := range uses {
		if n.isUsed(label, u) {
			ids[u.network] = true
		}
	}
	for id, s := range n.Topics.NetworkStatus.List("") {
		if c, _ := n.Topics.NetworkConfig.Get("", id); s.Port == label && c.Type == netinst.Switch {
			ids[id] = true
		}
	}
	var out []nodeapi.NetworkName
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		out = append(out, n.nameOf(id))
	}
	return out
}

// isUsed reports whether a port is the one that a network has chosen, or one of those that share its flows.
func (n *Reader) isUsed(label string, u portUse) bool {
	c, _ := n.Topics.NetworkConfig.Get("", u.network)
	return u.choice.Port == label || slices.Contains(shares(c, u.selector, u.choice), label)
}

func (n *Reader) nameOf(id string) nodeapi.NetworkName {
	c, _ := n.Topics.NetworkConfig.Get("", id)
	return nodeapi.NetworkName{ID: id, Name: c.DisplayName}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func portScore(s probe.Score) nodeapi.PortScore {
	return nodeapi.PortScore{Port: s.Label, Class: s.Class.String(), Since: s.Since, Cost: s.Cost, Loss: s.Loss,
		LatencyMs: milliseconds(s.Latency), HeldUntil: s.Held, Why: s.Why}
}

// shares returns the ports over which a network spreads new flows of a family, nil with one port.
func shares(c netinst.NetworkInstanceConfig, selector string, choice probe.Choice) []string {
	own := selector == c.Port || selector == probe.OfIPv6(c.Port) && netinst.MarksFlows6(c)
	if equals := choice.Equals(); c.Share && own && len(equals) > 1 {
		return equals
	}
	return nil
}

// explainUplinks returns a network's decisions, its own first, and that about IPv6 after the one about IPv4.
func (n *Reader) explainUplinks(id string) []nodeapi.UplinkChoice {
	c, _ := n.Topics.NetworkConfig.Get("", id)
	choices, _ := n.Topics.Uplinks.Get("", id)
	var own, out []nodeapi.UplinkChoice
	for _, selector := range slices.Sorted(maps.Keys(choices)) {
		choice, value, six := choices[selector], selected(selector), probe.IsOfIPv6(selector)
		x := nodeapi.UplinkChoice{Selector: value, IPv6: six, Own: value == c.Port, Port: choice.Port, Since: choice.Since,
			Why: choice.Why, Ports: []nodeapi.PortScore{}, Flows: string(c.Flows),
			AllFlows: six && netinst.MarksFlows(c) && !netinst.MarksFlows6(c)}
		for _, r := range c.Routes {
			if r.Port == value && r.Destination.Addr().Is6() == six {
				x.Routes = append(x.Routes, r.Name)
			}
		}
		for _, s := range choice.Ports {
			x.Ports = append(x.Ports, portScore(s))
		}
		if x.Shares = shares(c, selector, choice); x.Own {
			own = append(own, x)
		} else {
			out = append(out, x)
		}
	}
	return append(own, out...)
}

// selected returns the value of `port` that a selector stands for.
func selected(selector string) string { return strings.TrimSuffix(selector, probe.OfIPv6("")) }

// explainPort reports a port's state, its probes, its drain, and which networks use it or not and why.
func (n *Reader) explainPort(label string) (nodeapi.Explanation, error) {
	ports := n.Topics.PortConfig.List("")
	config, configured := ports[label]
	x := nodeapi.Explanation{Object: "port/" + label, Causes: []nodeapi.Cause{}}
	if !configured {
		return x, fmt.Errorf("explain %w", NoPort(label, ports))
	}
	p, seen := n.Topics.PortStatus.Get("", label)
	uses := n.portUses()[label]
	d, drained := n.Topics.Drains.Get("", label)
	x.Name = string(config.IfName)
	x.Port = &nodeapi.PortDetail{IfName: x.Name, Drained: drained, DrainedUntil: d.Until, DrainedBy: d.By,
		Probes: n.probesOf(label), Networks: n.usesOf(label, uses)}
	if perDay := config.ProbeBudget(); perDay > 0 {
		b, known := n.Topics.ProbeBudgets.Get("", label)
		if !known {
			b = probe.NewBudget(perDay, time.Now())
		}
		x.Port.ProbeBytesPerDay, x.Port.ProbeBytesLeft = perDay, b.Filled(perDay, time.Now()).Left
	}
	users := len(n.usedBy(label, uses))
	switch problem := p.Problem(); {
	case !seen:
		x.Summary = "not ready: not looked at yet"
	case problem != "":
		x.Summary, x.Causes = "not ready: "+p.Describe(), []nodeapi.Cause{{Text: problem}}
	default:
		x.Ready, x.Summary = true, "ready: "+p.Describe()
	}
	if causes := n.opCauses(netstate.PortsOwner, label); len(causes) > 0 {
		x.Causes = append(x.Causes, causes...)
		if x.Ready {
			x.Ready, x.Summary = false, "not ready: not set up as the config says: "+p.Describe()
		}
	}
	x.Summary += fmt.Sprintf(", used by %d of %d networks that may use it", users, max(users, networksOf(uses)))
	return x, nil
}

func networksOf(uses []portUse) int {
	ids := map[string]bool{}
	for _, u := range uses {
		ids[u.network] = true
	}
	return len(ids)
}

// NoPort reports a label that no port has, and those that exist.
func NoPort(label string, ports map[string]netinst.PortConfig) error {
	there := "there are no ports"
	if len(ports) > 0 {
		there = "the ports are " + strings.Join(slices.Sorted(maps.Keys(ports)), ", ")
	}
	return fmt.Errorf("port %s: %w: %s", label, rest.ErrNotFound, there)
}

// probesOf returns the probes of a port that networks need, with their newest outcomes.
func (n *Reader) probesOf(label string) []nodeapi.ProbeState {
	out := []nodeapi.ProbeState{}
	needs := map[string][]nodeapi.NetworkName{}
	ids := map[string]probe.ID{}
	for _, e := range n.Topics.ProbeRequest.All() {
		if e.Value.Port == label {
			needs[e.Key], ids[e.Key] = append(needs[e.Key], n.nameOf(e.Scope)), e.Value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(ids)) {
		id := ids[key]
		o, _ := n.Topics.ProbeOutcomes.Get("", key)
		s := o.Summary()
		x := nodeapi.ProbeState{Method: string(id.Method), Target: id.Target, IPv6: id.IPv6,
			IntervalMs: id.Interval.Milliseconds(),
			State:      nodeapi.ProbeAnswers, Failures: s.Failures, Loss: s.Loss, LatencyMs: milliseconds(s.Latency),
			Answered: s.Answered, LastError: s.Error, FailedAt: s.FailedAt, Networks: needs[key]}
		switch {
		case !s.Asked:
			x.State = nodeapi.ProbeUnknown
		case s.None:
			x.State = nodeapi.ProbeNone
		case s.Failures > 0:
			x.State = nodeapi.ProbeFails
		}
		out = append(out, x)
	}
	return out
}

// usesOf returns how each network that may use a port decided about it.
func (n *Reader) usesOf(label string, uses []portUse) []nodeapi.PortUse {
	out := []nodeapi.PortUse{}
	for _, u := range uses {
		name, six := label, probe.IsOfIPv6(u.selector)
		if six {
			name = probe.OfIPv6(label)
		}
		x := nodeapi.PortUse{NetworkName: n.nameOf(u.network), Selector: selected(u.selector), IPv6: six,
			Uses: n.isUsed(label, u), Since: u.choice.Since, Score: portScore(u.score)}
		if !x.Uses {
			x.Instead = u.choice.Port
		}
		record, _ := n.Topics.UplinkRecords.Get("", u.network)
		hold := record.Holds[name]
		x.Failed, x.FailedAt = hold.Fails, hold.Last
		out = append(out, x)
	}
	return out
}

// unmeasured returns a resource without what each outcome of a probe changes: a watcher is told of a port's class, not
// of each measurement.
func unmeasured(r nodeapi.Resource) nodeapi.Resource {
	if st, port := r.Status.(nodeapi.PortStatus); port {
		st.Loss, st.LatencyMs = 0, 0
		r.Status = st
	}
	return r
}
