package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"edgespan/netinst/probe"
	"edgespan/platform/proc"

	"golang.org/x/sys/unix"
)

// shot is one shot of a probe: where its sockets are opened, and the interface that they leave by.
type shot struct {
	netns   string
	ifName  string
	servers []netip.Addr // resolve host names
	ipv6    bool         // to IPv6 addresses
	bytes   *int         // sent and received, with the headers of the link
}

// Lengths of headers, without options.
const (
	linkHead = 14
	head4    = linkHead + 20
	head6    = linkHead + 40
)

// ipHead returns the length of the headers of a packet to or from an address.
func ipHead(a netip.Addr) int {
	if a.Is4() {
		return head4
	}
	return head6
}

// count counts a packet that was sent or received.
func (s shot) count(bytes int) { *s.bytes += bytes }

// Shoot sends one shot of a probe from the network namespace at netnsPath, or from the process's own if that is "". It
// leaves by the probe's interface alone, as do the DNS queries for a host name, which go to the probe's servers. took
// is the time until the target's answer, without those queries; bytes is about what was sent and received, headers
// included. Shoot returns when ctx ends; the caller bounds it.
//
// An error says what did not happen, in the same words whenever the same is wrong. It wraps probe.ErrNone if the probe
// can't be sent by the interface, which says nothing about the port, and probe.ErrNotAsked if the node kept it back.
func Shoot(ctx context.Context, netnsPath string, id probe.ID) (took time.Duration, bytes int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, fmt.Errorf("probe %s: %w", id.Target, err)
	}
	s := shot{netns: netnsPath, ifName: id.IfName, servers: id.ServerAddrs(), ipv6: id.IPv6, bytes: &bytes}
	switch id.Method {
	case probe.ARP:
		took, err = s.arp(ctx, id.Target)
	case probe.ND:
		took, err = s.nd(ctx, id.Target)
	case probe.ICMP:
		took, err = s.icmp(ctx, id.Target)
	case probe.TCP:
		took, err = s.tcp(ctx, id.Target)
	case probe.HTTP:
		took, err = s.http(ctx, id.Target, id.Body)
	case probe.DNS:
		took, err = s.dns(ctx, id.Target)
	default:
		err = fmt.Errorf("invalid method %q", id.Method)
	}
	switch {
	case err == nil:
		return took, bytes, nil
	case errors.Is(ctx.Err(), context.Canceled): // the target did nothing wrong
		return 0, bytes, fmt.Errorf("probe %s: %w", id.Target, context.Canceled)
	}
	return 0, bytes, err
}

// open returns a socket of the namespace, bound to the interface, which any thread can use. Its reads and writes fail
// once ctx has ended. The caller calls done, which closes it.
func (s shot) open(ctx context.Context, family, kind, protocol int) (f *os.File, done func(), err error) {
	fd := -1
	err = proc.In(s.netns, func() (err error) {
		fd, err = unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open a socket: %w: %w", err, probe.ErrNotAsked)
	}
	if family != unix.AF_PACKET {
		if err := unix.BindToDevice(fd, s.ifName); err != nil {
			_ = unix.Close(fd)
			return nil, nil, s.refuse(err)
		}
	}
	f = os.NewFile(uintptr(fd), s.ifName) // non-blocking: the runtime's poller waits, no thread does
	stop := context.AfterFunc(ctx, func() { _ = f.SetDeadline(time.Unix(1, 0)) })
	return f, func() { stop(); _ = f.Close() }, nil
}

// refuse words why the interface can't be used.
func (s shot) refuse(err error) error {
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("no interface %s", s.ifName)
	case errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("%s is down", s.ifName)
	case isLocal(err):
		return fmt.Errorf("use %s: %w: %w", s.ifName, err, probe.ErrNotAsked)
	}
	return fmt.Errorf("use %s: %w", s.ifName, err)
}

