package lab

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The relay's two interfaces, in the namespace between the node and a provider.
const (
	wireNear = "near0" // the node's link
	wireFar  = "far0"  // the provider's link
)

// maxUnderWay bounds the frames that a wire holds; further ones are lost.
const maxUnderWay = 4096

// maxFrame is the largest frame with its virtio header: a segment of 64 KiB that the receiver splits.
const maxFrame = 66 << 10

// wire carries the frames between two interfaces, each after a delay of its own. Three goroutines do that until close:
// a reader of each interface and one that holds the frames until they are due.
type wire struct {
	near, far     *os.File
	delay, jitter atomic.Int64 // nanoseconds
	frames        chan frame
	stop          chan struct{}
	running       sync.WaitGroup
}

// frame is one that is under way.
type frame struct {
	data []byte // with its virtio header
	due  time.Time
	to   *os.File
}

// openWire starts the relay between the node and a provider.
func (l *Lab) openWire(p *Provider) error {
	w := &wire{frames: make(chan frame, 64), stop: make(chan struct{})}
	err := l.inside(p.wireShort(), func() (err error) {
		if w.near, err = packetSocket(wireNear); err != nil {
			return err
		}
		if w.far, err = packetSocket(wireFar); err != nil {
			_ = w.near.Close() // unused
		}
		return err
	})
	if err != nil {
		return err
	}
	w.running.Go(func() { w.read(w.near, w.far) })
	w.running.Go(func() { w.read(w.far, w.near) })
	w.running.Go(w.send)
	p.wire = w
	return nil
}

// packetSocket receives and sends whole frames of one interface. Each has a virtio header, which keeps what the sender
// left to the hardware: a checksum to compute, a segment to split.
func packetSocket(dev string) (*os.File, error) {
	link, err := net.InterfaceByName(dev)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", dev, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	for _, opt := range []int{unix.PACKET_VNET_HDR, unix.PACKET_IGNORE_OUTGOING} {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, opt, 1); err != nil {
			return nil, errors.Join(fmt.Errorf("set up packet socket: %w", err), unix.Close(fd))
		}
	}
	all := uint16(unix.ETH_P_ALL)
	err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: link.Index})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bind packet socket to %s: %w", dev, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), dev), nil // non-blocking: the runtime's poller waits for it
}

func (w *wire) setDelay(delay, jitter time.Duration) {
	w.delay.Store(int64(delay))
	w.jitter.Store(int64(jitter))
}

// read passes the frames of one interface to send, with the time at which they are due at the other.
func (w *wire) read(from, to *os.File) {
	buf := make([]byte, maxFrame)
	for {
		n, err := from.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil { // ENETDOWN, once for each time that the link goes down
			continue
		}
		wait := time.Duration(w.delay.Load())
		if j := w.jitter.Load(); j > 0 {
			wait += time.Duration(rand.Int64N(2*j+1) - j)
		}
		select {
		case w.frames <- frame{append([]byte(nil), buf[:n]...), time.Now().Add(wait), to}:
		case <-w.stop:
			return
		}
	}
}

// send writes each frame when it is due.
func (w *wire) send() {
	var held schedule
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for len(held) > 0 && !held[0].due.After(time.Now()) {
			f := heap.Pop(&held).(frame)
			_, _ = f.to.Write(f.data) // a link that is down or full loses the frame
		}
		wait := time.Hour
		if len(held) > 0 {
			wait = time.Until(held[0].due)
		}
		timer.Reset(wait)
		select {
		case f := <-w.frames:
			if len(held) < maxUnderWay {
				heap.Push(&held, f)
			}
		case <-timer.C:
		case <-w.stop:
			return
		}
	}
}

// closeWire ends the relay, if there is one. Frames that are under way are lost.
func (p *Provider) closeWire() {
	if p.wire == nil {
		return
	}
	close(p.wire.stop)
	_ = p.wire.near.Close() // ends its reader
	_ = p.wire.far.Close()
	p.wire.running.Wait()
	p.wire = nil
}

// schedule is a heap of frames, the next one first.
type schedule []frame

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].due.Before(s[j].due) }
func (s schedule) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(f any)        { *s = append(*s, f.(frame)) }
func (s *schedule) Pop() any {
	last := len(*s) - 1
	f := (*s)[last]
	(*s)[last] = frame{}
	*s = (*s)[:last]
	return f
}
