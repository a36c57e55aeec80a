package config

import "net/netip"

// Source identifies who is behind an address, with a port or without: in IPv6 one machine has all
// of a /64. A text that is no address stays as it is.
func Source(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return address
		}
		ip = at.Addr()
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	net64, _ := ip.Prefix(64) // 64 fits an address of IPv6
	return net64.String()
}