// control calls f with the descriptor of a socket.
func control(sock *os.File, f func(fd int) error) error {
	raw, err := sock.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// connect makes remote the peer of a socket, without waiting, and returns the socket's own address. The kernel takes
// the one that its routes by the interface prefer: that of the subnet of remote, otherwise the first. No netlink
// request is needed for it, which would wait as long as others change links or addresses.
func (s shot) connect(sock *os.File, remote netip.AddrPort) (local netip.Addr, err error) {
	if err := otherHost(remote.Addr()); err != nil {
		return netip.Addr{}, err
	}
	err = control(sock, func(fd int) error {
		if err := unix.Connect(fd, sockaddr(remote)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			return err
		}
		local, err = localAddr(fd)
		return err
	})
	switch {
	case errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return netip.Addr{}, s.refuse(err)
	case isLocal(err):
		return netip.Addr{}, fmt.Errorf("connect to %s: %w: %w", remote.Addr(), err, probe.ErrNotAsked)
	case err != nil:
		return netip.Addr{}, s.noRoute(sock, remote.Addr())
	case local == remote.Addr().WithZone(""):
		return netip.Addr{}, ownAddress(local)
	}
	return local, nil
}

// errNotOther and errOwn mean that this machine itself would answer.
var (
	errNotOther = fmt.Errorf("not the address of another host: %w", probe.ErrNone)
	errOwn      = fmt.Errorf("this node's own address: %w", probe.ErrNone)
)

// otherHost fails for an address that the kernel would take for this machine, whatever the interface.
func otherHost(a netip.Addr) error {
	if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("%s is %w", a, errNotOther)
	}
	return nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}

func localAddr(fd int) (netip.Addr, error) {
	name, err := unix.Getsockname(fd)
	if err != nil {
		return netip.Addr{}, err
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr), nil
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr), nil
	}
	return netip.Addr{}, unix.EAFNOSUPPORT
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// maxQueued is more packets than the receive buffer of a socket has room for.
const maxQueued = 4096

// filter makes the kernel drop what prog does not accept, and drops what the socket has received before: a raw one
// receives from all the world as soon as it is open.
func filter(sock *os.File, prog []unix.SockFilter) error {
	return control(sock, func(fd int) error {
		err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
		for range maxQueued {
			if _, _, empty := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_DONTWAIT); empty != nil {
				break
			}
		}
		return err
	})
}

// unsent words why a socket did not send to a target.
func (s shot) unsent(target string, err error) error {
	var errno syscall.Errno
	switch {
	case !errors.As(err, &errno):
		return fmt.Errorf("nothing sent to %s", target)
	case errno == unix.ENETDOWN, errno == unix.ENODEV, errno == unix.ENXIO:
		return s.refuse(errno)
	case isLocal(errno):
		return fmt.Errorf("send to %s: %w: %w", target, errno, probe.ErrNotAsked)
	}
	return fmt.Errorf("send to %s: %w", target, errno)
}

// isLocal reports whether an error is the node's own, whatever the port: a rule for its output dropped the packet or
// its table of tracked flows is full (EPERM), or the kernel has no memory, descriptor or local port to spare.
func isLocal(err error) bool {
	for _, e := range []error{unix.EPERM, unix.ENOBUFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EAGAIN,
		unix.EADDRNOTAVAIL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// passing reports whether a read from a datagram socket failed because of an ICMP error or an empty packet. Anyone can
// forge them: the shot waits on.
func passing(err error) bool {
	for _, e := range []error{io.EOF, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ECONNREFUSED, unix.EPROTO, unix.EACCES,
		unix.EMSGSIZE, unix.EHOSTDOWN, unix.ENONET, unix.ENOPROTOOPT, unix.EOPNOTSUPP, unix.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// addressOf parses or resolves the host of a target.
func (s shot) addressOf(ctx context.Context, host string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap(), nil
	}
	return s.resolve(ctx, host)
}

// ofName turns an error about the address of a host name into a failure: what a resolver answers that blocks a name,
// such as 0.0.0.0, is no reason to trust the port. A target that is such an address says nothing about the port.
func ofName(host string, err error) error {
	if _, isAddr := netip.ParseAddr(host); isAddr != nil && (errors.Is(err, errNotOther) || errors.Is(err, errOwn)) {
		return fmt.Errorf("resolve %s: %s", host, strings.TrimSuffix(err.Error(), ": "+probe.ErrNone.Error()))
	}
	return err
}
