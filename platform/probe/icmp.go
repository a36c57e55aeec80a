package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// icmp sends an echo request to an address or a host name.
func (s shot) icmp(ctx context.Context, target string) (time.Duration, error) {
	remote, err := s.addressOf(ctx, target)
	if err != nil {
		return 0, err
	}
	protocol := unix.IPPROTO_ICMP
	if remote.Is6() {
		protocol = unix.IPPROTO_ICMPV6
	}
	sock, done, err := s.open(ctx, familyOf(remote), unix.SOCK_RAW, protocol)
	if err != nil {
		return 0, err
	}
	defer done()
	asked, err := newEcho(remote.Is4())
	if err != nil {
		return 0, fmt.Errorf("invent an echo request: %w", err)
	}
	if err := filter(sock, asked.filter()); err != nil {
		return 0, fmt.Errorf("filter ICMP: %w", err)
	}
	if err := s.reach(sock, netip.AddrPortFrom(remote, 0)); err != nil { // now the kernel drops what others send
		return 0, ofName(target, err)
	}
	return s.exchange(sock, target, remote, asked, asked.answeredBy, "echo reply")
}

// exchange sends a message of ICMP by a connected socket, and waits for what answers it.
func (s shot) exchange(sock *os.File, target string, remote netip.Addr, asked []byte, answers func([]byte) bool,
	what string) (time.Duration, error) {
	began := time.Now()
	if _, err := sock.Write(asked); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, s.unsent(target, err)
	}
	s.count(ipHead(remote) + len(asked))
	got := make([]byte, 256)
	for {
		n, err := sock.Read(got)
		switch {
		case err == nil:
			b := withoutIP(got[:n], remote.Is4())
			if s.count(ipHead(remote) + len(b)); answers(b) {
				return time.Since(began), nil
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			return 0, fmt.Errorf("no %s from %s", what, target)
		case !passing(err):
			return 0, s.unsent(target, err)
		}
	}
}

// withoutIP returns what follows the IP header, which a raw socket of IPv4 alone reads.
func withoutIP(b []byte, ipv4 bool) []byte {
	if !ipv4 || len(b) == 0 {
		return b
	}
	return b[min(int(b[0]&0xf)*4, len(b)):]
}

// filter is a classic BPF program that accepts replies with the identifier and number of e. Every raw socket gets all
// of the machine's ICMP otherwise.
func (e echo) filter() []unix.SockFilter {
	head := unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_W | unix.BPF_IMM} // IPv6: begins with the ICMP header
	if e.reply() == echoReply4 {
		head = unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH}
	}
	return []unix.SockFilter{
		head,
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(e.reply()), Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_IND, K: 4},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: binary.BigEndian.Uint32(e[4:]), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 256},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}
