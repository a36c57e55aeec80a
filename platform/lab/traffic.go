package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// lateAfter is the time after which an answer counts as lost.
const lateAfter = 2 * time.Second

// Loop sends one query repeatedly and counts missing answers. It never retries, which would hide a loss.
type Loop struct {
	conn  net.PacketConn
	to    net.Addr
	ask   func(seq uint16) []byte
	check func(packet []byte, from net.Addr) (seq uint16, own, good bool)
	every time.Duration

	mu      sync.Mutex
	waiting map[uint16]time.Time // sent and unanswered
	count   Count
	stop    chan struct{}
	asking  sync.WaitGroup // send
	hearing sync.WaitGroup // receive
}

// Count is the result of a Loop. Lost queries got no answer in time, Wrong ones an unexpected answer.
type Count struct {
	Sent, Good, Lost, Wrong int
	Slowest                 time.Duration // slowest good answer
}

// PingLoop sends an ICMP echo request from a namespace to dst at each interval.
func (l *Lab) PingLoop(short string, dst netip.Addr, every time.Duration) (*Loop, error) {
	return l.PingLoopOf(short, dst, every, 0)
}

// PingLoopOf is PingLoop with an even number of zeros in each request and each reply, for example to have fragments.
func (l *Lab) PingLoopOf(short string, dst netip.Addr, every time.Duration, zeros int) (*Loop, error) {
	loop := &Loop{every: every, to: &net.IPAddr{IP: dst.AsSlice()}}
	id := uint16(os.Getpid()) ^ uint16(time.Now().UnixNano())
	loop.ask = func(seq uint16) []byte { return append(EchoRequest(id, seq), make([]byte, zeros)...) }
	loop.check = func(p []byte, from net.Addr) (uint16, bool, bool) {
		if len(p) < 8 || p[0] != 0 || binary.BigEndian.Uint16(p[4:]) != id {
			return 0, false, false // only echo replies (type 0) to this loop
		}
		return binary.BigEndian.Uint16(p[6:]), true, from.String() == dst.String()
	}
	if err := loop.listen(l, short, "ip4:icmp", "0.0.0.0"); err != nil {
		return nil, fmt.Errorf("ping from %s: %w", short, err)
	}
	return loop.run(), nil
}

// EchoRequest returns an ICMP echo request of 16 bytes (RFC 792).
func EchoRequest(id, seq uint16) []byte {
	p := make([]byte, 16)
	p[0] = 8
	binary.BigEndian.PutUint16(p[4:], id)
	binary.BigEndian.PutUint16(p[6:], seq)
	var sum uint32
	for i := 0; i < len(p); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(p[2:], ^uint16(sum+sum>>16))
	return p
}

// DNSLoop asks server for the A record of name from a namespace at each interval. A good answer contains want.
func (l *Lab) DNSLoop(short string, server netip.Addr, name string, want netip.Addr, every time.Duration) (*Loop,
	error) {
	loop := &Loop{every: every, to: net.UDPAddrFromAddrPort(netip.AddrPortFrom(server, 53))}
	loop.ask = func(seq uint16) []byte {
		q := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)
		q.Id = seq
		p, err := q.Pack()
		if err != nil {
			panic(err) // name was packed before the loop began
		}
		return p
	}
	loop.check = func(p []byte, _ net.Addr) (uint16, bool, bool) {
		var m dns.Msg
		if m.Unpack(p) != nil || !m.Response {
			return 0, false, false
		}
		return m.Id, true, holds(&m, want)
	}
	if _, err := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA).Pack(); err != nil {
		return nil, fmt.Errorf("ask for %q: %w", name, err)
	}
	if err := loop.listen(l, short, "udp4", "0.0.0.0:0"); err != nil {
		return nil, fmt.Errorf("ask DNS from %s: %w", short, err)
	}
	return loop.run(), nil
}

func holds(m *dns.Msg, want netip.Addr) bool {
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok && m.Rcode == dns.RcodeSuccess && a.A.String() == want.String() {
			return true
		}
	}
	return false
}

// listen opens the loop's socket in a namespace.
func (l *Loop) listen(lab *Lab, short, network, addr string) error {
	return lab.inside(short, func() (err error) {
		var lc net.ListenConfig
		l.conn, err = lc.ListenPacket(context.Background(), network, addr)
		return err
	})
}

func (l *Loop) run() *Loop {
	l.waiting, l.stop = map[uint16]time.Time{}, make(chan struct{})
	l.asking.Go(l.send)
	l.hearing.Go(l.receive)
	return l
}

func (l *Loop) send() {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for seq := uint16(1); ; seq++ {
		l.mu.Lock()
		l.count.Sent++
		if _, old := l.waiting[seq]; old { // sent 65536 queries ago and never answered
			l.count.Lost++
		}
		l.waiting[seq] = time.Now()
		l.mu.Unlock()
		// If the kernel refuses to send (no route, EPERM of a rule), the query is lost. Only a closed socket ends the loop,
		// and only Stop closes it.
		_, _ = l.conn.WriteTo(l.ask(seq), l.to)
		select {
		case <-tick.C:
		case <-l.stop:
			return
		}
	}
}

func (l *Loop) receive() {
	buf := make([]byte, 4096)
	for {
		n, from, err := l.conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // an ICMP error on the socket: its query remains unanswered
			continue
		}
		if seq, own, good := l.check(buf[:n], from); own {
			l.answered(seq, good)
		}
	}
}

func (l *Loop) answered(seq uint16, good bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked, ok := l.waiting[seq]
	if !ok {
		return // a duplicate
	}
	delete(l.waiting, seq)
	took := time.Since(asked)
	switch {
	case took > lateAfter:
		l.count.Lost++
	case !good:
		l.count.Wrong++
	default:
		l.count.Good++
		l.count.Slowest = max(l.count.Slowest, took)
	}
}

// Count returns the counts so far, without queries in flight.
func (l *Loop) Count() Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// WaitGood returns after n more good answers.
func (l *Loop) WaitGood(ctx context.Context, n int) error {
	goal := l.Count().Good + n
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for {
		c := l.Count()
		if c.Good >= goal {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d good answers: %w: %s", n, ctx.Err(), c)
		}
	}
}

// Stop stops sending, waits for queries in flight, and returns the counts.
func (l *Loop) Stop() Count {
	close(l.stop)
	l.asking.Wait() // else a last query could meet a closed socket
	deadline := time.Now().Add(lateAfter)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		l.mu.Lock()
		open := len(l.waiting)
		l.mu.Unlock()
		if open == 0 || time.Now().After(deadline) {
			break
		}
		<-tick.C
	}
	_ = l.conn.Close() // ends receive
	l.hearing.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.Lost += len(l.waiting)
	clear(l.waiting)
	return l.count
}

func (c Count) String() string {
	return fmt.Sprintf("%d sent, %d good, %d lost, %d wrong", c.Sent, c.Good, c.Lost, c.Wrong)
}
