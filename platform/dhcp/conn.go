// Package dhcp sends and receives the messages of a DHCP client on one interface, whatever addresses the interface has.
//
// It never decides what is sent or what a reply means, and changes nothing on the host.
package dhcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"golang.org/x/sys/unix"
)

const (
	readRate   = 20       // replies that are read per second; the kernel drops the rest
	readBuffer = 64 << 10 // octets of replies that wait
)

// Conn is the socket of one client.
type Conn struct {
	file  *os.File
	udp   int // see holdPort; -1 for none
	index int
	mac   net.HardwareAddr
}

// Open opens a client's socket on an interface of a network namespace ("" for the process's own).
func Open(netns, ifName string) (*Conn, error) {
	c := &Conn{udp: -1}
	err := proc.In(netns, func() error {
		i, err := net.InterfaceByName(ifName)
		if err != nil {
			return err
		}
		if len(i.HardwareAddr) != 6 {
			return errors.New("must be an Ethernet interface")
		}
		c.index, c.mac = i.Index, i.HardwareAddr
		fd, err := packetSocket(i.Index, unix.ETH_P_IP, replyFilter(i.HardwareAddr, 0)) // nothing is asked yet
		if err != nil {
			return err
		}
		c.file = os.NewFile(uintptr(fd), ifName)
		c.udp = holdPort(ifName)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open DHCP client on %s: %w", ifName, err)
	}
	return c, nil
}

// Close closes the socket.
func (c *Conn) Close() {
	_ = c.file.Close()
	if c.udp >= 0 {
		_ = unix.Close(c.udp)
		c.udp = -1
	}
}

// packetSocket receives the packets of an EtherType that a filter accepts.
func packetSocket(index int, protocol uint16, filter []unix.SockFilter) (int, error) {
	// Protocol 0 receives nothing until the filter is attached.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open packet socket: %w", err)
	}
	err = errors.Join(attachFilter(fd, filter),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, readBuffer))
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(protocol), Ifindex: index})
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("set up packet socket: %w", err)
	}
	return fd, nil
}

// attachFilter makes the kernel drop all but what a filter accepts.
func attachFilter(fd int, filter []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// replyFilter returns the classic BPF program that accepts unfragmented UDP from port 67 to 68 with a BOOTREPLY of a
// transaction for the last four octets of a MAC address. The packet begins with its IPv4 header. A neighbour that
// floods the node knows the address, but not the transaction of a message that went to its server alone, as renewals
// do: so it cannot crowd out the reply.
func replyFilter(mac net.HardwareAddr, xid uint32) []unix.SockFilter {
	const opcode, transaction, hardware = udpHead, udpHead + 4, udpHead + 28 + 2
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 9},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_UDP, Jf: 12},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 6},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: 0x3fff, Jt: 10},
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_IND, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: serverPort<<16 | clientPort, Jf: 7},
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND, K: opcode},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 2, Jf: 5},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_IND, K: transaction},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: xid, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_IND, K: hardware},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: binary.BigEndian.Uint32(mac[2:]), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: maxPacket},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}

// holdPort opens a UDP socket on the client's port that drops everything: without one, the kernel answers each reply to
// the client's address with an ICMP error. It returns -1 if another client of the host has the port.
func holdPort(ifName string) int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	err = errors.Join(attachFilter(fd, drop),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.BindToDevice(fd, ifName), unix.Bind(fd, &unix.SockaddrInet4{Port: clientPort}))
	if err != nil {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// Send sends a message: to one neighbour if it names one, otherwise to all.
func (c *Conn) Send(q netstate.DHCPQuery) error {
	packet, err := encode(q, c.mac)
	if err != nil {
		return fmt.Errorf("send DHCP %s: %w", q.Type, err)
	}
	to := unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_IP), Ifindex: c.index, Halen: 6}
	copy(to.Addr[:], net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	if via, err := net.ParseMAC(q.Via); err == nil && len(via) == 6 && q.To.IsValid() {
		copy(to.Addr[:], via)
	}
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) {
		if sent = c.hasMAC(int(fd)); sent != nil {
			return
		}
		if sent = attachFilter(int(fd), replyFilter(c.mac, q.XID)); sent == nil {
			sent = unix.Sendto(int(fd), packet, unix.MSG_DONTWAIT, &to)
		}
	})
	if errors.Is(sent, errOtherMAC) {
		_ = c.file.Close() // ends Receive: the client begins anew with the address of now
	}
	if err = errors.Join(err, sent); err != nil {
		return fmt.Errorf("send DHCP %s: %w", q.Type, err)
	}
	return nil
}

// errOtherMAC means that the interface got another MAC address, as the parts of a bond do: servers would answer to the
// old one.
var errOtherMAC = errors.New("the interface has another MAC address now")

func (c *Conn) hasMAC(fd int) error {
	name, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	if ll, ok := name.(*unix.SockaddrLinklayer); !ok || !bytes.Equal(ll.Addr[:6], c.mac) {
		return errOtherMAC
	}
	return nil
}

// Receive emits replies until ctx ends or the interface fails, and then closes the socket. A flood is read at readRate.
func (c *Conn) Receive(ctx context.Context, emit func(netstate.DHCPReply)) error {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.file.Close() })()
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, maxPacket)
	began, count := time.Now(), 0
	for {
		if time.Since(began) >= time.Second {
			began, count = time.Now(), 0
		}
		if count++; count > readRate {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Until(began.Add(time.Second))):
			}
		}
		var n int
		var from unix.Sockaddr
		var got error
		err := raw.Read(func(fd uintptr) bool {
			n, from, got = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			return !errors.Is(got, unix.EAGAIN)
		})
		if err = errors.Join(err, got); err != nil {
			return fmt.Errorf("receive DHCP: %w", err)
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok || ll.Pkttype == unix.PACKET_OUTGOING || ll.Halen != 6 {
			continue
		}
		if r, err := decode(buf[:n], c.mac, net.HardwareAddr(ll.Addr[:6]).String()); err == nil {
			emit(r)
		}
	}
}
