package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"golang.org/x/sys/unix"
)

const (
	// The first and the longest pause between two attempts to listen on a link.
	snoopAgain    = time.Second
	snoopAgainMax = 8 * time.Second
	snoopQuiet    = 10 * time.Second // an address is reported once in this time
	snoopMax      = 64               // and at most this many per link
	snoopRate     = 100              // frames read per link and second; the kernel drops the rest
)

// Snoop listens on a link, whatever its index becomes, and emits each address that the app behind it uses: the sender
// of an incoming ARP packet or neighbour solicitation, the address of an incoming neighbour advertisement, and the one
// that a DHCP server acknowledges to a client in an outgoing packet. It returns at once and stops with ctx. If the link
// goes, it waits for the link to come back.
func (k *Kernel) Snoop(ctx context.Context, link string, emit func(netstate.ObservedAddress)) {
	go func() {
		for pause := snoopAgain; ctx.Err() == nil; pause = min(2*pause, snoopAgainMax) {
			began := time.Now()
			_ = k.snoop(ctx, link, emit) // the link is gone, down or not there yet
			if time.Since(began) > snoopAgainMax {
				pause = snoopAgain
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}()
}

func (k *Kernel) snoop(ctx context.Context, link string, emit func(netstate.ObservedAddress)) error {
	index, err := k.LinkIndex(link)
	if err != nil || index == 0 {
		return err
	}
	fd := -1
	err = proc.In(k.path, func() error {
		var err error
		fd, err = packetSocket(index)
		return err
	})
	if err != nil {
		return fmt.Errorf("listen on %s: %w", link, err)
	}
	f := os.NewFile(uintptr(fd), link)
	defer f.Close()
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	buf, reported, pace := make([]byte, 2048), reportedAddresses{}, pace{}
	for {
		if rest := pace.rest(time.Now()); rest > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(rest):
			}
		}
		var n int
		var from unix.Sockaddr
		var got error
		err := conn.Read(func(fd uintptr) bool {
			n, from, got = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			return !errors.Is(got, unix.EAGAIN)
		})
		if err = errors.Join(err, got); err != nil {
			return fmt.Errorf("listen on %s: %w", link, err)
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok {
			continue
		}
		seen, ok := parseSighting(buf[:n], ll.Pkttype == unix.PACKET_OUTGOING)
		if ok && reported.isNew(seen, time.Now()) {
			seen.Link = link
			emit(seen)
		}
	}
}

// pace bounds how often a link wakes its listener: an app can send a hundred thousand frames a second.
type pace struct {
	began time.Time
	n     int
}

// rest returns how long to wait before reading the next frame.
func (p *pace) rest(now time.Time) time.Duration {
	if now.Sub(p.began) >= time.Second {
		*p = pace{began: now}
	}
	p.n++
	if p.n <= snoopRate {
		return 0
	}
	return p.began.Add(time.Second).Sub(now)
}

// reportedAddresses records the addresses reported for one link, so that an app that invents senders can't keep its
// listeners busy.
type reportedAddresses struct {
	since time.Time // start of the snoopQuiet period that at and n count
	at    map[netip.Addr]bool
	n     int
	lease netip.Addr // the last lease
}

// isNew reports whether to emit an address now, and records it. A lease of a different address is emitted at once,
// because the previous one is no longer the app's.
func (t *reportedAddresses) isNew(s netstate.ObservedAddress, now time.Time) bool {
	if now.Sub(t.since) >= snoopQuiet {
		*t = reportedAddresses{since: now, at: map[netip.Addr]bool{}, lease: t.lease}
	}
	changed := s.Leased && s.IP != t.lease
	if t.at[s.IP] && !changed || t.n >= snoopMax {
		return false
	}
	t.at[s.IP] = true
	t.n++
	if s.Leased {
		t.lease = s.IP
	}
	return true
}

// packetSocket receives ARP and DHCP server replies on one link, in both directions.
func packetSocket(index int) (int, error) {
	// Protocol 0 receives nothing until the filter is attached.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open packet socket: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(snoopFilter)), Filter: &snoopFilter[0]}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: index})
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("set up packet socket: %w", err)
	}
	return fd, nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// Offsets in a frame.
const (
	frameType = 12
	frameHead = 14
	ipProto   = frameHead + 9
	ipFlags   = frameHead + 6
	udpHead   = 8
	dhcpFixed = 240 // fixed part including the magic cookie (RFC 2131 §3)
	ip6Head   = 40
)

// Types of ICMPv6 (RFC 4861 §4).
const (
	neighbourSolicit = 135
	neighbourAdvert  = 136
)

// pktType is the offset at which a filter reads whether the kernel sends a frame: SKF_AD_OFF + SKF_AD_PKTTYPE
// (linux/filter.h).
const pktType = 1<<32 - 0x1000 + 4

// snoopFilter is a classic BPF program that accepts incoming ARP, incoming neighbour solicitations and advertisements
// without extension headers, and outgoing unfragmented UDP from port 67 to 68. A broadcast by one app leaves through
// the links of all others.
var snoopFilter = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: frameType},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.ETH_P_ARP, Jt: 18, Jf: 0},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.ETH_P_IP, Jt: 0, Jf: 11},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: ipProto},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_UDP, Jt: 0, Jf: 18},
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: ipFlags},
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: 0x1fff, Jt: 16, Jf: 0},
	{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: frameHead},
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: frameHead},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 67, Jt: 0, Jf: 13},
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: frameHead + 2},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 68, Jt: 0, Jf: 11},
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: pktType},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PACKET_OUTGOING, Jt: 8, Jf: 9},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.ETH_P_IPV6, Jt: 0, Jf: 8},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: frameHead + 6},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_ICMPV6, Jt: 0, Jf: 6},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: frameHead + ip6Head},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: neighbourSolicit, Jt: 1, Jf: 0},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: neighbourAdvert, Jt: 0, Jf: 3},
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: pktType},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PACKET_OUTGOING, Jt: 1, Jf: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 2048},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
}

