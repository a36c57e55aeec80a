package conns

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// queue is a listener whose connections a test makes.
type queue struct {
	net.Listener
	next chan net.Conn
}

func (q *queue) Accept() (net.Conn, error) {
	c, open := <-q.next
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

// client is a connection from an address.
type client struct {
	net.Conn
	from   string
	closed bool
}

func (c *client) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", c.from)
	return a
}

func (c *client) Close() error {
	c.closed = true
	return nil
}

// taken has connections come from addresses, and answers with those that got a place.
func taken(t *testing.T, l *Listener, q *queue, from ...string) (out []*Conn, all []*client) {
	t.Helper()
	q.next = make(chan net.Conn, len(from))
	for _, f := range from {
		c := &client{from: f}
		all = append(all, c)
		q.next <- c
	}
	close(q.next)
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return out, all
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c.(*Conn))
	}
}

func many(n int, format string) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

func TestOneAddressDoesNotTakeAllPlaces(t *testing.T) {
	q := &queue{}
	left := 0
	l := Limit(q, Bounds{UnknownNodes: 100, PerAddress: 90, Crowded: 5, Known: 10, Left: func() { left++ }})
	flood, clients := taken(t, l, q, many(1000, "192.0.2.1:%d")...)
	if len(flood) != 75 || left != 925 {
		t.Fatalf("%d of one address got a place, %d were closed", len(flood), left)
	}
	for i, c := range clients {
		if c.closed == (i < 75) {
			t.Fatalf("connection %d: closed %t", i, c.closed)
		}
	}
	others, _ := taken(t, l, q, many(5, "192.0.2.2:%d")...)
	if len(others) != 5 {
		t.Errorf("beside it %d of 5 get a place", len(others))
	}
	if net6, _ := taken(t, l, q, many(9, "[2001:db8::%x]:1")...); len(net6) != 5 {
		t.Errorf("of one network of IPv6 %d get a place", len(net6))
	}
	// Who has shown a certificate gives its place to the next, and keeps one whatever comes.
	for _, c := range others {
		if !c.Known(Caller{Staff: true}) || !c.Known(Caller{Staff: true}) {
			t.Error("no place for a certificate")
		}
	}
	if unknownNodes, known := l.Open(); unknownNodes != 80 || known != 5 {
		t.Errorf("%d strangers, %d known", unknownNodes, known)
	}
	for _, c := range flood[:10] {
		c.Known(Caller{Staff: true})
	}
	if _, known := l.Open(); known != 10 {
		t.Errorf("%d with a certificate, want their bound", known)
	}
	for _, c := range append(flood, others...) {
		c.Close()
		c.Close()
	}
	if unknownNodes, known := l.Open(); unknownNodes != 5 || known != 0 || len(l.by) != 1 {
		t.Errorf("after the end: %d, %d, %v", unknownNodes, known, l.by)
	}
}

func TestAConnectionWithoutACertificateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		l := Limit(q, Bounds{Timeout: 10 * time.Second})
		conns, clients := taken(t, l, q, "192.0.2.1:1", "192.0.2.1:2")
		conns[0].Known(Caller{Staff: true})
		time.Sleep(10*time.Second - 1)
		if clients[1].closed {
			t.Error("too early")
		}
		time.Sleep(2)
		synctest.Wait()
		if !clients[1].closed || clients[0].closed {
			t.Errorf("with a certificate closed %t, without %t", clients[0].closed, clients[1].closed)
		}
		conns[0].Close()
		if unknownNodes, known := l.Open(); unknownNodes != 0 || known != 0 {
			t.Errorf("%d, %d", unknownNodes, known)
		}
	})
}

// Strangers who say nothing fill all places: who comes then gets that of the oldest, and keeps a
// place of its own once it is known. It comes back at once from where it was known.
func TestStrangersKeepNoKnownClientOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		l := Limit(q, Bounds{UnknownNodes: 40, PerAddress: 20, Crowded: 2, Grace: 3 * time.Second, Returning: 3, Known: 3,
			PerCaller: 2})
		flood, clients := taken(t, l, q, many(100, "192.0.%d.1:9")...)
		if len(flood) != 40 {
			t.Fatalf("%d strangers got a place", len(flood))
		}
		if in, _ := taken(t, l, q, "198.51.100.1:1"); len(in) != 0 {
			t.Error("the first moments belong to who is there: a crowd of nodes would never finish otherwise")
		}
		time.Sleep(3 * time.Second)
		in, owned := taken(t, l, q, "198.51.100.1:2")
		if len(in) != 1 || !clients[0].closed || clients[1].closed || !in[0].Known(Caller{Name: "ann", Staff: true}) {
			t.Fatalf("%d in, the oldest stranger closed: %t", len(in), clients[0].closed)
		}
		for range 3 { // a flood that goes on
			time.Sleep(3 * time.Second)
			if taken(t, l, q, many(200, "203.0.%d.1:9")...); owned[0].closed {
				t.Fatal("the known client is closed")
			}
		}
		again, _ := taken(t, l, q, "198.51.100.1:3", "198.51.100.1:4", "198.51.100.1:5")
		if len(again) != 2 || again[0].returns != true {
			t.Errorf("of 3 from where one is known %d get a place, want 2", len(again))
		}
		if !again[0].Known(Caller{Name: "ann", Staff: true}) || again[1].Known(Caller{Name: "ann", Staff: true}) ||
			!again[1].Known(Caller{Name: "bob", Staff: true}) {
			t.Error("one caller has more than its share, or another one none")
		}
		// Where all places are taken who has most gives its oldest up to who has less.
		if more, _ := taken(t, l, q, "198.51.100.1:6"); len(more) != 1 || !more[0].Known(Caller{Name: "eve", Staff: true}) ||
			!owned[0].closed {
			t.Error("one who has two keeps a third caller out")
		}
		if more, _ := taken(t, l, q, "198.51.100.1:7"); len(more) != 1 || more[0].Known(Caller{Name: "eve", Staff: true}) {
			t.Error("one of three takes a place of the others")
		}
		unknownNodes, known := l.Open()
		if unknownNodes != 41 || known != 3 {
			t.Errorf("%d strangers, %d known", unknownNodes, known)
		}
	})
}

