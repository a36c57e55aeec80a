package nodelink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"edgespan/config/fleet/nodeproto"
	"edgespan/platform/pki"
)

func join(r *rig, token, name string, cred *pki.Credentials, pin pki.Pin) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	answer, err := Join(ctx,
		JoinOptions{Controller: r.addr, Token: token, Name: name, Pin: pin, Credentials: cred, Now: r.clock.now})
	if err == nil && answer != name {
		return fmt.Errorf("joined as %q, not as %q", answer, name)
	}
	return err
}

func TestANodeJoinsAndConnects(t *testing.T) {
	r := newRig(t)
	cred := r.fresh(t)
	if err := join(r, r.token(t, "edge-1", time.Hour), "edge-1", cred, r.ca.Pin()); err != nil {
		t.Fatal(err)
	}
	n := r.run(t, cred)
	e := take(t, r.up)
	if e.h.Node != cred.Node().String() || e.h.Name != "n" || !reflect.DeepEqual(e.h.Capabilities, []string{"a", "b"}) {
		t.Errorf("hello %+v", e.h)
	}
	take(t, n.up)
	n.stop()
	if d := take(t, r.down); d.id != e.s.ID() {
		t.Errorf("another stream ended: %+v", d)
	}
	until(t, "no stream is left", func() bool { return r.server.Streams() == 0 })
}

func TestJoinsThatAreRefused(t *testing.T) {
	r := newRig(t)
	good := r.token(t, "edge-1", time.Hour)
	wrongPin := r.ca.Pin()
	wrongPin[3] ^= 1
	if err := join(r, good, "edge-1", r.fresh(t), wrongPin); err == nil ||
		!strings.Contains(err.Error(), "does not match --ca-sha256") {
		t.Errorf("a wrong pin: %v", err)
	}
	if err := join(r, good, "edge-2", r.fresh(t), r.ca.Pin()); err == nil ||
		!strings.Contains(err.Error(), "another name") {
		t.Errorf("another name: %v", err)
	}
	first := r.fresh(t)
	if err := join(r, good, "edge-1", first, r.ca.Pin()); err != nil {
		t.Fatalf("the refusals spent the token: %v", err)
	}
	err := join(r, good, "edge-1", r.fresh(t), r.ca.Pin())
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "already used") {
		t.Errorf("a replayed token: %v", err)
	}
	if err := join(r, r.token(t, "edge-3", -time.Second), "edge-3", r.fresh(t), r.ca.Pin()); err == nil ||
		!strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired token: %v", err)
	}
	if err := join(r, "nonsense", "edge-3", r.fresh(t), r.ca.Pin()); err == nil ||
		!strings.Contains(err.Error(), "not a token") {
		t.Errorf("no token: %v", err)
	}
	if err := join(r, r.token(t, "edge-4", time.Hour), "edge-4", first, r.ca.Pin()); err == nil ||
		!strings.Contains(err.Error(), `is "edge-1"`) {
		t.Errorf("a node that has another name: %v", err)
	}
}

// Whoever floods Join is held back; other addresses are not asked to pay.
func TestJoinsAreLimitedByAddress(t *testing.T) {
	g := newJoinLimiter(1)
	now := time.Now()
	for i := range 20 {
		if !g.allowExamine("a", now) {
			t.Fatalf("call %d is refused", i)
		}
	}
	if g.allowExamine("a", now) {
		t.Error("the 21st call at once went through")
	}
	if !g.allowExamine("b", now) {
		t.Error("another address paid for it")
	}
	if !g.allowExamine("a", now.Add(time.Second)) {
		t.Error("refused a second later")
	}
	for i := range 5000 {
		g.allowExamine(string(rune(i+1000)), now)
	}
	if !g.allowExamine("192.0.2.1", now.Add(2*time.Second)) {
		t.Error("a new address is refused because many others came")
	}
	six := newJoinLimiter(1)
	for i := range 20 {
		if !six.allowExamine(fmt.Sprintf("2001:db8::%x", i), now) {
			t.Errorf("join %d of one network", i)
		}
	}
	if six.allowExamine("2001:db8::ffff", now) || !six.allowExamine("2001:db8:0:1::1", now) {
		t.Error("one network of IPv6 is not one caller")
	}
}

