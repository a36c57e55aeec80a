package netinst

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"edgespan/netinst/netstate"
)

// A network of type vpn is a local network whose only port is its tunnel. The tunnel is a link of the node (evpn<n>),
// with the tunnel's own addresses, and a default route on link; throughTunnel puts it in the place of the ports that
// the config selects, and everything that follows from a port follows from it: routes, rules, NAT, DNS servers, MTU,
// port maps. No other way out is in the network's table, so what the tunnel does not carry is unreachable.
//
// The port that the config selects, and that probing chooses, is the underlay: only the tunnel's own packets leave by
// it. They carry a mark (TunnelMark and the number), by which policy rules lead them to a table with nothing else:
//
//	14000    fwmark 0/0xff0000 goto 15000            of the host: packets without such a mark skip the rules below
//	14005    fwmark 0xe50005/0xffffff lookup 50005   of network 5, and the same for IPv6
//	14005    fwmark 0x8…/0xffffff lookup 20005       of encrypted clusters over its tunnel (overMark)
//	15000    nop                                     the target
//	50005    the subnets and the default route of the underlay; else unreachable
//	20005    of the network: default dev evpn5; else unreachable
//	22005    from the tunnel's address, of the node itself; to DNS servers through the tunnel: lookup 20005
//
// When the choice of the underlay moves, only table 50005 changes: the tunnel stays, and its flows with it. There is no
// tunnel while the network is inactive or withdrawn, and then no way out either.
//
// Without vpn.nat, packets keep the addresses of apps, as the other end knows the subnet. So the guard's rules that
// drop what leaves untranslated spare the links of tunnels. It also drops what leaves such a network's bridge by
// another link (tunnelSets): also if others delete policy rules, nothing leaves in the clear.

// The numbers of tunnels, and the names of their links for rules of the host. TunnelMark and the number of a network
// are the mark of its tunnel's own packets, in the bits of TunnelMask.
const (
	ruleTunnelBase    = 14000 // to ruleBoundBase
	tableUnderlayBase = 50000
	// The prefix and a digit: the prefix alone would match foreign links, such as one named evpn-core.
	fromTunnel = `iifname >= "evpn1" iifname < "evpn:" `
	toTunnel   = `oifname >= "evpn1" oifname < "evpn:" `

	TunnelMark = 0x00e50000
	TunnelMask = 0x00ffffff
	// tunnelBits are those that are 0 without such a mark, and in most marks of others.
	tunnelBits = 0x00ff0000
)

// tunnelLabel is the label of the tunnel of network n where it is treated as a port. No port of a config has it.
func tunnelLabel(n int) string { return "(" + netstate.VPNLink(n) + ")" }

// UnderlayTable is the route table of the own packets of the tunnel of network n.
func UnderlayTable(n int) int { return tableUnderlayBase + n }

// The methods of a tunnel, as the platform gets them.
type (
	WireGuard     = netstate.WireGuard
	WireGuardPeer = netstate.WireGuardPeer
	IPsec         = netstate.IPsec
	IPsecEnd      = netstate.IPsecEnd
	IPsecChild    = netstate.IPsecChild
)

// VPNConfig is the tunnel of a network of type vpn. Exactly one of WireGuard and IPsec is set. It holds secrets.
type VPNConfig struct {
	// Address are the tunnel's own addresses, at most one of each family, with the lengths of their subnets.
	Address []netip.Prefix `json:",omitempty"`
	MTU     int            `json:",omitempty"` // of the tunnel; 0: what the underlay can carry
	NAT     bool           `json:",omitempty"` // packets leave with the tunnel's address
	// DNSOutside lets the network's DNS server ask the underlay's servers, outside of the tunnel, if there are no others.
	DNSOutside bool                `json:",omitempty"`
	WireGuard  *netstate.WireGuard `json:",omitempty"`
	IPsec      *netstate.IPsec     `json:",omitempty"`
	// The other end may assign no address of other networks and tunnels (Elsewhere), and none of the controllers.
	Elsewhere   []netip.Prefix `json:",omitempty"`
	Controllers []netip.Addr   `json:",omitempty"`
}

// Assigned is what the other end of a tunnel has assigned to this one.
type Assigned struct {
	Addresses []netip.Prefix
	DNS       []netip.Addr
}

// HasVPN reports whether a network reaches the world through a tunnel alone.
func (c NetworkInstanceConfig) HasVPN() bool { return c.Type == VPN && c.VPN != nil }

// HasTunnel reports whether a network, unless it is withdrawn, has a tunnel: its own, or an encrypted cluster's.
func (c NetworkInstanceConfig) HasTunnel() bool { return c.HasVPN() && !c.Inactive || c.IsEncrypted() }

