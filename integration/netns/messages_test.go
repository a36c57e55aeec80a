package netns_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
	"edgespan/platform/watch"
)

// query is a DNS query for a name of one label; answered makes it an answer without records.
func query(label string, answered bool) []byte {
	b := append([]byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, byte(len(label))}, label...)
	if answered {
		b[2] |= 0x80
	}
	return append(b, 0, 0, 1, 0, 1)
}

// frameWith is an Ethernet frame of UDP or TCP with ports, IPv4 or IPv6; segments of TCP have the flags PSH and ACK.
func frameWith(six bool, proto byte, from, to uint16, payload []byte) []byte {
	head := make([]byte, 8)
	if proto == unix.IPPROTO_TCP {
		head = make([]byte, 20)
		head[12], head[13] = 5<<4, 0x18
		payload = append(binary.BigEndian.AppendUint16(nil, uint16(len(payload))), payload...)
	} else {
		binary.BigEndian.PutUint16(head[4:], uint16(8+len(payload)))
	}
	binary.BigEndian.PutUint16(head, from)
	binary.BigEndian.PutUint16(head[2:], to)
	payload = append(head, payload...)
	frame := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}
	if six {
		frame[12], frame[13] = 0x86, 0xdd
		ip := make([]byte, 40)
		ip[0], ip[6], ip[7], ip[8], ip[24] = 0x60, proto, 64, 0xfd, 0xfd
		binary.BigEndian.PutUint16(ip[4:], uint16(len(payload)))
		return append(append(frame, ip...), payload...)
	}
	ip := make([]byte, 20)
	ip[0], ip[8], ip[9] = 0x45, 64, proto
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(payload)))
	copy(ip[12:], []byte{10, 1, 0, 2, 10, 1, 0, 3})
	return append(append(frame, ip...), payload...)
}

// rawSocket opens a socket for the frames of a link of a namespace, which hears those of a protocol; 0: none.
func rawSocket(t testing.TB, ns *netns.NS, link string, protocol uint16) (fd int) {
	t.Helper()
	fd = -1
	ns.Do(t, func() error {
		i, err := net.InterfaceByName(link)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(protocol), Ifindex: i.Index})
	})
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// sender returns what sends frames by a link of a namespace.
func sender(t testing.TB, ns *netns.NS, link string) func(frame []byte) {
	t.Helper()
	fd := rawSocket(t, ns, link, 0)
	return func(frame []byte) {
		for {
			_, err := unix.Write(fd, frame)
			if err == nil {
				return
			}
			if !errors.Is(err, unix.ENOBUFS) {
				t.Fatal(err)
			}
		}
	}
}

// vethToApp makes a link vm0 of the node with the app's end far0, both up.
func (l *lab) vethToApp() {
	l.t.Helper()
	l.ns.Exec(l.t, "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "far0", "netns", l.app.Name)
	l.ns.Exec(l.t, "ip", "link", "set", "vm0", "addrgenmode", "none", "up")
	l.app.Exec(l.t, "ip", "link", "set", "far0", "addrgenmode", "none", "up")
}

func TestMessagesOfAppsAreReadOnTheirWay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	heard := make(chan string, 1000)
	l.host.WatchMessages(t.Context(), "vm0", func(string) int { return 100 }, func(m netstate.Messages) {
		for _, x := range m.DNS {
			heard <- fmt.Sprintf("%s %t", x.Name, x.Answer)
		}
		for _, x := range m.DHCP {
			heard <- fmt.Sprintf("%s %t", x.Type, x.FromServer)
		}
		if m.Malformed+m.UnreadDNS+m.UnreadDHCP > 0 {
			heard <- fmt.Sprintf("%+v", m)
		}
	})
	dhcp := func(op, kind byte) []byte {
		b := make([]byte, 240, 300)
		b[0], b[1], b[2] = op, 1, 6
		copy(b[236:], "\x63\x82\x53\x63")
		return append(b, 53, 1, kind, 255)
	}
	for _, turn := range []string{"first", "recreated"} {
		l.vethToApp()
		toApp, fromApp := sender(t, l.ns, "vm0"), sender(t, l.app, "far0")
		var got, want []string
		n := 0
		collect := func() {
			for len(heard) > 0 {
				got = append(got, <-heard)
			}
		}
		eventually(t, "it listens", func() bool {
			fromApp(frameWith(false, unix.IPPROTO_UDP, 4000, 53, query("ready", false)))
			fromApp(frameWith(false, unix.IPPROTO_UDP, 68, 67, dhcp(1, 1)))
			collect()
			return slices.Contains(got, "ready false") && slices.Contains(got, "discover false")
		})
		for _, six := range []bool{false, true} {
			for _, proto := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
				n++
				name := fmt.Sprint("n", n)
				fromApp(frameWith(six, proto, 4000, 53, query(name, false)))
				toApp(frameWith(six, proto, 53, 4000, query(name, true)))
				want = append(want, name+" false", name+" true")
				// none of these is read
				fromApp(frameWith(six, proto, 4000, 54, query("other", false)))
				fromApp(frameWith(six, proto, 53, 4000, query("other", true)))
				toApp(frameWith(six, proto, 4000, 53, query("other", false)))
				toApp(frameWith(six, proto, 54, 4000, query("other", true)))
			}
		}
		toApp(frameWith(false, unix.IPPROTO_UDP, 67, 68, dhcp(2, 5)))
		fromApp(frameWith(false, unix.IPPROTO_UDP, 67, 68, dhcp(2, 6))) // an app that is a server
		toApp(frameWith(false, unix.IPPROTO_UDP, 68, 67, dhcp(1, 8)))
		later := frameWith(false, unix.IPPROTO_UDP, 53, 4000, query("fragment", true))
		later[21] = 1
		toApp(later)
		pure := frameWith(false, unix.IPPROTO_TCP, 4000, 53, nil)
		pure[14+20+13] = 0x10 // an acknowledgement alone
		fromApp(pure)
		fromApp(frameWith(false, unix.IPPROTO_UDP, 4000, 53, query("last", false)))
		want = append(want, "ack true", "last false")
		eventually(t, "all is read", func() bool {
			collect()
			return slices.Contains(got, "last false") && slices.Contains(got, "ack true")
		})
		got = slices.DeleteFunc(got, func(s string) bool { return s == "ready false" || s == "discover false" })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s link:\n got %s\nwant %s", turn, strings.Join(got, ", "), strings.Join(want, ", "))
		}
		l.ns.Exec(t, "ip", "link", "del", "vm0")
	}
}

