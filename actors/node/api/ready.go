package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst"
)

// Ready says whether a network or an app is as its config wants it, and whether nothing of it is left. What is named by
// a display name is none that is listed: it is absent unless something is left that has no name any more.
func (n *Reader) Ready(_ context.Context, kind, id string) (nodeapi.Readiness, error) {
	named := !nodeapi.IsUUID(id)
	switch kind {
	case "ni":
		r := n.networkReady(strings.ToLower(id))
		r.Absent = r.Absent && !(named && n.namelessNetwork())
		return r, nil
	case "app":
		r := n.appReady(strings.ToLower(id))
		r.Absent = r.Absent && !(named && n.namelessAdapter())
		return r, nil
	}
	return nodeapi.Readiness{}, fmt.Errorf("wait for %q: %w: must be ni or app", kind, rest.ErrNotFound)
}

// namelessNetwork says whether a network is left on the host of which only the number is known.
func (n *Reader) namelessNetwork() bool {
	for _, e := range n.Topics.Numbers.All() {
		_, desired := n.Topics.NetworkConfig.Get("", e.Key)
		_, seen := n.Topics.NetworkStatus.Get("", e.Key)
		if !desired && !seen {
			return true
		}
	}
	return false
}

// namelessAdapter says whether an adapter is left of an app that is not known any more.
func (n *Reader) namelessAdapter() bool {
	known := union(n.Topics.AppConfig.List(""), n.Topics.AppStatus.List(""))
	return n.anyAdapter(func(key string) bool {
		app, _, _ := strings.Cut(key, "#")
		return !known[app]
	})
}

func (n *Reader) networkReady(id string) nodeapi.Readiness {
	t := n.Topics
	settled := n.Settled() // before the rest: it is cleared before a number goes
	c, desired := t.NetworkConfig.Get("", id)
	s, seen := t.NetworkStatus.Get("", id)
	_, numbered := t.Numbers.Get("", id)
	r := nodeapi.Readiness{Absent: !desired && !seen && !numbered && settled && n.Settled()}
	switch {
	case !desired:
		r.Why = "not in the config"
	case !seen:
		r.Why = n.whyNotYet()
	case n.networkCrashed(id) != "":
		r.Why = n.networkCrashed(id) // its status is of the time before
	case s.Error != "":
		r.Why = fmt.Sprintf("%s: %s", s.State, s.Error)
	case s.State != netinst.Present:
		r.Why = string(s.State)
	case n.hostFault() != "": // its chains are asked only where the host's lead into them
		r.Why = n.hostFault()
	default:
		if r.Why = n.behind(c, s); r.Why == "" && !n.Settled() {
			r.Why = "host: its own rules and the forwarding of ports are being applied"
		}
		r.Ready = r.Why == ""
	}
	return r
}

// hostFault says why the host's own chains are not as they must be, "" if they are.
func (n *Reader) hostFault() string {
	if why := n.Host(); why != "" {
		return "host: " + why
	}
	return ""
}

// behind says which of a network's newest configs its status does not answer yet:
// its own, and those of the ports that it may use.
func (n *Reader) behind(c netinst.NetworkInstanceConfig, s netinst.NetworkInstanceStatus) string {
	if s.Generation != c.Generation {
		return fmt.Sprintf("generation %d is applied, %d is desired", s.Generation, c.Generation)
	}
	ports := slices.Collect(maps.Values(n.Topics.PortConfig.List("")))
	if want := netinst.DesiredPorts(c, ports); s.DesiredPorts != want {
		return fmt.Sprintf("ports of generation %q are applied, %q are desired", s.DesiredPorts, want)
	}
	return ""
}

const notTakenUp = "its newest config has not been processed yet"

func (n *Reader) appReady(id string) nodeapi.Readiness {
	t := n.Topics
	c, desired := t.AppConfig.Get("", id)
	s, seen := t.AppStatus.Get("", id)
	rec, _ := t.AppRecords.Get("", id)
	r := nodeapi.Readiness{Absent: !desired && !seen && !n.adapterLeft(id)}
	switch {
	case !desired:
		r.Why = "not in the config"
	case !seen:
		r.Why = "its app network has not started"
	case n.appCrashed(id) != "":
		r.Why = n.appCrashed(id)
	case rec.TargetVersion != s.TargetVersion:
		r.Why = notTakenUp
	case s.Error != "":
		r.Why = s.Error
	case s.Pending:
		r.Why = "pending"
	case s.Activated != c.Activate:
		r.Why = fmt.Sprintf("activated is %v, desired is %v", s.Activated, c.Activate)
	case rec.Digest != appnet.Digest(c): // last: it spells the whole config, at each question
		r.Why = notTakenUp
	default:
		r.Why = n.networkBehind(c)
		r.Ready = r.Why == ""
	}
	return r
}

// networkBehind names a network of an app that has not applied its newest config
// yet: what its adapters say is of the config before.
func (n *Reader) networkBehind(c appnet.AppNetworkConfig) string {
	for _, u := range c.Adapters {
		id := u.NetworkInstance.String()
		w, desired := n.Topics.NetworkConfig.Get("", id)
		if !desired {
			continue
		}
		s, _ := n.Topics.NetworkStatus.Get("", id)
		if why := n.behind(w, s); why != "" {
			return fmt.Sprintf("network instance %s: %s", id, why)
		}
	}
	return ""
}

func (n *Reader) adapterLeft(app string) bool {
	return n.anyAdapter(func(key string) bool { return strings.HasPrefix(key, app+"#") })
}

// anyAdapter says whether a config or a status of an adapter has such a key, APP#INDEX.
func (n *Reader) anyAdapter(is func(key string) bool) bool {
	for _, e := range n.Topics.AdapterStatus.All() {
		if is(e.Key) {
			return true
		}
	}
	for _, e := range n.Topics.AdapterConfig.All() {
		if is(e.Key) {
			return true
		}
	}
	return false
}
