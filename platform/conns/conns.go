// Package conns bounds the connections of a listener: in total, per address, and those of unknown clients, which
// anybody can open because the client has not yet authenticated by a certificate, a token or a password. It closes a
// connection beyond a bound before the handshake. Known clients have separate places, and some places are reserved for
// addresses from which a client has authenticated.
//
// It never interprets the data of a connection, and only counts the bytes of unknown clients.
package conns

import (
	"container/list"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"edgespan/config"
)

// Bounds are the bounds of one listener; 0 is no bound.
type Bounds struct {
	UnknownNodes int           // connections of unknown clients at a time
	PerAddress   int           // of these per address (IPv6: per /64)
	Crowded      int           // of these per address once three quarters of UnknownNodes are taken
	Grace        time.Duration // age after which one of these is closed if another needs its place; 0: never
	Returning    int           // extra places for addresses where a client became known; at most Crowded per address
	Known        int           // connections of known clients; an eighth is for staff
	PerCaller    int           // of these per named caller
	PerMachine   int           // of these per machine
	Unknown      int           // bytes that are read from an unknown client
	Timeout      time.Duration // age at which a connection of an unknown client is closed
	Left         func()        // called for each connection that is closed because of a bound
}

// maxRemembered bounds the remembered addresses of known clients.
const maxRemembered = 16384

// Listener is a net.Listener with bounds.
type Listener struct {
	net.Listener
	b Bounds

	mu         sync.Mutex
	waiting    *list.List     // connections of unknown clients, the oldest first
	by         map[string]int // these, per address
	returning  map[string]int // taken places of Returning, per address
	back       int            // all of these
	known      int
	others     int                   // known clients that are not staff
	callers    map[string]*list.List // connections of known clients by name, the oldest first
	remembered map[string]struct{}
}

// Limit returns a listener with bounds.
func Limit(l net.Listener, b Bounds) *Listener {
	return &Listener{
		Listener: l, b: b, waiting: list.New(), by: map[string]int{}, returning: map[string]int{},
		callers: map[string]*list.List{}, remembered: map[string]struct{}{},
	}
}

// Accept returns the next connection that is within the bounds.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		in, out := l.enter(c)
		if out != nil {
			out.Close()
			if l.b.Left != nil {
				l.b.Left()
			}
		}
		if in != nil {
			return in, nil
		}
	}
}

// enter finds a place for a connection. out is the connection to close: an older one that loses its place, or the new
// one.
func (l *Listener) enter(c net.Conn) (in *Conn, out net.Conn) {
	who := config.Source(c.RemoteAddr().String())
	l.mu.Lock()
	defer l.mu.Unlock()
	full, ofAddress := l.full(who)
	in = &Conn{Conn: c, of: l, who: who, since: time.Now(), reported: make(chan struct{})}
	if full {
		if old := l.oldest(who, ofAddress, in.since); old != nil {
			l.leave(old)
			out = old
		} else if _, ok := l.remembered[who]; ok && l.back < l.b.Returning && l.returning[who] < l.b.Crowded {
			in.returns = true
		} else {
			return nil, c
		}
	}
	if in.returns {
		l.back++
		l.returning[who]++
	} else {
		in.place = l.waiting.PushBack(in)
		l.by[who]++
	}
	if l.b.Timeout > 0 {
		in.timer = time.AfterFunc(l.b.Timeout, in.expire)
	}
	return in, out
}

// full reports whether there is no place for another unknown client, and whether the reason is its own address.
func (l *Listener) full(who string) (full, ofAddress bool) {
	has, all := l.by[who], l.waiting.Len()
	crowded := l.b.Crowded > 0 && has >= l.b.Crowded && all >= l.b.UnknownNodes*3/4
	ofAddress = l.b.PerAddress > 0 && has >= l.b.PerAddress || crowded
	return ofAddress || l.b.UnknownNodes > 0 && all >= l.b.UnknownNodes, ofAddress
}

// oldest returns the oldest connection of an unknown client that is older than Grace, of one address or of any.
func (l *Listener) oldest(who string, ofAddress bool, now time.Time) *Conn {
	if l.b.Grace <= 0 {
		return nil
	}
	for e := l.waiting.Front(); e != nil; e = e.Next() {
		c := e.Value.(*Conn)
		if now.Sub(c.since) < l.b.Grace {
			return nil
		}
		if !ofAddress || c.who == who {
			return c
		}
	}
	return nil
}

// Open returns the number of connections of unknown and of known clients.
func (l *Listener) Open() (unknownNodes, known int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.Len() + l.back, l.known
}

// Conn is a connection that has a place.
type Conn struct {
	net.Conn
	of       *Listener
	who      string // its address
	since    time.Time
	timer    *time.Timer
	read     atomic.Int64  // bytes, while the client is unknown
	reported chan struct{} // closed when the client is known or the connection is closed

	// Guarded by of.mu. place is nil once the connection is closed.
	place   *list.Element
	returns bool
	known   *Caller
}