// Joins with a token that is known pass while others, of many addresses, take all that is for them.
func TestKnownTokensHaveJoinsOfTheirOwn(t *testing.T) {
	g, now := newJoinLimiter(1), time.Now()
	unknownNodes := 0
	for i := range 10_000 {
		if g.allowExamine(fmt.Sprintf("2001:db8:%x::1", i), now) && g.allow(false, now) {
			unknownNodes++
		}
	}
	if unknownNodes != 200 {
		t.Errorf("%d with tokens that are not known pass at once, want 200", unknownNodes)
	}
	for i := range 200 {
		if !g.allow(true, now) {
			t.Fatalf("join %d with a token that is known is refused", i)
		}
	}
	if g.allow(true, now) {
		t.Error("there is no bound for those that are known")
	}
}

// A fleet behind one address is let in faster where its controller is told so.
func TestJoinsOfOneAddressCanBeMoreThanOneASecond(t *testing.T) {
	opts := ServerOptions{Joins: 10}
	opts.defaults()
	g, now := newJoinLimiter(opts.Joins), time.Now()
	passed := 0
	for range 1000 {
		if g.allowExamine("a", now) {
			passed++
		}
	}
	for range 1000 {
		if g.allowExamine("a", now.Add(time.Second)) {
			passed++
		}
	}
	if passed != 200+10 {
		t.Errorf("%d joins went through within a second, want 200 at once and 10 more", passed)
	}
}

// Who is refused for now, and not for ever, can tell.
func TestAJoinThatMayBeSaidAgainIsTold(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.Joins = 0.05 }) // one at once, the next after 20 s
	if err := join(r, r.token(t, "edge-1", time.Hour), "edge-1", r.fresh(t), r.ca.Pin()); err != nil {
		t.Fatal(err)
	}
	token, cred := r.token(t, "edge-2", time.Hour), r.fresh(t)
	if err := join(r, token, "edge-2", cred, r.ca.Pin()); !errors.Is(err, ErrBusy) {
		t.Fatalf("one too many: %v", err)
	}
	r.clock.move(20 * time.Second)
	if err := join(r, token, "edge-2", cred, r.ca.Pin()); err != nil {
		t.Errorf("20 s later: %v", err)
	}
}

