package netinst

import (
	"cmp"
	"fmt"
	"slices"

	"edgespan/netinst/netstate"
)

// HostPort is an interface of the host by which networks lead out. The kernel forwards by
// the link that a packet comes in by (net.ipv4.conf.<link>.forwarding), so answers to apps
// need it to be on there, and with it anything that comes in there would be forwarded.
type HostPort struct {
	IfName string
	// Opened: the host does not forward what comes in there, we opened it. What is not for a
	// network is dropped then, as it was not forwarded before.
	Opened bool
	// Beside are links of others between which and this one the host forwards by itself.
	Beside []string
}

// forwards has the kernel forward what comes in by the network's bridge.
func (nw network) forwards() netstate.Sysctl {
	br := string(nw.bridge)
	return netstate.Sysctl{Key: netstate.ForwardingOf(br), Value: "1", Link: br}
}

// portsOf are the ports of networks, each once.
func portsOf(ns []HostNetwork) []HostPort {
	var ports []HostPort
	for _, n := range ns {
		ports = append(ports, n.Ports...)
	}
	slices.SortFunc(ports, func(a, b HostPort) int { return cmp.Compare(a.IfName, b.IfName) })
	return slices.CompactFunc(ports, func(a, b HostPort) bool { return a.IfName == b.IfName })
}

// forwarding opens the ports of networks, and closes them for all others. The rules stand
// behind the hooks of the networks, which take every packet to one of theirs. A bridge of
// others forwards frames as before. The guard closes them, too (closedPorts).
func forwarding(ns []HostNetwork) (opens []netstate.Object, closes []string) {
	for _, p := range portsOf(ns) {
		opens = append(opens, netstate.Sysctl{Key: netstate.ForwardingOf(p.IfName), Value: "1"})
		if !p.Opened {
			continue
		}
		for _, other := range p.Beside {
			closes = append(closes, "-i "+p.IfName+" -o "+other+" -j RETURN")
		}
		closes = append(closes, "-i "+p.IfName+" -m physdev ! --physdev-is-bridged -j DROP")
	}
	return opens, closes
}

// closedPorts are the rules of the guard by which it closes what forwarding opened, so that a
// flush of iptables' tables forwards nothing: they stand behind those that take every packet from
// or to a network. Frames that a bridge of others carries come in and leave by that bridge.
func closedPorts(ns []HostNetwork) []string {
	var rules []string
	for _, p := range portsOf(ns) {
		if !p.Opened {
			continue
		}
		in := fmt.Sprintf("iifname %q ", p.IfName)
		rules = append(rules, in+"meta iifkind \"bridge\" "+fmt.Sprintf("oifname %q accept", p.IfName))
		for _, other := range p.Beside {
			rules = append(rules, in+fmt.Sprintf("oifname %q accept", other))
		}
		rules = append(rules, in+"drop")
	}
	return rules
}

// maxBeside bounds HostPort.Beside: a host that forwards by itself on more links than that
// does so on all (netstate.ForwardAll), and then there is nothing to close.
const maxBeside = 64

// HostPorts are the ports that exist of those that a network may use by its config: not only
// the one in use, so that a failover waits for nobody.
func HostPorts(c NetworkInstanceConfig, ports []PortConfig, f netstate.Forwarding) []HostPort {
	if c.Type == Switch || c.Inactive {
		return nil
	}
	var out []HostPort
	for _, p := range ports {
		name := string(p.IfName)
		on, off := slices.Contains(f.On, name), slices.Contains(f.Off, name)
		if !on && !off || !usedBy(c, p) {
			continue
		}
		h := HostPort{IfName: name, Opened: !f.All && (off || slices.Contains(f.Opened, name))}
		if h.Opened {
			h.Beside = beside(f)
		}
		out = append(out, h)
	}
	return out
}

// beside are the links by which the host forwards by its own choice.
func beside(f netstate.Forwarding) []string {
	var out []string
	for _, l := range f.On {
		// The kernel takes nearly any name, and others gave it: "x+" would be a pattern in a rule,
		// and a quotation mark its end.
		if _, err := ParseIfName(l); err == nil && !slices.Contains(f.Opened, l) {
			out = append(out, l)
		}
	}
	return out[:min(len(out), maxBeside)]
}
