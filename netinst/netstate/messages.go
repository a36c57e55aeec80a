package netstate

import (
	"net/netip"
	"time"
)

// DNSMessage is a DNS query of an app or an answer to one, as it was read on its way. Of its content only the form is
// checked: a server may answer anything.
type DNSMessage struct {
	MAC    string     // of the app, in the form of net.HardwareAddr
	Server netip.Addr // the other end
	TCP    bool
	Answer bool
	// Name is the name in the question, in lower case, without the last dot, and with \DDD in place of octets that are no
	// printable ASCII (RFC 4343 §2.1); Type is that of the question. Both are "" if the message has no question.
	Name, Type string
	RCode      int // of an answer (RFC 6895 §2.3)
	// Truncated means that the server had more to say (bit TC). Partial means that the rest was not read.
	Truncated, Partial bool
	// Addresses are the first of an answer, up to MaxAnswerAddresses, and TTL is the shortest of its records that were
	// read.
	Addresses []netip.Addr
	TTL       time.Duration
	At        time.Time
}

// MaxAnswerAddresses is how many addresses of a DNS answer are read.
const MaxAnswerAddresses = 8

// DHCPMessage is a DHCP message of a client or a server (IPv4), as it was read on its way.
type DHCPMessage struct {
	Type       DHCPType // "" if it has none of the known types
	FromServer bool
	MAC        string // of the client: the frame's, and chaddr of a broadcast
	// Address is the one that a server assigns or offers, or that a client asks for, gives back or refuses.
	Address netip.Addr
	Server  netip.Addr    // option 54
	Lease   time.Duration // option 51, 0 without one
	At      time.Time
}

// HeldLease is a lease that a network's DHCP server has recorded.
type HeldLease struct {
	MAC     string
	Address netip.Addr
	Until   time.Time
}

// Messages are what was read on one link since the last ones.
type Messages struct {
	Link string
	DNS  []DNSMessage
	DHCP []DHCPMessage
	// Malformed are packets to or from the ports of DNS or DHCP that do not have their form. Unread are packets that were
	// not read, by protocol: there were too many, or a segment of TCP has only a part of a message.
	Malformed, UnreadDNS, UnreadDHCP uint64
}
