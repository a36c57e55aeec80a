package flowexport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dialTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second // for a message that the other end does not take
	ackTimeout   = 30 * time.Second // for a collector that has gone without a word

	checkEvery = 10 * time.Second // for UDP, which hears nothing of another route

	sendBuffer = 1 << 18 // of streams: what is sent and was not read yet is lost with the connection

	udpHeader = 8
	// minRoom is the smallest packet that each host takes, 576 octets (RFC 1122 §3.3.2), without its headers, and maxRoom
	// is that of Ethernet: a larger message is lost with each of its fragments.
	minRoom = 576 - ipv4Header - udpHeader
	maxRoom = 1500 - ipv4Header - udpHeader

	ipv4Header, ipv6Header = 20, 40

	tcpRoom    = 1 << 13
	streamRoom = 1 << 16
)

// errClosed is the error of a connection that the other end has closed.
var errClosed = errors.New("closed by the other end")

// Conn is a connection to a destination.
type Conn struct {
	conn     net.Conn
	raw      syscall.RawConn
	protocol string
	room     int
	checked  time.Time
}

// Dial connects by "udp" or "tcp" to ADDRESS:PORT, or by "unix" to the stream socket at a path.
func Dial(ctx context.Context, protocol, address string) (*Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, Control: func(network, _ string, raw syscall.RawConn) error {
		return controlled(raw, func(fd int) error { return prepare(network, fd) })
	}}
	conn, err := d.DialContext(ctx, protocol, address)
	if err != nil {
		return nil, err // of net: it names the address
	}
	c := &Conn{conn: conn, protocol: protocol, checked: time.Now()}
	if c.raw, err = conn.(syscall.Conn).SyscallConn(); err == nil {
		c.room, err = c.roomOf(protocol)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("dial %s %s: %w", protocol, address, err)
	}
	return c, nil
}

// prepare sets the options of a socket before it connects. The kernel makes the receive buffer at least as small as
// it can be.
func prepare(network string, fd int) error {
	err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
	switch network { // an error instead of fragments
	case "udp4":
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO))
	case "udp6":
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO))
	default:
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer))
	}
	if strings.HasPrefix(network, "tcp") {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(ackTimeout.Milliseconds())))
	}
	return os.NewSyscallError("setsockopt", err)
}

// roomOf returns the largest message: over UDP that of the path, as far as the kernel knows it.
func (c *Conn) roomOf(protocol string) (room int, err error) {
	switch protocol {
	case "tcp":
		return tcpRoom, nil
	case "unix":
		return streamRoom, nil
	}
	level, option, headers := unix.IPPROTO_IP, unix.IP_MTU, ipv4Header+udpHeader
	if c.conn.RemoteAddr().(*net.UDPAddr).IP.To4() == nil {
		level, option, headers = unix.IPPROTO_IPV6, unix.IPV6_MTU, ipv6Header+udpHeader
	}
	err = controlled(c.raw, func(fd int) error {
		mtu, err := unix.GetsockoptInt(fd, level, option)
		room = min(max(mtu-headers, minRoom), maxRoom)
		return os.NewSyscallError("getsockopt", err)
	})
	return room, err
}

func controlled(raw syscall.RawConn, f func(fd int) error) error {
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// Write sends octets, over UDP one message. It returns how many were sent before an error; one is that the other end
// does not take them in time. A stream is of no use after an error.
func (c *Conn) Write(b []byte) (int, error) {
	// A stream that the other end has closed would take one more message, and lose it.
	if c.protocol == "tcp" || c.protocol == "udp" && time.Since(c.checked) >= checkEvery {
		if err := c.Check(); err != nil {
			return 0, err
		}
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.conn.Write(b)
}

// Check returns an error if the other end has closed the connection, if a host has answered that the last message does
// not reach it, or if messages of UDP leave from an address that the host would no longer choose: behind another uplink
// they would be dropped as forged.
func (c *Conn) Check() error {
	c.checked = time.Now()
	err := controlled(c.raw, func(fd int) error {
		if c.protocol == "udp" {
			n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err == nil && n != 0 {
				err = syscall.Errno(n)
			}
			return errors.Join(err, c.checkSource())
		}
		n, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err == nil && n == 0:
			return errClosed
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", c.protocol, c.conn.RemoteAddr(), err)
	}
	return nil
}

// checkSource compares the own address with that of a new connection, for which nothing is sent.
func (c *Conn) checkSource() error {
	now, err := net.Dial(c.protocol, c.conn.RemoteAddr().String())
	if err != nil {
		return err
	}
	defer now.Close()
	if was, is := c.conn.LocalAddr().(*net.UDPAddr).IP, now.LocalAddr().(*net.UDPAddr).IP; !was.Equal(is) {
		return fmt.Errorf("the host sends from %v now instead of %v", is, was)
	}
	return nil
}

// Room returns the largest message that the path takes.
func (c *Conn) Room() int { return c.room }

// Close ends the connection, and a Write that is under way.
func (c *Conn) Close() error { return c.conn.Close() }
