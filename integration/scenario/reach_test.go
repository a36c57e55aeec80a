package scenario

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Results of a client.
const (
	answered = "an answer"
	silence  = "silence"
	refused  = "a refusal"
)

// echo makes a namespace send back what it receives, on TCP or UDP, until the test ends.
func (w *world) echo(short, network, addr string) {
	w.Helper()
	var stop func()
	var serving sync.WaitGroup
	err := w.inside(short, func() error {
		if network == "udp4" {
			pc, err := net.ListenPacket(network, addr)
			if err != nil {
				return err
			}
			stop = func() { _ = pc.Close() }
			serving.Go(func() { echoPackets(pc) })
			return nil
		}
		l, err := net.Listen(network, addr)
		if err != nil {
			return err
		}
		conns := &connections{}
		stop = func() { _ = l.Close(); conns.close() }
		serving.Go(func() { echoStreams(l, conns, &serving) })
		return nil
	})
	if err != nil {
		w.Fatalf("listen on %s in %s: %v", addr, short, err)
	}
	w.Cleanup(func() { stop(); serving.Wait() })
}

func echoPackets(pc net.PacketConn) {
	buf := make([]byte, 2048)
	for {
		n, from, err := pc.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = pc.WriteTo(buf[:n], from) // an answer that can't be sent is lost
		}
	}
}

func echoStreams(l net.Listener, conns *connections, serving *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		conns.add(c)
		serving.Go(func() {
			buf := make([]byte, 2048)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				if _, err := c.Write(buf[:n]); err != nil {
					return
				}
			}
		})
	}
}

// connections are the connections that a server has accepted.
type connections struct {
	mu  sync.Mutex
	all []net.Conn
}

func (c *connections) add(n net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, n)
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.all {
		_ = n.Close()
	}
}

// dial opens a connection from a namespace; with network "udp4" this sends nothing yet. from is the local address or
// "".
func (w *world) dial(short, network, from, to string, within time.Duration) (net.Conn, error) {
	var c net.Conn
	err := w.inside(short, func() error {
		d := net.Dialer{}
		if from != "" {
			local, err := net.ResolveTCPAddr("tcp4", from)
			if err != nil {
				return err
			}
			if d.LocalAddr = local; network == "udp4" {
				d.LocalAddr = &net.UDPAddr{IP: local.IP, Port: local.Port}
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		var err error
		c, err = d.DialContext(ctx, network, to)
		return err
	})
	return c, err
}

// meets returns the result of a client in a namespace at an echo server.
func (w *world) meets(short, network, from, to string, within time.Duration) string {
	c, err := w.dial(short, network, from, to, within)
	if err == nil {
		defer func() { _ = c.Close() }()
		err = say(c, within)
	}
	switch {
	case err == nil:
		return answered
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return silence
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EHOSTUNREACH),
		errors.Is(err, syscall.ENETUNREACH):
		return refused + ": " + err.Error()
	}
	return err.Error()
}

// say sends one line and waits until it comes back.
func say(c net.Conn, within time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("are you there?")); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 64))
	return err
}

// reaches requires an answer.
func (w *world) reaches(why, short, network, from, to string) {
	w.Helper()
	if got := w.meets(short, network, from, to, timeout); got != answered {
		w.Errorf("%s: %s from %s %s to %s meets %s", why, network, short, from, to, got)
	}
}

// misses requires silence: a denied packet is dropped without a reply.
func (w *world) misses(why, short, network, from, to string) {
	w.Helper()
	if got := w.meets(short, network, from, to, denial); got != silence {
		w.Errorf("%s: %s from %s %s to %s meets %s", why, network, short, from, to, got)
	}
}

// missesAll requires silence from each of the addresses, over TCP and UDP, concurrently.
func (w *world) missesAll(why, short string, to ...string) {
	w.Helper()
	var asking sync.WaitGroup
	for _, addr := range to {
		for _, network := range []string{"tcp4", "udp4"} {
			asking.Go(func() { w.misses(why, short, network, "", addr) })
		}
	}
	asking.Wait()
}

// acl returns the rules of one app, one per line, in order: "allow egress ip: 192.0.2.1, port: 80".
func acl(rules ...string) string {
	names := "abcdefghij"
	var out []string
	for i, r := range rules {
		f := strings.SplitN(r, " ", 3)
		text := names[i:i+1] + ": {action: " + f[0] + ", direction: " + f[1]
		if len(f) > 2 {
			text += ", match: {" + f[2] + "}"
		}
		out = append(out, text+"}")
	}
	return strings.Join(out, ", ")
}

// obey applies a config and waits until the apps have it.
func (w *world) obey(nets []string, apps ...string) {
	w.Helper()
	w.apply(doc(nets, apps...))
	for i := range apps {
		w.wait("ready", "app/"+app(i+1))
	}
}