func TestMessagesOfAllKindsArrive(t *testing.T) {
	r := newRig(t)
	n := r.run(t, r.joined(t))
	e, s := take(t, r.up), take(t, n.up)
	if e.h.Address != "127.0.0.1" {
		t.Errorf("it connected from %q", e.h.Address)
	}
	for _, m := range []nodeproto.FromNode{
		nodeproto.Report{MD5: "1", Settled: true, Health: []nodeproto.HealthReport{{Name: "uplink", Good: true}}},
		nodeproto.Result{Outcome: nodeproto.Unhealthy, Actions: []nodeproto.Action{{Name: "REBOOT", State: "done"}}},
		nodeproto.Answer{ID: 7, Data: []byte("x")},
		nodeproto.Relay{ID: 3, Data: []byte{0, 255}, Credit: 2, End: true, Error: "why"},
	} {
		if err := s.Send(m); err != nil {
			t.Fatal(err)
		}
		if got := take(t, r.messages); !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
	for _, m := range []nodeproto.FromController{
		nodeproto.Push{Generation: nodeproto.Generation{Authority: "a", Counter: 3}, Document: []byte("{}"),
			Confirm: 2 * time.Minute, Managed: true, Attempt: 7,
			Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		nodeproto.Number{Generation: nodeproto.Generation{Authority: "a", Counter: 4}},
		nodeproto.Confirm{Generation: nodeproto.Generation{Authority: "a", Counter: 4}},
		nodeproto.Request{ID: 9, Kind: nodeproto.RequestPreview, Data: []byte("{}")},
		nodeproto.Release{},
		nodeproto.Probe{Number: 5},
		nodeproto.Ack{Attempt: 7},
		nodeproto.Managed{On: true},
		nodeproto.Relay{ID: 3, Kind: "support", Data: []byte("{}"), Credit: 6},
	} {
		if err := e.s.Send(m); err != nil {
			t.Fatal(err)
		}
		if got := take(t, n.got); !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
	wantErr(t, s.Send(nodeproto.Hello{}), "not sent again")
}

// A document far above a wire message travels whole, both ways.
func TestLargeMessagesTravelInPieces(t *testing.T) {
	r := newRig(t)
	n := r.run(t, r.joined(t))
	e, s := take(t, r.up), take(t, n.up)
	document := bytes.Repeat([]byte("0123456789abcdef"), 5<<16) // 5 MiB
	if err := e.s.Send(nodeproto.Push{Document: document}); err != nil {
		t.Fatal(err)
	}
	push, ok := take(t, n.got).(nodeproto.Push)
	if !ok || sha256.Sum256(push.Document) != sha256.Sum256(document) {
		t.Errorf("another document: %d octets", len(push.Document))
	}
	if err := s.Send(nodeproto.Answer{ID: 1, Data: document}); err != nil {
		t.Fatal(err)
	}
	if got, ok := take(t, r.messages).(nodeproto.Answer); !ok || !bytes.Equal(got.Data, document) {
		t.Error("another answer")
	}
	wantErr(t, e.s.Send(nodeproto.Push{Document: make([]byte, pushLimit)}), "must be at most")
	wantErr(t, s.Send(nodeproto.Answer{Data: make([]byte, answerLimit)}), "must be at most")
	wantErr(t, s.Send(nodeproto.Report{MD5: strings.Repeat("x", reportLimit)}), "must be at most")
	if got := r.server.shared.left.Load(); got != 256<<20 {
		t.Errorf("%d octets of the budget are left", got)
	}
}

// The newest stream of a node wins, and the older one is told why it ended.
func TestTakeover(t *testing.T) {
	r := newRig(t)
	cred := r.joined(t)
	first := r.run(t, cred, func(o *ClientOptions) { o.Random = func() float64 { return 1 } })
	a := take(t, r.up)
	take(t, first.up)
	second := r.run(t, cred, func(o *ClientOptions) { o.Random = func() float64 { return 1 } })
	b := take(t, r.up)
	s := take(t, second.up)
	wantErr(t, take(t, first.down), "took over")
	if d := take(t, r.down); d.id != a.s.ID() {
		t.Errorf("stream %d ended, want %d", d.id, a.s.ID())
	}
	first.stop()
	if r.server.Streams() != 1 {
		t.Errorf("%d streams", r.server.Streams())
	}
	if err := a.s.Send(nodeproto.Release{}); !errors.Is(err, ErrClosed) {
		t.Errorf("to the older one: %v", err)
	}
	if err := b.s.Send(nodeproto.Release{}); err != nil {
		t.Error(err)
	}
	take(t, second.got)
	if err := s.Send(nodeproto.Answer{ID: 1}); err != nil {
		t.Error(err)
	}
	take(t, r.messages)
}

func TestTheControllerEndsAStreamWithAReasonAndTheNodeComesBack(t *testing.T) {
	r := newRig(t)
	n := r.run(t, r.joined(t))
	e := take(t, r.up)
	take(t, n.up)
	e.s.End("moved to another replica")
	wantErr(t, take(t, n.down), "moved to another replica")
	take(t, n.up)
	if next := take(t, r.up); next.s.ID() == e.s.ID() {
		t.Error("the ID repeats")
	}
}

func TestANodeThatIsNotAdmittedIsToldWhy(t *testing.T) {
	r := newRig(t)
	r.refuse = errors.New("removed from the fleet")
	cred := r.joined(t)
	conn := dial(t, r, cred)
	_, err := hello(t, conn, cred.Node().String())
	wantErr(t, err, "removed from the fleet")
	if status.Code(err) != codes.PermissionDenied || r.server.Streams() != 0 {
		t.Errorf("%v, %d streams", err, r.server.Streams())
	}
}

func TestARevokedNodeLosesItsStream(t *testing.T) {
	r := newRig(t)
	cred := r.joined(t)
	n := r.run(t, cred)
	take(t, r.up)
	take(t, n.up)
	if err := r.revoked.Replace([]pki.Revocation{{Node: cred.Node().String(), Reason: "stolen"}}); err != nil {
		t.Fatal(err)
	}
	err := take(t, n.down)
	var refused *Refused
	if !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
	wantErr(t, err, "stolen")
	wantErr(t, take(t, r.down).cause, "stolen")
	if _, err := conn2(t, r, cred); err == nil {
		t.Error("it came back")
	}
}

// A certificate is renewed over the stream when two thirds of its life are over, and the
// stream outlives the certificate that it began with.
func TestRenewalOverTheStream(t *testing.T) {
	r := newRig(t)
	cred := r.joined(t)
	before, err := cred.Peer()
	if err != nil {
		t.Fatal(err)
	}
	r.clock.move(25 * 24 * time.Hour) // due at its first look
	n := r.run(t, cred)
	e := take(t, r.up)
	take(t, n.up)
	until(t, "the certificate is renewed",
		func() bool { p, err := cred.Peer(); return err == nil && p.Serial != before.Serial })
	second, err := cred.Peer()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.s.Send(nodeproto.Renew{}); err != nil {
		t.Fatal(err)
	}
	until(t, "it is renewed on demand",
		func() bool { p, err := cred.Peer(); return err == nil && p.Serial != second.Serial })
	r.clock.move(6 * 24 * time.Hour) // past the end of the first one
	if err := e.s.Send(nodeproto.Release{}); err != nil {
		t.Fatal(err)
	}
	take(t, n.got)
	select {
	case d := <-n.down:
		t.Errorf("the stream ended: %v", d)
	case <-time.After(200 * time.Millisecond): // ten sweeps
	}
	r.clock.move(30 * 24 * time.Hour) // past the end of all
	wantErr(t, take(t, n.down), "expired on")
}

func TestDrain(t *testing.T) {
	r := newRig(t)
	n := r.run(t, r.joined(t))
	take(t, n.up)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r.server.Drain(ctx)
	wantErr(t, take(t, n.down), "shutting down")
	if d := time.Since(begun); d > timeout/2 {
		t.Errorf("it took %v", d)
	}
	if r.server.Streams() != 0 {
		t.Errorf("%d streams", r.server.Streams())
	}
}

// The server finds a node that is gone without a word, within its keepalive.
func TestKeepaliveOfTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := newProxy(t, r.addr)
	n := r.run(t, r.joined(t), func(o *ClientOptions) { o.Controller = p.addr })
	e := take(t, r.up)
	take(t, n.up)
	begun := time.Now()
	p.freeze()
	if d := take(t, r.down); d.id != e.s.ID() || d.cause == nil {
		t.Errorf("%+v", d)
	}
	if d := time.Since(begun); d > 10*time.Second { // 1 s + 1 s on a loaded machine
		t.Errorf("found after %v", d)
	}
}

// And so does the node; gRPC asks no more often than each 10 s.
func TestKeepaliveOfTheClient(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *ServerOptions) { o.Keepalive = Keepalive{time.Hour, time.Hour} })
	p := newProxy(t, r.addr)
	n := r.run(t, r.joined(t), func(o *ClientOptions) {
		o.Controller = p.addr
		o.Keepalive = Keepalive{10 * time.Second, time.Second}
	})
	take(t, n.up)
	p.freeze()
	begun := time.Now()
	if err := take(t, n.down); err == nil {
		t.Error("no cause")
	}
	if d := time.Since(begun); d > 16*time.Second {
		t.Errorf("found after %v", d)
	}
}

