package scenario

import (
	"bytes"
	wire "encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// inside runs fn on a thread in a namespace of the lab. What fn opens remains there and can be used from any thread
// afterwards; the thread is discarded.
func (w *world) inside(short string, fn func() error) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime ends the thread
		ns, err := netns.GetFromName(w.NS(short))
		if err != nil {
			ended <- err
			return
		}
		defer func() { _ = ns.Close() }()
		if err := netns.Set(ns); err != nil {
			ended <- err
			return
		}
		ended <- fn()
	}()
	return <-ended
}

// The headers of a frame.

const (
	etherIPv4 = 0x0800
	etherARP  = 0x0806
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100
	etherQinQ = 0x88a8
	floodPort = 9999
)

func ether(dst, src net.HardwareAddr, kind uint16, payload []byte) []byte {
	return append(wire.BigEndian.AppendUint16(slices.Concat(dst, src), kind), payload...)
}

func ipv4(src, dst netip.Addr, proto byte, payload []byte) []byte {
	h := make([]byte, 20)
	h[0], h[8], h[9] = 0x45, 64, proto
	wire.BigEndian.PutUint16(h[2:], uint16(20+len(payload)))
	copy(h[12:], src.AsSlice())
	copy(h[16:], dst.AsSlice())
	wire.BigEndian.PutUint16(h[10:], checksum(h))
	return append(h, payload...)
}

// checksum is that of the internet (RFC 1071) over parts in a row, whose checksum field is 0.
func checksum(parts ...[]byte) uint16 {
	all := slices.Concat(parts...)
	if len(all)%2 == 1 {
		all = append(all, 0)
	}
	var sum uint32
	for i := 0; i < len(all); i += 2 {
		sum += uint32(wire.BigEndian.Uint16(all[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum + sum>>16)
}

// udp omits the checksum, as IPv4 permits.
func udp(src, dst uint16, payload []byte) []byte {
	h := wire.BigEndian.AppendUint16(nil, src)
	h = wire.BigEndian.AppendUint16(h, dst)
	h = wire.BigEndian.AppendUint16(h, uint16(8+len(payload)))
	return append(append(h, 0, 0), payload...)
}

// arpAsk returns an ARP request for dst from src; more is the padding.
func arpAsk(srcMAC net.HardwareAddr, src, dst netip.Addr, more string) []byte {
	p := []byte{0, 1, 8, 0, 6, 4, 0, 1}
	return slices.Concat(p, srcMAC, src.AsSlice(), make([]byte, 6), dst.AsSlice(), []byte(more))
}

// ipv6 returns a UDP packet between link-local addresses, with a wrong checksum, since only a sniffer may receive it.
func ipv6(dst string, payload []byte) []byte {
	h := []byte{0x60, 0, 0, 0, 0, byte(8 + len(payload)), 17, 64}
	from, to := netip.MustParseAddr("fe80::1:2:3"), netip.MustParseAddr(dst)
	return slices.Concat(h, from.AsSlice(), to.AsSlice(), udp(7, floodPort, payload))
}

// tagged inserts a VLAN tag into a frame.
func tagged(frame []byte, tpid, vid uint16) []byte {
	tag := wire.BigEndian.AppendUint16(wire.BigEndian.AppendUint16(nil, tpid), vid)
	return slices.Concat(frame[:12], tag, frame[12:])
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// sniffer counts the frames with a mark that an interface receives.
type sniffer struct {
	mu    sync.Mutex
	marks map[string]int
}

// sniff listens on an interface for frames that contain one of the marks, until the test ends.
func (w *world) sniff(short, ifName string, marks ...string) *sniffer {
	w.Helper()
	s := &sniffer{marks: map[string]int{}}
	var fd int
	err := w.inside(short, func() error {
		link, err := net.InterfaceByName(ifName)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		// A read times out regularly, so that the reader notices the end of the test.
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: link.Index})
	})
	if err != nil {
		w.Fatalf("sniff on %s in %s: %v", ifName, short, err)
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { s.read(fd, stop, marks) })
	w.Cleanup(func() { close(stop); reader.Wait(); _ = unix.Close(fd) })
	return s
}

func (s *sniffer) read(fd int, stop <-chan struct{}, marks []string) {
	buf := make([]byte, 4096)
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil { // the timeout, or the link is down at the moment
			continue
		}
		for _, m := range marks {
			if bytes.Contains(buf[:n], []byte(m)) {
				s.mu.Lock()
				s.marks[m]++
				s.mu.Unlock()
			}
		}
	}
}

func (s *sniffer) count(mark string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks[mark]
}

// sender is a raw socket in a namespace, on one link.
type sender struct {
	fd, index int
}

// raw opens a sender; eth0 must exist and be up.
func (w *world) raw(short string) *sender {
	w.Helper()
	return w.rawOn(short, "eth0")
}

// rawOn opens a sender on another link.
func (w *world) rawOn(short, ifName string) *sender {
	w.Helper()
	s := &sender{}
	err := w.inside(short, func() error {
		link, err := net.InterfaceByName(ifName)
		if err != nil {
			return err
		}
		s.index = link.Index
		s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		w.Fatalf("raw socket in %s: %v", short, err)
	}
	w.Cleanup(func() { _ = unix.Close(s.fd) })
	return s
}

func (s *sender) send(frame []byte) error {
	return unix.Sendto(s.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: s.index, Halen: 6})
}

// flood sends frames from eth0 of a namespace from the moment that it exists: flood sets it up itself.
type flood struct {
	frames atomic.Pointer[[][]byte]
	sent   atomic.Int64
	end    func() error
}

func (w *world) flood(short string, frames ...[]byte) *flood {
	w.Helper()
	f := &flood{}
	f.frames.Store(&frames)
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- w.inside(short, func() error { return f.run(stop) }) }()
	f.end = sync.OnceValue(func() error { close(stop); return <-ended })
	w.Cleanup(func() {
		if err := f.end(); err != nil {
			w.Errorf("flood from %s: %v", short, err)
		}
	})
	return f
}

