package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"edgespan/netinst/probe"

	"golang.org/x/sys/unix"
)

// ErrNoARP is the error of an interface without ARP, such as a tunnel or a PPP link: no gateway can be asked there.
var ErrNoARP = fmt.Errorf("no ARP on the interface: %w", probe.ErrNone)

// arpLength is the length of ARP for IPv4 on Ethernet (RFC 826).
const arpLength = 28

const (
	arpEthernetIPv4 = "\x00\x01\x08\x00\x06\x04" // hardware type, protocol, length of both addresses
	arpRequest      = 1
	arpReply        = 2
)

// Offsets in an ARP packet.
const (
	arpOp        = 6
	arpSenderMAC = 8
	arpSenderIP  = 14
	arpTargetMAC = 18
	arpTargetIP  = 24
)

// arp asks who has an address. The kernel waits some 12 ms when it closes a packet socket, until no processor uses it:
// that is no part of the time it returns, but delays the return.
func (s shot) arp(ctx context.Context, target string) (time.Duration, error) {
	remote, err := netip.ParseAddr(target)
	if err != nil || !remote.Is4() {
		return 0, fmt.Errorf("invalid target %q: must be an IPv4 address", target)
	}
	local, err := s.sourceOf(ctx, remote)
	if err != nil {
		return 0, err
	}
	sock, done, err := s.open(ctx, unix.AF_PACKET, unix.SOCK_DGRAM, 0) // protocol 0: receives nothing before its filter
	if err != nil {
		return 0, err
	}
	defer done()
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	if err := filter(sock, nothing); err != nil {
		return 0, fmt.Errorf("filter ARP: %w", err)
	}
	mac, index, err := s.listenARP(sock)
	if err != nil {
		return 0, err
	}
	if err := filter(sock, arpFilter(mac, local, remote)); err != nil {
		return 0, fmt.Errorf("filter ARP: %w", err)
	}
	asked := make([]byte, 0, arpLength)
	asked = append(asked, arpEthernetIPv4...)
	asked = binary.BigEndian.AppendUint16(asked, arpRequest)
	asked = append(append(asked, mac[:]...), local.AsSlice()...)
	asked = append(append(asked, 0, 0, 0, 0, 0, 0), remote.AsSlice()...)
	began := time.Now()
	err = control(sock, func(fd int) error {
		return unix.Sendto(fd, asked, 0, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ARP), Ifindex: index, Halen: 6,
			Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}})
	})
	if err != nil {
		return 0, s.unsent(target, err)
	}
	s.count(linkHead + arpLength)
	got := make([]byte, 64)
	for {
		n, err := sock.Read(got)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return 0, fmt.Errorf("no ARP reply from %s", target)
			}
			return 0, s.unsent(target, err)
		}
		if s.count(linkHead + n); isReply(got[:n], mac, local, remote) {
			return time.Since(began), nil
		}
	}
}

// sourceOf returns the address that the kernel would send from to a neighbour.
func (s shot) sourceOf(ctx context.Context, remote netip.Addr) (netip.Addr, error) {
	sock, done, err := s.open(ctx, unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return netip.Addr{}, err
	}
	defer done()
	return s.connect(sock, netip.AddrPortFrom(remote, dnsPort)) // any port: nothing is sent
}

// listenARP binds a packet socket to the interface and returns that one's address.
func (s shot) listenARP(sock *os.File) (mac [6]byte, index int, err error) {
	flags, err := s.flags(sock)
	if err != nil {
		return mac, 0, s.refuse(err)
	}
	if index, err = s.index(sock); err != nil {
		return mac, 0, s.refuse(err)
	}
	err = control(sock, func(fd int) error {
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ARP), Ifindex: index}); err != nil {
			return s.refuse(err)
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			return s.refuse(err)
		}
		ll, ok := name.(*unix.SockaddrLinklayer)
		if !ok || ll.Hatype != unix.ARPHRD_ETHER || ll.Halen != 6 ||
			flags&(unix.IFF_NOARP|unix.IFF_POINTOPOINT|unix.IFF_LOOPBACK) != 0 {
			return fmt.Errorf("%s: %w", s.ifName, ErrNoARP)
		}
		mac = [6]byte(ll.Addr[:6])
		return nil
	})
	return mac, index, err
}

// isReply reports whether a packet is remote's reply to us.
func isReply(b []byte, mac [6]byte, local, remote netip.Addr) bool {
	return len(b) >= arpLength && string(b[:arpOp]) == arpEthernetIPv4 &&
		binary.BigEndian.Uint16(b[arpOp:]) == arpReply && string(b[arpSenderIP:arpTargetMAC]) == string(remote.AsSlice()) &&
		string(b[arpTargetMAC:arpTargetIP]) == string(mac[:]) &&
		string(b[arpTargetIP:arpLength]) == string(local.AsSlice())
}

// arpFilter is a classic BPF program that accepts what isReply does. The kernel drops all other ARP, so that a crowded
// link, or a neighbour that floods it with forged replies, wakes nothing and uses up no budget.
func arpFilter(mac [6]byte, local, remote netip.Addr) (prog []unix.SockFilter) {
	reply := append([]byte(arpEthernetIPv4), 0, arpReply)
	reply = append(append(reply, make([]byte, len(mac))...), remote.AsSlice()...)
	reply = append(append(reply, mac[:]...), local.AsSlice()...)
	const word, checks = 2, (arpLength - (arpSenderIP - arpSenderMAC)) / 2
	for at := 0; at < arpLength; at += word {
		if at >= arpSenderMAC && at < arpSenderIP {
			continue
		}
		left := checks - len(prog)/2 // with this one
		prog = append(prog, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: uint32(at)},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(binary.BigEndian.Uint16(reply[at:])),
				Jf: uint8(2*left - 1)})
	}
	return append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 64},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K})
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }
