// Package conns bounds the connections of a listener: all, those of one address, and those whose
// client has not said who it is by a certificate, a token or a password, which anybody can open.
// What is beyond a bound is closed before it costs a handshake. Clients that are known have places
// of their own, and addresses where one became known keep some for the next connection.
//
// It never looks at what goes over a connection, and only counts the bytes of unknown clients.
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

// Bounds are those of one listener; 0 is none.
type Bounds struct {
	UnknownNodes int           // connections of unknown clients at a time
	PerAddress   int           // of these from one address, in IPv6 from one /64
	Crowded      int           // of these from one address once three quarters of Strangers are taken
	Grace        time.Duration // after which one of these is closed where another needs its place; 0: never
	Returning    int           // places beside Strangers for addresses where a client became known; one has Crowded
	Known        int           // connections of known clients; an eighth of them is for staff
	PerCaller    int           // of these of one that has a name
	PerMachine   int           // of these of one that is a machine
	Unknown      int           // bytes that are read of an unknown client
	Timeout      time.Duration // after which a connection of an unknown client is closed
	Left         func()        // is told of each connection that is closed for a bound
}

// maxRemembered bounds the addresses that are remembered as those of known clients.
const maxRemembered = 16384

// Listener is a net.Listener with bounds.
type Listener struct {
	net.Listener
	b Bounds

	mu         sync.Mutex
	waiting    *list.List     // connections of unknown clients, the oldest first
	by         map[string]int // these by address
	returning  map[string]int // those of Returning by address
	back       int            // all of them
	known      int
	others     int                   // the known that are no staff
	callers    map[string]*list.List // connections of the known by name, the oldest first
	remembered map[string]struct{}
}

// Bound gives a listener bounds.
func Bound(l net.Listener, b Bounds) *Listener {
	return &Listener{
		Listener: l, b: b, waiting: list.New(), by: map[string]int{}, returning: map[string]int{},
		callers: map[string]*list.List{}, remembered: map[string]struct{}{},
	}
}

// Accept takes the next connection that is within the bounds.
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

// enter finds a place for a connection, and says which one is to be closed: an older one that
// gives its place up, or the new one.
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
		} else if _, is := l.remembered[who]; is && l.back < l.b.Returning && l.returning[who] < l.b.Crowded {
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

// full says whether there is no place for one more stranger, and whether that is because of its
// own address.
func (l *Listener) full(who string) (full, ofAddress bool) {
	has, all := l.by[who], l.waiting.Len()
	crowded := l.b.Crowded > 0 && has >= l.b.Crowded && all >= l.b.UnknownNodes*3/4
	ofAddress = l.b.PerAddress > 0 && has >= l.b.PerAddress || crowded
	return ofAddress || l.b.UnknownNodes > 0 && all >= l.b.UnknownNodes, ofAddress
}

// oldest is the connection of an unknown client, of one address or of any, that has had its time.
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

// Open is how many connections there are: those of unknown clients, and those of known ones.
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
	reported chan struct{} // is closed once the client is known, or the connection is closed

	// With of.mu: the place that it has, none once it is closed.
	place   *list.Element
	returns bool
	known   *Caller
}

// knownWait is how long a connection that has sent what an unknown client may is not read from: what it has
// sent may say who it is, and its body follows.
const knownWait = 10 * time.Second

var errUnknown = errors.New("too many bytes from an unauthenticated client")

// Read reads what an unknown client may send, and then nothing more until it is known.
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
	Name    string // "": one of its own
	Staff   bool   // it may change things for all: others can't take its places
	Machine bool
}

// Known says who the client is: the connection takes one of the places of known clients, and gives its
// own to the next stranger. Where all of them are taken the caller with the most connections loses its
// oldest, if it has more than the new one would have; false is that there is no place.
func (c *Conn) Known(caller Caller) bool {
	in, out := c.of.know(c, caller)
	if out != nil {
		out.Close()
		if left := c.of.b.Left; left != nil {
			left()
		}
	}
	return in
}

func (l *Listener) know(c *Conn, caller Caller) (in bool, out *Conn) {
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
		if out = l.greediest(has+1, caller.Staff); out == nil {
			return false, nil
		}
		l.leave(out)
	}
	l.leave(c)
	l.admit(c, caller)
	return true, out
}

// admit gives a connection a place of known clients.
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
			delete(l.remembered, who) // any
			break
		}
	}
	l.remembered[c.who] = struct{}{}
	if c.timer != nil {
		c.timer.Stop()
	}
}

// greediest is the oldest connection of the caller with the most, if these are more than some; staff
// loses none to others.
func (l *Listener) greediest(than int, staff bool) *Conn {
	var out *Conn
	for _, list := range l.callers {
		if c := list.Front().Value.(*Conn); list.Len() > than && (staff || !c.known.Staff) {
			out, than = c, list.Len()
		}
	}
	return out
}

// leave gives the place of a connection back; l.mu is held.
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
		less(l.by, c.who)
	case c.returns:
		c.returns = false
		l.back--
		less(l.returning, c.who)
	}
}

func less(counts map[string]int, name string) {
	if counts[name]--; counts[name] <= 0 {
		delete(counts, name)
	}
}

// wake ends the wait of Read; of.mu is held.
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

// Close gives the place of the connection back.
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