// addresses returns the tunnel's addresses of one family.
func (v VPNConfig) addresses(a Assigned, ipv6 bool) []netip.Prefix {
	return slices.DeleteFunc(slices.Concat(v.Address, a.Addresses), func(p netip.Prefix) bool {
		return p.Addr().Is6() != ipv6
	})
}

// carries reports whether the tunnel may carry packets of a family.
func (v VPNConfig) carries(ipv6 bool) bool {
	ofFamily := func(p netip.Prefix) bool { return p.Addr().Is6() == ipv6 }
	if w := v.WireGuard; w != nil {
		return slices.ContainsFunc(w.Peers, func(p netstate.WireGuardPeer) bool {
			return slices.ContainsFunc(p.AllowedIPs, ofFamily)
		})
	}
	return len(v.IPsec.Children) == 0 || slices.ContainsFunc(v.IPsec.Children, func(c netstate.IPsecChild) bool {
		return len(c.Remote) == 0 || slices.ContainsFunc(c.Remote, ofFamily)
	})
}

// mayMeetIPv6 reports whether the tunnel's own packets may be of IPv6: unless each peer is called at an IPv4 address.
func (v VPNConfig) mayMeetIPv6() bool {
	if v.IPsec != nil {
		a, err := netip.ParseAddr(v.IPsec.Address)
		return err != nil || a.Is6() || v.IPsec.Listen
	}
	return slices.ContainsFunc(v.WireGuard.Peers, func(p netstate.WireGuardPeer) bool {
		end, err := netip.ParseAddrPort(p.Endpoint)
		return err != nil || end.Addr().Is6()
	})
}

// What a tunnel adds to a packet, in octets.
const (
	outerIPv4 = 20
	outerIPv6 = 40
	udpHeader = 8
	// wireGuardHeader is that of a data message with its tag: 16 and 16.
	wireGuardHeader = 32
	// espHeader is that of ESP with the longest initialisation vector and check value in use: SPI and sequence number (8),
	// AES-CBC (16), HMAC-SHA-512-256 (32). The packet and two octets after it are padded to blocks of 16 (RFC 4303 §2.4).
	espHeader, espTrailer, espBlock = 8 + 16 + 32, 2, 16
)

// Carries returns the MTU of the tunnel on an underlay with an MTU: the largest packet that is never fragmented, by
// whatever the ends agree on.
func (v VPNConfig) Carries(mtu int) int {
	mtu -= outerIPv4
	if v.mayMeetIPv6() {
		mtu -= outerIPv6 - outerIPv4
	}
	if v.WireGuard != nil {
		return max(mtu-udpHeader-wireGuardHeader, minMTU)
	}
	return max((mtu-udpHeader-espHeader)/espBlock*espBlock-espTrailer, minMTU)
}

// underlay is where the own packets of a network's tunnel leave.
type underlay struct {
	ports   map[bool]*PortStatus // by whether it is for IPv6; nil without a usable port
	why     string               // why there is none for IPv4
	ipv6    bool                 // the tunnel may send packets of IPv6
	refused string               // which assigned addresses are not used, "" for none
}

// port is the one that people know as the network's.
func (u *underlay) port() *PortStatus { return u.ports[false] }

// throughTunnel returns the input of a network whose ports are replaced by its tunnel, and where the tunnel's own
// packets leave; nil for a network without a tunnel.
func throughTunnel(in Input) (Input, *underlay) {
	if !in.Config.HasVPN() {
		return in, nil
	}
	u := underlay{ports: map[bool]*PortStatus{}}
	p, why := in.choose(in.Config.Port)
	if u.why = why; p.Label != "" {
		u.ports[false], u.why = &p, p.UnusableReason()
	}
	if q, _ := in.choose6(in.Config.Port); q.Label != "" && leadsOut6(q) {
		u.ports[true] = &q
	}
	in.Assigned, u.refused = in.acceptable(in.Assigned)
	u.ipv6 = in.Config.VPN.mayMeetIPv6() && slices.ContainsFunc(in.Ports, func(p PortStatus) bool {
		return slices.ContainsFunc(p.Addresses, func(a netip.Prefix) bool { return a.Addr().Is6() })
	})
	in.Ports = append(slices.Clone(in.Ports), in.tunnelPort(u))
	in.Config.Port, in.Uplinks = tunnelLabel(in.Owner.Number), Uplinks{}
	return in, &u
}

// ThroughTunnel returns the input of a network whose ports are replaced by its tunnel, if it has one.
func ThroughTunnel(in Input) Input {
	in, _ = throughTunnel(in)
	return in
}

