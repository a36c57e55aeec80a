package nodelink

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
	"edgespan/platform/pki"
	"edgespan/pubsub/ratelimit"
)

// flap opens a stream, waits until it is let in or refused, and ends it.
func flap(t *testing.T, r *rig, cred *pki.Credentials) error {
	t.Helper()
	settings, err := cred.TLS("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connect(r.addr, credentials.NewTLS(settings), Keepalive{time.Second, time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := NewClient(ClientOptions{Credentials: cred, Now: r.clock.now,
		Hello: func() nodeproto.Hello { return nodeproto.Hello{Name: "n"} }})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = c.begin(ctx, cancel, conn)
	return err
}

// A node that opens one stream after the other costs its controller no more than a few: what is
// beyond them is refused, and told when to come again. No other node is asked to pay.
func TestANodeThatOpensStreamAfterStreamIsHeldBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *ServerOptions) { o.Refusal = time.Millisecond })
	bad, good := r.joined(t), r.joined(t)
	in, refused := 0, 0
	for range 3 * streamsAtOnce {
		switch err := flap(t, r, bad); {
		case err == nil:
			in++
		case errors.Is(err, ErrBusy):
			refused++
			var later *laterError
			if !errors.As(err, &later) || later.after <= 0 || later.after > time.Duration(1/streamsPace)*time.Second {
				t.Fatalf("it is told to come again by %v", err)
			}
		default:
			t.Fatal(err)
		}
	}
	if in < streamsAtOnce || in > streamsAtOnce+10 || refused == 0 {
		t.Errorf("%d streams were let in and %d refused", in, refused)
	}
	if err := flap(t, r, good); err != nil {
		t.Errorf("another node: %v", err)
	}
	r.clock.move(time.Duration(1/streamsPace) * time.Second)
	if err := flap(t, r, bad); err != nil {
		t.Errorf("when its time has come: %v", err)
	}
}

// A node of today whose line breaks each time after a moment is never refused.
func TestANodeWithABadLineIsLetIn(t *testing.T) {
	for _, lives := range []time.Duration{0, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute} {
		c, now := ratelimit.NewBuckets(streamsPace, streamsAtOnce), time.Now()
		var b reconnect
		for i := range 500 {
			if wait := c.Allow("n", now); wait > 0 {
				t.Fatalf("stream %d of %v is refused for %v", i, lives, wait)
			}
			// The shortest waits that chance could give on average over a few: a tenth of the bound.
			now = now.Add(lives).Add(b.next(streamEnd{max(lives, 1), 0}, false, 0.1))
		}
	}
}

func TestWhenToComeAgain(t *testing.T) {
	busy := fmt.Errorf("%w: too often", ErrBusy)
	for _, one := range []struct {
		err     error
		trailer []string
		want    time.Duration
	}{
		{busy, nil, 0},
		{busy, []string{"1500"}, 1500 * time.Millisecond},
		{busy, []string{"99999999"}, connectWaits.Max},
		{busy, []string{"-1"}, 0},
		{busy, []string{"soon"}, 0},
		{&Refused{"no"}, []string{"1500"}, 0},
	} {
		md := metadata.MD{}
		md.Append(pushbackTrailer, one.trailer...)
		err := withRetryTime(one.err, md)
		var later *laterError
		if got := errors.As(err, &later); got != (one.want > 0) || got && later.after != one.want ||
			!errors.Is(err, one.err) {
			t.Errorf("%v of %q became %v", one.err, one.trailer, err)
		}
	}
}

// A client asks again when it is told to, and not before.
func TestAClientWaitsUntilItMayComeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *ServerOptions) { o.Refusal = time.Millisecond })
	cred := r.joined(t)
	for range streamsAtOnce {
		if err := flap(t, r, cred); err != nil {
			t.Fatal(err)
		}
	}
	var asked []time.Time
	n := r.run(t, cred, func(o *ClientOptions) {
		o.Random = func() float64 { return 0 }
		hello := o.Hello
		o.Hello = func() nodeproto.Hello { asked = append(asked, time.Now()); return hello() }
	})
	take(t, n.up)
	n.stop()
	if len(asked) > 3 {
		t.Errorf("it asked %d times until it was let in", len(asked))
	}
}

