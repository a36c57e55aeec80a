package netstate

import "net/netip"

// Flow is one tracked connection (nf_conntrack): the addresses of its first packet, and those of its replies, which
// differ from the reverse if it is translated. Protocols without ports have port 0.
type Flow struct {
	Proto              uint8  // IANA protocol number
	Zone               uint16 // of nf_conntrack; 0 by default
	Src, Dst           netip.AddrPort
	ReplySrc, ReplyDst netip.AddrPort
}