// tunnelPort is the tunnel as a port. It counts as up whenever it is there: that its peers are away must move nothing.
func (in Input) tunnelPort(u underlay) PortStatus {
	v := in.Config.VPN
	p := PortStatus{
		PortConfig: PortConfig{Label: tunnelLabel(in.Owner.Number), IfName: IfName(netstate.VPNLink(in.Owner.Number))},
		Exists:     true, Up: true, PointToPoint: true, Tunnel: true, LinkMTU: in.tunnelMTU(u),
		Addresses: v.addresses(in.Assigned, false),
	}
	if v.carries(false) {
		p.DefaultRoutes = append(p.DefaultRoutes, netstate.DefaultRoute{})
	}
	if in.Config.HasIPv6() {
		p.Addresses = append(p.Addresses, v.addresses(in.Assigned, true)...)
		if v.carries(true) {
			p.DefaultRoutes = append(p.DefaultRoutes, netstate.DefaultRoute{IPv6: true})
		}
	}
	if len(in.Assigned.DNS) > 0 {
		p.Learnt = LearntDNS{Servers: in.Assigned.DNS, Source: "the other end of the tunnel"}
	}
	return p
}

// tunnelMTU returns the configured MTU of the tunnel, else what the underlay can carry. Without an underlay it does not
// change.
func (in Input) tunnelMTU(u underlay) int {
	v := in.Config.VPN
	switch {
	case v.MTU != 0:
		return v.MTU
	case u.port() != nil:
		return v.Carries(cmp.Or(u.port().mtu(), defaultMTU))
	case in.MTU != 0 && in.Config.MTU == 0:
		return in.MTU
	}
	return v.Carries(cmp.Or(expectedPort(in.Config.Port, in.Ports).mtu(), defaultMTU))
}

// Translates reports whether IPv4 packets leave the node with an address of the port, and not with the app's own.
func (c NetworkInstanceConfig) Translates() bool { return !c.HasVPN() || c.VPN.NAT }

// tunnel returns the tunnel, what is on its link, and the way of its own packets.
func (nw network) tunnel() []netstate.Object {
	if nw.under == nil {
		return nil
	}
	v, link := nw.Config.VPN, netstate.VPNLink(nw.n)
	t := netstate.VPN{
		Name: netstate.VPNName(nw.n), Link: link, MTU: nw.port.LinkMTU, Mark: TunnelMark | uint32(nw.n),
		Generation: nw.Config.Generation, IPsec: v.IPsec, Limits: nw.Config.HelperLimits(),
	}
	if v.WireGuard != nil {
		w := *v.WireGuard
		w.Identity, t.WireGuard = nw.uuid(), &w
	}
	objs := []netstate.Object{t, netstate.Sysctl{Key: netstate.ForwardingOf(link), Value: "1", Link: link}}
	for _, a := range nw.port.Addresses {
		if a.Addr().Is4() || nw.hasIPv6() {
			objs = append(objs, netstate.Address{Link: link, Prefix: a.String()})
		}
	}
	objs = append(objs, nw.underlayRouting(false)...)
	if nw.under.ipv6 {
		objs = append(objs, nw.underlayRouting(true)...)
	}
	return append(objs, nw.tunnelRules()...)
}

// underlayRouting leads the tunnel's own packets of one family to its underlay, and nowhere else.
func (nw network) underlayRouting(ipv6 bool) []netstate.Object {
	table, all := UnderlayTable(nw.n), anywhere
	if ipv6 {
		all = anywhere6
	}
	end := netstate.Route{Table: table, Dst: all.String(), Type: netstate.Unreachable, Metric: unreachableMetric}
	objs := []netstate.Object{end, netstate.Rule{Priority: ruleTunnelBase + nw.n, Mark: TunnelMark | uint32(nw.n),
		Mask: TunnelMask, Table: table, IPv6: ipv6, After: end.ID()}}
	p := nw.under.ports[ipv6]
	if p == nil {
		return objs
	}
	taken := map[netip.Prefix]bool{}
	add := func(dst netip.Prefix, r netstate.Route) {
		if dst = dst.Masked(); !taken[dst] {
			taken[dst] = true
			r.Table = table
			objs = append(objs, nw.unicast(dst, r))
		}
	}
	way, out := p.DefaultRoute()
	if ipv6 {
		way, out = p.DefaultRoute6()
		for _, dst := range connected6(*p) {
			add(dst, netstate.Route{Dev: string(p.IfName)})
		}
	} else {
		for _, a := range connected(*p) {
			add(a, netstate.Route{Dev: string(p.IfName), Src: a.Addr().String()})
		}
	}
	if out {
		add(all, byPort(*p, way.Gateway, way.OnLink))
	}
	return objs
}