// Few callers of the least role, or all machines of a fleet, take no place that staff needs.
func TestKnownCallersKeepNoStaffOut(t *testing.T) {
	for name, flood := range map[string]func(i int) Caller{
		"four readers": func(i int) Caller { return Caller{Name: fmt.Sprint("viewer-", i%4)} },
		"machines":     func(i int) Caller { return Caller{Name: fmt.Sprint("node-", i), Machine: true} },
		"a machine":    func(int) Caller { return Caller{Name: "node-1", Machine: true} },
		"an operator":  func(int) Caller { return Caller{Name: "olga", Staff: true} },
	} {
		q := &queue{}
		l := Limit(q, Bounds{Known: 80, PerCaller: 30, PerMachine: 4})
		in := 0
		conns, _ := taken(t, l, q, many(200, "192.0.2.1:%d")...)
		for i, c := range conns {
			if c.Known(flood(i)) {
				in++
			}
		}
		if want := map[string]int{"four readers": 70, "machines": 70, "a machine": 4, "an operator": 30}[name]; in != want {
			t.Errorf("%s: %d get a place of known ones, want %d", name, in, want)
		}
		var staff []string
		for i := range 20 {
			staff = append(staff, fmt.Sprint("198.51.100.1:", i+1))
		}
		admins, _ := taken(t, l, q, staff...)
		for i, c := range admins {
			// its fair share; the reserve
			if !c.Known(Caller{Name: "ann", Staff: true}) && i < map[bool]int{false: 16, true: 10}[name == "machines"] {
				t.Errorf("%s keep connection %d of an admin out", name, i)
			}
		}
		if reader, _ := taken(t, l, q, "198.51.100.2:1"); !reader[0].Known(Caller{Name: "vera"}) && name != "machines" {
			t.Errorf("%s keep a reader out", name)
		}
		for _, c := range append(conns, admins...) {
			c.Close()
		}
		if _, known := l.Open(); known > 1 || l.others > 1 || len(l.callers) > 1 {
			t.Errorf("%s: after the end: %d, %d, %v", name, known, l.others, l.callers)
		}
	}
}

// One address that is at its bound gives its own oldest up, and nobody else's.
func TestAnAddressAtItsBoundGivesItsOldestUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		l := Limit(q, Bounds{UnknownNodes: 40, PerAddress: 2, Grace: time.Second})
		_, first := taken(t, l, q, "192.0.2.9:1", "192.0.2.1:1", "192.0.2.1:2")
		time.Sleep(time.Second)
		_, next := taken(t, l, q, "192.0.2.1:3", "192.0.2.1:4", "192.0.2.1:5")
		if first[0].closed || !first[1].closed || !first[2].closed || next[0].closed || next[1].closed || !next[2].closed {
			t.Errorf("%+v %+v", first, next)
		}
	})
}

// endless is a client that sends without an end.
type endless struct{ client }

func (*endless) Read(p []byte) (int, error) { return len(p), nil }

// Of a client that has not said who it is so much is read, and the rest once it has.
func TestLittleIsReadOfAnUnknownClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := func() *Conn {
			q := &queue{next: make(chan net.Conn, 1)}
			q.next <- &endless{client{from: "192.0.2.1:1"}}
			c, err := Limit(q, Bounds{Unknown: 100}).Accept()
			if err != nil {
				t.Fatal(err)
			}
			return c.(*Conn)
		}
		part := make([]byte, 64)
		c := next()
		for _, want := range []int{64, 36} {
			if n, err := c.Read(part); n != want || err != nil {
				t.Fatalf("%d, %v: want %d", n, err, want)
			}
		}
		begun := time.Now()
		if n, err := c.Read(part); n != 0 || !errors.Is(err, errUnknown) || time.Since(begun) != knownWait {
			t.Errorf("%d, %v after %s", n, err, time.Since(begun))
		}
		for name, end := range map[string]func(*Conn){"known": func(c *Conn) { c.Known(Caller{Name: "ann"}) },
			"closed": func(c *Conn) { c.Close(); c.Close() }} {
			c := next()
			_, _ = c.Read(make([]byte, 100))
			go func() { time.Sleep(time.Second); end(c) }()
			begun := time.Now()
			if n, _ := c.Read(part); n != len(part) || time.Since(begun) != time.Second { // the client of the test reads on
				t.Errorf("%s: %d after %s", name, n, time.Since(begun))
			}
		}
	})
}