// parseSighting returns which station uses which address: the sender of an incoming ARP packet, or the client to
// which an outgoing reply assigns an address. A reply to a DHCPINFORM assigns none (RFC 2131 §4.3.5): its yiaddr is
// 0.0.0.0, and the client chose its address itself.
func parseSighting(frame []byte, outgoing bool) (s netstate.ObservedAddress, ok bool) {
	if len(frame) < frameHead {
		return s, false
	}
	body := frame[frameHead:]
	switch kind := binary.BigEndian.Uint16(frame[frameType:]); {
	case kind == unix.ETH_P_ARP && !outgoing:
		s.MAC, s.IP, ok = arpSender(body)
	case kind == unix.ETH_P_IPV6 && !outgoing:
		s.MAC = net.HardwareAddr(frame[6:12]).String()
		s.IP, ok = neighbourSender(body)
	case kind == unix.ETH_P_IP && outgoing:
		s.MAC, s.IP, ok = dhcpClient(body)
		s.Leased = true
	}
	return s, ok && s.IP.IsValid() && !s.IP.IsUnspecified() && !s.IP.IsMulticast()
}

// arpSender parses ARP for IPv4 on Ethernet (RFC 826).
func arpSender(b []byte) (string, netip.Addr, bool) {
	if len(b) < 28 || string(b[:6]) != "\x00\x01\x08\x00\x06\x04" {
		return "", netip.Addr{}, false
	}
	return net.HardwareAddr(b[8:14]).String(), netip.AddrFrom4([4]byte(b[14:18])), true
}

// neighbourSender returns the sender of a neighbour solicitation, which has none while it tests its address for a
// duplicate, or the address that an advertisement is about (RFC 4861 §4.3, §4.4).
func neighbourSender(b []byte) (netip.Addr, bool) {
	if len(b) < ip6Head+24 || b[6] != unix.IPPROTO_ICMPV6 {
		return netip.Addr{}, false
	}
	switch b[ip6Head] {
	case neighbourSolicit:
		return netip.AddrFrom16([16]byte(b[8:24])), true
	case neighbourAdvert:
		return netip.AddrFrom16([16]byte(b[ip6Head+8 : ip6Head+24])), true
	}
	return netip.Addr{}, false
}

// dhcpClient parses a DHCPACK (RFC 2131) and returns the client's MAC and the assigned address.
func dhcpClient(b []byte) (string, netip.Addr, bool) {
	if len(b) == 0 {
		return "", netip.Addr{}, false
	}
	head := int(b[0]&0xf) * 4
	if len(b) < head+udpHead+dhcpFixed {
		return "", netip.Addr{}, false
	}
	p := b[head+udpHead:]
	if p[0] != 2 || p[1] != 1 || p[2] != 6 || string(p[236:240]) != "\x63\x82\x53\x63" {
		return "", netip.Addr{}, false
	}
	for o := p[dhcpFixed:]; len(o) > 0 && o[0] != 255; {
		if o[0] == 0 {
			o = o[1:]
			continue
		}
		if len(o) < 2 || len(o) < 2+int(o[1]) {
			break
		}
		if o[0] == 53 && o[1] == 1 && o[2] == 5 {
			return net.HardwareAddr(p[28:34]).String(), netip.AddrFrom4([4]byte(p[16:20])), true
		}
		o = o[2+int(o[1]):]
	}
	return "", netip.Addr{}, false
}
