package watch

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"edgespan/netinst/netstate"
)

const toApp, fromApp = true, false

// frame4 is a frame of an app with the MAC address 02:00:00:00:00:02 and a server at 10.1.0.1.
func frame4(proto byte, outgoing bool, head, payload []byte) []byte {
	ip := make([]byte, 20, 1500)
	ip[0], ip[9] = 0x45, proto
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(head)+len(payload)))
	app, server := []byte{10, 1, 0, 2}, []byte{10, 1, 0, 1}
	mac, bridge := []byte{2, 0, 0, 0, 0, 2}, []byte{2, 0, 0, 0, 0, 1}
	if outgoing {
		copy(ip[12:], append(server, app...))
		return append(append(append(append(append(mac, bridge...), 8, 0), ip...), head...), payload...)
	}
	copy(ip[12:], append(app, server...))
	return append(append(append(append(append(bridge, mac...), 8, 0), ip...), head...), payload...)
}

func udp(outgoing bool, port uint16, payload []byte) []byte {
	head := make([]byte, 8)
	at := 2
	if outgoing {
		at = 0
	}
	binary.BigEndian.PutUint16(head[at:], port)
	binary.BigEndian.PutUint16(head[4:], uint16(8+len(payload)))
	return frame4(17, outgoing, head, payload)
}

// tcp is a segment with messages, each behind its length.
func tcp(outgoing bool, messages ...[]byte) []byte {
	head, payload := make([]byte, 20), []byte{}
	head[12] = 5 << 4
	for _, m := range messages {
		payload = append(binary.BigEndian.AppendUint16(payload, uint16(len(m))), m...)
	}
	return frame4(6, outgoing, head, payload)
}

