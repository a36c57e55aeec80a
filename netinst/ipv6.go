package netinst

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// minMTU6 is the MTU that each link with IPv6 must have (RFC 8200 §5); the kernel has no IPv6 on a smaller one.
const minMTU6 = 1280

// linkLocalPrefix is that of the addresses that belong to one link, and gatewayLinkLocal the bridge's: routers
// advertise themselves by such an address, and the same one on each network keeps an app's default route over a move.
var (
	linkLocalPrefix  = netip.MustParsePrefix("fe80::/64")
	gatewayLinkLocal = netip.MustParseAddr("fe80::1")
	anywhere6        = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
)

// metric6 is the metric of routes; the kernel gives it to routes of IPv6 without one (IP6_RT_PRIO_USER).
const metric6 = 1024

// EUI64 returns the address that a host with a MAC makes for itself in a prefix of 64 bits (RFC 4291, appendix A).
func EUI64(prefix netip.Prefix, mac string) netip.Addr {
	m, err := hex.DecodeString(strings.ReplaceAll(mac, ":", ""))
	if err != nil || len(m) != 6 {
		return netip.Addr{}
	}
	a := prefix.Masked().Addr().As16()
	copy(a[8:], []byte{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
	return netip.AddrFrom16(a)
}

// HasIPv6 reports whether a config gives a network IPv6.
func (c NetworkInstanceConfig) HasIPv6() bool { return c.Type != Switch && c.IPv6.Mode != "" }

// BridgesIPv6 reports whether a switch network passes IPv6.
func (c NetworkInstanceConfig) BridgesIPv6() bool { return c.Type == Switch && c.IPv6.Mode == Bridged }

// hasIPv6 reports whether the network has IPv6 now.
func (nw network) hasIPv6() bool {
	return nw.Config.HasIPv6() && nw.withdrawn == "" && nw.mtu >= minMTU6
}

// ip6 returns the adapter's only address of the subnet, linkLocal that of its link: from these alone it may send.
func (nw network) ip6(a Adapter) netip.Addr { return AdapterIP6(nw.Config, a.Config.Spec, a.Lease) }

func (nw network) linkLocal(a Adapter) netip.Addr { return EUI64(linkLocalPrefix, a.Lease.MAC) }

// AdapterIP6 returns the IPv6 address of an adapter: the configured one, else that of its MAC; invalid on a network
// without IPv6.
func AdapterIP6(c NetworkInstanceConfig, u AdapterSpec, l Lease) netip.Addr {
	switch {
	case !c.HasIPv6():
		return netip.Addr{}
	case u.IP6.IsValid():
		return u.IP6
	}
	return EUI64(c.IPv6.Subnet, l.MAC)
}

// ipv6Fault is the network's warning about its IPv6, "" for none.
func (nw network) ipv6Fault() string {
	switch {
	case !nw.Config.HasIPv6() || nw.withdrawn != "":
		return ""
	case nw.mtu < minMTU6:
		return fmt.Sprintf("no IPv6: the network's MTU is %d, and IPv6 needs %d", nw.mtu, minMTU6)
	case nw.port6 == nil || nw.Config.Inactive || leadsOut6(*nw.port6):
		return ""
	}
	if nw.under != nil {
		return "IPv6 stays on the node: the tunnel carries none"
	}
	return fmt.Sprintf("IPv6 stays on the node: port %s (%s) has no IPv6 default route", nw.port6.Label, nw.port6.IfName)
}

// DefaultRoute6 is the IPv6 default route of p: the best one of the kernel's main table.
func (p PortStatus) DefaultRoute6() (netstate.DefaultRoute, bool) {
	i := slices.IndexFunc(p.DefaultRoutes, func(r netstate.DefaultRoute) bool { return r.IPv6 })
	if i < 0 {
		return netstate.DefaultRoute{}, false
	}
	return p.DefaultRoutes[i], true
}

// connected6 returns the IPv6 prefixes that p is connected to, in order.
func connected6(p PortStatus) []netip.Prefix {
	var ps []netip.Prefix
	for _, a := range p.Addresses {
		if a.Addr().Is6() && !a.Addr().IsLinkLocalUnicast() {
			ps = append(ps, a.Masked())
		}
	}
	slices.SortFunc(ps, netip.Prefix.Compare)
	return slices.Compact(ps)
}

// addresses6 returns the bridge's IPv6 addresses. It makes none by itself.
func (nw network) addresses6() []netstate.Object {
	br, c := string(nw.bridge), nw.Config.IPv6
	return []netstate.Object{
		netstate.Address{Link: br, Prefix: netip.PrefixFrom(c.Gateway, c.Subnet.Bits()).String()},
		netstate.Address{Link: br, Prefix: netip.PrefixFrom(gatewayLinkLocal, linkLocalPrefix.Bits()).String()},
	}
}

// routing6 is routing for IPv6. Packets that the node itself sends to addresses of the bridge's link find its route by
// the link.
func (nw network) routing6() []netstate.Object {
	table, br := Table(nw.n), string(nw.bridge)
	subnet, after := nw.Config.IPv6.Subnet, nw.addresses6()
	objs := []netstate.Object{
		netstate.Sysctl{Key: netstate.Forwarding6Of(br), Value: "1", Link: br},
		netstate.Route{Table: table, Dst: anywhere6.String(), Type: netstate.Unreachable, Metric: unreachableMetric},
		netstate.Route{Table: table, Dst: subnet.String(), Type: netstate.Unicast, Dev: br, Metric: metric6,
			After: after[0].ID()},
		netstate.Route{Table: table, Dst: linkLocalPrefix.String(), Type: netstate.Unicast, Dev: br, Metric: metric6,
			After: after[1].ID()},
		netstate.Rule{Priority: ruleFromBase + nw.n, From: subnet.String(), Table: table, IPv6: true},
		netstate.Rule{Priority: ruleToBase + nw.n, To: subnet.String(), Table: table, IPv6: true},
		netstate.Rule{Priority: ruleDNSBase + nw.n, OIF: br, Table: table, IPv6: true},
	}
	return append(objs, nw.portRoutes6()...)
}

// portRoutes6 are the routes through ports. Of two to one destination the earlier wins, as in routes.
func (nw network) portRoutes6() []netstate.Object {
	if !nw.hasIPv6() {
		return nil
	}
	var objs []netstate.Object
	taken := map[netip.Prefix]bool{nw.Config.IPv6.Subnet: true}
	add := func(dst netip.Prefix, r netstate.Route) {
		if dst.Addr().Is6() && !taken[dst] {
			taken[dst] = true
			r.Table = Table(nw.n)
			objs = append(objs, nw.unicast(dst, r))
		}
	}
	for _, r := range nw.staticRoutes() {
		add(r.Destination.Masked(), nw.staticRoute(r))
	}
	if nw.port6 == nil {
		return objs
	}
	for _, p := range connected6(*nw.port6) {
		add(p, netstate.Route{Dev: string(nw.port6.IfName)})
	}
	if r, ok := nw.port6.DefaultRoute6(); ok {
		add(anywhere6, byPort(*nw.port6, r.Gateway, r.OnLink))
	}
	return objs
}

// targets6 is targets for IPv6, and matching6 is matching.
func (nw network) targets6(a Adapter, w Way, part string) targets {
	return targets{allow: "counter goto " + nw.adapterChain(a, part),
		drop:   nw.dropTarget(a, w, "counter drop", "counter goto "),
		bucket: func(i int) string { return "counter jump " + nw.bucket(a, w, i) }}.observing(a, w)
}

func (nw network) matching6(d Direction, ports []PortStatus) func(ACLRule) []string {
	return func(r ACLRule) []string {
		if r.Action == MapPort { // it matches only packets that were translated, and none of IPv6 is
			return nil
		}
		return nw.matches6(r, d, ports)
	}
}

// matches6 returns what a rule matches of IPv6 packets, one list of words per rule of nft.
func (nw network) matches6(r ACLRule, d Direction, ports []PortStatus) []string {
	if r.IP.IsValid() && r.IP.Addr().Is4() {
		return nil
	}
	remote, link, remotePort, localPort := "ip6 daddr ", "oifname ", "dport", "sport"
	if d == Ingress {
		remote, link, remotePort, localPort = "ip6 saddr ", "iifname ", "sport", "dport"
	}
	end := ""
	if r.namesIP() {
		end = remote + r.IP.Masked().String() + " "
	}
	var out []string
	for _, name := range r.links(ports) {
		on := ""
		if name != "" {
			on = link + fmt.Sprintf("%q ", name)
		}
		for _, set := range nw.setMatches(r, d, true) {
			if set != "" {
				set += " "
			}
			out = append(out, r.protocolMatches6(end+on+set, localPort, remotePort)...)
		}
	}
	return out
}

// protocolMatches6 adds the protocol and ports of a rule to a match.
func (r ACLRule) protocolMatches6(prefix, localPort, remotePort string) (out []string) {
	nums, any := r.protocols()
	if any {
		out = append(out, strings.TrimSpace(prefix))
	}
	for _, n := range nums {
		for _, to := range orAny(r.Ports) {
			for _, from := range orAny(r.LocalPort) {
				words := portWords6(n, localPort, from) + portWords6(n, remotePort, to)
				if words == "" {
					words = fmt.Sprintf("meta l4proto %d", inIPv6(n))
				}
				out = append(out, prefix+strings.TrimSpace(words))
			}
		}
	}
	return out
}

// inIPv6 returns the number that a protocol has in IPv6: a rule for icmp means ICMPv6 there.
func inIPv6(proto uint8) uint8 {
	if proto == protoICMP {
		return protoICMP6
	}
	return proto
}

// orAny returns the ranges, or one that stands for all ports.
func orAny(ports []PortRange) []PortRange {
	if len(ports) == 0 {
		return []PortRange{{}}
	}
	return ports
}

// portWords6 matches a range of ports, the zero value any.
func portWords6(proto uint8, side string, p PortRange) string {
	field := protocolWord(proto) + " " + side + " "
	switch {
	case p == PortRange{}:
		return ""
	case p.First == p.Last:
		return fmt.Sprintf("%s%d ", field, p.First)
	}
	return fmt.Sprintf("%s>= %d %s<= %d ", field, p.First, field, p.Last)
}

// Router advertisements are sent by the network's dnsmasq, which serves DHCPv6 too: one helper for each network.

// Seconds between two router advertisements, and how long an app uses the gateway after one (RFC 4861 §6.2.1). An app
// asks for one when its link comes up.
const (
	advertEvery    = 60
	routerLifetime = 1800
)

// dnsmasq6 are the lines of dnsmasq.conf for IPv6. A network without a port is no way out: its apps get a prefix and no
// default route.
func (nw network) dnsmasq6() []string {
	if !nw.hasIPv6() {
		return nil
	}
	lifetime := routerLifetime
	if nw.Config.Port == "" {
		lifetime = 0
	}
	mode := "ra-only"
	if nw.Config.IPv6.Mode == DHCPv6 {
		mode = "static,64,1h"
	}
	return []string{
		"enable-ra", "dhcp-range=" + nw.Config.IPv6.Subnet.Addr().String() + "," + mode,
		fmt.Sprintf("ra-param=%s,mtu:%d,%d,%d", nw.bridge, nw.mtu, advertEvery, lifetime),
	}
}

func (nw network) gatewayWord6() string {
	if !nw.hasIPv6() {
		return ""
	}
	return "," + nw.Config.IPv6.Gateway.String()
}

// dhcpOptions6 are the options for IPv6: the first is also sent in advertisements (RFC 8106).
func (nw network) dhcpOptions6() []string {
	if !nw.hasIPv6() {
		return nil
	}
	lines := []string{"option6:dns-server,[" + nw.Config.IPv6.Gateway.String() + "]"}
	if d := nw.Config.DNS.Domain; d != "" {
		lines = append(lines, "option6:domain-search,"+string(d))
	}
	return lines
}
