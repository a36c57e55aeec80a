package netinst

import (
	"cmp"
	"fmt"
	"slices"

	"edgespan/netinst/netstate"
)

// HostPort is an interface of the host by which traffic of networks leaves. The kernel forwards by the link that a
// packet arrives at (net.ipv4.conf.<link>.forwarding), so answers to apps need forwarding to be on there, and then the
// kernel would forward any packet that arrives there.
type HostPort struct {
	IfName string
	// Opened means that the host did not forward packets from this interface before edgespan opened it. Packets for no
	// network are then dropped, as they were not forwarded before.
	Opened bool
	// Beside are foreign links between which and this one the host forwards by itself.
	Beside []string
}

// forwards makes the kernel forward packets that arrive by the network's bridge.
func (nw network) forwards() netstate.Sysctl {
	br := string(nw.bridge)
	return netstate.Sysctl{Key: netstate.ForwardingOf(br), Value: "1", Link: br}
}

// portsOf returns the ports of networks, each once.
func portsOf(ns []HostNetwork) []HostPort {
	var ports []HostPort
	for _, n := range ns {
		ports = append(ports, n.Ports...)
	}
	slices.SortFunc(ports, func(a, b HostPort) int { return cmp.Compare(a.IfName, b.IfName) })
	return slices.CompactFunc(ports, func(a, b HostPort) bool { return a.IfName == b.IfName })
}

// forwarding opens the ports of networks, and closes them for all other traffic. The rules follow the hooks of the
// networks, which take every packet to a network. A foreign bridge forwards frames as before. The guard closes the
// ports, too (closedPorts).
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

// closedPorts are the rules of the guard that close what forwarding opened, so that nothing is forwarded after a flush
// of iptables' tables: they follow those that take every packet from or to a network. Frames that a foreign bridge
// carries arrive and leave by that bridge.
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

// maxBeside bounds HostPort.Beside: a host that forwards by itself on more links does so on all of them
// (netstate.ForwardAll), and then nothing needs closing.
const maxBeside = 64

// HostPorts returns the existing ports that a network may use by its config: not only the one in use, so that a
// failover needs no wait.
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
			h.Beside = hostForwardingLinks(f)
		}
		out = append(out, h)
	}
	return out
}

// hostForwardingLinks returns the links by which the host forwards by its own choice.
func hostForwardingLinks(f netstate.Forwarding) []string {
	var out []string
	for _, l := range f.On {
		// The kernel accepts almost any name, and other programs chose it: "x+" would be a pattern in a rule, and a quotation
		// mark its end.
		if _, err := ParseIfName(l); err == nil && !slices.Contains(f.Opened, l) {
			out = append(out, l)
		}
	}
	return out[:min(len(out), maxBeside)]
}
