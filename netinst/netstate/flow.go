package netstate

import "net/netip"

// Flow is one tracked connection (nf_conntrack): who began it to whom, and the
// addresses of its answers, which differ from the reverse where it is translated.
// Protocols without ports have port 0.
type Flow struct {
	Proto              uint8  // IANA protocol number
	Zone               uint16 // of nf_conntrack; 0 where none was chosen
	Src, Dst           netip.AddrPort
	ReplySrc, ReplyDst netip.AddrPort
}
