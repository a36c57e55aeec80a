package nodelink

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/credentials"
)

// hold takes all turns, as nodes do whose handshakes are computed.
func (all turns) hold() (free func()) {
	for range cap(all) {
		all <- struct{}{}
	}
	return func() {
		for range cap(all) {
			<-all
		}
	}
}

// A wave of nodes waits its turn and gets in, and none that was let in waits on.
func TestNodesThatComeTogetherTakeTurns(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.Handshakes, o.HelloTimeout, o.Keepalive = 1, time.Minute, Keepalive{} })
	free := r.server.accepts.turns.hold()
	var nodes []*node
	for range 50 {
		nodes = append(nodes, r.run(t, r.joined(t)))
	}
	free()
	for _, n := range nodes {
		take(t, n.up)
	}
	if n := len(r.server.accepts.turns); n != 0 {
		t.Errorf("%d turns were not given back", n)
	}
}

// Who would be let in too late is sent away before it costs anything, is noted, and comes
// again by itself.
func TestWhoWaitsTooLongComesAgain(t *testing.T) {
	logs, seen := observer.New(zap.WarnLevel)
	r := newRig(t, func(o *ServerOptions) { o.Handshakes, o.HelloTimeout, o.Log = 2, 400*time.Millisecond, zap.New(logs) })
	free := r.server.accepts.turns.hold()
	n := r.run(t, r.joined(t))
	until(t, "it is sent away", func() bool {
		for _, e := range seen.All() {
			if strings.Contains(fmt.Sprint(e.ContextMap()["why"]), "too many nodes connect at once") {
				return true
			}
		}
		return false
	})
	if len(n.up) > 0 {
		t.Error("it was let in")
	}
	free()
	take(t, n.up)
}

// Those who connect and say nothing, or nonsense, hold no turn.
func TestSilentConnectionsHoldNoTurn(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.Handshakes = 1 })
	for i := range 20 {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if i%2 == 0 { // the beginning of a first message
			if _, err := c.Write([]byte{22, 3, 1, 2, 0, 1, 0}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A client whose handshake stops after the server's answer.
	cred := r.joined(t)
	cfg, err := cred.TLS("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	answered := make(chan struct{})
	go func() {
		_, _, _ = credentials.NewTLS(cfg).ClientHandshake(t.Context(), "127.0.0.1", &mute{Conn: c, answered: answered})
	}()
	take(t, answered)
	begun := time.Now()
	take(t, r.run(t, r.joined(t)).up)
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("a node was let in after %v", d)
	}
}

// mute says its first message only, and reads no answer until the connection ends.
type mute struct {
	net.Conn
	said     bool
	answered chan struct{}
}

func (m *mute) Write(p []byte) (int, error) {
	if m.said {
		return len(p), nil
	}
	m.said = true
	return m.Conn.Write(p)
}

func (m *mute) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	select {
	case <-m.answered:
		_, _ = io.Copy(io.Discard, m.Conn)
	default:
		close(m.answered)
	}
	return n, err
}

// Who shows no certificate holds few places of one address, and none for long; a node that stands
// keeps its own, and another one gets one.
func TestConnectionsWithoutACertificateHoldNoPlaceForLong(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.HelloTimeout, o.UnknownNodes, o.PerAddress = 400*time.Millisecond, 8, 4 })
	standing := r.run(t, r.joined(t))
	take(t, standing.up)
	var held []net.Conn
	refused := 0
	for range 12 {
		// whose certificate it is does not matter here
		c, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec
		if err != nil {
			refused++
			continue
		}
		defer c.Close()
		held = append(held, c)
	}
	if len(held) > 4 || len(held) == 0 || refused < 8 {
		t.Errorf("%d connections without a certificate stand, %d were refused", len(held), refused)
	}
	for _, c := range held {
		_ = c.SetReadDeadline(time.Now().Add(timeout))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("one of them is still open")
		}
	}
	take(t, r.run(t, r.joined(t)).up)
	if r.server.Streams() != 2 {
		t.Errorf("%d streams", r.server.Streams())
	}
}

// A controller that is full sends a node on: not to the longest wait, as a refusal does, but
// to the next one of its list.
func TestANodeThatFindsAFullControllerGoesToTheNext(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.MaxNodes = 1 })
	full := r.addr
	take(t, r.run(t, r.joined(t)).up)
	take(t, r.up)
	r.serve(t, ServerOptions{Authority: r.ca, Handler: r, Now: r.clock.now})
	logs, seen := observer.New(zap.InfoLevel)
	n := r.run(t, r.joined(t), func(o *ClientOptions) { o.Controller, o.Log = full+","+r.addr, zap.New(logs) })
	take(t, n.up)
	down := seen.FilterMessage("node link is down").All()
	if len(down) != 1 || !strings.Contains(fmt.Sprint(down[0].ContextMap()["error"]), "the controller is busy") {
		t.Fatalf("%+v", down)
	}
	if wait := down[0].ContextMap()["retry"].(time.Duration); wait > connectWaits.First {
		t.Errorf("it waits %v", wait)
	}
}
