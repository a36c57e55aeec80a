package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// Explain reports why a network, an app, an adapter or a port is ready or not. Its verdict on a network or an app is
// always that of Ready.
func (n *Reader) Explain(_ context.Context, kind, id string) (nodeapi.Explanation, error) {
	if kind == "port" {
		return n.explainPort(id)
	}
	id = strings.ToLower(id)
	app, index, adapter := strings.Cut(id, "/")
	switch {
	case kind == "ni":
		return n.explainNetwork(id)
	case kind == "adapter" || kind == "app" && adapter:
		i, err := strconv.Atoi(index)
		if err != nil {
			return nodeapi.Explanation{}, fmt.Errorf("explain adapter %s: %w: must be <app>/<index>", id, rest.ErrNotFound)
		}
		return n.explainAdapter(app, i)
	case kind == "app":
		return n.explainApp(id)
	}
	return nodeapi.Explanation{}, fmt.Errorf("explain %q: %w: must be ni, app, adapter or port", kind, rest.ErrNotFound)
}

func (n *Reader) explainNetwork(id string) (nodeapi.Explanation, error) {
	t := n.Topics
	c, desired := t.NetworkConfig.Get("", id)
	s, seen := t.NetworkStatus.Get("", id)
	x := nodeapi.Explanation{Object: "ni/" + id, Name: c.DisplayName, Causes: []nodeapi.Cause{}}
	if !desired && !seen {
		return x, fmt.Errorf("explain network instance %s: %w: neither in the config nor on the host", id,
			rest.ErrNotFound)
	}
	if x.Name == "" {
		x.Name = s.DisplayName
	}
	r := n.networkReady(id)
	x.Ready, x.Uplinks = r.Ready, n.explainUplinks(id)
	switch {
	case r.Ready:
		x.Summary = fmt.Sprintf("ready: %s at generation %d on bridge %s", s.State, s.Generation, s.Bridge) +
			n.explainEgress(c, s) + n.explainTunnel(id, time.Now())
		x.Warning = s.Warning
	case !desired:
		x.Summary = "not ready: not in the config"
	case !seen:
		x.Summary = "not ready: no bridge manager yet"
	default:
		x.Summary = "not ready: " + string(s.State)
	}
	if !x.Ready {
		x.Causes = n.networkCauses(id, r.Why)
	}
	return x, nil
}

// explainEgress reports the uplink port of a network, and why a cheaper one is not used.
func (n *Reader) explainEgress(c netinst.NetworkInstanceConfig, s netinst.NetworkInstanceStatus) string {
	if c.Inactive {
		return ", not activated"
	}
	if s.Port == "" || c.Type == netinst.Switch {
		return ""
	}
	used, _ := n.Topics.PortStatus.Get("", s.Port)
	text := ", uplink port " + s.Port
	if r, out := used.DefaultRoute(); out {
		text += " " + r.String()
	}
	for _, e := range n.Topics.PortStatus.All() {
		if p := e.Value; p.Matches(c.Port) && p.Cost <= used.Cost && p.Problem() != "" {
			text += fmt.Sprintf(", not port %s: %s", p.Label, p.Problem())
		}
	}
	return text
}

// networkCauses returns why a network is not ready; why is the reason from Ready.
func (n *Reader) networkCauses(id, why string) []nodeapi.Cause {
	t := n.Topics
	c, desired := t.NetworkConfig.Get("", id)
	s, seen := t.NetworkStatus.Get("", id)
	var out []nodeapi.Cause
	if crash := n.networkCrashed(id); crash != "" {
		return []nodeapi.Cause{{Object: "ni/" + id, Text: crash}}
	}
	if !seen {
		return []nodeapi.Cause{{Object: netstate.HostOwner, Text: n.noManagerReason(),
			Causes: n.opCauses(netstate.HostOwner, "")}}
	}
	if !desired && s.State == netinst.Unclaimed {
		return []nodeapi.Cause{{Object: "config",
			Text:   "no valid config was published since the daemon started, so whether it is still configured is unknown",
			Causes: n.sourceCauses()}}
	}
	if !desired {
		out = append(out, nodeapi.Cause{Text: "being removed: not in the config"})
	}
	out = append(out, n.opCauses(id, "")...)
	if s.State == netinst.WaitingForDependencies {
		cause := nodeapi.Cause{Text: s.Error}
		for _, p := range n.ports() {
			ps, _ := t.PortStatus.Get("", p.ID)
			if text := p.Status.(nodeapi.PortStatus).Error; text != "" && ps.Matches(c.Port) {
				cause.Causes = append(cause.Causes, nodeapi.Cause{Object: "port/" + p.ID, Text: text})
			}
		}
		return append(out, cause)
	}
	if len(out) == 0 {
		out = append(out, nodeapi.Cause{Text: why})
	}
	return out
}

