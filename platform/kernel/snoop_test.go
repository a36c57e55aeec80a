package kernel

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
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

// informed is the answer to a DHCPINFORM of a client that has an address: ciaddr is that,
// and yiaddr nothing.
func informed(ip ...byte) []byte {
	p := ack(5, 0, 0, 0, 0)
	copy(p[20+udpHead+12:], ip)
	return p
}

const mac6 = "02:00:00:00:00:07"

// frame6 is a frame with a message of neighbour discovery.
func frame6(kind byte, src, target string) []byte {
	from, of := netip.MustParseAddr(src).As16(), netip.MustParseAddr(target).As16()
	f := frame(unix.ETH_P_IPV6, slices.Concat([]byte{0x60, 0, 0, 0, 0, 24, unix.IPPROTO_ICMPV6, 255}, from[:],
		make([]byte, 16), []byte{kind, 0, 0, 0, 0, 0, 0, 0}, of[:]))
	copy(f[6:], []byte{2, 0, 0, 0, 0, 7})
	return f
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
		"a DHCP server acknowledges":         {frame(unix.ETH_P_IP, ack(5, 10, 0, 0, 7)), true, mac + " 10.0.0.7 leased"},
		"a DHCP server offers":               {frame(unix.ETH_P_IP, ack(2, 10, 0, 0, 7)), true, ""},
		"an app plays the DHCP server":       {frame(unix.ETH_P_IP, ack(5, 10, 0, 0, 7)), false, ""},
		"an acknowledge without an address":  {frame(unix.ETH_P_IP, ack(5, 0, 0, 0, 0)), true, ""},
		"the answer to a DHCPINFORM":         {frame(unix.ETH_P_IP, informed(10, 0, 0, 7)), true, ""},
		"a cut acknowledge":                  {frame(unix.ETH_P_IP, ack(5, 10, 0, 0, 7)[:250]), true, ""},
		"an option that is longer than said": {frame(unix.ETH_P_IP, ack(5, 10, 0, 0, 7)[:20+udpHead+dhcpFixed+9]), true, ""},
		"an app asks for a neighbour":        {frame6(135, "2001:db8::7", "2001:db8::9"), false, mac6 + " 2001:db8::7"},
		"an app tests its new address":       {frame6(135, "::", "2001:db8::7"), false, ""},
		"an app advertises its address":      {frame6(136, "fe80::7", "2001:db8::7"), false, mac6 + " 2001:db8::7"},
		"an app advertises a group":          {frame6(136, "fe80::7", "ff02::7"), false, ""},
		"others advertise themselves":        {frame6(136, "fe80::7", "2001:db8::7"), true, ""},
		"a ping":                             {frame6(128, "2001:db8::7", "2001:db8::9"), false, ""},
		"an advertisement that is cut":       {frame6(136, "fe80::7", "2001:db8::7")[:77], false, ""},
		"no frame":                           {[]byte{1, 2, 3}, false, ""},
		"an empty packet":                    {frame(unix.ETH_P_IP, nil), true, ""},
	} {
		got := ""
		if s, ok := parseSighting(c.frame, c.outgoing); ok {
			got = s.MAC + " " + s.IP.String()
			if s.Leased {
				got += " leased"
			}
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
		if s, ok := parseSighting(b, outgoing); ok && !s.IP.Is4() {
			t.Errorf("%x: %s", b, s.IP)
		}
	})
}

// An app that makes up a sender for each packet is told of no more often, and neither is
// one that is given another lease with each.
func TestAFloodOfAddressesIsToldInPart(t *testing.T) {
	for _, leased := range []bool{false, true} {
		heard, began := reportedAddresses{}, time.Now()
		ip, n := netip.MustParseAddr("10.0.0.1"), 0
		for i := range 10_000 { // over 20 s
			if heard.isNew(netstate.ObservedAddress{IP: ip, Leased: leased}, began.Add(time.Duration(i)*2*time.Millisecond)) {
				n++
			}
			ip = ip.Next()
		}
		if n != 2*snoopMax || len(heard.at) > snoopMax {
			t.Errorf("leased %v: %d of 10000 addresses were told, %d are remembered, want %d and at most %d", leased, n,
				len(heard.at), 2*snoopMax, snoopMax)
		}
		s, at := netstate.ObservedAddress{IP: ip, Leased: leased}, began.Add(time.Minute)
		if !heard.isNew(s, at) || heard.isNew(s, at.Add(snoopQuiet-1)) || !heard.isNew(s, at.Add(snoopQuiet)) {
			t.Errorf("leased %v: one address is not told once in each time", leased)
		}
	}
}

// However many frames a link has, few are read in a second; one that has few waits for nothing.
func TestAFloodOfFramesIsReadInPart(t *testing.T) {
	p, now, end, n := pace{}, time.Unix(1000, 0), time.Unix(1010, 0), 0
	for ; now.Before(end); n++ {
		now = now.Add(10*time.Microsecond + p.rest(now))
	}
	if n < 10*snoopRate || n > 11*snoopRate {
		t.Errorf("%d frames were read in 10 s", n)
	}
	p, now = pace{}, end
	for range 1000 {
		if now = now.Add(2 * time.Second / snoopRate); p.rest(now) != 0 {
			t.Fatal("a link within its measure waits")
		}
	}
}

func TestAnotherLeaseIsToldAtOnce(t *testing.T) {
	heard, at := reportedAddresses{}, time.Now()
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for i, c := range []struct {
		ip     netip.Addr
		leased bool
		want   bool
	}{
		{a, false, true},
		{a, false, false},
		{a, true, true},
		{a, true, false},
		{a, false, false},
		{b, true, true},
		{a, false, false},
		{b, true, false},
		{a, true, true},
	} {
		if got := heard.isNew(netstate.ObservedAddress{IP: c.ip, Leased: c.leased},
			at.Add(time.Duration(i)*time.Millisecond)); got != c.want {
			t.Errorf("%d, %s leased %v: told %v, want %v", i, c.ip, c.leased, got, c.want)
		}
	}
}
