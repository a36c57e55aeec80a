package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// condition is what a wire does with the bytes sent over it.
type condition int

const (
	whole  condition = iota
	hole             // bytes stop, connections stay: an unplugged cable
	resets           // each connection breaks, and so does each new one: a firewall that rejects
)

func (c condition) String() string { return [...]string{"whole", "black hole", "reset"}[c] }

// wire is the path from one component to another, for all connections that the first one opens.
type wire struct {
	name string

	mu      sync.Mutex
	is      condition
	changed chan struct{} // closed by the next change
	ends    map[net.Conn]bool
}

func newWire(format string, args ...any) *wire {
	return &wire{name: fmt.Sprintf(format, args...), changed: make(chan struct{}), ends: map[net.Conn]bool{}}
}

// set changes the condition of the wire.
func (w *wire) set(c condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.is = c
	close(w.changed)
	w.changed = make(chan struct{})
	if c == resets {
		for end := range w.ends {
			reset(end)
		}
	}
}

// reset ends a connection at once, so that its other end notices.
func reset(end net.Conn) {
	if tcp, ok := end.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = end.Close()
}

// passes waits while bytes are stopped, and reports whether they continue.
func (w *wire) passes(gone <-chan struct{}) bool {
	for {
		w.mu.Lock()
		now, changed := w.is, w.changed
		w.mu.Unlock()
		if now != hole {
			return now == whole
		}
		select {
		case <-changed:
		case <-gone:
			return false
		}
	}
}

// holds registers a connection so that a reset finds it.
func (w *wire) holds(end net.Conn) (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[end] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.ends, end)
	}
}

// exchange is an address that accepts connections and forwards them over wires.
type exchange struct {
	listener net.Listener
	target   func() string                                         // where they are forwarded to
	wire     func(from net.Conn) (w *wire, said []byte, err error) // said was read to find out
	gone     chan struct{}
	open     sync.WaitGroup
}

// lead forwards all connections at an address over one wire.
func lead(t testing.TB, w *wire, target func() string) (address string) {
	return leadBy(t, target, func(net.Conn) (*wire, []byte, error) { return w, nil, nil })
}

// leadBy forwards each connection over the wire that by returns for it, until the test ends.
func leadBy(t testing.TB, target func() string, by func(net.Conn) (*wire, []byte, error)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{listener: l, target: target, wire: by, gone: make(chan struct{})}
	x.open.Go(x.serve)
	t.Cleanup(func() {
		close(x.gone)
		l.Close()
		x.open.Wait()
	})
	return l.Addr().String()
}

func (x *exchange) serve() {
	for {
		from, err := x.listener.Accept()
		if err != nil {
			return
		}
		x.open.Go(func() { x.carry(from) })
	}
}

// carry serves one connection. When one direction ends, the other ends once its bytes have passed.
func (x *exchange) carry(from net.Conn) {
	done := make(chan struct{})
	defer close(done)
	go func() { // the end of the test ends what waits
		select {
		case <-x.gone:
			reset(from)
		case <-done:
		}
	}()
	defer reset(from)
	w, said, err := x.wire(from)
	if err != nil {
		return
	}
	defer w.holds(from)()
	if !w.passes(x.gone) {
		return
	}
	to, err := net.Dial("tcp", x.target())
	if err != nil {
		return
	}
	defer reset(to)
	defer w.holds(to)()
	go func() {
		select {
		case <-x.gone:
			reset(to)
		case <-done:
		}
	}()
	if _, err := to.Write(said); err != nil {
		return
	}
	var halves sync.WaitGroup
	halves.Go(func() { x.half(w, to, from) })
	halves.Go(func() { x.half(w, from, to) })
	halves.Wait()
}

func (x *exchange) half(w *wire, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !w.passes(x.gone) {
			reset(to)
			reset(from)
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				reset(from)
				return
			}
		}
		if errors.Is(err, io.EOF) {
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
		if err != nil {
			reset(to)
			return
		}
	}
}

// maxHead is the maximum size of a request's head.
const maxHead = 16 << 10

// headOf reads the head of the first request on a connection.
func headOf(c net.Conn) ([]byte, error) {
	var said []byte
	buffer := make([]byte, 4<<10)
	for !bytes.Contains(said, []byte("\r\n\r\n")) {
		if len(said) > maxHead {
			return nil, fmt.Errorf("%d bytes and no end of the head", len(said))
		}
		n, err := c.Read(buffer)
		said = append(said, buffer[:n]...)
		if err != nil {
			return said, err
		}
	}
	return said, nil
}