func (f *flood) run(stop <-chan struct{}) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		index, err := upEth0(fd)
		if errors.Is(err, unix.ENODEV) { // it does not exist yet, or no more: retry at once
			continue
		}
		if err != nil {
			return err
		}
		for _, frame := range *f.frames.Load() {
			// An error means that the adapter was just removed, or a full queue.
			if unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index, Halen: 6}) == nil {
				f.sent.Add(1)
			}
		}
	}
}

// upEth0 sets up eth0 of this thread's namespace and returns its index.
func upEth0(fd int) (int, error) {
	r, err := unix.NewIfreq("eth0")
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r); err != nil {
		return 0, err
	}
	if flags := r.Uint16(); flags&unix.IFF_UP == 0 {
		r.SetUint16(flags | unix.IFF_UP)
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r); err != nil {
			return 0, err
		}
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r); err != nil {
		return 0, err
	}
	return int(r.Uint32()), nil
}

// hit waits until the flood has sent n more frames.
func (f *flood) hit(w *world, n int64) {
	w.Helper()
	goal := f.sent.Load() + n
	w.eventually("the flood", func() bool { return f.sent.Load() >= goal })
}

// udpCounter counts datagrams to one address.
type udpCounter struct{ n atomic.Int64 }

func (w *world) countUDP(short, addr string) *udpCounter {
	w.Helper()
	c := &udpCounter{}
	var pc net.PacketConn
	err := w.inside(short, func() (err error) {
		pc, err = net.ListenPacket("udp", addr)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		buf := make([]byte, 2048)
		for {
			_, _, err := pc.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				c.n.Add(1)
			}
		}
	})
	w.Cleanup(func() { _ = pc.Close(); reader.Wait() })
	return c
}

// mac returns the hardware address of a link.
func (w *world) mac(short, ifName string) net.HardwareAddr {
	w.Helper()
	var mac net.HardwareAddr
	err := w.inside(short, func() error {
		link, err := net.InterfaceByName(ifName)
		if err == nil {
			mac = link.HardwareAddr
		}
		return err
	})
	if err != nil {
		w.Fatalf("%s of %s: %v", ifName, short, err)
	}
	return mac
}

// ip returns the sticky address of adapter 0 of an app.
func (w *world) ip(id string) netip.Addr {
	w.Helper()
	adapters, _ := w.status("app", id)["adapters"].([]any)
	first, _ := adapters[0].(map[string]any)
	text, _ := first["ip"].(string)
	ip, err := netip.ParseAddr(text)
	if err != nil {
		w.Fatal(err)
	}
	return ip
}

// timeout is how long an allowed packet may take; denial is how long the test waits for a denied one.
const (
	timeout = 5 * time.Second
	denial  = 400 * time.Millisecond
)
