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

// Ready reports whether a network or an app is in its desired state, and whether it is absent. An object that is named
// by a display name is in no list: it counts as absent unless the host has a remainder whose name is unknown.
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

// namelessNetwork reports whether a network of which only the number is known is still on the host.
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

// namelessAdapter reports whether an adapter of an unknown app is still there.
func (n *Reader) namelessAdapter() bool {
	known := union(n.Topics.AppConfig.List(""), n.Topics.AppStatus.List(""))
	return n.anyAdapter(func(key string) bool {
		app, _, _ := strings.Cut(key, "#")
		return !known[app]
	})
}

func (n *Reader) networkReady(id string) nodeapi.Readiness {
	t := n.Topics
	settled := n.Settled() // first: it is cleared before a number is removed
	c, desired := t.NetworkConfig.Get("", id)
	s, seen := t.NetworkStatus.Get("", id)
	_, numbered := t.Numbers.Get("", id)
	r := nodeapi.Readiness{Absent: !desired && !seen && !numbered && settled && n.Settled()}
	switch {
	case !desired:
		r.Why = "not in the config"
	case !seen:
		r.Why = n.noManagerReason()
	case n.networkCrashed(id) != "":
		r.Why = n.networkCrashed(id) // its status is from before the crash
	case s.Error != "":
		r.Why = fmt.Sprintf("%s: %s", s.State, s.Error)
	case s.State != netinst.Present:
		r.Why = string(s.State)
	case n.hostFault() != "": // its chains only work if the host's chains lead to them
		r.Why = n.hostFault()
	default:
		if r.Why = n.pendingReason(c, s); r.Why == "" && !n.Settled() {
			r.Why = "host: its own rules and the forwarding of ports are being applied"
		}
		r.Ready = r.Why == ""
	}
	return r
}

// hostFault returns why the host's own chains are not as desired, "" if they are.
func (n *Reader) hostFault() string {
	if why := n.Host(); why != "" {
		return "host: " + why
	}
	return ""
}

// pendingReason returns which of a network's newest configs its status does not answer yet: its own, or those of the
// ports that it may use.
func (n *Reader) pendingReason(c netinst.NetworkInstanceConfig, s netinst.NetworkInstanceStatus) string {
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
	case rec.Digest != appnet.Digest(c): // last, as it encodes the whole config each time
		r.Why = notTakenUp
	default:
		r.Why = n.networkBehind(c)
		r.Ready = r.Why == ""
	}
	return r
}

// networkBehind returns which network of an app has not applied its newest config yet: its adapters' statuses are still
// those of the previous config.
func (n *Reader) networkBehind(c appnet.AppNetworkConfig) string {
	for _, u := range c.Adapters {
		id := u.NetworkInstance.String()
		w, desired := n.Topics.NetworkConfig.Get("", id)
		if !desired {
			continue
		}
		s, _ := n.Topics.NetworkStatus.Get("", id)
		if why := n.pendingReason(w, s); why != "" {
			return fmt.Sprintf("network instance %s: %s", id, why)
		}
	}
	return ""
}

func (n *Reader) adapterLeft(app string) bool {
	return n.anyAdapter(func(key string) bool { return strings.HasPrefix(key, app+"#") })
}

// anyAdapter reports whether an adapter's config or status has a key that matches; keys are APP#INDEX.
func (n *Reader) anyAdapter(match func(key string) bool) bool {
	for _, e := range n.Topics.AdapterStatus.All() {
		if match(e.Key) {
			return true
		}
	}
	for _, e := range n.Topics.AdapterConfig.All() {
		if match(e.Key) {
			return true
		}
	}
	return false
}
