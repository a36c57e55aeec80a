package netinst

import (
	"net/netip"
	"slices"

	"edgespan/netinst/netstate"
)

// validateSwitch is Judge of a switch network. Who has an address there is learnt and
// not given, so an end of a flow that nobody is known to have may be any adapter
// of which nothing is known: the entry stays only if each of them would allow it.
// One that goes without need is made again by the next packet of its first
// direction, if the rules allow that.
func validateSwitch(nw network) func(netstate.Flow) bool {
	return func(f netstate.Flow) bool {
		if f.Zone != Zone(nw.n) || dhcpAsked(f) {
			return false
		}
		out := packet{proto: f.Proto, remote: f.Dst, local: f.Src}
		in := packet{proto: f.Proto, remote: f.Src, local: f.Dst}
		return !nw.allMay(f.Src.Addr(), Egress, out) || !nw.allMay(f.Dst.Addr(), Ingress, in)
	}
}

// allMay says whether every adapter that may have an address allows a packet of
// one direction: those that are known to have it, else all of which nothing is known.
func (nw network) allMay(addr netip.Addr, d Direction, p packet) bool {
	known, ok := false, true
	for _, a := range nw.Adapters {
		if slices.Contains(a.Seen, addr) {
			known = true
			ok = ok && allowed(a.Config.UnderlayConfig.ACL, d, p, always)
		}
	}
	if known {
		return ok
	}
	for _, a := range nw.Adapters {
		if len(a.Seen) == 0 && !allowed(a.Config.UnderlayConfig.ACL, d, p, always) {
			return false
		}
	}
	return true
}

// dhcpAsked says whether a flow is what every adapter may ask for.
func dhcpAsked(f netstate.Flow) bool {
	return f.Proto == protoUDP && f.Src.Port() == 68 && f.Dst.Port() == 67
}