// A node has a few connections: of more than that the oldest are closed, so that it can't take the
// places of all others, and one whose line is bad always gets in.
func TestANodeHasAFewConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *ServerOptions) { o.HelloTimeout = 5 * time.Minute }) // these say nothing
	bad, good := r.joined(t), r.joined(t)
	dial := func(cred *pki.Credentials) net.Conn {
		settings, err := cred.TLS("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		settings.NextProtos = []string{"h2"}
		c, err := tls.Dial("tcp", r.addr, settings)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		// The client's handshake ends before the server's: connections are counted in this order only if each has said its
		// settings before the next one is dialled.
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	other := dial(good)
	var all []net.Conn
	for range maxConnections + 4 {
		all = append(all, dial(bad))
	}
	// What the server does at the end of its handshake is over once it has said its settings.
	closed := func(c net.Conn, wait time.Duration) bool {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		buf := make([]byte, 1024)
		for {
			if _, err := c.Read(buf); err != nil {
				var late net.Error
				return !errors.As(err, &late) || !late.Timeout()
			}
		}
	}
	for i, c := range all[:4] {
		if !closed(c, timeout) {
			t.Errorf("connection %d stays", i)
		}
	}
	if closed(all[len(all)-1], 100*time.Millisecond) || closed(other, 100*time.Millisecond) {
		t.Error("the newest, or that of another node, is closed")
	}
	count := func() int {
		r.server.accepts.nodes.mu.Lock()
		defer r.server.accepts.nodes.mu.Unlock()
		return len(r.server.accepts.nodes.by[bad.Node().String()])
	}
	if n := count(); n != maxConnections {
		t.Errorf("%d connections are known", n)
	}
	for _, c := range all {
		c.Close()
	}
	until(t, "all of them are forgotten", func() bool { return count() == 0 })
}

// Who has shown no certificate can't have a message kept that has no end, and a node that has one can't
// join with it: either would hold a megabyte for each of its connections.
func TestAJoinWithoutAnEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cred := r.joined(t)
	send := func(settings *tls.Config, size int) error {
		settings.NextProtos = []string{"h2"}
		c, err := tls.Dial("tcp", r.addr, settings)
		if err != nil {
			return err
		}
		defer c.Close()
		frame := func(kind, flags byte, stream byte, payload []byte) {
			head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, stream}
			if err == nil {
				_, err = c.Write(append(head, payload...))
			}
		}
		var header []byte // each field as a literal that is not indexed
		for _, text := range []string{":method", "POST", ":scheme", "https", ":path", joinMethod, ":authority", "x",
			"content-type", "application/grpc", "te", "trailers"} {
			if strings.HasPrefix(text, ":") || text == "content-type" || text == "te" {
				header = append(header, 0)
			}
			header = append(append(header, byte(len(text))), text...)
		}
		_, err = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		const settingsFrame, headersFrame, dataFrame, endHeaders, endStream = 4, 1, 0, 4, 1
		frame(settingsFrame, 0, 0, nil)
		frame(headersFrame, endHeaders, 1, header)
		data := append([]byte{0, 0, 0x0f, 0xff, 0xff}, make([]byte, size)...) // the begin of a megabyte
		for ; len(data) > 0; data = data[min(len(data), 16<<10):] {
			frame(dataFrame, 0, 1, data[:min(len(data), 16<<10)])
		}
		_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		for err == nil {
			head := make([]byte, 9)
			if _, err = io.ReadFull(c, head); err == nil {
				_, err = io.CopyN(io.Discard, c, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
			}
			if head[3] == headersFrame && head[4]&endStream != 0 {
				return errors.New("refused")
			}
		}
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			return nil // it is waited for the rest
		}
		return err
	}
	stranger := func() *tls.Config { return pki.PinnedTLS(r.ca.Pin(), "127.0.0.1", r.clock.now) }
	if err := send(stranger(), joinLimit); err != nil {
		t.Errorf("as much as a join may have: %v", err)
	}
	if err := send(stranger(), 100<<10); err == nil {
		t.Error("more than that is kept")
	}
	known, err := cred.TLS("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := send(known, 100); err == nil {
		t.Error("a join by who has a certificate is waited for")
	}
}

// A time that has no form in JSON would end the actor of whoever writes it.
func TestTimesOfAPeerHaveAForm(t *testing.T) {
	for _, ms := range []int64{math.MinInt64, firstMilli - 1, firstMilli, -1, 0, 1, 1e12, lastMilli, lastMilli + 1,
		math.MaxInt64} {
		r := fromWireReport(&pb.Report{Held: &pb.Held{SinceUnixMs: ms},
			Parameters: []*pb.Parameter{{SinceUnixMs: ms, NextTryUnixMs: ms}}})
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%d: %v", ms, err)
		}
		if ms >= firstMilli && ms <= lastMilli && !r.Held.Since.Equal(time.UnixMilli(ms)) {
			t.Errorf("%d became %v", ms, r.Held.Since)
		}
	}
}
