package netns_test

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"edgespan/netinst/verdict"
)

// shape is how a packet is sent. Verdicts do not depend on it, but some shapes are banned.
type shape uint8

const (
	plain      shape = iota
	extended         // with options of IPv4, or a header of IPv6 between IP's own and the protocol's
	fragmented       // in two fragments, of which only the first has ports
)

func (s shape) String() string { return [...]string{"plain", "extended", "fragmented"}[s] }

func (d verdictDraw) shape() shape {
	return pick(d, []shape{plain, plain, plain, plain, extended, fragmented})
}

// banned reports whether no app may send such a packet in this shape (docs/configuration.md, Network instances).
func (s shape) banned(p verdict.Packet) bool {
	return p.From == verdict.App && p.Dst.Is6() && (s == extended || s == fragmented && p.Proto == unix.IPPROTO_ICMPV6)
}

// firstFragment is the length of a first fragment above IP: it has the protocol's header and the number of the packet.
const firstFragment = 40

// shaped returns an IPv4 packet in a shape (RFC 791 §3.1 and §3.2).
func shaped(b []byte, s shape, id uint16) [][]byte {
	switch s {
	case extended:
		b = slices.Insert(b, 20, 1, 1, 1, 0) // no operation, three times, and the end
		b[0] = 0x46
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	case fragmented:
		first := slices.Clone(b[:20+firstFragment])
		second := slices.Concat(b[:20], b[20+firstFragment:])
		for i, f := range [][]byte{first, second} {
			binary.BigEndian.PutUint16(f[2:], uint16(len(f)))
			binary.BigEndian.PutUint16(f[4:], max(id, 1)) // the kernel replaces 0, for each fragment by another one (raw(7))
			binary.BigEndian.PutUint16(f[6:], uint16(0x2000*(1-i)+i*firstFragment/8))
		}
		return [][]byte{first, second}
	}
	return [][]byte{b}
}

// shaped6 returns an IPv6 packet in a shape (RFC 8200 §4).
func shaped6(b []byte, s shape, id uint32) [][]byte {
	insert := func(kind byte, header []byte, above []byte) []byte {
		f := slices.Concat(b[:40], header, above)
		f[40], f[6] = b[6], kind
		binary.BigEndian.PutUint16(f[4:], uint16(len(f)-40))
		return f
	}
	switch s {
	case extended:
		return [][]byte{insert(unix.IPPROTO_DSTOPTS, []byte{0, 0, 1, 4, 0, 0, 0, 0}, b[40:])}
	case fragmented:
		header := func(offset uint16) []byte {
			return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16([]byte{0, 0}, offset), id)
		}
		return [][]byte{insert(unix.IPPROTO_FRAGMENT, header(1), b[40:40+firstFragment]),
			insert(unix.IPPROTO_FRAGMENT, header(firstFragment), b[40+firstFragment:])}
	}
	return [][]byte{b}
}

// above6 returns the protocol above IPv6 and what follows its extension headers; without a first fragment it is nothing.
func above6(b []byte) (proto byte, rest []byte) {
	proto, rest = b[6], b[40:]
	for len(rest) >= 8 {
		switch proto {
		case unix.IPPROTO_FRAGMENT:
			if binary.BigEndian.Uint16(rest[2:])>>3 != 0 {
				return proto, nil
			}
			proto, rest = rest[0], rest[8:]
		case unix.IPPROTO_DSTOPTS:
			proto, rest = rest[0], rest[8:]
		default:
			return proto, rest
		}
	}
	return proto, nil
}
