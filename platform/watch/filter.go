package watch

import "golang.org/x/sys/unix"

// step is an instruction of a classic BPF program; yes and no are labels to jump to, "" is the next step.
type step struct {
	label   string
	code    uint16
	k       uint32
	yes, no string
}

// The instructions in use.
const (
	loadByte     = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	loadHalf     = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
	loadWord     = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	loadByteX    = unix.BPF_LD | unix.BPF_B | unix.BPF_IND
	loadHalfX    = unix.BPF_LD | unix.BPF_H | unix.BPF_IND
	loadIPHead   = unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH
	jumpEqual    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpSet      = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	answer       = unix.BPF_RET | unix.BPF_K
	pktTypeField = 1<<32 - 0x1000 + 4 // SKF_AD_OFF + SKF_AD_PKTTYPE (linux/filter.h)
)

// Offsets in a frame.
const (
	offType   = 12
	offPacket = 14
	offFlags4 = offPacket + 6
	offProto4 = offPacket + 9
	offNext6  = offPacket + 6
	head6     = 40
	offTCPBit = 13 // of the header of TCP: the flags
	tcpPush   = 8
)

// dnsFilter accepts what a server sends to an app (outgoing, from port 53) and what an app sends to one (incoming, to
// port 53): first fragments of UDP, and segments of TCP that end a write. IPv6 has no extension headers before them.
var dnsFilter = assemble([]step{
	{code: loadHalf, k: offType},
	{code: jumpEqual, k: unix.ETH_P_IPV6, yes: "six"},
	{code: jumpEqual, k: unix.ETH_P_IP, no: "drop"},
	{code: loadHalf, k: offFlags4},
	{code: jumpSet, k: 0x1fff, yes: "drop"},
	{code: loadIPHead, k: offPacket},
	{code: loadByte, k: offProto4},
	{code: jumpEqual, k: unix.IPPROTO_UDP, yes: "ports"},
	{code: jumpEqual, k: unix.IPPROTO_TCP, no: "drop"},
	{code: loadByteX, k: offPacket + offTCPBit},
	{code: jumpSet, k: tcpPush, no: "drop"},
	{label: "ports", code: loadWord, k: pktTypeField},
	{code: jumpEqual, k: unix.PACKET_OUTGOING, no: "in"},
	{code: loadHalfX, k: offPacket},
	{code: jumpEqual, k: 53, yes: "pass", no: "drop"},
	{label: "in", code: loadHalfX, k: offPacket + 2},
	{code: jumpEqual, k: 53, yes: "pass", no: "drop"},
	{label: "six", code: loadByte, k: offNext6},
	{code: jumpEqual, k: unix.IPPROTO_UDP, yes: "ports6"},
	{code: jumpEqual, k: unix.IPPROTO_TCP, no: "drop"},
	{code: loadByte, k: offPacket + head6 + offTCPBit},
	{code: jumpSet, k: tcpPush, no: "drop"},
	{label: "ports6", code: loadWord, k: pktTypeField},
	{code: jumpEqual, k: unix.PACKET_OUTGOING, no: "in6"},
	{code: loadHalf, k: offPacket + head6},
	{code: jumpEqual, k: 53, yes: "pass", no: "drop"},
	{label: "in6", code: loadHalf, k: offPacket + head6 + 2},
	{code: jumpEqual, k: 53, yes: "pass", no: "drop"},
	{label: "pass", code: answer, k: maxFrame},
	{label: "drop", code: answer, k: 0},
})

// dhcpFilter accepts what a DHCP server sends to clients (outgoing, from port 67) and what a client sends to one
// (incoming, to port 67).
var dhcpFilter = assemble([]step{
	{code: loadHalf, k: offType},
	{code: jumpEqual, k: unix.ETH_P_IP, no: "drop"},
	{code: loadHalf, k: offFlags4},
	{code: jumpSet, k: 0x1fff, yes: "drop"},
	{code: loadByte, k: offProto4},
	{code: jumpEqual, k: unix.IPPROTO_UDP, no: "drop"},
	{code: loadIPHead, k: offPacket},
	{code: loadWord, k: pktTypeField},
	{code: jumpEqual, k: unix.PACKET_OUTGOING, no: "in"},
	{code: loadHalfX, k: offPacket},
	{code: jumpEqual, k: 67, yes: "pass", no: "drop"},
	{label: "in", code: loadHalfX, k: offPacket + 2},
	{code: jumpEqual, k: 67, yes: "pass", no: "drop"},
	{label: "pass", code: answer, k: maxFrame},
	{label: "drop", code: answer, k: 0},
})

// assemble resolves the labels, which are behind the jumps to them.
func assemble(steps []step) []unix.SockFilter {
	at := map[string]int{}
	for i, s := range steps {
		if s.label != "" {
			at[s.label] = i
		}
	}
	out := make([]unix.SockFilter, len(steps))
	for i, s := range steps {
		jump := func(to string) uint8 {
			if to == "" {
				return 0
			}
			return uint8(at[to] - i - 1)
		}
		out[i] = unix.SockFilter{Code: s.code, K: s.k, Jt: jump(s.yes), Jf: jump(s.no)}
	}
	return out
}
