package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"edgespan/netinst/probe"

	"golang.org/x/sys/unix"
)

// tcp connects to "host:port". A refusal proves that the path works, but the operator named a service: it is a failure.
func (s shot) tcp(ctx context.Context, target string) (time.Duration, error) {
	host, number, err := net.SplitHostPort(target)
	if err != nil {
		return 0, fmt.Errorf("invalid target %q: must be host:port", target)
	}
	sock, done, began, err := s.dial(ctx, host, number, littleRead)
	if err != nil {
		return 0, err
	}
	defer done()
	took := time.Since(began)
	leave(sock)
	return took, nil
}

// littleRead is the receive buffer (bytes, socket(7)) of a connection of which little is read: a server can't send more
// than that after the end of a shot, which counts none of it.
const littleRead = 4 << 10

// dial connects to a port of a host, with a receive buffer of the kernel's choice if it is 0; began is when the
// connection was begun, after the name was resolved. When it is closed without leave, the kernel resets it, so that
// nothing of it is left.
func (s shot) dial(ctx context.Context, host, number string, buffer int) (_ *os.File, done func(), began time.Time,
	err error) {
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil || port == 0 {
		return nil, nil, began, fmt.Errorf("invalid port %q: must be 1 to 65535", number)
	}
	remote, err := s.addressOf(ctx, host)
	if err != nil {
		return nil, nil, began, err
	}
	sock, shut, err := s.open(ctx, familyOf(remote), unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, began, err
	}
	done = func() {
		s.countTCP(sock, remote)
		shut()
	}
	if buffer > 0 { // best effort
		_ = control(sock, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer) })
	}
	began = time.Now()
	if err := s.establish(sock, netip.AddrPortFrom(remote, uint16(port)), net.JoinHostPort(host, number)); err != nil {
		done()
		return nil, nil, began, ofName(host, err)
	}
	return sock, done, began, nil
}

// establish connects and waits until the peer has answered.
func (s shot) establish(sock *os.File, remote netip.AddrPort, target string) error {
	reset := unix.Linger{Onoff: 1}
	err := control(sock, func(fd int) error { return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &reset) })
	if err != nil {
		return fmt.Errorf("set up a socket: %w", err)
	}
	if err := s.reach(sock, remote); err != nil {
		return err
	}
	err = connected(sock)
	if err == nil {
		return nil
	}
	if kept := s.keepsBack(remote); kept != nil {
		return fmt.Errorf("connect to %s: %w: %w", target, kept, probe.ErrNotAsked)
	}
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("%s refused the connection", target)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.ETIMEDOUT), errors.Is(err, unix.EHOSTUNREACH),
		errors.Is(err, unix.ENETUNREACH): // which of them it is depends on the time since the last attempt
		return fmt.Errorf("no connection to %s", target)
	}
	return s.unsent(target, err)
}

// keepsBack reports why the node drops its own connections to a target, nil if it lets them out. A socket that connects
// does not learn it: the kernel repeats a SYN that a rule has dropped, and takes a rule's rejection for the target's. A
// raw socket does, so it sends another SYN. The kernel answers a reply to that one with a reset: no socket has its
// port.
func (s shot) keepsBack(remote netip.AddrPort) error {
	sock, done, err := s.open(context.Background(), familyOf(remote.Addr()), unix.SOCK_RAW, unix.IPPROTO_TCP)
	if err != nil {
		return nil
	}
	defer done()
	if filter(sock, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}) != nil { // it would receive all of TCP
		return nil
	}
	local, err := s.connect(sock, netip.AddrPortFrom(remote.Addr(), 0))
	if err != nil {
		return nil
	}
	err = control(sock, func(fd int) error { return unix.Send(fd, syn(local, remote), 0) })
	if isLocal(err) {
		return err
	}
	s.count(ipHead(remote.Addr()) + synLength)
	return nil
}

// synLength is the length of a TCP segment without options.
const synLength = 20

// countTCP counts what a connection that is about to end has sent and received.
func (s shot) countTCP(sock *os.File, remote netip.Addr) {
	head, atEnd := ipHead(remote)+32, 3 // a segment with timestamps; FIN, its answer, and the acknowledgement
	_ = control(sock, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
		if err == nil {
			s.count(head*int(info.Segs_out+info.Segs_in) + int(info.Bytes_sent+info.Bytes_received))
		}
		if err == nil && info.Segs_in > 0 {
			s.count(head * atEnd)
		}
		return err
	})
}

// syn returns a segment that begins a connection (RFC 9293), with a random source port and number.
func syn(local netip.Addr, remote netip.AddrPort) []byte {
	const lowest, flags, window = 32768, 5<<12 | 2, 1024
	b := binary.BigEndian.AppendUint16(make([]byte, 0, synLength), lowest+uint16(rand.N(lowest)))
	b = binary.BigEndian.AppendUint16(b, remote.Port())
	b = binary.BigEndian.AppendUint32(b, rand.Uint32())
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint16(b, window)
	b = append(b, 0, 0, 0, 0)
	pseudo := append(local.AsSlice(), remote.Addr().AsSlice()...)
	pseudo = append(append(pseudo, 0, unix.IPPROTO_TCP, 0, synLength), b...)
	binary.BigEndian.PutUint16(b[16:], checksum(pseudo))
	return b
}

// connected waits until a connection is established.
func connected(sock *os.File) error {
	raw, err := sock.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case err != nil:
			failed = err
		case errno != 0:
			failed = unix.Errno(errno)
		default:
			if _, err := unix.Getpeername(int(fd)); err != nil { // not yet: the poller may wake without a reason
				return false
			}
		}
		return true
	})
	return errors.Join(err, failed)
}

// leave makes a connection end with a FIN, as a well-behaved client does.
func leave(sock *os.File) {
	_ = control(sock, func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	})
}
