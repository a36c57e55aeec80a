package netinst

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// PortStatuses joins the ports' configs with the kernel's state of their interfaces (the device network status of the
// seed eve-bridge-manager).
func PortStatuses(configs []PortConfig, interfaces []netstate.Interface) []PortStatus {
	byName := map[string]netstate.Interface{}
	for _, i := range interfaces {
		byName[i.Name] = i
	}
	delete(byName, netstate.Loopback)
	out := make([]PortStatus, 0, len(configs))
	for _, c := range configs {
		i, ok := byName[string(c.IfName)]
		p := PortStatus{
			PortConfig: c, Exists: ok, Up: ok && i.Up, PointToPoint: i.PointToPoint, LinkMTU: i.MTU, Addresses: i.Addresses,
			DefaultRoutes: i.DefaultRoutes,
		}
		if c.VLAN != (VLAN{}) {
			_, found := byName[string(c.VLAN.Parent)]
			p.NoParent = !found
		}
		if len(c.DNSServers) == 0 {
			p.Learnt = learntDNS(i, interfaces)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b PortStatus) int { return cmp.Compare(a.Label, b.Label) })
	return out
}

// DefaultRoute is the route that networks take through p: by the configured gateway, else the best of the kernel's main
// table that p's addresses can use. It is an IPv4 route, as networks are.
//
// A route without a gateway needs an address that is not link-local: zeroconf clients put such a route on every
// interface without DHCP (avahi-autoipd(8)). A gateway outside all subnets of p is a neighbour nevertheless: some
// providers assign an address of /32 (ip-route(8), onlink).
func (p PortStatus) DefaultRoute() (netstate.DefaultRoute, bool) {
	routes := p.DefaultRoutes
	if p.Gateway.IsValid() {
		routes = []netstate.DefaultRoute{netstate.DefaultVia(p.Gateway)}
	}
	for _, r := range routes {
		own := func(a netip.Prefix) bool { return a.Addr() == r.Gateway }
		global := func(a netip.Prefix) bool { return !a.Addr().IsLinkLocalUnicast() }
		if r.IPv6 || slices.ContainsFunc(p.Addresses, own) || !r.Gateway.IsValid() && !p.Tunnel &&
			!slices.ContainsFunc(connected(p), global) {
			continue
		}
		r.OnLink = r.OnLink || p.needsOnLink(r.Gateway)
		return r, true
	}
	return netstate.DefaultRoute{}, false
}

// needsOnLink reports whether a gateway is outside all subnets of p: the kernel accepts it as a neighbour only with the
// flag onlink.
func (p PortStatus) needsOnLink(gateway netip.Addr) bool {
	return gateway.Is4() && !slices.ContainsFunc(connected(p), func(a netip.Prefix) bool { return a.Contains(gateway) })
}

// Gateways returns the addresses of p's default gateways, the configured one first.
func (p PortStatus) Gateways() []netip.Addr {
	var out []netip.Addr
	if p.Gateway.IsValid() {
		out = append(out, p.Gateway)
	}
	for _, r := range p.DefaultRoutes {
		if r.Gateway.IsValid() && !slices.Contains(out, r.Gateway) {
			out = append(out, r.Gateway)
		}
	}
	return out
}

// Describe summarises the attributes of a port that matter to networks.
func (p PortStatus) Describe() string {
	switch {
	case !p.Exists:
		return "missing"
	case !p.Up:
		return "down"
	}
	addrs := slices.DeleteFunc(slices.Clone(p.Addresses),
		func(a netip.Prefix) bool { return a.Addr().IsLinkLocalUnicast() })
	if len(addrs) == 0 {
		return "up without address"
	}
	text := addrs[0].String()
	for _, a := range addrs[1:] {
		text += "," + a.String()
	}
	if r, out := p.DefaultRoute(); out {
		return "up with " + text + " " + r.String()
	}
	return "up with " + text + ", without default route"
}

