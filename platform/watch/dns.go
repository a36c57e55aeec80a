package watch

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

const (
	dnsHead    = 12  // octets of the header (RFC 1035 §4.1.1)
	maxRecords = 24  // of an answer that are read
	maxName    = 255 // octets of a name as it is kept; one of escaped octets may have more
	recordHead = 10  // type, class, TTL and length of a record (RFC 1035 §4.1.3)
)

// parseDNS reads the DNS messages in a frame that the filter has passed: one of UDP, or those that a segment of TCP
// has. bad counts messages that have not the form of DNS; unread counts segments of TCP that begin in the middle of a
// message, or with anything else: they are not told apart.
func parseDNS(frame []byte, outgoing bool, now time.Time) (list []netstate.DNSMessage, bad, unread uint64) {
	p, ok := parsePacket(frame)
	if !ok {
		return nil, 1, 0
	}
	of := netstate.DNSMessage{Answer: outgoing, TCP: p.proto == unix.IPPROTO_TCP, At: now}
	of.MAC, of.Server = net.HardwareAddr(frame[6:12]).String(), p.dst
	if outgoing {
		of.MAC, of.Server = net.HardwareAddr(frame[:6]).String(), p.src
	}
	if !of.TCP {
		m, ok := parseMessage(of, p.payload, p.cut)
		if !ok {
			return nil, 1, 0
		}
		return []netstate.DNSMessage{m}, 0, 0
	}
	for b := p.payload; len(b) > 0 && len(list) < maxRecords; {
		if len(b) < 2+dnsHead {
			return list, 0, 1
		}
		n := int(binary.BigEndian.Uint16(b))
		whole := b[2:min(len(b), 2+n)]
		m, ok := parseMessage(of, whole, len(whole) < n)
		if !ok {
			return list, 0, 1
		}
		list = append(list, m)
		b = b[2+len(whole):]
	}
	return list, 0, 0
}

// parseMessage reads a message of which the end is missing if it is cut. It reads the header, the first question, and
// addresses and TTLs of the answer section: that is linear in the octets that are there, however names are compressed.
func parseMessage(m netstate.DNSMessage, b []byte, cut bool) (netstate.DNSMessage, bool) {
	if len(b) < dnsHead {
		return m, false
	}
	flags := binary.BigEndian.Uint16(b[2:])
	questions, records := binary.BigEndian.Uint16(b[4:]), int(binary.BigEndian.Uint16(b[6:]))
	if answer := flags&0x8000 != 0; answer != m.Answer || questions > 1 {
		return m, false
	}
	m.Truncated, m.RCode, m.Partial = flags&0x0200 != 0, int(flags&0xf), cut
	off := dnsHead
	if questions == 1 {
		name, end, err := dns.UnpackDomainName(b, off)
		if err != nil || end+4 > len(b) {
			return m, false
		}
		m.Name, m.Type = nameText(name), typeText(binary.BigEndian.Uint16(b[end:]))
		off = end + 4
	}
	if !m.Answer {
		return m, true
	}
	return m, readRecords(&m, b[off:], records) || cut
}

// readRecords reads the first records of an answer, and returns false if they have not their form.
func readRecords(m *netstate.DNSMessage, b []byte, records int) bool {
	m.Partial = m.Partial || records > maxRecords
	for i := range min(records, maxRecords) {
		n, ok := nameLength(b)
		if !ok || len(b) < n+recordHead {
			return false
		}
		b = b[n:]
		kind, class := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		ttl, size := time.Duration(binary.BigEndian.Uint32(b[4:]))*time.Second, int(binary.BigEndian.Uint16(b[8:]))
		if b = b[recordHead:]; len(b) < size {
			return false
		}
		if i == 0 || ttl < m.TTL {
			m.TTL = ttl
		}
		a, is := netip.AddrFromSlice(b[:size])
		is = is && class == dns.ClassINET && (kind == dns.TypeA && a.Is4() || kind == dns.TypeAAAA && a.Is6())
		if is && len(m.Addresses) < netstate.MaxAnswerAddresses {
			m.Addresses = append(m.Addresses, a.Unmap())
		}
		b = b[size:]
	}
	return true
}

// nameLength returns how many octets a name takes where it is, up to a pointer (RFC 1035 §4.1.4), without following it.
func nameLength(b []byte) (int, bool) {
	for n := 0; n < len(b); {
		switch size := int(b[n]); {
		case size == 0:
			return n + 1, true
		case size >= 0xc0:
			return n + 2, n+2 <= len(b)
		case size > 63:
			return 0, false
		default:
			n += 1 + size
		}
	}
	return 0, false
}

// nameText returns a name as it is shown. The library escapes whatever is no printable ASCII.
func nameText(name string) string {
	if name = strings.ToLower(name); name != "." {
		name = strings.TrimSuffix(name, ".")
	}
	if len(name) > maxName {
		return name[:maxName-3] + "..."
	}
	return name
}

func typeText(kind uint16) string {
	if s := dns.TypeToString[kind]; s != "" {
		return s
	}
	return "TYPE" + strconv.Itoa(int(kind))
}

// packet is an IP packet with UDP or TCP.
type packet struct {
	proto    uint8
	src, dst netip.Addr
	payload  []byte // of UDP or TCP
	cut      bool   // there is more of it
}

// parsePacket reads a frame up to the payload of UDP or TCP. What follows the packet in the frame is padding.
func parsePacket(frame []byte) (p packet, ok bool) {
	if len(frame) < offPacket {
		return p, false
	}
	b := frame[offPacket:]
	var size, head int
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		p.src, p.dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		p.proto, size, head = b[9], int(binary.BigEndian.Uint16(b[2:])), int(b[0]&15)*4
		p.cut = binary.BigEndian.Uint16(b[6:])&0x2000 != 0 // the first of several fragments
	case len(b) >= head6 && b[0]>>4 == 6:
		p.src, p.dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
		p.proto, size, head = b[6], head6+int(binary.BigEndian.Uint16(b[4:])), head6
	default:
		return p, false
	}
	if head < 20 || size < head || len(b) < head {
		return p, false
	}
	if p.cut = p.cut || len(b) < size; len(b) > size {
		b = b[:size]
	}
	if b = b[head:]; p.proto == unix.IPPROTO_UDP {
		head = 8
	} else {
		head = 20
		if len(b) > 12 {
			head = int(b[12]>>4) * 4
		}
	}
	if head < 8 || len(b) < head {
		return p, false
	}
	p.payload = b[head:]
	return p, true
}
