package guest

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// Spoofed is the sender that the beacons of a hostile app name.
const Spoofed = "66.66"

func hexOf(n int) string  { return fmt.Sprintf("%014x", n) }
func portOf(n int) string { return strconv.Itoa(10000 + n) }

// hostileFrame is the n-th frame of an attack.
func hostileFrame(kind string, n int, mac []byte) []byte {
	broadcast := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	frame := append(append(append([]byte(nil), broadcast...), mac...), 8, 0)
	src := [4]byte{10, byte(n >> 8), byte(n), byte(n%200 + 3)} // #nosec G115 -- low bits
	switch kind {
	case "arp": // claims the gateways of all networks
		frame[13] = 6
		body := []byte{0, 1, 8, 0, 6, 4, 0, 2}
		body = append(append(body, mac...), 10, byte(n%30), 0, 1)                               // #nosec G115
		return append(append(append(frame, body...), broadcast...), 10, byte(n%30), 0, byte(n)) // #nosec G115
	case "random": // of a MAC that is not the app's, with what no protocol says
		copy(frame[6:], []byte{2, 0x66, byte(n >> 8), byte(n), 0, 1}) // #nosec G115
		return append(frame, make([]byte, n%1400)...)
	case "fragments":
		return append(frame, PacketOf(src, [4]byte{198, 51, 100, 80}, 0x2000|uint16(n%100), nil)...) // #nosec G115
	}
	text := []byte(BeaconMagic + Spoofed + " x 0")
	return append(frame, PacketOf(src, [4]byte{10, byte(n % 30), 0, byte(n%250 + 2)}, 0, text)...) // #nosec G115
}

// PacketOf is a UDP packet to the served port, with a right checksum of the header of IP and none of UDP.
func PacketOf(src, dst [4]byte, fragment uint16, payload []byte) []byte {
	p := make([]byte, 28, 28+len(payload))
	p[0], p[8], p[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(p[2:], uint16(28+len(payload))) // #nosec G115
	binary.BigEndian.PutUint16(p[6:], fragment)
	copy(p[12:], src[:])
	copy(p[16:], dst[:])
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum+sum>>16)) // #nosec G115
	binary.BigEndian.PutUint16(p[20:], 5000)
	binary.BigEndian.PutUint16(p[22:], 7001)
	binary.BigEndian.PutUint16(p[24:], uint16(8+len(payload))) // #nosec G115
	return append(p, payload...)
}