// message packs an answer, or a query if it has no records and no rcode.
func message(t testing.TB, name string, rcode int, records ...string) []byte {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, dns.TypeA)
	m.Compress = true
	if m.Rcode = rcode; len(records) > 0 || rcode != 0 {
		m.Response = true
	}
	for _, r := range records {
		rr, err := dns.NewRR(r)
		if err != nil {
			t.Fatal(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func say(m netstate.DNSMessage) string {
	s := fmt.Sprintf("%s %v %s %s %d %v %v", m.MAC, m.Server, m.Name, m.Type, m.RCode, m.Addresses, m.TTL)
	for _, x := range []struct {
		is   bool
		word string
	}{{m.TCP, "tcp"}, {!m.Answer, "query"}, {m.Truncated, "truncated"}, {m.Partial, "partial"}} {
		if x.is {
			s += " " + x.word
		}
	}
	return s
}

func TestDNSMessagesAreRead(t *testing.T) {
	const head = "02:00:00:00:00:02 10.1.0.1 "
	ok := message(t, "Example.ORG.", 0, "example.org. 300 IN CNAME www.example.net.", "www.example.net. 60 IN A 192.0.2.1",
		"www.example.net. 90 IN AAAA 2001:db8::1")
	read := head + "example.org A 0 [192.0.2.1 2001:db8::1] 1m0s"
	truncated := append([]byte{}, ok...)
	truncated[2] |= 2
	many := message(t, "many.test.", 0, strings.Split(strings.Repeat("many.test. 5 IN A 192.0.2.7\n", 30), "\n")[:30]...)
	sevens := strings.TrimSuffix(strings.Repeat("192.0.2.7 ", netstate.MaxAnswerAddresses), " ")
	loop := append([]byte{0, 1, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0}, 0xc0, 12, 0, 1, 0, 1)
	odd := append([]byte{0, 1, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4}, "a\x1b[m\x00\xff\x63\x00\x01"...)
	long := message(t, strings.Repeat(strings.Repeat("x", 49)+".", 5), dns.RcodeNameError)
	nothing := []byte{0, 1, 0x80, 5, 0, 0, 0, 0, 0, 0, 0, 0}
	short := udp(toApp, 53, ok)
	fragment := udp(toApp, 53, ok)
	fragment[offFlags4] |= 0x20
	for what, x := range map[string]struct {
		frame       []byte
		outgoing    bool
		want        string
		bad, unread uint64
	}{
		"a query":               {udp(fromApp, 53, message(t, "a.test.", 0)), fromApp, head + "a.test A 0 [] 0s query", 0, 0},
		"an answer":             {udp(toApp, 53, ok), toApp, read, 0, 0},
		"padding":               {append(udp(toApp, 53, message(t, "a.test.", 3)), 1, 2, 3), toApp, head + "a.test A 3 [] 0s", 0, 0},
		"over TCP":              {tcp(toApp, ok), toApp, read + " tcp", 0, 0},
		"two over TCP":          {tcp(toApp, ok, ok), toApp, read + " tcp; " + read + " tcp", 0, 0},
		"truncated":             {udp(toApp, 53, truncated), toApp, read + " truncated", 0, 0},
		"many records":          {udp(toApp, 53, many), toApp, head + "many.test A 0 [" + sevens + "] 5s partial", 0, 0},
		"the end is missing":    {short[:len(short)-20], toApp, head + "example.org A 0 [192.0.2.1] 1m0s partial", 0, 0},
		"a first fragment":      {fragment, toApp, read + " partial", 0, 0},
		"a name of 249 octets":  {udp(toApp, 53, long), toApp, head + strings.Repeat("."+strings.Repeat("x", 49), 5)[1:] + " A 3 [] 0s", 0, 0},
		"control characters":    {udp(toApp, 53, odd), toApp, head + `a\027[m TYPE65379 0 [] 0s`, 0, 0},
		"no question":           {udp(toApp, 53, nothing), toApp, head + "  5 [] 0s", 0, 0},
		"a name in a loop":      {udp(toApp, 53, loop), toApp, "", 1, 0},
		"an answer of an app":   {udp(fromApp, 53, ok), fromApp, "", 1, 0},
		"a query to an app":     {udp(toApp, 53, message(t, "a.test.", 0)), toApp, "", 1, 0},
		"no DNS":                {udp(toApp, 53, []byte("hello")), toApp, "", 1, 0},
		"a record that is cut":  {udp(toApp, 53, ok[:len(ok)-20]), toApp, "", 1, 0},
		"the middle of TCP":     {frame4(6, toApp, append(make([]byte, 12), 5<<4, 8, 0, 0, 0, 0, 0, 0), ok), toApp, "", 0, 1},
		"an empty frame":        {nil, toApp, "", 1, 0},
		"a header without UDP":  {udp(toApp, 53, nil)[:offPacket+22], toApp, "", 1, 0},
		"a head that is no IP":  {make([]byte, 80), toApp, "", 1, 0},
		"less than it says":     {append(udp(toApp, 53, nil)[:offPacket], 0x4f, 0, 0, 1), toApp, "", 1, 0},
		"options up to the end": {append(udp(toApp, 53, nil)[:offPacket], append([]byte{0x4f}, make([]byte, 20)...)...), toApp, "", 1, 0},
	} {
		t.Run(what, func(t *testing.T) {
			list, bad, unread := parseDNS(x.frame, x.outgoing, time.Time{})
			var got []string
			for _, m := range list {
				got = append(got, say(m))
			}
			if s := strings.Join(got, "; "); s != x.want || bad != x.bad || unread != x.unread {
				t.Errorf("%s, %d malformed, %d unread,\nwant %s, %d, %d", s, bad, unread, x.want, x.bad, x.unread)
			}
		})
	}
}

func TestDNSOverIPv6IsRead(t *testing.T) {
	b := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64}, make([]byte, 40)...)
	server := netip.MustParseAddr("fd00::1").As16()
	copy(b[offPacket+8:], server[:])
	m := message(t, "a.test.", 0, "a.test. 9 IN A 192.0.2.3")
	binary.BigEndian.PutUint16(b[offPacket+4:], uint16(8+len(m)))
	list, bad, _ := parseDNS(append(b, m...), toApp, time.Time{})
	if len(list) != 1 || bad != 0 || say(list[0]) != "02:00:00:00:00:02 fd00::1 a.test A 0 [192.0.2.3] 9s" {
		t.Errorf("%v, %d malformed", list, bad)
	}
}

// dhcp is a message from or to an app with options.
func dhcp(op byte, client, your [4]byte, options string) []byte {
	b := make([]byte, dhcpOptions)
	b[0], b[1], b[2] = op, 1, 6
	copy(b[dhcpClientAddr:], client[:])
	copy(b[dhcpYourAddr:], your[:])
	copy(b[dhcpMAC:], []byte{2, 0, 0, 0, 0, 2})
	copy(b[dhcpMagic:], "\x63\x82\x53\x63")
	return append(b, options...)
}

func TestDHCPMessagesAreRead(t *testing.T) {
	none, two, nine := [4]byte{}, [4]byte{10, 1, 0, 2}, [4]byte{10, 1, 0, 9}
	for what, x := range map[string]struct {
		payload  []byte
		outgoing bool
		want     string
	}{
		"a lease": {dhcp(2, none, two, "\x35\x01\x05\x00\x33\x04\x00\x00\x0e\x10\x36\x04\x0a\x01\x00\x01\xff"), toApp,
			"ack true 02:00:00:00:00:02 10.1.0.2 10.1.0.1 1h0m0s"},
		"a refusal":              {dhcp(2, none, none, "\x35\x01\x06"), toApp, "nak true 02:00:00:00:00:02 invalid IP invalid IP 0s"},
		"a request":              {dhcp(1, none, none, "\x35\x01\x03\x32\x04\x0a\x01\x00\x09\xff"), fromApp, "request false 02:00:00:00:00:02 10.1.0.9 invalid IP 0s"},
		"a renewal":              {dhcp(1, two, none, "\x35\x01\x03\xff"), fromApp, "request false 02:00:00:00:00:02 10.1.0.2 invalid IP 0s"},
		"a release":              {dhcp(1, nine, none, "\x35\x01\x07\xff"), fromApp, "release false 02:00:00:00:00:02 10.1.0.9 invalid IP 0s"},
		"an unknown type":        {dhcp(1, none, none, "\x35\x01\x63\xff"), fromApp, " false 02:00:00:00:00:02 invalid IP invalid IP 0s"},
		"an option that is cut":  {dhcp(1, none, none, "\x35\x01\x01\x32\xff\x01"), fromApp, "discover false 02:00:00:00:00:02 invalid IP invalid IP 0s"},
		"an app that is server":  {dhcp(2, none, two, "\x35\x01\x05\xff"), fromApp, "bad"},
		"a request to an app":    {dhcp(1, none, two, "\x35\x01\x01\xff"), toApp, "bad"},
		"without the cookie":     {dhcp(1, none, none, "")[:dhcpMagic], fromApp, "bad"},
		"of another kind of MAC": {append([]byte{1, 6}, dhcp(1, none, none, "")[2:]...), fromApp, "bad"},
	} {
		m, ok := parseDHCP(udp(x.outgoing, 67, x.payload), x.outgoing, time.Time{})
		got := fmt.Sprintf("%s %t %s %v %v %v", m.Type, m.FromServer, m.MAC, m.Address, m.Server, m.Lease)
		if !ok {
			got = "bad"
		}
		if got != x.want {
			t.Errorf("%s: %s, want %s", what, got, x.want)
		}
	}
}

// An app may name another one as the client: in what it sends, and by a server of its own in what it gets.
func TestAMessageOfAnotherClientIsOfWhoSendsOrGetsIt(t *testing.T) {
	other := func(op byte) []byte {
		b := dhcp(op, [4]byte{10, 1, 0, 3}, [4]byte{10, 1, 0, 3}, "\x35\x01\x05\xff")
		b[dhcpMAC+5] = 3
		return b
	}
	all := udp(toApp, 67, other(2))
	copy(all, "\xff\xff\xff\xff\xff\xff")
	for i, x := range []struct {
		frame    []byte
		outgoing bool
		mac      string
	}{
		{udp(fromApp, 67, other(1)), fromApp, "02:00:00:00:00:02"},
		{udp(toApp, 67, other(2)), toApp, "02:00:00:00:00:02"},
		{all, toApp, "02:00:00:00:00:03"},
	} {
		if m, ok := parseDHCP(x.frame, x.outgoing, time.Time{}); !ok || m.MAC != x.mac {
			t.Errorf("%d: %+v, %t; want %s", i, m, ok, x.mac)
		}
	}
}

// FuzzFrame parses what a hostile app or server may send: it must not panic, and what it returns is bounded and can be
// printed.
func FuzzFrame(f *testing.F) {
	f.Add(udp(toApp, 53, message(f, "a.test.", 0, "a.test. 9 IN A 192.0.2.3")))
	f.Add(tcp(toApp, message(f, "b.test.", 3), message(f, "c.test.", 0, `c.test. 9 IN TXT "x"`)))
	f.Add(udp(fromApp, 53, message(f, "a.test.", 0)))
	f.Add(udp(toApp, 67, dhcp(2, [4]byte{}, [4]byte{10, 1, 0, 2}, "\x35\x01\x05\x33\x04\x00\x00\x0e\x10\xff")))
	if loop, err := hex.DecodeString("000180000001000000000000" + "3f" + strings.Repeat("61", 63) + "c00c00010001"); err == nil {
		f.Add(udp(toApp, 53, loop))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		for _, outgoing := range []bool{toApp, fromApp} {
			list, _, _ := parseDNS(frame, outgoing, time.Time{})
			if len(list) > maxRecords {
				t.Errorf("%d messages", len(list))
			}
			for _, m := range list {
				text := m.Name + m.Type + m.MAC
				if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%q is no printable ASCII", text)
				}
				if len(m.Name) > maxName || len(m.Addresses) > netstate.MaxAnswerAddresses || m.TTL < 0 {
					t.Errorf("%+v is too large", m)
				}
			}
			parseDHCP(frame, outgoing, time.Time{})
		}
	})
}

// BenchmarkAnswer is what a usual answer costs, and one that a hostile server makes as costly as it can: all its names
// are compressed.
func BenchmarkAnswer(b *testing.B) {
	usual := udp(toApp, 53, message(b, "www.example.org.", 0, "www.example.org. 60 IN A 192.0.2.1",
		"www.example.org. 60 IN A 192.0.2.2"))
	costly := []byte{0, 1, 0x80, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0}
	for range 126 {
		costly = append(costly, 1, 'a')
	}
	costly = append(costly, 0, 0, 1, 0, 1)
	for len(costly) < 1400 {
		costly = append(costly, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1)
	}
	for what, frame := range map[string][]byte{"usual": usual, "costly": udp(toApp, 53, costly)} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				parseDNS(frame, toApp, time.Time{})
			}
		})
	}
}