// knownWait is how long Read waits when an unknown client has sent as much as it may: the data may authenticate it,
// and the body of its request follows.
const knownWait = 10 * time.Second

var errUnknown = errors.New("too many bytes from an unauthenticated client")

// Read reads as much as an unknown client may send, and then waits until the client is known.
func (c *Conn) Read(p []byte) (int, error) {
	limit := int64(c.of.b.Unknown)
	if limit <= 0 {
		return c.Conn.Read(p)
	}
	select {
	case <-c.reported:
		return c.Conn.Read(p)
	default:
	}
	left := limit - c.read.Load()
	if left <= 0 {
		wait := time.NewTimer(knownWait)
		defer wait.Stop()
		select {
		case <-c.reported:
			return c.Conn.Read(p)
		case <-wait.C:
			return 0, errUnknown
		}
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), left)])
	c.read.Add(int64(n))
	return n, err
}

// Caller is a known client.
type Caller struct {
	Name    string // "": not counted with others
	Staff   bool   // its changes affect everybody: other callers can't take its places
	Machine bool
}

// Known records who the client is: the connection moves to a place for known clients. If all are taken, the caller
// with the most connections loses its oldest, provided it has more than this caller would have. Known returns false if
// there is no place.
func (c *Conn) Known(caller Caller) bool {
	in, out := c.of.admitKnown(c, caller)
	if out != nil {
		out.Close()
		if left := c.of.b.Left; left != nil {
			left()
		}
	}
	return in
}

func (l *Listener) admitKnown(c *Conn, caller Caller) (in bool, out *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.known != nil || c.place == nil && !c.returns {
		return c.known != nil, nil
	}
	has := 0
	if list := l.callers[caller.Name]; list != nil {
		has = list.Len()
	}
	limit := l.b.PerCaller
	if caller.Machine {
		limit = l.b.PerMachine
	}
	if caller.Name != "" && limit > 0 && has >= limit {
		return false, nil
	}
	if l.b.Known > 0 && (l.known >= l.b.Known || !caller.Staff && l.others >= l.b.Known-l.b.Known/8) {
		if out = l.busiestCaller(has+1, caller.Staff); out == nil {
			return false, nil
		}
		l.leave(out)
	}
	l.leave(c)
	l.admit(c, caller)
	return true, out
}

// admit gives a connection a place for known clients.
func (l *Listener) admit(c *Conn, caller Caller) {
	c.known = &caller
	c.wake()
	l.known++
	if !caller.Staff {
		l.others++
	}
	if caller.Name != "" {
		if l.callers[caller.Name] == nil {
			l.callers[caller.Name] = list.New()
		}
		c.place = l.callers[caller.Name].PushBack(c)
	}
	if len(l.remembered) >= maxRemembered {
		for who := range l.remembered {
			delete(l.remembered, who) // any one
			break
		}
	}
	l.remembered[c.who] = struct{}{}
	if c.timer != nil {
		c.timer.Stop()
	}
}

// busiestCaller returns the oldest connection of the caller that has the most and more than than. Only staff can take
// the places of staff.
func (l *Listener) busiestCaller(than int, staff bool) *Conn {
	var out *Conn
	for _, list := range l.callers {
		if c := list.Front().Value.(*Conn); list.Len() > than && (staff || !c.known.Staff) {
			out, than = c, list.Len()
		}
	}
	return out
}

// leave releases the place of a connection; l.mu is held.
func (l *Listener) leave(c *Conn) {
	switch {
	case c.known != nil:
		l.known--
		if !c.known.Staff {
			l.others--
		}
		if c.place != nil {
			list := l.callers[c.known.Name]
			if list.Remove(c.place); list.Len() == 0 {
				delete(l.callers, c.known.Name)
			}
		}
		c.known, c.place = nil, nil
	case c.place != nil:
		l.waiting.Remove(c.place)
		c.place = nil
		decrement(l.by, c.who)
	case c.returns:
		c.returns = false
		l.back--
		decrement(l.returning, c.who)
	}
}

func decrement(counts map[string]int, name string) {
	if counts[name]--; counts[name] <= 0 {
		delete(counts, name)
	}
}

// wake ends the wait in Read; of.mu is held.
func (c *Conn) wake() {
	select {
	case <-c.reported:
	default:
		close(c.reported)
	}
}

func (c *Conn) expire() {
	c.of.mu.Lock()
	known := c.known != nil
	c.of.mu.Unlock()
	if !known {
		c.Close()
	}
}

// Close closes the connection and releases its place.
func (c *Conn) Close() error {
	c.of.mu.Lock()
	c.of.leave(c)
	c.wake()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}
