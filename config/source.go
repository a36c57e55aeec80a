package config

import "net/netip"

// Source returns the client behind an address with or without a port: the address itself for IPv4, its /64 for IPv6,
// since one machine can use all addresses of a /64. It returns a text that is not an address unchanged.
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
