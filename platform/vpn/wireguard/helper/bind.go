package helper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
)

const (
	// socketBuffer is the size of each socket's buffers, as in wireguard-go.
	socketBuffer = 7 << 20
	// maxSegments and maxDatagram bound the datagrams that one call sends (udp(7), UDP_SEGMENT; UDP_MAX_SEGMENTS of older
	// kernels is 64).
	maxSegments = 64
	maxDatagram = 1<<16 - 1 - 40 - 8
	portTries   = 100 // for a port that is free for IPv4 and IPv6
)

// bind is the two UDP sockets of a tunnel. Packets with a mark leave by the routes of their mark, with the source
// address that the routes have, so they follow when these change. Without a mark, a peer that called is answered from
// the address that it has called, until a handshake fails: another one would be a move of this end. It replaces
// wireguard-go's own, which sends to a wrong address if peers have both IPv4 and IPv6 endpoints: it reuses a shortened
// address (https://github.com/WireGuard/wireguard-go/pull/135, open).
type bind struct {
	mu     sync.Mutex
	v4, v6 *socket
	mark   uint32
}

// socket is one of them; segments means that the kernel splits and merges datagrams (UDP_SEGMENT, UDP_GRO).
type socket struct {
	*net.UDPConn
	mu       sync.Mutex
	segments bool
}

// endpoint is where a peer is, and at which address of this machine it has called last.
type endpoint struct {
	netip.AddrPort
	called  netip.Addr // invalid if it has not called
	cleared atomic.Bool
}

// ClearSrc forgets the address at which the peer has called.
func (e *endpoint) ClearSrc() { e.cleared.Store(true) }

// SrcIP returns the address at which the peer has called.
func (e *endpoint) SrcIP() netip.Addr {
	if e.cleared.Load() {
		return netip.Addr{}
	}
	return e.called
}

func (e *endpoint) SrcToString() string { return e.SrcIP().String() }
func (e *endpoint) DstIP() netip.Addr   { return e.Addr() }
func (e *endpoint) DstToString() string { return e.String() }

func (e *endpoint) DstToBytes() []byte {
	b, _ := e.MarshalBinary() // never fails
	return b
}

// ParseEndpoint parses ADDRESS:PORT.
func (*bind) ParseEndpoint(s string) (conn.Endpoint, error) {
	a, err := netip.ParseAddrPort(s)
	return &endpoint{AddrPort: netip.AddrPortFrom(a.Addr().Unmap(), a.Port())}, err
}

// BatchSize is the number of packets that a call may receive and send.
func (*bind) BatchSize() int { return conn.IdealBatchSize }

// Open opens the sockets at a port, 0 for any. A kernel without IPv4 or IPv6 has one.
func (b *bind) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.v4 != nil || b.v6 != nil {
		return nil, 0, conn.ErrBindAlreadyOpen
	}
	for try := 0; ; try++ {
		v4, at, err := listen("udp4", port)
		if err != nil && !errors.Is(err, syscall.EAFNOSUPPORT) {
			return nil, 0, err
		}
		v6, at, err := listen("udp6", at)
		switch {
		case errors.Is(err, syscall.EADDRINUSE) && port == 0 && try < portTries:
			_ = v4.close()
			continue
		case err != nil && !errors.Is(err, syscall.EAFNOSUPPORT):
			return nil, 0, errors.Join(err, v4.close())
		case v4 == nil && v6 == nil:
			return nil, 0, syscall.EAFNOSUPPORT
		}
		b.v4, b.v6 = v4, v6
		var fns []conn.ReceiveFunc
		for _, s := range []*socket{v4, v6} {
			if s != nil {
				fns = append(fns, s.receive)
			}
		}
		return fns, at, nil
	}
}

// listen opens one socket and returns its port, or nil with the same port.
func listen(network string, port uint16) (*socket, uint16, error) {
	s := &socket{}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, socketBuffer) // smaller ones cost speed
			}
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1) // one of them fails
			_, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT)
			s.segments = err == nil && unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil
		})
	}}
	c, err := config.ListenPacket(context.Background(), network, fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, port, err
	}
	s.UDPConn = c.(*net.UDPConn)
	return s, s.LocalAddr().(*net.UDPAddr).AddrPort().Port(), nil
}

func (s *socket) close() error {
	if s == nil {
		return nil
	}
	return s.Close()
}

// Close closes the sockets: what receives from them returns net.ErrClosed.
func (b *bind) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := errors.Join(b.v4.close(), b.v6.close())
	b.v4, b.v6 = nil, nil
	return err
}

// SetMark sets the mark of all packets.
func (b *bind) SetMark(mark uint32) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mark = mark
	for _, s := range []*socket{b.v4, b.v6} {
		if s == nil {
			continue
		}
		raw, err := s.SyscallConn()
		if err != nil {
			return err
		}
		var failed error
		err = raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark))
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}

