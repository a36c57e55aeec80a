package netinst

import (
	"net/netip"
	"slices"
	"strconv"

	"edgespan/netinst/netstate"
)

// Judge says of tracked flows whether the rules wanted now deny them: those of
// this network's addresses whose first packet would not pass today. Flows that
// are allowed live on (design §1 "Host objects").
func Judge(in Input) func(netstate.Flow) bool {
	byIP := map[netip.Addr]Adapter{}
	for _, a := range in.Adapters {
		byIP[a.Lease.IP] = a
	}
	node := map[netip.Addr]bool{in.Config.IPv4.Gateway: true}
	for _, p := range in.Ports {
		for _, a := range p.Addresses {
			node[a.Addr()] = true
		}
	}
	subnet := in.Config.IPv4.Subnet
	return func(f netstate.Flow) bool {
		src, dst := f.Src.Addr(), f.Dst.Addr()
		from, sends := byIP[src]
		to, gets := byIP[dst]
		switch {
		case node[src] && gets:
			return !(f.Proto == 17 && f.Src.Port() == 67) && !allows(to, Ingress, f, true)
		case node[src], !subnet.Contains(src) && !subnet.Contains(dst):
			return false
		case subnet.Contains(src) && !sends, subnet.Contains(dst) && !gets && !node[dst]:
			return true // of an adapter that is gone
		case sends && node[dst]:
			return !essential(in, f) && !allows(from, Egress, f, true)
		}
		return sends && !allows(from, Egress, f, false) || gets && !allows(to, Ingress, f, false)
	}
}

// essential is what every adapter may ask of its network.
func essential(in Input, f netstate.Flow) bool {
	switch {
	case f.Proto == 17 && f.Src.Port() == 68 && f.Dst.Port() == 67:
		return true
	case f.Dst.Addr() != in.Config.IPv4.Gateway:
		return false
	}
	return (f.Proto == 17 || f.Proto == 6) && f.Dst.Port() == 53 || f.Proto == 1
}

// allows is the first verdict of an adapter's rules on a flow.
func allows(a Adapter, dir Direction, f netstate.Flow, node bool) bool {
	remote, local := f.Dst, f.Src
	if dir == Ingress {
		remote, local = f.Src, f.Dst
	}
	for _, r := range a.Config.UnderlayConfig.ACL {
		if r.Direction != Both && r.Direction != dir || !matchesFlow(r, f.Proto, remote, local) {
			continue
		}
		if r.Action == Allow && node && (!r.IP.IsValid() || r.IP.Bits() == 0) {
			continue
		}
		return r.Action == Allow
	}
	return false
}

func matchesFlow(r ACLRule, proto uint8, remote, local netip.AddrPort) bool {
	if r.IP.IsValid() && !r.IP.Contains(remote.Addr()) {
		return false
	}
	if r.Protocol != "" && protocolNumber(r.Protocol) != int(proto) {
		return false
	}
	return inPorts(r.Ports, remote.Port()) && inPorts(r.LocalPort, local.Port())
}

func inPorts(ps []PortRange, port uint16) bool {
	return len(ps) == 0 || slices.ContainsFunc(ps, func(p PortRange) bool { return p.First <= port && port <= p.Last })
}

// protocolNumber is the IP protocol number (IANA) of a rule's word, -1 for none.
func protocolNumber(s string) int {
	switch s {
	case "tcp":
		return 6
	case "udp":
		return 17
	case "icmp":
		return 1
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}
