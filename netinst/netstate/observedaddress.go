package netstate

import "net/netip"

// ObservedAddress is an address that the app behind a link was observed to use: it announced it by ARP, or got it from
// a DHCP server.
type ObservedAddress struct {
	Link string // the host's side
	MAC  string // in the form of net.HardwareAddr
	IP   netip.Addr
	// Leased means that a DHCP server assigned it: the app has no other address from DHCP any more.
	Leased bool
}