// LearntDNS are the DNS servers that other programs of the host have learnt for a port.
type LearntDNS struct {
	Servers []netip.Addr `json:",omitempty"`
	Source  string       `json:",omitempty"` // as "systemd-networkd (/run/systemd/netif/links/2)"; "" without servers
	Skipped string       `json:",omitempty"` // what was left out and why, "" for nothing
}

// maxLearnt limits the servers of a port: dnsmasq asks all of them now and then.
const maxLearnt = 8

// learntDNS returns the servers for interface i: those of the interface's first source that has any; else the host's
// servers that belong to i: in a subnet of i, or in no interface's subnet while i has the host's best default route.
//
// It skips servers on the host itself, such as the stub of systemd-resolved or the gateway of a network: they would ask
// themselves.
func learntDNS(i netstate.Interface, all []netstate.Interface) LearntDNS {
	var out LearntDNS
	var skipped []string
	skip := func(s netstate.DNSSource, why string) {
		if len(skipped) < 4 {
			skipped = append(skipped, s.Path+": "+why)
		}
	}
	shared := false
	for _, s := range i.DNS {
		if s.Skipped != "" {
			skip(s, s.Skipped)
		}
		if s.Link && s.Lease.IsValid() && !hasAddress(i, s.Lease) {
			skip(s, fmt.Sprintf("the lease of %s is over", s.Lease))
			continue
		}
		if len(out.Servers) > 0 || shared {
			continue
		}
		usable := s.Servers
		for _, a := range s.Servers {
			if why := unusableServer(a, s); why != "" {
				skip(s, fmt.Sprintf("server %s %s", a, why))
				usable = slices.DeleteFunc(slices.Clone(usable), func(b netip.Addr) bool { return a == b })
			}
		}
		if !s.Link {
			shared = len(usable) > 0 // a source with less knowledge is not used in addition
			usable = ofInterface(usable, i, all)
		}
		if len(usable) > 0 {
			out.Servers, out.Source = usable[:min(len(usable), maxLearnt)], fmt.Sprintf("%s (%s)", s.Program, s.Path)
		}
	}
	out.Skipped = strings.Join(skipped, "; ")
	return out
}

// unusableServer returns why an address is not used as a server, "" if it is.
func unusableServer(a netip.Addr, s netstate.DNSSource) string {
	switch {
	case a.IsLoopback() || slices.Contains(s.Own, a):
		return "is the host itself"
	case a.IsUnspecified() || a.IsMulticast() || a == broadcast:
		return "is not a host"
	case a.Is6() && a.IsLinkLocalUnicast():
		return "is known on one link only"
	}
	return ""
}

// acceptable returns what a network takes of what the other end of its tunnel assigns, and why it does not take the
// rest. An address of the tunnel is one of the node: the other end must not be able to take the place of a neighbour, a
// server or an app, nor to have the node's own packets. One of each family is enough.
func (in Input) acceptable(a Assigned) (Assigned, string) {
	var out Assigned
	var refused []string
	taken := map[bool]bool{}
	for _, p := range a.Addresses {
		why := in.unassignable(p.Addr())
		if why == "" && taken[p.Addr().Is6()] {
			why = "is one too many"
		}
		if why != "" {
			refused = append(refused, p.Addr().String()+" "+why)
			continue
		}
		taken[p.Addr().Is6()] = true
		out.Addresses = append(out.Addresses, p)
	}
	own := netstate.DNSSource{}
	for _, p := range slices.Concat(a.Addresses, in.Config.VPN.Address) {
		own.Own = append(own.Own, p.Addr())
	}
	for _, p := range in.Ports {
		for _, x := range p.Addresses {
			own.Own = append(own.Own, x.Addr())
		}
	}
	for _, server := range a.DNS {
		if why := unusableServer(server, own); why != "" {
			refused = append(refused, server.String()+" "+why)
		} else if len(out.DNS) < maxLearnt {
			out.DNS = append(out.DNS, server)
		}
	}
	if refused == nil {
		return out, ""
	}
	return out, "not taken of what the tunnel assigns: " + strings.Join(refused[:min(len(refused), maxLearnt)], ", ")
}