// sourceCauses returns why the newest config was refused, if it was.
func (n *Reader) sourceCauses() []nodeapi.Cause {
	if s, _ := n.Topics.Source.Get("", "node"); s.Error != "" {
		return []nodeapi.Cause{{Text: s.Error}}
	}
	return nil
}

// opCauses returns the failing ops of one adapter of an owner or, with "", those of no adapter. Ops that only wait for
// another op are in one line.
func (n *Reader) opCauses(owner, adapter string) []nodeapi.Cause {
	t, _ := n.Topics.Trouble.Get("", owner)
	var out []nodeapi.Cause
	var blocked []string
	for _, f := range t.Failing {
		switch {
		case f.Adapter != adapter:
		case f.Blocked:
			blocked = append(blocked, f.Op+" "+f.Error)
		default:
			text := "op failed: " + f.Op
			if f.Waiting {
				text = "op waits: " + f.Op
			}
			cause := nodeapi.Cause{Text: text, Op: f.Op, Command: f.Command, Error: f.Error, Attempts: f.Attempts,
				Since: &f.Since}
			if !t.Retry.IsZero() && f.Attempts > 0 {
				cause.Retry = &t.Retry
			}
			out = append(out, cause)
		}
	}
	if len(blocked) > 0 {
		out = append(out, nodeapi.Cause{Text: fmt.Sprintf("%d ops were not tried: %s", len(blocked),
			strings.Join(blocked, "; "))})
	}
	return out
}

func (n *Reader) explainApp(id string) (nodeapi.Explanation, error) {
	t := n.Topics
	c, desired := t.AppConfig.Get("", id)
	s, seen := t.AppStatus.Get("", id)
	x := nodeapi.Explanation{Object: "app/" + id, Name: c.DisplayName, Causes: []nodeapi.Cause{}}
	if !desired && !seen {
		return x, fmt.Errorf("explain app %s: %w: neither in the config nor on the host", id, rest.ErrNotFound)
	}
	if x.Name == "" {
		x.Name = s.DisplayName
	}
	r := n.appReady(id)
	x.Ready = r.Ready
	switch {
	case r.Ready && !c.Activate:
		x.Summary = "ready: inactive, as activate is false"
	case r.Ready:
		x.Summary = fmt.Sprintf("ready: version %d is active", s.TargetVersion)
	default:
		x.Summary = "not ready: " + r.Why
	}
	if r.Ready {
		return x, nil
	}
	for _, i := range indices(c, s) {
		a, err := n.explainAdapter(id, i)
		if err != nil || a.Ready {
			continue // removed meanwhile, or not what the app waits for
		}
		x.Causes = append(x.Causes, nodeapi.Cause{Object: a.Object, Text: a.Summary, Causes: a.Causes})
	}
	if len(x.Causes) == 0 {
		x.Causes = append(x.Causes, nodeapi.Cause{Text: r.Why})
	}
	return x, nil
}

// indices returns the indices of an app's adapters, configured or still there.
func indices(c appnet.AppNetworkConfig, s appnet.AppNetworkStatus) []int {
	set := map[int]bool{}
	for i := range c.Adapters {
		set[i] = true
	}
	for _, a := range s.Adapters {
		set[a.Index] = true
	}
	return slices.Sorted(maps.Keys(set))
}
