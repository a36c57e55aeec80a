package doctor

import (
	"fmt"
	"net/netip"
	"strings"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// PortFault is what keeps a port from being set up as the config says.
type PortFault struct{ Label, Text string }

// portFaults reports ports that edgespan can't set up.
func portFaults(_ netstate.Facts, n Node) []Finding {
	var out []Finding
	for _, p := range n.PortFaults {
		fix := "edgespan explain port/" + p.Label
		if strings.Contains(p.Text, "8021q") {
			fix = "modprobe 8021q"
		}
		out = append(out, Finding{Level: Problem, Text: fmt.Sprintf("port %s: %s", p.Label, p.Text), Fix: fix})
	}
	return out
}

// unfiltered reports switches with VLANs on a kernel that mixes them. Their adapters with VLANs carry no frames.
func unfiltered(_ netstate.Facts, n Node) []Finding {
	var out []Finding
	for _, ni := range n.Unfiltered {
		out = append(out, Finding{Level: Problem,
			Text: fmt.Sprintf("network %s has VLANs, and %s: what is in a VLAN carries no frames", name(ni),
				netstate.ErrNoVLANFilter),
			Fix: "grep CONFIG_BRIDGE_VLAN_FILTERING /boot/config-$(uname -r) # and run a kernel that has it"})
	}
	return out
}

// sharedSubnets warns of ports in one subnet, as behind two routers of one make. The networks' own routes name their
// interface, so probes, choice and routes work; other things don't.
func sharedSubnets(_ netstate.Facts, n Node) []Finding {
	var out []Finding
	for i, p := range n.Ports {
		for _, q := range n.Ports[i+1:] {
			a, b, shared := sharedSubnet(p, q)
			switch {
			case !shared:
			case a.Addr() == b.Addr():
				out = append(out, Finding{
					Level: Warning, Text: fmt.Sprintf("ports %s and %s have the same address %s: networks use each of them, but "+
						"connections of apps over one that fails are not ended and time out, and the node's own traffic uses one of them",
						p.Label, q.Label, a.Addr()),
					Fix: fmt.Sprintf("edgespan explain port/%s # and give the router behind it another subnet", q.Label),
				})
			default:
				out = append(out, Finding{
					Level: Warning, Text: fmt.Sprintf("ports %s and %s are both in %s: networks use each of them, but the node's own "+
						"traffic uses one of them, and on one link each answers ARP for the other's address", p.Label, q.Label,
						a.Masked()),
					Fix: "sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2",
				})
			}
		}
	}
	return out
}

// sharedSubnet returns addresses of two ports of which one is in the other's subnet, equal ones first.
func sharedSubnet(p, q netinst.PortStatus) (a, b netip.Prefix, shared bool) {
	for _, x := range p.Addresses {
		for _, y := range q.Addresses {
			near := x.Addr().Is4() && !x.Addr().IsLinkLocalUnicast() && x.Masked().Overlaps(y.Masked())
			if near && (!shared || x.Addr() == y.Addr()) {
				a, b, shared = x, y, true
			}
		}
	}
	return a, b, shared
}
