// Package conns bounds the connections of a listener: all, those of one address, and those whose
// client has shown no certificate, which anybody can open. What is beyond a bound is closed before
// it costs a handshake. Clients that have shown a certificate have places of their own.
//
// It never reads or writes what goes over a connection.
package conns

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Bounds are those of one listener; 0 is none.
type Bounds struct {
	Strangers  int           // connections without a certificate at a time
	PerAddress int           // of these from one address, in IPv6 from one /64
	Crowded    int           // of these from one address once three quarters of Strangers are taken
	Known      int           // connections with a certificate
	Patience   time.Duration // after which a connection without a certificate is closed
	Left       func()        // is told of each connection that is closed for a bound
}

// Listener is a net.Listener with bounds.
type Listener struct {
	net.Listener
	b Bounds

	mu        sync.Mutex
	strangers int
	known     int
	by        map[string]int // strangers by address
}

// Bound gives a listener bounds.
func Bound(l net.Listener, b Bounds) *Listener {
	return &Listener{Listener: l, b: b, by: map[string]int{}}
}

// Accept takes the next connection that is within the bounds.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if out := l.enter(c); out != nil {
			return out, nil
		}
		c.Close()
		if l.b.Left != nil {
			l.b.Left()
		}
	}
}

// enter takes a place for a stranger, nil if there is none.
func (l *Listener) enter(c net.Conn) *Conn {
	who := source(c.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	has := l.by[who]
	crowded := l.b.Crowded > 0 && has >= l.b.Crowded && l.strangers >= l.b.Strangers*3/4
	if l.b.Strangers > 0 && l.strangers >= l.b.Strangers || l.b.PerAddress > 0 && has >= l.b.PerAddress || crowded {
		return nil
	}
	l.strangers++
	l.by[who]++
	out := &Conn{Conn: c, of: l, who: who}
	if l.b.Patience > 0 {
		out.timer = time.AfterFunc(l.b.Patience, out.expire)
	}
	return out
}

// Open is how many connections there are: those without a certificate, and those with one.
func (l *Listener) Open() (strangers, known int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.strangers, l.known
}

// Conn is a connection that has a place.
type Conn struct {
	net.Conn
	of    *Listener
	who   string
	timer *time.Timer

	known, closed bool // with of.mu
}

// Known says that the client has shown a certificate that counts: the connection takes one of the
// places of such, if there is one, and gives its own to the next stranger.
func (c *Conn) Known() bool {
	l := c.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closed || c.known {
		return c.known
	}
	if l.b.Known > 0 && l.known >= l.b.Known {
		return false
	}
	c.known = true
	l.known++
	l.leave(c.who)
	if c.timer != nil {
		c.timer.Stop()
	}
	return true
}

// leave gives the place of a stranger back; l.mu is held.
func (l *Listener) leave(who string) {
	l.strangers--
	if l.by[who]--; l.by[who] <= 0 {
		delete(l.by, who)
	}
}

func (c *Conn) expire() {
	c.of.mu.Lock()
	known := c.known
	c.of.mu.Unlock()
	if !known {
		c.Close()
	}
}

// Close gives the place of the connection back.
func (c *Conn) Close() error {
	l := c.of
	l.mu.Lock()
	switch {
	case c.closed:
	case c.known:
		l.known--
	default:
		l.leave(c.who)
	}
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	l.mu.Unlock()
	return c.Conn.Close()
}

// source is who is behind an address: in IPv6 one machine has all of a /64.
func source(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	net64, _ := ip.Prefix(64) // 64 fits an address of IPv6
	return net64.String()
}
