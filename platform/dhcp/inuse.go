package dhcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"edgespan/platform/proc"

	"golang.org/x/sys/unix"
)

// Three ARP probes 300 ms apart (RFC 5227 §2.1.1 has seconds between them: a node may have no other uplink meanwhile).
const (
	arpProbes = 3
	arpEvery  = 300 * time.Millisecond
)

// An ARP packet for IPv4 on Ethernet (RFC 826), and where its sender's addresses are.
const (
	arpHead      = "\x00\x01\x08\x00\x06\x04\x00\x01" // a request
	arpLength    = 28
	arpSenderMAC = 8
	arpSenderIP  = 14
)

// InUse asks by ARP whether another host on the link of an interface has an address, whatever addresses the interface
// has. It returns that host's MAC address, "" if none answers within 900 ms.
func InUse(ctx context.Context, netns, ifName string, addr netip.Addr) (who string, err error) {
	var file *os.File
	var at *net.Interface
	err = proc.In(netns, func() error {
		if at, err = net.InterfaceByName(ifName); err != nil {
			return err
		}
		if len(at.HardwareAddr) != 6 {
			return errors.New("must be an Ethernet interface")
		}
		fd, err := packetSocket(at.Index, unix.ETH_P_ARP, senderFilter(addr))
		if err == nil {
			file = os.NewFile(uintptr(fd), ifName)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("check address %s on %s: %w", addr, ifName, err)
	}
	defer file.Close()
	defer context.AfterFunc(ctx, func() { _ = file.SetDeadline(time.Now()) })()
	for range arpProbes {
		if err := sendARP(file, at, addr); err != nil {
			return "", fmt.Errorf("check address %s on %s: %w", addr, ifName, err)
		}
		if who := readARP(file, at.HardwareAddr, time.Now().Add(arpEvery)); who != "" || ctx.Err() != nil {
			return who, ctx.Err()
		}
	}
	return "", nil
}

// senderFilter returns the classic BPF program that accepts the ARP packets that come from an address.
func senderFilter(addr netip.Addr) []unix.SockFilter {
	from := addr.As4()
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: arpSenderIP},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: binary.BigEndian.Uint32(from[:]), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: arpLength},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}

// sendARP sends an ARP probe: a request from no address, which changes no neighbour's table (RFC 5227 §2.1.1).
func sendARP(file *os.File, at *net.Interface, addr netip.Addr) error {
	packet := append([]byte(arpHead), at.HardwareAddr...)
	packet = append(packet, make([]byte, 4+6)...)
	packet = append(packet, addr.AsSlice()...)
	to := unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ARP), Ifindex: at.Index, Halen: 6,
		Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) { sent = unix.Sendto(int(fd), packet, unix.MSG_DONTWAIT, &to) })
	return errors.Join(err, sent)
}

// readARP returns the MAC address of the first other host that a packet is from, "" if none comes until the deadline.
func readARP(file *os.File, own net.HardwareAddr, deadline time.Time) string {
	_ = file.SetReadDeadline(deadline)
	buf := make([]byte, 64)
	for {
		n, err := file.Read(buf)
		if err != nil {
			return ""
		}
		if from := net.HardwareAddr(buf[arpSenderMAC:arpSenderIP]); n >= arpLength && from.String() != own.String() {
			return from.String()
		}
	}
}