// TestWatchesLeaveNoSocketBehind watches links that come and go: each socket is closed with its link or its watch.
func TestWatchesLeaveNoSocketBehind(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	sockets := func() int { return strings.Count(l.ns.Exec(t, "cat", "/proc/net/packet"), "\n") - 1 }
	before := sockets()
	for i := range 6 {
		ctx, cancel := context.WithCancel(t.Context())
		l.vethToApp()
		l.host.WatchMessages(ctx, "vm0", func(string) int { return 1 }, func(netstate.Messages) {})
		l.host.Snoop(ctx, "vm0", func(netstate.ObservedAddress) {})
		eventually(t, "it listens", func() bool { return sockets() == before+3 })
		if i%2 == 0 {
			l.ns.Exec(t, "ip", "link", "del", "vm0")
			eventually(t, "the sockets of a link that is gone are closed", func() bool { return sockets() == before })
		}
		cancel()
		eventually(t, "the sockets of a watch that has ended are closed", func() bool { return sockets() == before })
		if i%2 == 1 {
			l.ns.Exec(t, "ip", "link", "del", "vm0")
		}
	}
}

// TestAFloodOfMessagesIsCounted sends more than is read: each packet is read or counted as unread.
func TestAFloodOfMessagesIsCounted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.vethToApp()
	var read, unread atomic.Uint64
	var ended atomic.Bool
	l.host.WatchMessages(t.Context(), "vm0", func(string) int { return 3 }, func(m netstate.Messages) {
		read.Add(uint64(len(m.DNS)))
		unread.Add(m.UnreadDNS)
		if slices.ContainsFunc(m.DNS, func(x netstate.DNSMessage) bool { return x.Name == "last" }) {
			ended.Store(true)
		}
	})
	fromApp := sender(t, l.app, "far0")
	flood, last := frameWith(false, unix.IPPROTO_UDP, 4000, 53, query("flood", false)),
		frameWith(false, unix.IPPROTO_UDP, 4000, 53, query("last", false))
	eventually(t, "it listens", func() bool { fromApp(flood); return read.Load() > 0 })
	const many = 50000
	for range many {
		fromApp(flood)
	}
	eventually(t, "the last message is read", func() bool { fromApp(last); return ended.Load() })
	if r, u := read.Load(), unread.Load(); r+u < many || u < many/2 {
		t.Errorf("of %d packets %d were read and %d counted as unread", many, r, u)
	}
}

// eventually is until with more time, for what waits for another attempt.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// BenchmarkWatchedLink is the processor time of a packet that a link sends and that is no message, with and without the
// two sockets: run it alone, and compare.
func BenchmarkWatchedLink(b *testing.B) {
	for _, watched := range []bool{false, true} {
		b.Run(fmt.Sprintf("watched=%t", watched), func(b *testing.B) {
			ns, far := netns.New(b), netns.New(b)
			ns.Exec(b, "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "far0", "netns", far.Name)
			ns.Exec(b, "ip", "link", "set", "vm0", "up")
			far.Exec(b, "ip", "link", "set", "far0", "up")
			if watched {
				heard := make(chan struct{}, 1000)
				watch.Start(b.Context(), ns.Path, "vm0", func(string) int { return 1 }, func(m netstate.Messages) { heard <- struct{}{} })
				probe := sender(b, far, "far0")
				for len(heard) == 0 {
					probe(frameWith(false, unix.IPPROTO_UDP, 4000, 53, query("a", false)))
					time.Sleep(10 * time.Millisecond)
				}
			}
			send := sender(b, ns, "vm0")
			frame := frameWith(false, unix.IPPROTO_UDP, 4000, 5000, make([]byte, 1000))
			var before, after unix.Rusage
			b.ResetTimer()
			_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
			for b.Loop() {
				send(frame)
			}
			_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
			took := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(took)/float64(b.N), "cpu-ns/op")
		})
	}
}
