package config

import "net/netip"

// Source returns the client that an address, with or without a port, stands for: in IPv6 it is the /64, since one
// machine can use all of it. A text that is not an address is returned unchanged.
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
	net64, _ := ip.Prefix(64) // an IPv6 address always has a /64
	return net64.String()
}