// tunnelFault is the network's warning about what the other end of its tunnel assigns.
func (nw network) tunnelFault() string {
	if nw.under == nil {
		return ""
	}
	return nw.under.refused
}

// unassignable returns why an address must not become one of the tunnel, "" if it may.
func (in Input) unassignable(a netip.Addr) string {
	subnets := []netip.Prefix{in.Config.IPv4.Subnet, in.Config.IPv6.Subnet}
	switch x := in.Config.VPN.IPsec; {
	case !a.IsGlobalUnicast():
		return "is no unicast address"
	case slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.IsValid() && p.Contains(a) }):
		return "is in the network's own subnet"
	case slices.ContainsFunc(in.Config.VPN.Elsewhere, func(p netip.Prefix) bool { return p.Contains(a) }):
		return "is of another network"
	case slices.Contains(in.Config.VPN.Controllers, a):
		return "is the controller's"
	case slices.Contains(in.Config.DNS.Servers, a) || x != nil && x.Address == a.String():
		return "is a server's"
	}
	for _, p := range in.Ports {
		servers, _ := p.DNS()
		own := func(x netip.Prefix) bool { return x.Addr() == a }
		if slices.ContainsFunc(p.Addresses, own) || slices.Contains(p.Gateways(), a) || slices.Contains(servers, a) {
			return "is an address, a gateway or a server of port " + p.Label
		}
	}
	return ""
}

func hasAddress(i netstate.Interface, a netip.Addr) bool {
	return slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
}

// ofInterface returns the host's servers that are reached by i.
func ofInterface(servers []netip.Addr, i netstate.Interface, all []netstate.Interface) []netip.Addr {
	near := func(j netstate.Interface, a netip.Addr) bool {
		return slices.ContainsFunc(j.Addresses, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	elsewhere := func(a netip.Addr) bool {
		return slices.ContainsFunc(all, func(j netstate.Interface) bool {
			return j.Name != i.Name && (near(j, a) || slices.ContainsFunc(j.DNS, func(s netstate.DNSSource) bool {
				return s.Link && slices.Contains(s.Servers, a)
			}))
		})
	}
	return slices.DeleteFunc(slices.Clone(servers), func(a netip.Addr) bool {
		return !near(i, a) && (elsewhere(a) || bestDefault(all, a.Is6()) != i.Name)
	})
}

// bestDefault returns the interface with the default route of the lowest metric, the first by name of several; ""
// without one.
func bestDefault(all []netstate.Interface, ipv6 bool) string {
	best, metric := "", 0
	for _, i := range all {
		for _, r := range i.DefaultRoutes {
			if r.IPv6 == ipv6 && i.Up && (best == "" || r.Metric < metric || r.Metric == metric && i.Name < best) {
				best, metric = i.Name, r.Metric
			}
		}
	}
	return best
}

// DNS returns the servers that networks on p ask, and their source: configured ones, else those that were learnt.
func (p PortStatus) DNS() (servers []netip.Addr, source string) {
	if len(p.DNSServers) > 0 {
		return p.DNSServers, "config"
	}
	return p.Learnt.Servers, p.Learnt.Source
}

// dnsFault is the network's warning that it has no DNS server, "" if it has one.
func (nw network) dnsFault() string {
	if nw.isSwitch() || nw.port == nil || len(nw.upstreamServers()) > 0 || nw.port.UnusableReason() != "" {
		return ""
	}
	if nw.under != nil {
		if nw.asksOutside() && nw.upstream() != "" {
			return ""
		}
		return "no DNS server: dns.servers is empty, and the other end of the tunnel has assigned none"
	}
	p := nw.port
	text := fmt.Sprintf("no DNS server: dns.servers and ports.%s.dnsServers are empty, and none was learned from %s",
		p.Label, p.IfName)
	if p.Learnt.Skipped != "" {
		text += " (" + p.Learnt.Skipped + ")"
	}
	return text
}
