package addressing

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/dhcpclient"
	"edgespan/netinst/netstate"
)

// The metric of a port's default route in the main table is MetricBase + cost*MetricStep + the port's place by label
// among those of the same cost: two routes to one destination must not have the same metric. It is above the metrics of
// ifupdown (0) and NetworkManager (100), so that a default route that another program has set stays the first.
const (
	MetricBase = 1000
	MetricStep = 100
)

// MaxPorts limits the ports with an addressing of their own, so that the places of one cost fit into MetricStep.
const MaxPorts = MetricStep

var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// Leases are those of ports with addressing dhcp, by label.
type Leases = map[string]dhcpclient.Lease

// Desired returns what edgespan sets on the interfaces of ports: they are up and have their addresses, and the main
// table has a default route for each gateway. A port that is a VLAN is created, and its parent set up. Otherwise ports
// with addressing external add nothing. A configured gateway replaces that of a lease.
func Desired(ports []netinst.PortConfig, leases Leases) netstate.State {
	s := netstate.State{}
	places := map[int]int{} // by cost
	ports = slices.SortedFunc(slices.Values(ports), byLabel)
	for _, p := range ports {
		addVLAN(s, p)
		var ends time.Time
		switch lease, leased := leases[p.Label]; {
		case p.Addressing == netinst.AddressingDHCP && leased && lease.IfName == string(p.IfName):
			p.Static, ends = []netip.Prefix{lease.Address}, lease.End
			if !p.Gateway.IsValid() {
				p.Gateway = lease.Gateway
			}
		case p.Addressing == netinst.AddressingDHCP:
			p.Static = nil
		case p.Addressing != netinst.AddressingStatic || len(p.Static) == 0:
			continue
		}
		metric := MetricBase + p.Cost*MetricStep + places[p.Cost]
		places[p.Cost]++
		addPort(s, p, metric, ends)
	}
	return s
}

// addVLAN adds the link of a port that is a VLAN. The kernel refuses to set it up while its parent is down.
func addVLAN(s netstate.State, p netinst.PortConfig) {
	if p.VLAN == (netinst.VLAN{}) {
		return
	}
	l := netstate.Link{Name: string(p.IfName), Type: netstate.VLAN,
		Tag: &netstate.VLANTag{Parent: string(p.VLAN.Parent), ID: p.VLAN.ID}}
	parent := netstate.Port{Link: l.Tag.Parent, Foreign: true}
	s.Add(l, parent, netstate.Port{Link: l.Name, Foreign: true, After: []netstate.ID{l.ID(), parent.ID()}})
}

// addPort adds a port's addresses, which the kernel removes at their end by itself, and its default route.
func addPort(s netstate.State, p netinst.PortConfig, metric int, ends time.Time) {
	port := netstate.Port{Link: string(p.IfName), Foreign: true}
	var link netstate.ID
	if p.VLAN == (netinst.VLAN{}) {
		s.Add(port)
	} else {
		link = netstate.ID{Kind: netstate.KindLink, Name: port.Link}
	}
	after, onLink := netstate.ID{}, true
	for _, prefix := range p.Static {
		a := netstate.Address{Link: string(p.IfName), Prefix: prefix.String(), Foreign: true, After: link, Ends: ends}
		s.Add(a)
		near := prefix.Contains(p.Gateway)
		if after == (netstate.ID{}) || near && onLink {
			after = a.ID()
		}
		onLink = onLink && !near
	}
	if !p.Gateway.IsValid() || len(p.Static) == 0 {
		return
	}
	s.Add(netstate.Route{
		Table: netstate.MainTable, Dst: anywhere.String(), Type: netstate.Unicast, Dev: string(p.IfName),
		Via: p.Gateway.String(), OnLink: onLink, Metric: metric, After: after,
	})
}

// Labels returns a function that names the port to which an object of the ports' state belongs, "" for none. A parent
// that is no port itself belongs to the first of its VLANs.
func Labels(ports []netinst.PortConfig, want netstate.State) func(netstate.ID) string {
	by := map[string]string{} // labels by interface
	for _, p := range slices.Backward(slices.SortedFunc(slices.Values(ports), byLabel)) {
		if p.VLAN != (netinst.VLAN{}) {
			by[string(p.VLAN.Parent)] = p.Label
		}
	}
	for _, p := range ports {
		by[string(p.IfName)] = p.Label
	}
	return func(id netstate.ID) string {
		link, _, _ := strings.Cut(id.Name, " ")
		if r, isRoute := want[id].(netstate.Route); isRoute {
			link = r.Dev
		}
		return by[link]
	}
}

func byLabel(a, b netinst.PortConfig) int { return cmp.Compare(a.Label, b.Label) }

// WithLeases returns interfaces with what DHCP servers have told edgespan about them: DNS servers, as the first source,
// and a smaller MTU.
func WithLeases(interfaces []netstate.Interface, ports []netinst.PortConfig, leases Leases) []netstate.Interface {
	if len(leases) == 0 {
		return interfaces
	}
	out := slices.Clone(interfaces)
	for _, p := range ports {
		l, leased := leases[p.Label]
		if p.Addressing != netinst.AddressingDHCP || !leased || l.IfName != string(p.IfName) {
			continue
		}
		for k, i := range out {
			if i.Name != l.IfName {
				continue
			}
			if l.MTU > 0 && l.MTU < i.MTU {
				out[k].MTU = l.MTU
			}
			if len(l.DNS) > 0 {
				out[k].DNS = append([]netstate.DNSSource{{Program: "DHCP", Path: "server " + l.Server.String(), Link: true,
					Lease: l.Address.Addr(), Servers: l.DNS}}, i.DNS...)
			}
		}
	}
	return out
}

// DHCPPorts returns the interfaces of ports with addressing dhcp, by label.
func DHCPPorts(ports []netinst.PortConfig) map[string]string {
	out := map[string]string{}
	for _, p := range ports {
		if p.Addressing == netinst.AddressingDHCP {
			out[p.Label] = string(p.IfName)
		}
	}
	return out
}
