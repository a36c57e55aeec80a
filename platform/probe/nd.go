package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"edgespan/netinst/probe"

	"golang.org/x/sys/unix"
)

// ErrNoND is the error of an interface without neighbour discovery, such as a tunnel or a PPP link.
var ErrNoND = fmt.Errorf("no neighbour discovery on the interface: %w", probe.ErrNone)

// Neighbour discovery (RFC 4861 §4.3, §4.4): types of messages, the flag of an answer, and offsets.
const (
	ndSolicit   = 135
	ndAdvert    = 136
	ndSolicited = 0x40
	ndFlags     = 4
	ndTarget    = 8
	ndLength    = 24
	ndHopLimit  = 255 // no router has forwarded it
)

// nd asks a neighbour whether it is there, as the kernel does (RFC 4861 §7.3.3). If the kernel doesn't know its link
// address, it asks for that before.
func (s shot) nd(ctx context.Context, target string) (time.Duration, error) {
	remote, err := netip.ParseAddr(target)
	if err != nil || !remote.Is6() || remote.Zone() != "" {
		return 0, fmt.Errorf("invalid target %q: must be an IPv6 address", target)
	}
	sock, done, err := s.open(ctx, unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
	if err != nil {
		return 0, err
	}
	defer done()
	flags, err := s.flags(sock)
	switch {
	case err != nil:
		return 0, s.refuse(err)
	case flags&(unix.IFF_NOARP|unix.IFF_POINTOPOINT|unix.IFF_LOOPBACK) != 0:
		return 0, fmt.Errorf("%s: %w", s.ifName, ErrNoND)
	}
	if err := filter(sock, advertFilter(remote)); err != nil {
		return 0, fmt.Errorf("filter ICMP: %w", err)
	}
	err = control(sock, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ndHopLimit)
	})
	if err != nil {
		return 0, fmt.Errorf("set up a socket: %w", err)
	}
	if err := s.reach(sock, netip.AddrPortFrom(remote, 0)); err != nil { // now the kernel drops what others send
		return 0, err
	}
	asked := make([]byte, ndTarget, ndLength)
	asked[0] = ndSolicit // the kernel adds its checksum
	asked = append(asked, remote.AsSlice()...)
	answers := func(b []byte) bool { return isAdvert(b, remote) }
	return s.exchange(sock, target, remote, asked, answers, "neighbour advertisement")
}

// isAdvert reports whether a message is remote's answer to a solicitation.
func isAdvert(b []byte, remote netip.Addr) bool {
	return len(b) >= ndLength && b[0] == ndAdvert && b[1] == 0 && b[ndFlags]&ndSolicited != 0 &&
		string(b[ndTarget:ndLength]) == string(remote.AsSlice())
}

// advertFilter is a classic BPF program that accepts what isAdvert does, from this link alone: a flood of other
// messages, or of such that a router has forwarded, wakes nothing and uses up no budget.
func advertFilter(remote netip.Addr) []unix.SockFilter {
	const netOffset, hopLimit = 0xfff00000, 7 // SKF_NET_OFF: from here on the IPv6 header
	type check struct {
		size, at, want uint32
		jump           uint16
	}
	checks := []check{{unix.BPF_B, netOffset + hopLimit, ndHopLimit, unix.BPF_JEQ},
		{unix.BPF_H, 0, ndAdvert << 8, unix.BPF_JEQ}, {unix.BPF_B, ndFlags, ndSolicited, unix.BPF_JSET}}
	target := remote.As16()
	for i := 0; i < len(target); i += 4 {
		checks = append(checks, check{unix.BPF_W, ndTarget + uint32(i), binary.BigEndian.Uint32(target[i:]), unix.BPF_JEQ})
	}
	var prog []unix.SockFilter
	for i, c := range checks {
		left := len(checks) - i // with this one
		prog = append(prog, unix.SockFilter{Code: uint16(unix.BPF_LD | c.size | unix.BPF_ABS), K: c.at},
			unix.SockFilter{Code: unix.BPF_JMP | c.jump | unix.BPF_K, K: c.want, Jf: uint8(2*left - 1)})
	}
	return append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 256},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K})
}
