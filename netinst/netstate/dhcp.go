package netstate

import (
	"net/netip"
	"time"
)

// DHCPType is the type of a DHCP message (RFC 2132 §9.6).
type DHCPType string

// The types in use.
const (
	DHCPDiscover DHCPType = "discover"
	DHCPOffer    DHCPType = "offer"
	DHCPRequest  DHCPType = "request"
	DHCPAck      DHCPType = "ack"
	DHCPNak      DHCPType = "nak"
	DHCPRelease  DHCPType = "release"
	DHCPDecline  DHCPType = "decline"
	DHCPInform   DHCPType = "inform"
)

// DHCPQuery is a message from a DHCP client. An invalid address means that the field or the option is absent.
type DHCPQuery struct {
	Type      DHCPType
	XID       uint32
	Client    netip.Addr // ciaddr, and the sender's address
	Requested netip.Addr // option 50
	Server    netip.Addr // option 54
	// To is the server to which the message goes alone, through the neighbour with the MAC address Via; otherwise it is a
	// broadcast.
	To  netip.Addr
	Via string
}

// DHCPReply is a message from a DHCP server, as it was received: nothing of it is checked.
type DHCPReply struct {
	Type    DHCPType
	XID     uint32
	Address netip.Addr // yiaddr
	Bits    int        // of the subnet mask, -1 for none
	Server  netip.Addr
	Via     string // the MAC address of the sender
	Routers []netip.Addr
	DNS     []netip.Addr
	MTU     int           // 0 for none
	Lease   time.Duration // 0 for none, as T1 and T2
	T1, T2  time.Duration
}
