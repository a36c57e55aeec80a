package kernel

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func frame(kind uint16, body []byte) []byte {
	return append(binary.BigEndian.AppendUint16(make([]byte, 12), kind), body...)
}

func arpBody(ip ...byte) []byte {
	return slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9}, ip, make([]byte, 10))
}

// ack is an IPv4 packet with a DHCP message of a type, after padding options.
func ack(kind byte, ip ...byte) []byte {
	p := make([]byte, dhcpFixed)
	p[0], p[1], p[2] = 2, 1, 6
	copy(p[16:], ip)
	copy(p[28:], []byte{2, 0, 0, 0, 0, 9})
	copy(p[236:], []byte{0x63, 0x82, 0x53, 0x63})
	p = append(p, 0, 0, 51, 4, 0, 0, 14, 16, 53, 1, kind, 255)
	return slices.Concat([]byte{0x45}, make([]byte, 19), make([]byte, udpHead), p)
}

func TestSighting(t *testing.T) {
	const mac = "02:00:00:00:00:09"
	for name, c := range map[string]struct {
		frame    []byte
		outgoing bool
		want     string
	}{
		"an app asks or answers by ARP":      {frame(unix.ETH_P_ARP, arpBody(10, 0, 0, 9)), false, mac + " 10.0.0.9"},
		"others ask the app by ARP":          {frame(unix.ETH_P_ARP, arpBody(10, 0, 0, 9)), true, ""},
		"a probe before an address is used":  {frame(unix.ETH_P_ARP, arpBody(0, 0, 0, 0)), false, ""},
		"a multicast sender":                 {frame(unix.ETH_P_ARP, arpBody(224, 0, 0, 1)), false, ""},
		"a short ARP packet":                 {frame(unix.ETH_P_ARP, arpBody(10, 0, 0, 9)[:27]), false, ""},
		"a DHCP server acknowledges":         {frame(unix.ETH_P_IP, ack(5, 10, 0, 0, 7)), true, mac + " 10.0.0.7"},
		"a DHCP server offers":               {frame(unix.ETH_P_IP, ack(2, 10, 0, 0, 7)), true, ""},
		"an app plays the DHCP server":       {frame(unix.ETH_P_IP, ack(5, 10, 0, 0, 7)), false, ""},
		"an acknowledge without an address":  {frame(unix.ETH_P_IP, ack(5, 0, 0, 0, 0)), true, ""},
		"a cut acknowledge":                  {frame(unix.ETH_P_IP, ack(5, 10, 0, 0, 7)[:250]), true, ""},
		"an option that is longer than said": {frame(unix.ETH_P_IP, ack(5, 10, 0, 0, 7)[:20+udpHead+dhcpFixed+9]), true, ""},
		"no frame":                           {[]byte{1, 2, 3}, false, ""},
		"an empty packet":                    {frame(unix.ETH_P_IP, nil), true, ""},
	} {
		got := ""
		if m, ip, ok := sighting(c.frame, c.outgoing); ok {
			got = m + " " + ip.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func FuzzSighting(f *testing.F) {
	f.Add(frame(unix.ETH_P_ARP, arpBody(10, 0, 0, 9)), false)
	f.Add(frame(unix.ETH_P_IP, ack(5, 10, 0, 0, 7)), true)
	f.Fuzz(func(t *testing.T, b []byte, outgoing bool) {
		if _, ip, ok := sighting(b, outgoing); ok && !ip.Is4() {
			t.Errorf("%x: %s", b, ip)
		}
	})
}

// An app that makes up a sender for each packet is told of no more often.
func TestAFloodOfAddressesIsToldInPart(t *testing.T) {
	heard, began := told{}, time.Now()
	ip, n := netip.MustParseAddr("10.0.0.1"), 0
	for i := range 10_000 { // over 20 s
		if heard.news(ip, began.Add(time.Duration(i)*2*time.Millisecond)) {
			n++
		}
		ip = ip.Next()
	}
	if n != 2*snoopMost || len(heard) > snoopMost {
		t.Errorf("%d of 10000 addresses were told, %d are remembered, want %d and at most %d", n, len(heard), 2*snoopMost, snoopMost)
	}
	at := began.Add(time.Minute)
	if !heard.news(ip, at) || heard.news(ip, at.Add(snoopQuiet-1)) || !heard.news(ip, at.Add(snoopQuiet)) {
		t.Error("one address is not told once in each time")
	}
}
