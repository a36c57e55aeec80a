package netstate

import "net/netip"

// ObservedAddress is an address that the app behind a link was seen to use: it said so by ARP,
// or a DHCP server gave it.
type ObservedAddress struct {
	Link string // the host's side
	MAC  string // as net.HardwareAddr prints it
	IP   netip.Addr
	// Leased says that a DHCP server gave it: the app has no other from DHCP any more.
	Leased bool
}
