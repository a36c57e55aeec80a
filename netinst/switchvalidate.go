package netinst

import (
	"net/netip"
	"slices"

	"edgespan/netinst/netstate"
)

// validateSwitch is Validate for a switch network. Its addresses are learnt and not assigned, so an end of a flow with
// an unknown owner may be any adapter whose addresses are unknown: the entry is kept only if each of them would allow
// it. An entry removed without need is recreated by the next packet of its first direction, if the rules allow that.
func validateSwitch(nw network) func(netstate.Flow) bool {
	return func(f netstate.Flow) bool {
		if f.Zone != Zone(nw.n) || dhcpAsked(f) {
			return false
		}
		out := packet{proto: f.Proto, remote: f.Dst, local: f.Src}
		in := packet{proto: f.Proto, remote: f.Src, local: f.Dst}
		return !nw.allAllow(f.Src.Addr(), Egress, out) || !nw.allAllow(f.Dst.Addr(), Ingress, in)
	}
}

// allAllow reports whether every adapter that may have an address allows a packet of one direction: those known to have
// it, else all adapters whose addresses are unknown.
func (nw network) allAllow(addr netip.Addr, d Direction, p packet) bool {
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

// dhcpAsked reports whether a flow is DHCP that every adapter may use.
func dhcpAsked(f netstate.Flow) bool {
	return f.Proto == protoUDP && f.Src.Port() == 68 && f.Dst.Port() == 67
}
