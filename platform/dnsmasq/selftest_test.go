package dnsmasq

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// answer is what dnsmasq 2.90 sends for a DHCPINFORM: the head, then options.
func answer(id uint32, op byte, options ...byte) []byte {
	m := make([]byte, offOptions)
	m[0] = op
	binary.BigEndian.PutUint32(m[offXid:], id)
	return append(append(m, dhcpMagic...), options...)
}

func TestTheAnswerToAnInformTellsTheReservedName(t *testing.T) {
	ack := []byte{optMessageType, 1, dhcpAck}
	named := append(bytes.Clone(ack), optPad, optServer, 4, 10, 1, 0, 1, optHostname, 3, 'w', 'e', 'b', optEnd)
	for _, c := range []struct {
		why  string
		m    []byte
		name string
		ok   bool
	}{
		{"an answer with a name", answer(7, bootReply, named...), "web", true},
		{"an answer without one", answer(7, bootReply, append(ack, optEnd)...), "", true},
		{"what stands behind the end does not count",
			answer(7, bootReply, append(bytes.Clone(ack), optEnd, optHostname, 1, 'x')...), "", true},
		{"the answer to another request", answer(8, bootReply, named...), "", false},
		{"a request", answer(7, bootRequest, named...), "", false},
		{"an offer", answer(7, bootReply, optMessageType, 1, 2, optEnd), "", false},
		{"no type", answer(7, bootReply, optHostname, 3, 'w', 'e', 'b', optEnd), "web", false},
		{"an option cut short", answer(7, bootReply, append(bytes.Clone(ack), optHostname, 9, 'w')...), "", false},
		{"an option without a length", answer(7, bootReply, append(bytes.Clone(ack), optHostname)...), "", false},
		{"a head alone", answer(7, bootReply)[:offOptions], "", false},
	} {
		if name, ok := parseInformAnswer(c.m, 7); ok != c.ok || ok && name != c.name {
			t.Errorf("%s: %q, %v: must be %q, %v", c.why, name, ok, c.name, c.ok)
		}
	}
}

func TestAnInformNamesItsClientAndComesBackToTheServersAddress(t *testing.T) {
	m, err := informMessage("10.1.0.1", "02:00:00:00:00:0b", 7)
	if err != nil {
		t.Fatal(err)
	}
	options := []byte{99, 130, 83, 99, optMessageType, 1, dhcpInform, optParameters, 1, optHostname, optEnd}
	switch {
	case len(m) != minBootp || m[0] != bootRequest || m[1] != hwEthernet || m[2] != 6:
		t.Errorf("head: %d octets, % x", len(m), m[:4])
	case binary.BigEndian.Uint32(m[offXid:]) != 7:
		t.Errorf("xid % x", m[offXid:offXid+4])
	case !bytes.Equal(m[offCiaddr:offCiaddr+4], []byte{10, 1, 0, 1}):
		t.Errorf("ciaddr % x", m[offCiaddr:offCiaddr+4])
	case !bytes.Equal(m[offChaddr:offChaddr+6], []byte{2, 0, 0, 0, 0, 11}):
		t.Errorf("chaddr % x", m[offChaddr:offChaddr+6])
	case !bytes.Equal(m[offOptions:offOptions+len(options)], options):
		t.Errorf("options % x", m[offOptions:])
	}
	for _, bad := range [][2]string{{"10.1.0.1", "no MAC"}, {"2001:db8::1", "02:00:00:00:00:0b"},
		{"", "02:00:00:00:00:0b"}} {
		if _, err := informMessage(bad[0], bad[1], 7); err == nil {
			t.Errorf("informMessage(%q, %q) has no error", bad[0], bad[1])
		}
	}
}

func FuzzInformed(f *testing.F) {
	f.Add(answer(7, bootReply, optMessageType, 1, dhcpAck, optHostname, 3, 'w', 'e', 'b', optEnd))
	f.Add(answer(7, bootReply, optHostname, 255))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, m []byte) {
		if name, ok := parseInformAnswer(m, 7); ok && len(name) > 255 {
			t.Errorf("a name of %d octets", len(name))
		}
	})
}
