package guest

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
)

// UDP is what the judges read of a packet.
type UDP struct {
	Src, Dst netip.AddrPort
	payload  []byte
}

// ParseUDP reads an IPv4 packet with UDP in it, not a later fragment.
func ParseUDP(p []byte) (UDP, bool) {
	if len(p) < 28 || p[0]>>4 != 4 || p[9] != 17 || binary.BigEndian.Uint16(p[6:])&0x1fff != 0 {
		return UDP{}, false
	}
	head := int(p[0]&0xf) * 4
	if head < 20 || len(p) < head+8 {
		return UDP{}, false
	}
	src, dst := netip.AddrFrom4([4]byte(p[12:])), netip.AddrFrom4([4]byte(p[16:]))
	p = p[head:]
	return UDP{netip.AddrPortFrom(src, binary.BigEndian.Uint16(p)),
		netip.AddrPortFrom(dst, binary.BigEndian.Uint16(p[2:])), p[8:]}, true
}

// Carries tells whether a packet is no beacon and has one inside, as one that went through a tunnel has.
func (u UDP) Carries() bool {
	return u.Beacon() == "" && bytes.Contains(u.payload, []byte(BeaconMagic))
}

// Beacon returns the sender of a beacon, or "".
func (u UDP) Beacon() string {
	text, ok := strings.CutPrefix(string(u.payload), BeaconMagic)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(text, " ")
	return name
}