func TestManyStreamsAtOnceAndNoGoroutineIsLeft(t *testing.T) {
	// 1 s is too short for 400 handshakes on a loaded machine
	r := newRig(t, func(o *ServerOptions) { o.Keepalive = Keepalive{} })
	warm := r.run(t, r.joined(t))
	take(t, warm.up)
	take(t, r.up)
	warm.stop()
	take(t, r.down)
	before := runtime.NumGoroutine()
	const many = 200
	var nodes []*node
	for range many {
		nodes = append(nodes, r.run(t, r.joined(t)))
	}
	var streams []nodeproto.ToNode
	for range many {
		streams = append(streams, take(t, r.up).s)
	}
	if n := r.server.Streams(); n != many {
		t.Errorf("%d streams", n)
	}
	for i, s := range streams {
		if err := s.Send(nodeproto.Number{Generation: nodeproto.Generation{Authority: "a", Counter: uint64(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		take(t, n.got)
		if err := take(t, n.up).Send(nodeproto.Report{MD5: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	for range many {
		take(t, r.messages)
	}
	t.Logf("%.1f goroutines for a pair of node and stream", float64(runtime.NumGoroutine()-before)/many)
	until(t, "an idle stream has one goroutine of this package", func() bool {
		stacks := make([]byte, 16<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return bytes.Count(stacks, []byte("nodelink.(*Server).link(")) == many &&
			bytes.Count(stacks, []byte("nodelink.(*stream).receive(")) == many &&
			!bytes.Contains(stacks, []byte("created by edgespan/platform/nodelink.(*Server).link")) &&
			!bytes.Contains(stacks, []byte("created by edgespan/platform/nodelink.(*stream)"))
	})
	for _, n := range nodes {
		n.stop()
	}
	for range many {
		take(t, r.down)
	}
	until(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+2 })
}
