package netns_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"edgespan/netinst/probe"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// respond calls answer for each ARP packet that arrives behind wan0, with a function that sends one there.
func (u *uplinks) respond(answer func(packet []byte, send func([]byte))) {
	u.t.Helper()
	fd, index := -1, 0
	u.isp[0].Do(u.t, func() error {
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		index = link.Index
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ARP), Ifindex: index})
	})
	f := os.NewFile(uintptr(fd), "arp")
	send := func(packet []byte) {
		raw, err := f.SyscallConn()
		if err != nil {
			return
		}
		_ = raw.Control(func(fd uintptr) {
			_ = unix.Sendto(int(fd), packet, 0, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ARP), Ifindex: index,
				Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}})
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		packet := make([]byte, 64)
		for {
			n, err := f.Read(packet)
			if err != nil {
				return
			}
			answer(packet[:n], send)
		}
	}()
	u.t.Cleanup(func() {
		_ = f.Close()
		<-ended
	})
}

func bigEndian(v uint16) uint16 { return v<<8 | v>>8 }

// arpAnswer is an ARP packet of the neighbour 02:00:00:00:00:01.
func arpAnswer(op uint16, fromIP string, toMAC []byte, toIP string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 1, 8, 0, 6, 4}, op)
	b = append(append(b, 2, 0, 0, 0, 0, 1), netip.MustParseAddr(fromIP).AsSlice()...)
	return append(append(b, toMAC...), netip.MustParseAddr(toIP).AsSlice()...)
}

func TestForeignARPDoesNotCount(t *testing.T) {
	u := newUplinks(t)
	u.isp[0].Exec(t, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=8") // the kernel answers nothing
	var honest atomic.Bool
	u.respond(func(asked []byte, send func([]byte)) {
		if len(asked) < 28 || asked[7] != 1 {
			return
		}
		node := asked[8:14]
		for range 50 { // a crowded link; far more would overflow the kernel's queue before it is filtered
			send(arpAnswer(2, "192.0.2.9", node, "192.0.2.2"))                // of another address
			send(arpAnswer(2, "192.0.2.1", node, "192.0.2.3"))                // for another address
			send(arpAnswer(2, "192.0.2.1", []byte("\x02____9"), "192.0.2.2")) // for another station
			send(arpAnswer(1, "192.0.2.1", node, "192.0.2.2"))                // a question
			send(arpAnswer(2, "192.0.2.1", node, "192.0.2.2")[:27])
			send(append([]byte{0, 6}, arpAnswer(2, "192.0.2.1", node, "192.0.2.2")[2:]...)) // of another kind of link
		}
		if honest.Load() {
			send(arpAnswer(2, "192.0.2.1", node, "192.0.2.2"))
		}
	})
	u.fails(probe.ARP, "192.0.2.1", "no ARP reply from 192.0.2.1")
	honest.Store(true)
	u.succeeds(probe.ARP, "192.0.2.1")
}

func TestForeignEchoRepliesDoNotCount(t *testing.T) {
	u := newUplinks(t)
	u.isp[0].Exec(t, "sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1")
	u.isp[0].Exec(t, "ip", "addr", "add", "198.51.100.2/32", "dev", "lo")
	var honest atomic.Bool
	conns := map[string]net.PacketConn{}
	u.isp[0].Do(t, func() error {
		for _, a := range []string{remoteTarget, "198.51.100.2"} {
			c, err := net.ListenPacket("ip4:icmp", a)
			if err != nil {
				return err
			}
			conns[a] = c
		}
		return nil
	})
	c := conns[remoteTarget]
	var ended sync.WaitGroup
	ended.Go(func() {
		b := make([]byte, 256)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if b[0] != 8 {
				continue
			}
			// The kernel of the node does not verify the checksum before a raw socket reads the packet, but let it be right.
			reply := func(change func(b []byte) []byte) []byte {
				r := change(append([]byte{0, 0, 0, 0}, b[4:n]...))
				binary.BigEndian.PutUint16(r[2:], internetChecksum(r))
				return r
			}
			same := func(b []byte) []byte { return b }
			for range 50 {
				_, _ = c.WriteTo(reply(func(b []byte) []byte { b[4]++; return b }), from)        // another identifier
				_, _ = c.WriteTo(reply(func(b []byte) []byte { b[7]++; return b }), from)        // another number
				_, _ = c.WriteTo(reply(func(b []byte) []byte { b[len(b)-1]++; return b }), from) // another word
				_, _ = c.WriteTo(reply(func(b []byte) []byte { return b[:8] }), from)            // none
				_, _ = c.WriteTo(reply(func(b []byte) []byte { b[0] = 8; return b }), from)      // a request
				_, _ = conns["198.51.100.2"].WriteTo(reply(same), from)                          // from another address
				_, _ = c.WriteTo(reply(func([]byte) []byte {                                     // unreachable, as a blind sender can say it
					ip := append([]byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0}, 192, 0, 2, 2, 198, 51, 100, 1)
					return append(append([]byte{3, 1, 0, 0, 0, 0, 0, 0}, ip...), 8, 0, 0, 0, 0, 0, 0, 0)
				}), from)
			}
			if honest.Load() {
				_, _ = c.WriteTo(reply(same), from)
			}
		}
	})
	t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
		ended.Wait()
	})
	u.fails(probe.ICMP, remoteTarget, "no echo reply from 198.51.100.1")
	honest.Store(true)
	u.succeeds(probe.ICMP, remoteTarget)
}

func internetChecksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func TestForeignDNSAnswersDoNotCount(t *testing.T) {
	u := newUplinks(t)
	u.isp[0].Exec(t, "ip", "addr", "add", "198.51.100.2/32", "dev", "lo")
	var other net.PacketConn
	u.isp[0].Do(t, func() (err error) {
		other, err = net.ListenPacket("udp4", "198.51.100.2:53")
		return err
	})
	t.Cleanup(func() { _ = other.Close() })
	var honest atomic.Bool
	u.names(0, func(w dns.ResponseWriter, q *dns.Msg) {
		right := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			answerA(remoteTarget)(recorder{w, func(m *dns.Msg) { right = m }}, q)
		}
		changed := func(change func(m *dns.Msg)) []byte {
			m := right.Copy()
			change(m)
			b, err := m.Pack()
			if err != nil {
				t.Error(err)
			}
			return b
		}
		good := changed(func(*dns.Msg) {})
		for range 10 {
			for _, b := range [][]byte{
				{}, {1}, []byte(strings.Repeat("x", 60000)), good[:len(good)-1],
				changed(func(m *dns.Msg) { m.Id++ }),
				changed(func(m *dns.Msg) { m.Response = false }),
				changed(func(m *dns.Msg) { m.Question[0].Name = "other.example.net." }),
				changed(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeTXT }),
				changed(func(m *dns.Msg) { m.Question = nil }),
				append(good[:2:2], []byte(strings.Repeat("\xc0\x0c", 1000))...),
			} {
				_, _ = w.Write(b)
			}
			_, _ = other.WriteTo(good, w.RemoteAddr())
		}
		if honest.Load() {
			_, _ = w.Write(good)
		}
	})
	u.fails(probe.DNS, remoteTarget, "no answer from DNS server 198.51.100.1")
	u.fails(probe.ICMP, "example.org", "resolve example.org: no answer from DNS server 198.51.100.1")
	honest.Store(true)
	u.succeeds(probe.DNS, remoteTarget)
	u.succeeds(probe.ICMP, "example.org")
}

// recorder keeps an answer instead of sending it.
type recorder struct {
	dns.ResponseWriter
	keep func(*dns.Msg)
}

func (r recorder) WriteMsg(m *dns.Msg) error {
	r.keep(m)
	return nil
}

// A name is resolved by the next server if the first is silent, and an alias is followed.
func TestANameIsResolvedByTheServersOfThePort(t *testing.T) {
	u := newUplinks(t)
	u.names(0, func(w dns.ResponseWriter, q *dns.Msg) {
		name := q.Question[0].Name
		r := new(dns.Msg).SetReply(q)
		r.Answer = []dns.RR{
			&dns.A{Hdr: dns.RR_Header{Name: "another.example.net.", Rrtype: dns.TypeA, Class: dns.ClassINET},
				A: net.IPv4(192, 0, 2, 77)}, // of another question
			&dns.CNAME{Hdr: dns.RR_Header{Name: strings.ToUpper(name), Rrtype: dns.TypeCNAME, Class: dns.ClassINET},
				Target: "cdn.example.net."},
			&dns.A{Hdr: dns.RR_Header{Name: "cdn.example.net.", Rrtype: dns.TypeA, Class: dns.ClassINET},
				A: net.ParseIP(remoteTarget)},
		}
		_ = w.WriteMsg(r)
	})
	id := probe.ID{IfName: "wan0", Method: probe.ICMP, Target: "www.example.org", Servers: "192.0.2.99," + remoteTarget}
	if took, err := u.shootFor(shotTime, id); err != nil || took > shotTime/4 {
		t.Errorf("%v, %v: must not count the silent server", took, err)
	}
	id.Servers = "192.0.2.99"
	if _, err := u.shootFor(shotTime, id); err == nil ||
		err.Error() != "resolve www.example.org: no answer from DNS server 192.0.2.99" {
		t.Errorf("by a silent server: %v", err)
	}
	id.Servers = "127.0.0.53,192.0.2.99"
	if _, err := u.shootFor(shotTime, id); err == nil || errors.Is(err, probe.ErrNone) {
		t.Errorf("by a silent server after the machine's own resolver: %v", err)
	}
	id.Servers = "127.0.0.53"
	if _, err := u.shootFor(shotTime, id); err == nil ||
		err.Error() != "resolve www.example.org: 127.0.0.53 is not the address of another host: no such probe" {
		t.Errorf("by the machine's own resolver: %v", err)
	}
}

// A flood of ARP on the uplink delays no shot beyond its deadline, and one of another method not at all.
func TestAFloodDoesNotDelayAShot(t *testing.T) {
	u := newUplinks(t)
	var stop atomic.Bool
	var ended sync.WaitGroup
	u.respond(func(asked []byte, send func([]byte)) {
		if len(asked) < 28 || asked[7] != 1 || stop.Load() {
			return
		}
		node := append([]byte(nil), asked[8:14]...)
		ended.Go(func() {
			for !stop.Load() {
				send(arpAnswer(2, "192.0.2.9", node, "192.0.2.2"))
			}
		})
	})
	t.Cleanup(func() {
		stop.Store(true)
		ended.Wait()
	})
	if _, err := u.shootAt(shotTime, probe.ID{IfName: "wan0", Method: probe.ARP, Target: "192.0.2.77"}); err == nil {
		t.Error("192.0.2.77 answers")
	}
	for range 5 { // while the flood goes on
		took, err := u.shootAt(shotTime, probe.ID{IfName: "wan0", Method: probe.ICMP, Target: remoteTarget})
		if err != nil || took > shotTime/2 {
			t.Errorf("%v, %v", took, err)
		}
	}
}