// tunnelRules lead what the node itself sends from the tunnel's addresses, or bound to its link, through the tunnel:
// DNS queries, and answers. The kernel checks by the first of them that what arrives for these addresses comes from
// where it would be answered (rp_filter).
func (nw network) tunnelRules() []netstate.Object {
	var objs []netstate.Object
	table, link := Table(nw.n), string(nw.port.IfName)
	rule := func(r netstate.Rule, ipv6 bool) {
		all := anywhere
		if ipv6 {
			all = anywhere6
		}
		r.Table, r.IPv6 = table, ipv6
		r.After = netstate.Route{Table: table, Dst: all.String(), Metric: unreachableMetric}.ID()
		objs = append(objs, r)
	}
	for _, ipv6 := range []bool{false, true} {
		if ipv6 && !nw.hasIPv6() {
			continue
		}
		rule(netstate.Rule{Priority: ruleTunnelBase + nw.n, Mark: overMark(nw.Config.UUID), Mask: TunnelMask}, ipv6)
		priority := ruleDNSBase + nw.n
		if ipv6 { // which is taken, as below; the host has no tree of rules that would lead past this one
			priority = ruleToBase + nw.n
		}
		i := slices.IndexFunc(nw.port.Addresses, func(a netip.Prefix) bool { return a.Addr().Is6() == ipv6 })
		if i >= 0 {
			own := nw.port.Addresses[i].Addr()
			rule(netstate.Rule{Priority: priority, IIF: "lo", From: netip.PrefixFrom(own, own.BitLen()).String()}, ipv6)
		}
	}
	if nw.hasIPv6() {
		rule(netstate.Rule{Priority: ruleDNSBase + nw.n, IIF: "lo", OIF: link}, true)
	}
	if len(nw.serversOf(*nw.port)) > 0 {
		rule(netstate.Rule{Priority: ruleDNSBase + nw.n, OIF: link, DPort: 53}, false)
	}
	if p := nw.under.port(); nw.asksOutside() && otherDefault(*p) {
		r := netstate.Rule{Priority: ruleDNSBase + nw.n, OIF: string(p.IfName), DPort: 53, Table: UnderlayTable(nw.n)}
		r.After = netstate.Route{Table: r.Table, Dst: anywhere.String(), Metric: unreachableMetric}.ID()
		objs = append(objs, r)
	}
	return objs
}

// tunnelGate are the host's rules around those of tunnels: a packet without the mark of one skips them.
func tunnelGate(ns []HostNetwork) (rules []netstate.Object) {
	for _, x := range []struct{ ipv6, needed bool }{
		{false, slices.ContainsFunc(ns, func(n HostNetwork) bool { return n.VPN })},
		{true, slices.ContainsFunc(ns, func(n HostNetwork) bool { return n.VPN6 })},
	} {
		if x.needed {
			rules = append(rules, netstate.Rule{Priority: ruleTunnelBase, Mask: tunnelBits, Goto: ruleBoundBase, IPv6: x.ipv6},
				netstate.Rule{Priority: ruleBoundBase, IPv6: x.ipv6})
		}
	}
	return rules
}

// tunnelCloses are rules of the guard: what arrives by a tunnel is forwarded to networks alone, whose chains have
// accepted it, and nothing of the host enters a tunnel.
func tunnelCloses(ns []HostNetwork) []string {
	if !slices.ContainsFunc(ns, func(n HostNetwork) bool { return n.VPN || n.Sealed != 0 }) {
		return nil
	}
	return []string{fromTunnel + toOwn + " accept", fromTunnel + "drop", toTunnel + fromOwn + " accept", toTunnel + "drop"}
}

// tunnelCloses6 are those of the table for IPv6, after the rules that take every packet from or to a network.
func tunnelCloses6(ns []HostNetwork) []string {
	if tunnelCloses(ns) != nil {
		return []string{fromTunnel + "drop", toTunnel + "drop"}
	}
	return nil
}

// tunnelSets are the guard's set of the bridges of networks with a tunnel, and the chain for what is forwarded from
// them: it leaves by a tunnel, or not at all, whatever becomes of the routes, and also as part of a known flow.
func tunnelSets(ns []HostNetwork) []string {
	var bridges []string
	for _, n := range ns {
		if n.VPN {
			bridges = append(bridges, fmt.Sprintf("%q", BridgeName(n.Number)))
		}
	}
	if bridges == nil {
		return nil
	}
	return append(nftSet("tunnelled", "type ifname;", bridges, setSize), "chain tunnelled {", toTunnel+"return",
		toOwn+" return", "drop", "}")
}

// tunnelRule leads packets from these bridges to that chain, before any rule accepts them.
func tunnelRule(ns []HostNetwork) []string {
	if tunnelSets(ns) != nil {
		return []string{"iifname @tunnelled jump tunnelled"}
	}
	return nil
}

// tunnelLeaves are rules of the guard that let packets leave by a tunnel untranslated.
func tunnelLeaves(ns []HostNetwork) []string {
	if tunnelCloses(ns) != nil {
		return []string{toTunnel + "accept"}
	}
	return nil
}
