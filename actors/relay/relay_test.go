package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/relayflow"
)

// window is what a relay holds at most, in bytes.
const window = relayflow.Window * relayflow.PieceSize

// wire is a stream between a Hub and a Server, with a queue each way that never blocks, as that of nodelink.
type wire struct {
	hub      *Hub
	server   *Server
	down, up chan nodeproto.Relay
	most     int // messages that waited at once on their way up
}

func (w *wire) ID() uint64 { return 7 }
func (w *wire) End(string) {}

func (w *wire) Send(m nodeproto.FromController) error {
	select {
	case w.down <- m.(nodeproto.Relay):
		return nil
	default:
		return errors.New("full")
	}
}

type nodeEnd struct{ w *wire }

func (n nodeEnd) Send(m nodeproto.FromNode) error {
	select {
	case n.w.up <- m.(nodeproto.Relay):
		n.w.most = max(n.w.most, len(n.w.up))
		return nil
	default:
		return errors.New("full")
	}
}

// connect joins a Hub and a Server with these kinds until the test ends.
func connect(t *testing.T, kinds map[string]Handler) *wire {
	w := &wire{hub: &Hub{}, server: &Server{Kinds: kinds, Log: zap.NewNop()}, down: make(chan nodeproto.Relay, 64),
		up: make(chan nodeproto.Relay, 64)}
	w.hub.Connected(w, nodeproto.Hello{Capabilities: []string{nodeproto.CanRelay}})
	w.server.Up(nodeEnd{w})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			select {
			case m := <-w.down:
				w.server.Received(m)
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() {
		for {
			select {
			case m := <-w.up:
				w.hub.Received(w, m)
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); w.server.Down(); w.hub.Disconnected(w) })
	return w
}

func (w *wire) openKind(t *testing.T, kind, argument string) *Channel {
	t.Helper()
	c, err := w.hub.Open(w, kind, []byte(argument))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARelayBringsEverythingBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		echo := func(_ context.Context, argument []byte, with io.ReadWriter) error {
			if _, err := with.Write(argument); err != nil {
				return err
			}
			_, err := io.CopyN(with, with, 3*window)
			return err
		}
		w := connect(t, map[string]Handler{"echo": echo})
		c := w.openKind(t, "echo", "begin:")
		sent := bytes.Repeat([]byte("0123456789abcdef"), 3*window/16)
		go func() {
			if _, err := c.Write(t.Context(), sent); err != nil {
				t.Error(err)
			}
		}()
		got, err := io.ReadAll(c.Stream(t.Context()))
		if err != nil || string(got) != "begin:"+string(sent) {
			t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
		}
		c.Close(nil)
		if n := w.hub.Count(); n != 0 {
			t.Errorf("%d open", n)
		}
	})
}

// A reader that takes nothing stops the node after a window: nothing piles up anywhere.
func TestASlowReaderStopsTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := 0
		w := connect(t, map[string]Handler{"endless": func(_ context.Context, _ []byte, with io.ReadWriter) error {
			for {
				n, err := with.Write(make([]byte, 1000))
				if written += n; err != nil {
					return err
				}
			}
		}})
		c := w.openKind(t, "endless", "")
		synctest.Wait()
		if written != relayflow.Window*1000 || len(c.in) != relayflow.Window || w.most > 1+relayflow.Window {
			t.Errorf("%d written, %d wait, %d messages at once", written, len(c.in), w.most)
		}
		for range relayflow.Window / 2 {
			if _, err := c.Read(t.Context(), make([]byte, 1000)); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if written != 3*relayflow.Window/2*1000 {
			t.Errorf("%d written after reads", written)
		}
		c.Close(errors.New("enough"))
		synctest.Wait() // the handler has returned, or the bubble would not end
		again := w.openKind(t, "endless", "")
		if n, err := again.Read(t.Context(), make([]byte, 10)); n != 10 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		again.Close(nil)
	})
}

func TestRefusalsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := func(ctx context.Context, _ []byte, _ io.ReadWriter) error { <-ctx.Done(); return ctx.Err() }
		w := connect(t, map[string]Handler{"waits": waits, "late": waits,
			"fails":  func(context.Context, []byte, io.ReadWriter) error { return errors.New("no such thing") },
			"panics": func(context.Context, []byte, io.ReadWriter) error { panic("oops") }})
		for kind, want := range map[string]string{"fails": "no such thing", "panics": "failed to answer",
			"other": "not supported by this version"} {
			c := w.openKind(t, kind, "")
			_, err := c.Read(t.Context(), make([]byte, 10))
			var remote *RemoteError
			if !errors.As(err, &remote) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", kind, err)
			}
			c.Close(nil)
		}
		c := w.openKind(t, "waits", "")
		if _, err := w.hub.Open(w, "waits", nil); !errors.Is(err, ErrBusy) {
			t.Errorf("a second one: %v", err)
		}
		// The node refuses by itself, too: another replica's stream may have ended a moment ago.
		w.server.Received(nodeproto.Relay{ID: 99, Kind: "waits"})
		short, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Read(short, make([]byte, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		late := w.openKind(t, "late", "")
		w.hub.Disconnected(w)
		for _, c := range []*Channel{c, late} {
			if _, err := c.Read(t.Context(), make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "disconnected") {
				t.Errorf("%v", err)
			}
			c.Close(nil)
		}
		if n := w.hub.Count(); n != 0 {
			t.Errorf("%d open", n)
		}
		if _, err := w.hub.Open(w, "waits", nil); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%v", err)
		}
		w.hub.Connected(w, nodeproto.Hello{Capabilities: []string{"other"}})
		if _, err := w.hub.Open(w, "waits", nil); !errors.Is(err, ErrUnsupported) {
			t.Errorf("an older node: %v", err)
		}
		w.server.Down() // the handlers return
		synctest.Wait()
		for kind, n := range w.server.busy {
			if n != 0 {
				t.Errorf("%d of kind %s are busy", n, kind)
			}
		}
	})
}

// A hostile node sends without credit, without an end, for others' relays, and garbage: it loses its relay and nothing
// else happens.
func TestAHostileNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connect(t, nil)
		w.server.Down() // its messages are forged below
		c := w.openKind(t, "support", "")
		w.hub.Received(w, nodeproto.Relay{ID: 12345, Data: make([]byte, 1<<20), Credit: 1 << 63, End: true})
		for range relayflow.Window {
			w.hub.Received(w, nodeproto.Relay{ID: c.id, Data: make([]byte, relayflow.PieceSize)})
		}
		if len(c.in) != relayflow.Window {
			t.Errorf("%d messages wait", len(c.in))
		}
		w.hub.Received(w, nodeproto.Relay{ID: c.id, Data: []byte("x")})
		if len(c.in) != 0 {
			t.Errorf("%d bytes are kept", len(c.in))
		}
		if _, err := c.Read(t.Context(), make([]byte, 10)); !errors.Is(err, errFlood) {
			t.Errorf("%v", err)
		}
		w.hub.Received(w, nodeproto.Relay{ID: c.id, Data: []byte("x"), Kind: "support"})
		c.Close(nil)
		w.hub.Received(w, nodeproto.Relay{ID: c.id, Data: []byte("x"), End: true})
		long := w.openKind(t, "support", "")
		w.hub.Received(w, nodeproto.Relay{ID: long.id, End: true, Error: strings.Repeat("x", 1<<20)})
		if _, err := long.Read(t.Context(), make([]byte, 10)); err == nil || len(err.Error()) > 2*nodeproto.MaxText {
			t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
		}
		long.Close(nil)
		if n := w.hub.Count(); n != 0 {
			t.Errorf("%d open", n)
		}
	})
}

func TestAControllerRelaysForFewNodesAtOnce(t *testing.T) {
	t.Parallel()
	w := &wire{hub: &Hub{}, down: make(chan nodeproto.Relay, 64)}
	w.hub.Connected(w, nodeproto.Hello{Capabilities: []string{nodeproto.CanRelay}})
	opened := 0
	for i := range 2 * maxRelays {
		if _, err := w.hub.Open(w, fmt.Sprint("kind", i), nil); err == nil {
			opened++
		} else if !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
	}
	if opened != maxOfNode {
		t.Errorf("%d relays of one node", opened)
	}
}