// receive receives one datagram, or several of one peer that the kernel has merged.
func (s *socket) receive(packets [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
	var oob [128]byte
	n, used, _, from, err := s.ReadMsgUDPAddrPort(packets[0], oob[:])
	if err != nil {
		return 0, err
	}
	size, called := controls(oob[:used])
	at := &endpoint{AddrPort: netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), called: called}
	if size <= 0 || size > n {
		size = n
	}
	sizes[0], eps[0] = min(size, n), at
	count := 1
	for begin := size; begin < n && count < len(packets); begin, count = begin+size, count+1 {
		sizes[count] = copy(packets[count], packets[0][begin:min(begin+size, n)])
		eps[count] = at
	}
	return count, nil
}

// controls returns what the kernel says of a datagram: the size of those that it has merged, 0 if there is one, and the
// address at which it has arrived.
func controls(oob []byte) (size int, called netip.Addr) {
	for len(oob) > unix.SizeofCmsghdr {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		switch {
		case h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			size = int(binary.NativeEndian.Uint32(data))
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			called = netip.AddrFrom4([4]byte(data[4:8])) // ipi_spec_dst (ip(7))
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			called = netip.AddrFrom16([16]byte(data[:16]))
		}
		oob = rest
	}
	return size, called
}

// fromAddress is the control message that gives a datagram its source address, nil for that of the route. A link-local
// one needs its link, which the route knows.
func fromAddress(a netip.Addr) []byte {
	switch {
	case !a.IsValid() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast():
		return nil
	case a.Is4():
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: a.As4()})
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: a.As16()})
}

var buffers = sync.Pool{New: func() any { return new([maxDatagram]byte) }}

// Send sends packets to a peer, those of one size together.
func (b *bind) Send(packets [][]byte, to conn.Endpoint) error {
	at, ok := to.(*endpoint)
	if !ok {
		return conn.ErrWrongEndpointType
	}
	b.mu.Lock()
	s := b.v4
	if at.Addr().Is6() {
		s = b.v6
	}
	var from []byte
	if b.mark == 0 {
		from = fromAddress(at.SrcIP())
	}
	b.mu.Unlock()
	if s == nil {
		return syscall.EAFNOSUPPORT
	}
	for len(packets) > 0 {
		n := 1
		if s.segmenting() {
			n = together(packets)
		}
		err := s.send(packets[:n], at.AddrPort, from)
		if err != nil && from != nil { // it is no address of this machine any more, or no route leads from it
			at.ClearSrc()
			from, err = nil, s.send(packets[:n], at.AddrPort, nil)
		}
		if err != nil {
			return err
		}
		packets = packets[n:]
	}
	return nil
}

func (s *socket) segmenting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.segments
}

// together returns how many of the first packets can be sent as segments: of one size, but the last may be shorter.
func together(packets [][]byte) int {
	size, sum := len(packets[0]), len(packets[0])
	n := 1
	for n < min(len(packets), maxSegments) && len(packets[n]) <= size && sum+len(packets[n]) <= maxDatagram {
		sum += len(packets[n])
		if n++; len(packets[n-1]) < size {
			break
		}
	}
	return n
}

func (s *socket) send(packets [][]byte, to netip.AddrPort, from []byte) error {
	if len(packets) > 1 {
		err := s.sendSegments(packets, to, from)
		if err == nil {
			return nil
		}
		if errors.Is(err, syscall.EIO) { // the link can't compute checksums
			s.mu.Lock()
			s.segments = false
			s.mu.Unlock()
		} else if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EMSGSIZE) { // larger than the route's MTU
			return err
		}
	}
	for _, p := range packets {
		if _, _, err := s.WriteMsgUDPAddrPort(p, from, to); err != nil {
			return err
		}
	}
	return nil
}

// segmentOption is a control message with the size of segments.
type segmentOption struct {
	unix.Cmsghdr
	size uint16
	_    [6]byte // CmsgSpace aligns it
}

func (s *socket) sendSegments(packets [][]byte, to netip.AddrPort, from []byte) error {
	buf := buffers.Get().(*[maxDatagram]byte)
	defer buffers.Put(buf)
	n := 0
	for _, p := range packets {
		n += copy(buf[n:], p)
	}
	option := segmentOption{size: uint16(len(packets[0]))}
	option.Level, option.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	option.SetLen(unix.CmsgLen(2))
	oob := unsafe.Slice((*byte)(unsafe.Pointer(&option)), unix.CmsgSpace(2))
	_, _, err := s.WriteMsgUDPAddrPort(buf[:n], append(oob, from...), to)
	return err
}
