package flowexport

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func dial(t *testing.T, protocol, address string) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), protocol, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func write(t *testing.T, c *Conn, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); err != nil || n != len(text) {
		t.Fatal(n, err)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not so: ", what)
		}
	}
}

// TestADatagramSocket sends to a collector, and notices that it is gone; what a collector sends is not read.
func TestADatagramSocket(t *testing.T) {
	for address, room := range map[string]int{"127.0.0.1:0": 1472, "[::1]:0": 1472} {
		at, err := net.ListenPacket("udp", address)
		if err != nil {
			t.Skipf("no %s here: %v", address, err)
		}
		c := dial(t, "udp", at.LocalAddr().String())
		if c.Room() != room {
			t.Errorf("room for %d octets on loopback", c.Room())
		}
		write(t, c, "first")
		b := make([]byte, 1<<16)
		n, from, err := at.ReadFrom(b)
		if err != nil || string(b[:n]) != "first" {
			t.Fatal(err)
		}
		for range 1000 {
			if _, err := at.WriteTo(b, from); err != nil {
				break // more than the loopback takes
			}
		}
		write(t, c, "second")
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		_ = at.Close()
		eventually(t, "a closed port is noticed", func() bool {
			_, _ = c.Write([]byte("third"))
			return errors.Is(c.Check(), syscall.ECONNREFUSED)
		})
	}
}

// TestAStream sends to a listener that says something, which is not read, and then closes: nothing more is sent.
func TestAStream(t *testing.T) {
	for protocol, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		l, err := net.Listen(protocol, address)
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, protocol, l.Addr().String())
		write(t, c, "one")
		other, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 3)
		if _, err := other.Read(b); err != nil || string(b) != "one" {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Error(protocol, err)
		}
		_ = other.Close()
		eventually(t, protocol+" is closed", func() bool { return c.Check() != nil })
		if n, err := c.Write([]byte("two")); err == nil || n != 0 || !strings.Contains(c.Check().Error(), l.Addr().String()) {
			t.Error(protocol, n, err)
		}
		_ = l.Close()
		if _, err := Dial(t.Context(), protocol, l.Addr().String()); err == nil {
			t.Error(protocol, "dials one that does not listen")
		}
	}
}

// TestAListenerThatReadsNothing holds a Write until the connection is closed, and has cost a buffer of bounded size;
// one that sends all the time costs no more.
func TestAListenerThatReadsNothing(t *testing.T) {
	for protocol, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		l, err := net.Listen(protocol, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c := dial(t, protocol, l.Addr().String())
		other, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		_ = other.SetDeadline(time.Now().Add(time.Minute))
		flooded, ended := make(chan int), make(chan int)
		go func() { flooded <- writeAll(other) }()
		go func() { ended <- writeAll(c) }()
		time.AfterFunc(100*time.Millisecond, func() { _ = c.Close() })
		sent, back := <-ended, <-flooded
		if t.Logf("%s: %d octets sent, %d sent back", protocol, sent, back); max(sent, back) > 16<<20 {
			t.Error(protocol, "takes everything")
		}
	}
}

// writeAll writes until that fails, or for long.
func writeAll(to io.Writer) (sent int) {
	for sent < 64<<20 {
		n, err := to.Write(make([]byte, 1<<13))
		if sent += n; err != nil {
			break
		}
	}
	return sent
}
