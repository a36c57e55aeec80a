package lab

import (
	"encoding/binary"
	"net"
	"testing"
	"time"
)

// TestStoppingALoopLosesNothing stops loops at any moment of their pace: against a peer
// that answers everything, the last question counts as answered too.
func TestStoppingALoopLosesNothing(t *testing.T) {
	peer, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := peer.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = peer.WriteTo(buf[:n], from)
		}
	}()
	for i := range 300 {
		conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := &Loop{
			conn: conn, to: peer.LocalAddr(), every: 50 * time.Microsecond,
			ask:   func(seq uint16) []byte { return binary.BigEndian.AppendUint16(nil, seq) },
			check: func(p []byte, _ net.Addr) (uint16, bool, bool) { return binary.BigEndian.Uint16(p), true, true },
		}
		l.run()
		if err := l.WaitGood(t.Context(), 1+i%7); err != nil {
			t.Fatal(err)
		}
		if c := l.Stop(); c.Lost != 0 || c.Good != c.Sent {
			t.Fatalf("loop %d: %s", i, c)
		}
	}
}
