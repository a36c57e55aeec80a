package verdict

import (
	"fmt"
	"slices"
	"strconv"

	"edgespan/netinst"
)

// cells returns the flows between two ends that only one world allows. X and y are the same packet in the worlds before
// and after, without its protocol and ports.
func (c *comparison) cells(x, y Packet) (opens, closes []Flow) {
	rules := slices.Concat(c.before.rulesFor(x), c.after.rulesFor(y))
	icmp := uint8(ICMP)
	if c.six {
		icmp = ICMP6
	}
	protos := []uint8{icmp, TCP, UDP}
	for _, r := range rules {
		n, err := strconv.ParseUint(r.Protocol, 10, 8)
		if c.six && n == ICMP {
			n = ICMP6
		}
		if err == nil && n > 0 && !slices.Contains(protos, uint8(n)) {
			protos = append(protos, uint8(n))
		}
	}
	slices.Sort(protos)
	other := uint8(255)
	for slices.Contains(protos, other) {
		other--
	}
	for _, proto := range append(protos, other) {
		name := map[uint8]string{icmp: "icmp", TCP: "tcp", UDP: "udp", other: "other"}[proto]
		if name == "" {
			name = strconv.Itoa(int(proto))
		}
		x.Proto, y.Proto = proto, proto
		o, l := c.ports(name, rules, x, y)
		opens, closes = append(opens, o...), append(closes, l...)
	}
	return wholly(opens, len(protos)+1), wholly(closes, len(protos)+1)
}

// wholly replaces all flows of all protocols by one.
func wholly(flows []Flow, protos int) []Flow {
	all := func(f Flow) bool { return f.SrcPorts == nil && f.DstPorts == nil }
	if len(flows) == protos && !slices.ContainsFunc(flows, func(f Flow) bool { return !all(f) }) {
		return []Flow{{Proto: "any"}}
	}
	return flows
}

// rulesFor returns the rules that may decide about a packet, whatever its protocol and ports: those of both ends that
// cover the addresses.
func (w *World) rulesFor(p Packet) (list []netinst.ACLRule) {
	n := w.members[p.Adapter]
	if p.From != App {
		n = w.subnetOf(p.Dst)
	}
	if n == nil {
		for _, s := range w.networks { // a switch network knows its apps by the addresses they use
			if s.isSwitch() && s.byIP[p.Dst] != nil {
				n = s
			}
		}
	}
	list = w.mapRules(p)
	if n == nil {
		return list
	}
	if a := n.byKey[p.Adapter]; a != nil && p.From == App {
		for _, r := range a.Config.Spec.ACL {
			if r.Direction != netinst.Ingress && (!r.IP.IsValid() || r.IP.Contains(p.Dst) || !p.Dst.IsValid()) {
				list = append(list, r)
			}
		}
	}
	to := n.byIP[p.Dst]
	if r := n.wayTo(p.Dst); to == nil && p.From == App && r != nil && r.port == nil {
		to = n.byIP[r.Gateway]
	}
	if to != nil {
		for _, r := range to.Config.Spec.ACL {
			if r.Direction != netinst.Egress && (!r.IP.IsValid() || r.IP.Contains(p.Src)) {
				r.Ports, r.LocalPort = r.LocalPort, r.Ports // of the sender and the receiver, as in rules of egress
				list = append(list, r)
			}
		}
	}
	return list
}

// segments splits the ports where rules begin and end, and at the ports of DNS and DHCP.
func segments(rules []netinst.ACLRule, ports func(netinst.ACLRule) []netinst.PortRange) []netinst.PortRange {
	starts := []int{1, dns, dns + 1, dhcpServer, dhcpClient, dhcpClient + 1, dhcp6Client, dhcp6Server, dhcp6Server + 1}
	for _, r := range rules {
		for _, p := range ports(r) {
			starts = append(starts, int(p.First), int(p.Last)+1)
		}
	}
	slices.Sort(starts)
	starts = slices.DeleteFunc(slices.Compact(starts), func(n int) bool { return n < 1 || n > 65535 })
	var list []netinst.PortRange
	for i, first := range starts {
		last := 65535
		if i+1 < len(starts) {
			last = starts[i+1] - 1
		}
		list = append(list, netinst.PortRange{First: uint16(first), Last: uint16(last)})
	}
	return list
}

