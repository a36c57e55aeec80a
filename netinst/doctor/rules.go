package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// AdapterRule is an access rule of an adapter that the config activates.
type AdapterRule struct {
	Path    string // of the rule in the config
	Network uuid.UUID
	netinst.ACLRule
}

// setModules are the kernel modules that only rules of sets and hosts need.
var setModules = []string{"ip_set", "ip_set_hash_net", "xt_set"}

// needless reports whether nothing in the config needs a kernel module.
func (n Node) needless(module string) bool {
	return slices.Contains(setModules, module) && !slices.ContainsFunc(n.Rules, func(r AdapterRule) bool {
		return r.Set != nil || r.Host != ""
	})
}

// takenPorts finds programs of the node whose port a port map takes: packets from outside and from apps go to the app.
func takenPorts(f netstate.Facts, n Node) []Finding {
	var out []Finding
	for _, r := range n.Rules {
		if r.Action != netinst.MapPort {
			continue
		}
		for _, l := range f.Listeners {
			if l.Own || l.Proto != r.Protocol || l.Port < r.Portmap.Ports.First || l.Port > r.Portmap.Ports.Last ||
				!n.mapsAt(r, l) {
				continue
			}
			out = append(out, Finding{
				Level: Warning, Text: fmt.Sprintf("%s listens on %s port %d of %s, which %s leads to an app: nothing "+
					"from outside reaches it there", who(l), l.Proto, l.Port, l.Addr, r.Path),
				Fix: fmt.Sprintf("ss -lnp 'sport = :%d' # and configure it to listen on another port, or choose another "+
					"portmap.port", l.Port),
			})
		}
	}
	return out
}

// mapsAt reports whether a port map may stand at an address on which a program listens.
func (n Node) mapsAt(r AdapterRule, l netstate.Listener) bool {
	if l.Addr.IsUnspecified() {
		return true
	}
	i := slices.IndexFunc(n.Networks, func(c netinst.NetworkInstanceConfig) bool { return c.UUID == r.Network })
	if i < 0 {
		return false
	}
	labels := []string{n.Networks[i].Port}
	for _, route := range n.Networks[i].Routes {
		labels = append(labels, route.Port)
	}
	for _, p := range n.Ports {
		used := slices.ContainsFunc(labels, func(label string) bool { return label != "" && p.Matches(label) })
		for _, a := range p.Addresses {
			if used && a.Addr() == l.Addr && (r.PortLabel == "" || p.Matches(r.PortLabel)) {
				return true
			}
		}
	}
	return false
}

// who names the process of a socket.
func who(l netstate.Listener) string {
	if l.Who == "" {
		return "another process"
	}
	return l.Who
}

// limits checks the limits of networks: whether the controllers of cgroups that they need are there, and which of them
// a network's helpers have reached.
func limits(f netstate.Facts, _ Node) (out []Finding) {
	if len(f.Unlimited) > 0 {
		out = append(out, Finding{Level: Warning, Text: "limits of networks (memory, processor, processes) are not " +
			"enforced, as cgroup2 lacks: " + strings.Join(f.Unlimited, ", "),
			Fix: "grep cgroup /proc/mounts # and boot with systemd.unified_cgroup_hierarchy=1 if there are any of type cgroup"})
	}
	for _, at := range f.AtLimit {
		out = append(out, Finding{Level: Warning, Text: "dnsmasq of a network has reached a limit: " + at,
			Fix: "edgespan get ni -o yaml # and raise networkInstances.<uuid>.limits, or find the app that asks so much"})
	}
	return out
}
