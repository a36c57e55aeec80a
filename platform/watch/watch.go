package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

const (
	maxFrame = 4096 // octets of a frame that are read
	// buffer is how much the kernel keeps of messages that are not read yet: some 200 usual ones.
	buffer = 128 << 10
	// collect is the pause between two readings of a socket. A message by itself costs several times as much as one of
	// many.
	collect = 20 * time.Millisecond
	busy    = 200 * time.Millisecond // the pause while no more may be read
	// The first and the longest pause between two attempts to open a socket.
	again    = time.Second
	againMax = 8 * time.Second
)

// frames are buffers for a frame, of which each socket needs one only while it reads.
var frames = sync.Pool{New: func() any { return new([maxFrame]byte) }}

// Allow returns how many messages a reader may read now. One is read anyway, and after 0 none for a while.
type Allow func(reader string) int

// Start begins to emit the DNS and DHCP messages on a link of a network namespace, "" for the process's own, and
// returns at once. It ends with ctx. If the link goes, it waits for the link to come back. An idle link costs no
// processor time. DNS and DHCP are two readers to allow.
func Start(ctx context.Context, netns, link string, allow Allow, emit func(netstate.Messages)) {
	dns := func(m *netstate.Messages, frame []byte, outgoing bool, now time.Time) {
		list, bad, unread := parseDNS(frame, outgoing, now)
		m.DNS, m.Malformed, m.UnreadDNS = append(m.DNS, list...), m.Malformed+bad, m.UnreadDNS+unread
	}
	dhcp := func(m *netstate.Messages, frame []byte, outgoing bool, now time.Time) {
		if x, ok := parseDHCP(frame, outgoing, now); ok {
			m.DHCP = append(m.DHCP, x)
		} else {
			m.Malformed++
		}
	}
	for _, s := range []socket{
		{link: link, netns: netns, filter: dnsFilter, allow: allow, reader: link + " dns", parse: dns,
			unread: func(m *netstate.Messages, n uint64) { m.UnreadDNS += n }},
		{link: link, netns: netns, filter: dhcpFilter, allow: allow, reader: link + " dhcp", parse: dhcp,
			unread: func(m *netstate.Messages, n uint64) { m.UnreadDHCP += n }},
	} {
		go s.readAlways(ctx, emit)
	}
}

// socket reads one protocol on one link.
type socket struct {
	link, netns string
	filter      []unix.SockFilter
	allow       Allow
	reader      string // to allow
	parse       func(m *netstate.Messages, frame []byte, outgoing bool, now time.Time)
	unread      func(m *netstate.Messages, n uint64)
}

// readAlways reads until ctx ends. A link that is gone, down, or not there yet, is tried less and less often.
func (s socket) readAlways(ctx context.Context, emit func(netstate.Messages)) {
	for pause := again; ctx.Err() == nil; pause = min(2*pause, againMax) {
		began := time.Now()
		_ = s.read(ctx, emit) // the link is gone, down or not there yet
		if time.Since(began) > againMax {
			pause = again
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// read reads until ctx ends, or the link goes or is down.
func (s socket) read(ctx context.Context, emit func(netstate.Messages)) (err error) {
	fd := -1
	err = proc.In(s.netns, func() (err error) {
		fd, err = open(s.link, s.filter)
		return err
	})
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.link, err)
	}
	f := os.NewFile(uintptr(fd), s.link)
	defer f.Close()
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	for {
		m := netstate.Messages{Link: s.link}
		pause := collect
		var failed error
		err := conn.Read(func(fd uintptr) bool {
			pause, failed = s.take(int(fd), &m)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err = errors.Join(err, failed); err != nil {
			return fmt.Errorf("listen on %s: %w", s.link, err)
		}
		emit(m)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// take reads messages that are there, one at least, and how many the kernel has dropped, and returns the pause until
// the next time; EAGAIN if there are none.
func (s socket) take(fd int, m *netstate.Messages) (time.Duration, error) {
	frame := frames.Get().(*[maxFrame]byte)
	defer frames.Put(frame)
	buf := frame[:]
	pause, n := collect, 1
	for i := 0; i < n; i++ {
		size, from, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) && i > 0 {
			break
		}
		if err != nil {
			return 0, err
		}
		if i == 0 {
			if n = s.allow(s.reader); n == 0 {
				pause = busy
			}
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok {
			s.parse(m, buf[:size], ll.Pkttype == unix.PACKET_OUTGOING, time.Now())
		}
	}
	if stats, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		s.unread(m, uint64(stats.Drops)) // since the last call
	}
	return pause, nil
}

// open opens a packet socket on a link.
func open(link string, filter []unix.SockFilter) (int, error) {
	name, err := unix.NewIfreq(link)
	if err != nil {
		return -1, err
	}
	// Protocol 0 receives nothing until the filter is attached.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Not net.InterfaceByName, which lists all links of the namespace.
	err = errors.Join(unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, name),
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer))
	if err == nil {
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network order
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: int(name.Uint32())})
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("set up packet socket", err)
	}
	return fd, nil
}