// What becomes of a region of flows.
const (
	remains = 0
	opened  = 1
	closed  = 2
)

// ports returns the flows of one protocol that only one world allows.
func (c *comparison) ports(name string, rules []netinst.ACLRule, x, y Packet) (opens, closes []Flow) {
	if x.Proto != TCP && x.Proto != UDP {
		if x.ICMPType = EchoRequest; c.six {
			x.ICMPType = EchoRequest6
		}
		y.ICMPType = x.ICMPType
		switch c.change(x, y) {
		case opened:
			opens = []Flow{{Proto: name}}
		case closed:
			closes = []Flow{{Proto: name}}
		}
		return opens, closes
	}
	sources := segments(rules, func(r netinst.ACLRule) []netinst.PortRange { return r.LocalPort })
	targets := segments(rules, func(r netinst.ACLRule) []netinst.PortRange { return r.Ports })
	byTargets := map[int]map[string]*Flow{opened: {}, closed: {}}
	var order []*Flow
	for _, src := range sources {
		if c.left <= 0 {
			break
		}
		found := map[int][]netinst.PortRange{}
		was := remains
		for _, dst := range targets {
			x.SrcPort, x.DstPort = src.First, dst.First
			y.SrcPort, y.DstPort = src.First, dst.First
			// Rules do not decide about the ports of DHCP that an app sends to: they go with those before them.
			if x.Proto != UDP || x.From != App || !c.dhcp(dst) {
				was = c.change(x, y)
			}
			found[was] = joined(found[was], dst)
		}
		for _, how := range []int{opened, closed} {
			if len(found[how]) == 0 {
				continue
			}
			id := fmt.Sprint(found[how])
			f := byTargets[how][id]
			if f == nil {
				f = &Flow{Proto: name, DstPorts: found[how]}
				byTargets[how][id] = f
				order = append(order, f)
			}
			f.SrcPorts = joined(f.SrcPorts, src)
		}
	}
	for _, f := range order {
		how := byTargets[opened][fmt.Sprint(f.DstPorts)] == f
		f.SrcPorts, f.DstPorts = wholeRange(f.SrcPorts), wholeRange(f.DstPorts)
		if how {
			opens = append(opens, *f)
		} else {
			closes = append(closes, *f)
		}
	}
	return opens, closes
}

// dhcp reports whether ports are those of DHCP that apps send to.
func (c *comparison) dhcp(r netinst.PortRange) bool {
	if c.six {
		return r.First == dhcp6Client && r.Last == dhcp6Client
	}
	return r.First >= dhcpServer && r.Last <= dhcpClient
}

// change evaluates one packet in both worlds.
func (c *comparison) change(x, y Packet) int {
	if c.left -= c.cost; c.left <= 0 {
		return remains
	}
	allows := func(w *World, p Packet) bool {
		if !p.Dst.IsValid() && p.Name == "" || !p.Src.IsValid() {
			return false
		}
		a := w.Evaluate(p)
		return a.Allowed() && (c.to == (netinst.AdapterKey{}) || a.Adapter == c.to)
	}
	before, after := allows(c.before, x), allows(c.after, y)
	switch {
	case before == after:
		return remains
	case after:
		return opened
	}
	return closed
}

// joined appends a range to others that precede it.
func joined(list []netinst.PortRange, r netinst.PortRange) []netinst.PortRange {
	if n := len(list); n > 0 && int(list[n-1].Last)+1 == int(r.First) {
		list[n-1].Last = r.Last
		return list
	}
	return append(list, r)
}

func wholeRange(list []netinst.PortRange) []netinst.PortRange {
	if len(list) == 1 && list[0] == (netinst.PortRange{First: 1, Last: 65535}) {
		return nil
	}
	return list
}
