package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"edgespan/integration/netns"
	"edgespan/platform/proc"
)

const (
	streamPort = 9000
	payload    = 64 - 20 - 8 // an IPv4 packet of 64 octets
	batch      = 64          // packets of one sendmmsg
)

// stream is a UDP flow from one namespace to another. Its receiving socket counts each packet and drops it at once, so
// that no reader takes processor time of the sender's.
type stream struct {
	send, recv int
	port       uint16
	msgs       []mmsghdr
	iov        unix.Iovec
	octets     [payload]byte
	dial       func() (int, error) // opens another sending socket
}

// mmsghdr is the kernel's struct mmsghdr; the compiler pads it as C does.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// newStream opens a stream. If answered, one packet went each way, so the flow is established for the kernel's
// connection tracking; otherwise it never is, however many packets it has.
func newStream(p *place, from, to *netns.NS, addr netip.Addr, port uint16, answered bool) *stream {
	p.Helper()
	s := &stream{port: port}
	dst := &unix.SockaddrInet4{Addr: addr.As4(), Port: int(port)}
	p.check(proc.In(to.Path, func() (err error) {
		s.recv, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.Bind(s.recv, dst), setTimeout(s.recv))
	}))
	s.dial = func() (fd int, err error) {
		err = proc.In(from.Path, func() error {
			if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			return errors.Join(unix.Connect(fd, dst), setTimeout(fd))
		})
		return fd, err
	}
	var err error
	s.send, err = s.dial()
	p.check(err)
	p.check(s.open(answered))
	return s
}

// setTimeout bounds each wait of a socket, so that a lost packet is sent again.
func setTimeout(fd int) error {
	return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
}

// open sends until a packet arrives, and answers it if asked to. Then the receiver drops what it gets.
func (s *stream) open(answered bool) error {
	buf := make([]byte, 2*payload)
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if _, err = unix.Write(s.send, s.octets[:]); err != nil {
			err = fmt.Errorf("send: %w", err)
			continue
		}
		_, from, e := unix.Recvfrom(s.recv, buf, 0)
		if e != nil {
			err = fmt.Errorf("receive: %w", e)
			continue
		}
		if !answered {
			return s.fill()
		}
		if err = unix.Sendto(s.recv, s.octets[:], 0, from); err != nil {
			continue
		}
		if _, err = unix.Read(s.send, buf); err == nil {
			return s.fill()
		}
		err = fmt.Errorf("receive the answer: %w", err)
	}
	return fmt.Errorf("open a stream: %w", err)
}

// fill prepares a batch, and has the receiving socket drop and count all packets.
func (s *stream) fill() error {
	s.iov.Base = &s.octets[0]
	s.iov.SetLen(payload)
	s.msgs = make([]mmsghdr, batch)
	for i := range s.msgs {
		s.msgs[i].hdr.Iov = &s.iov
		s.msgs[i].hdr.SetIovlen(1)
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	return unix.SetsockoptSockFprog(s.recv, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: 1, Filter: &drop})
}

// one sends a single packet.
func (s *stream) one() error {
	_, err := unix.Write(s.send, s.octets[:])
	return err
}

// first sends the first packet of another flow.
func (s *stream) first() error {
	fd, err := s.dial()
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, s.octets[:])
	return errors.Join(err, unix.Close(fd))
}

func (s *stream) close() {
	_ = unix.Close(s.send)
	_ = unix.Close(s.recv)
}

// received is how many packets the receiving socket has counted, modulo 2^32.
func (s *stream) received() (uint32, error) {
	const soMeminfo, drops, words = 55, 8, 9 // asm-generic/socket.h; linux/sock_diag.h
	var info [words]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.recv), unix.SOL_SOCKET, soMeminfo,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return 0, e
	}
	return info[drops], nil
}

// speed is what a window of sending came to.
type speed struct {
	sent, packets uint32 // packets are those that arrived
	wall, cpu     time.Duration
}

// whole reports whether the packets went all the way in the sender's context. Where the kernel hands them to another
// thread, since softirqs take long or other work waits, they arrive later and cost the sender nothing.
func (s speed) whole() bool { return s.packets > s.sent/10*9 }

// perCPU is packets a second of the sender's own processor time, which all that the kernel does with a packet on its
// way through the namespaces is part of. It is what perSecond is on a quiet machine.
func (s speed) perCPU() float64 { return float64(s.packets) / s.cpu.Seconds() }

func (s speed) perSecond() float64 { return float64(s.packets) / s.wall.Seconds() }

// window sends as fast as it goes for some time.
func (s *stream) window(length time.Duration) (speed, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := s.received()
	if err != nil {
		return speed{}, err
	}
	var sent uint32
	start, cpu := time.Now(), threadTime()
	for time.Since(start) < length {
		n, _, e := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.send), uintptr(unsafe.Pointer(&s.msgs[0])),
			uintptr(len(s.msgs)), 0, 0, 0)
		if e != 0 && e != unix.EINTR {
			return speed{}, fmt.Errorf("sendmmsg: %w", e)
		}
		if e == 0 {
			sent += uint32(n)
		}
	}
	v := speed{sent: sent, wall: time.Since(start), cpu: threadTime() - cpu}
	after, err := s.received()
	v.packets = after - before
	return v, err
}

// threadTime is the processor time of the calling thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // a clock that each kernel has
	}
	return time.Duration(ts.Nano())
}
