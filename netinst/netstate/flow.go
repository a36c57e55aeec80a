package netstate

import (
	"net/netip"
	"time"
)

// Flow is one tracked connection (nf_conntrack): the addresses of its first packet, and those of its replies, which
// differ from the reverse if it is translated. Protocols without ports have port 0.
type Flow struct {
	Proto              uint8  // IANA protocol number
	Zone               uint16 // of nf_conntrack, of the first packet's direction; 0 by default
	Src, Dst           netip.AddrPort
	ReplySrc, ReplyDst netip.AddrPort
}

// EndedFlow is a tracked connection that has ended, or one that goes on, with what the kernel has counted of it so far
// (nf_conntrack_acct).
type EndedFlow struct {
	Flow
	Out, In Traffic // of the original direction and of the replies
	// Start is zero if the kernel did not record it (nf_conntrack_timestamp). End is now for a flow that goes on.
	Start, End time.Time
}

// DeniedPacket is a packet that a chain has denied and passed to the log (nfnetlink_log).
type DeniedPacket struct {
	Chain string // that logged it
	Flow         // its head; the replies' ends are its own, exchanged
	Bytes uint64 // of the IP packet
	At    time.Time
}

// FlowEvents are ended connections and denied packets, and how many of both were lost before these.
type FlowEvents struct {
	Ended  []EndedFlow
	Denied []DeniedPacket
	Lost   uint64
}

// Traffic is an amount of packets. Bytes are those of the IP packets.
type Traffic struct{ Packets, Bytes uint64 }

// Settings with which the kernel counts the packets and bytes of tracked connections, records when they began, and
// reports their ends even if none listened when they began (2, the default since Linux 5.19, reports only others).
// They affect connections that begin afterwards.
const (
	CountFlows  = "net/netfilter/nf_conntrack_acct"
	TimeFlows   = "net/netfilter/nf_conntrack_timestamp"
	ReportFlows = "net/netfilter/nf_conntrack_events"
)
