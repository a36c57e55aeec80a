package nodelink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"edgespan/config/link"
	pb "edgespan/platform/nodelink/linkpb"
	"edgespan/platform/pki"
)

func join(r *rig, token, name string, cred *pki.Credentials, pin pki.Pin) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := Join(ctx, JoinOptions{Controller: r.addr, Token: token, Name: name, Pin: pin, Credentials: cred, Now: r.clock.now})
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
	if err := join(r, good, "edge-1", r.fresh(t), wrongPin); err == nil || !strings.Contains(err.Error(), "not the one of --ca-sha256") {
		t.Errorf("a wrong pin: %v", err)
	}
	if err := join(r, good, "edge-2", r.fresh(t), r.ca.Pin()); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("another name: %v", err)
	}
	first := r.fresh(t)
	if err := join(r, good, "edge-1", first, r.ca.Pin()); err != nil {
		t.Fatalf("the refusals spent the token: %v", err)
	}
	err := join(r, good, "edge-1", r.fresh(t), r.ca.Pin())
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "used already") {
		t.Errorf("a replayed token: %v", err)
	}
	if err := join(r, r.token(t, "edge-3", -time.Second), "edge-3", r.fresh(t), r.ca.Pin()); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired token: %v", err)
	}
	if err := join(r, "nonsense", "edge-3", r.fresh(t), r.ca.Pin()); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("no token: %v", err)
	}
	if err := join(r, r.token(t, "edge-4", time.Hour), "edge-4", first, r.ca.Pin()); err == nil || !strings.Contains(err.Error(), `is "edge-1"`) {
		t.Errorf("a node that has another name: %v", err)
	}
}

// Whoever floods Join is held back; other addresses are not asked to pay.
func TestJoinsAreLimitedByAddress(t *testing.T) {
	g := newJoinGate(1)
	now := time.Now()
	for i := range 20 {
		if !g.pass("a", now) {
			t.Fatalf("call %d is refused", i)
		}
	}
	if g.pass("a", now) {
		t.Error("the 21st call at once went through")
	}
	if !g.pass("b", now) {
		t.Error("another address paid for it")
	}
	if !g.pass("a", now.Add(time.Second)) {
		t.Error("refused a second later")
	}
	for i := range mostSources + 100 {
		g.pass(string(rune(i+1000)), now)
	}
	if len(g.sources.by) > mostSources {
		t.Errorf("remembers %d addresses", len(g.sources.by))
	}
	if !g.pass("192.0.2.1", now.Add(2*time.Second)) {
		t.Error("a new address is refused because many others came")
	}
	six := newJoinGate(1)
	for i := range 20 {
		if !six.pass(fmt.Sprintf("2001:db8::%x", i), now) {
			t.Errorf("join %d of one network", i)
		}
	}
	if six.pass("2001:db8::ffff", now) || !six.pass("2001:db8:0:1::1", now) {
		t.Error("one network of IPv6 is not one caller")
	}
	for i := len(g.sources.by); i < mostSources; i++ {
		g.pass(fmt.Sprint("busy", i), now)
	}
	if !g.pass("new", now.Add(time.Hour)) || len(g.sources.by) > 2 {
		t.Errorf("forgot nobody within an hour: %d", len(g.sources.by))
	}
}

// A fleet behind one address is let in faster where its controller is told so.
func TestJoinsOfOneAddressCanBeMoreThanOneASecond(t *testing.T) {
	opts := ServerOptions{Joins: 10}
	opts.defaults()
	g, now := newJoinGate(opts.Joins), time.Now()
	passed := 0
	for range 1000 {
		if g.pass("a", now) {
			passed++
		}
	}
	for range 1000 {
		if g.pass("a", now.Add(time.Second)) {
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
	for _, m := range []link.FromNode{
		link.Report{MD5: "1", Settled: true, Health: []link.Health{{Name: "uplink", Good: true}}},
		link.Result{Outcome: link.Unhealthy, Actions: []link.Action{{Name: "REBOOT", State: "done"}}},
		link.Answer{ID: 7, Data: []byte("x")},
	} {
		if err := s.Send(m); err != nil {
			t.Fatal(err)
		}
		if got := take(t, r.messages); !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
	for _, m := range []link.FromController{
		link.Push{Generation: link.Generation{Authority: "a", Counter: 3}, Document: []byte("{}"), Confirm: 2 * time.Minute, Managed: true, Attempt: 7},
		link.Number{Generation: link.Generation{Authority: "a", Counter: 4}},
		link.Confirm{Generation: link.Generation{Authority: "a", Counter: 4}},
		link.Ask{ID: 9, Kind: link.AskPreview, Data: []byte("{}")},
		link.Release{},
		link.Probe{Number: 5},
		link.Ack{Attempt: 7},
		link.Managed{On: true},
	} {
		if err := e.s.Send(m); err != nil {
			t.Fatal(err)
		}
		if got := take(t, n.got); !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
	wantErr(t, s.Send(link.Hello{}), "not sent again")
}

// A document far above a wire message travels whole, both ways.
func TestLargeMessagesTravelInPieces(t *testing.T) {
	r := newRig(t)
	n := r.run(t, r.joined(t))
	e, s := take(t, r.up), take(t, n.up)
	document := bytes.Repeat([]byte("0123456789abcdef"), 5<<16) // 5 MiB
	if err := e.s.Send(link.Push{Document: document}); err != nil {
		t.Fatal(err)
	}
	push, ok := take(t, n.got).(link.Push)
	if !ok || sha256.Sum256(push.Document) != sha256.Sum256(document) {
		t.Errorf("another document: %d octets", len(push.Document))
	}
	if err := s.Send(link.Answer{ID: 1, Data: document}); err != nil {
		t.Fatal(err)
	}
	if got, ok := take(t, r.messages).(link.Answer); !ok || !bytes.Equal(got.Data, document) {
		t.Error("another answer")
	}
	wantErr(t, e.s.Send(link.Push{Document: make([]byte, pushLimit)}), "are allowed")
	wantErr(t, s.Send(link.Answer{Data: make([]byte, answerLimit)}), "are allowed")
	wantErr(t, s.Send(link.Report{MD5: strings.Repeat("x", reportLimit)}), "are allowed")
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
	if err := a.s.Send(link.Release{}); !errors.Is(err, ErrClosed) {
		t.Errorf("to the older one: %v", err)
	}
	if err := b.s.Send(link.Release{}); err != nil {
		t.Error(err)
	}
	take(t, second.got)
	if err := s.Send(link.Answer{ID: 1}); err != nil {
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

// dial opens a connection whose wire messages a test writes by hand.
func dial(t testing.TB, r *rig, cred *pki.Credentials) *grpc.ClientConn {
	t.Helper()
	cfg, err := cred.TLS("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+r.addr, grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func open(t testing.TB, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	rpc, err := conn.NewStream(ctx, &linkStream, linkMethod)
	if err != nil {
		t.Fatal(err)
	}
	return rpc
}

// hello says Hello and waits for the yes or the no.
func hello(t testing.TB, conn *grpc.ClientConn, node string) (grpc.ClientStream, error) {
	t.Helper()
	rpc := open(t, conn)
	if err := rpc.SendMsg(&pb.Up{Kind: &pb.Up_Hello{Hello: &pb.Hello{Node: node}}}); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err) // EOF: it has ended, RecvMsg says why
	}
	if h, err := rpc.Header(); err == nil && len(h.Get(acceptedHeader)) > 0 {
		greeting := &pb.Down{}
		if err := rpc.RecvMsg(greeting); err != nil || greeting.GetSpread().GetOverMs() != 500 {
			t.Errorf("the first message is %v, %v, want the spread of few nodes", greeting, err)
		}
		return rpc, nil
	}
	return rpc, rpc.RecvMsg(&pb.Down{})
}

func TestANodeSpeaksForItselfOnly(t *testing.T) {
	r := newRig(t)
	a, b := r.joined(t), r.joined(t)
	_, err := hello(t, dial(t, r, a), b.Node().String())
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("Hello of another: %v", err)
	}
	wantErr(t, err, "a node speaks for itself only")

	rpc, err := hello(t, dial(t, r, a), a.Node().String())
	if err != nil {
		t.Fatal(err)
	}
	csr, err := b.RenewalRequest()
	if err != nil {
		t.Fatal(err)
	}
	if err := rpc.SendMsg(&pb.Up{Kind: &pb.Up_SigningRequest{SigningRequest: &pb.SigningRequest{Csr: csr}}}); err != nil {
		t.Fatal(err)
	}
	answer := &pb.Down{}
	if err := rpc.RecvMsg(answer); err != nil {
		t.Fatal(err)
	}
	if c := answer.GetCertificate(); !strings.Contains(c.GetRefused(), "speaks for itself only") || len(c.GetChain()) > 0 {
		t.Errorf("a certificate of another: %v", c)
	}
}

func TestNoCertificateNoStream(t *testing.T) {
	r := newRig(t)
	conn, err := grpc.NewClient("passthrough:///"+r.addr,
		grpc.WithTransportCredentials(credentials.NewTLS(pki.PinnedTLS(r.ca.Pin(), "127.0.0.1", r.clock.now))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = hello(t, conn, "x")
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("%v", err)
	}
	stranger := newRig(t)
	_, err = conn2(t, r, stranger.joined(t))
	wantErr(t, err, "") // a certificate of another CA: not even the handshake
}

// conn2 opens a stream without expecting that it can be opened.
func conn2(t testing.TB, r *rig, cred *pki.Credentials) (grpc.ClientStream, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	rpc, err := dial(t, r, cred).NewStream(ctx, &linkStream, linkMethod)
	if err != nil {
		return nil, err
	}
	return rpc, rpc.RecvMsg(&pb.Down{})
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
	until(t, "the certificate is renewed", func() bool { p, err := cred.Peer(); return err == nil && p.Serial != before.Serial })
	second, err := cred.Peer()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.s.Send(link.Renew{}); err != nil {
		t.Fatal(err)
	}
	until(t, "it is renewed on demand", func() bool { p, err := cred.Peer(); return err == nil && p.Serial != second.Serial })
	r.clock.move(6 * 24 * time.Hour) // past the end of the first one
	if err := e.s.Send(link.Release{}); err != nil {
		t.Fatal(err)
	}
	take(t, n.got)
	select {
	case d := <-n.down:
		t.Errorf("the stream ended: %v", d)
	case <-time.After(200 * time.Millisecond): // ten sweeps
	}
	r.clock.move(30 * 24 * time.Hour) // past the end of all
	wantErr(t, take(t, n.down), "ended on")
}

func chunk(c *pb.Chunk) *pb.Up { return &pb.Up{Kind: &pb.Up_Chunk{Chunk: c}} }

func TestMalformedAndOversizedMessagesEndTheirStreamOnly(t *testing.T) {
	r := newRig(t)
	bystander := r.run(t, r.joined(t))
	take(t, bystander.up)
	take(t, r.up)
	digest := sha256.Sum256([]byte("ab"))
	for name, test := range map[string]struct {
		send []*pb.Up
		code codes.Code
		want string
	}{
		"a second Hello":             {[]*pb.Up{{Kind: &pb.Up_Hello{Hello: &pb.Hello{}}}}, codes.InvalidArgument, "second Hello"},
		"an oversized kind":          {[]*pb.Up{{Kind: &pb.Up_SigningRequest{SigningRequest: &pb.SigningRequest{Csr: make([]byte, smallLimit)}}}}, codes.InvalidArgument, "are allowed"},
		"an oversized wire message":  {[]*pb.Up{{Kind: &pb.Up_Answer{Answer: &pb.Answer{Data: make([]byte, wireLimit)}}}}, codes.ResourceExhausted, "larger than max"},
		"a piece without beginning":  {[]*pb.Up{chunk(&pb.Chunk{Data: []byte("a")})}, codes.InvalidArgument, "first piece"},
		"a giant announced":          {[]*pb.Up{chunk(&pb.Chunk{Total: 1 << 40, Digest: digest[:], Data: []byte("a")})}, codes.InvalidArgument, "are allowed"},
		"more than announced":        {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("abc")})}, codes.InvalidArgument, "announced"},
		"a wrong digest":             {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("ba")})}, codes.InvalidArgument, "digest"},
		"an empty piece":             {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:]})}, codes.InvalidArgument, "empty piece"},
		"pieces of no message":       {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("ab")})}, codes.InvalidArgument, "proto"},
		"a message between pieces":   {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("a")}), {Kind: &pb.Up_Report{Report: &pb.Report{}}}}, codes.InvalidArgument, "between two pieces"},
		"a beginning between pieces": {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("a")}), chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("a")})}, codes.InvalidArgument, "within another"},
	} {
		t.Run(name, func(t *testing.T) {
			cred := r.joined(t)
			rpc, err := hello(t, dial(t, r, cred), cred.Node().String())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range test.send {
				if err := rpc.SendMsg(m); err != nil && !strings.Contains(err.Error(), "EOF") {
					t.Fatal(err)
				}
			}
			err = rpc.RecvMsg(&pb.Down{})
			if status.Code(err) != test.code {
				t.Errorf("%v, want %v", err, test.code)
			}
			wantErr(t, err, test.want)
		})
	}
	t.Run("no Hello first", func(t *testing.T) {
		rpc := open(t, dial(t, r, r.joined(t)))
		if err := rpc.SendMsg(&pb.Up{Kind: &pb.Up_Report{Report: &pb.Report{}}}); err != nil {
			t.Fatal(err)
		}
		wantErr(t, rpc.RecvMsg(&pb.Down{}), "no Hello")
	})
	if got := r.server.shared.left.Load(); got != 256<<20 {
		until(t, "the budget is whole again", func() bool { return r.server.shared.left.Load() == 256<<20 })
	}
	select {
	case err := <-bystander.down:
		t.Errorf("another node lost its stream: %v", err)
	default:
	}
}

// Octets that are no message at all.
func TestGarbageEndsItsStreamOnly(t *testing.T) {
	r := newRig(t)
	cred := r.joined(t)
	rpc, err := hello(t, dial(t, r, cred), cred.Node().String())
	if err != nil {
		t.Fatal(err)
	}
	garbage := &pb.Chunk{}
	garbage.ProtoReflect().SetUnknown([]byte{0x0a, 0x05, 0x01}) // field 1 of 5 octets, one is there
	if err := rpc.SendMsg(garbage); err != nil {
		t.Fatal(err)
	}
	if err := rpc.RecvMsg(&pb.Down{}); err == nil {
		t.Error("nothing happened")
	}
	if _, err := hello(t, dial(t, r, cred), cred.Node().String()); err != nil {
		t.Errorf("it may not come back: %v", err)
	}
}

func TestAStreamWithoutHelloEnds(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.HelloWait = 500 * time.Millisecond })
	err := open(t, dial(t, r, r.joined(t))).RecvMsg(&pb.Down{})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}

// What a version a year younger says beyond this one is skipped, in messages and as whole kinds.
func TestVersionsApartByOneYearTalk(t *testing.T) {
	r := newRig(t)
	cred := r.joined(t)
	rpc, err := hello(t, dial(t, r, cred), cred.Node().String())
	if err != nil {
		t.Fatal(err)
	}
	e := take(t, r.up)
	kind := &pb.Up{} // kind 90, a message of its own
	kind.ProtoReflect().SetUnknown([]byte{0xd2, 0x05, 0x02, 0x08, 0x01})
	report := &pb.Report{Md5: "x"} // with field 90
	report.ProtoReflect().SetUnknown([]byte{0xd0, 0x05, 0x01})
	outcome := &pb.Up{Kind: &pb.Up_Result{Result: &pb.Result{Outcome: 77}}}
	for _, m := range []*pb.Up{kind, {Kind: &pb.Up_Report{Report: report}}, outcome} {
		if err := rpc.SendMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok := take(t, r.messages).(link.Report); !ok || got.MD5 != "x" {
		t.Errorf("got %+v", got)
	}
	if got, ok := take(t, r.messages).(link.Result); !ok || got.Outcome != link.Unknown {
		t.Errorf("got %+v", got)
	}
	if err := e.s.Send(link.Managed{On: true}); err != nil {
		t.Fatal(err)
	}
	m := &pb.Down{}
	if err := rpc.RecvMsg(m); err != nil || !m.GetManaged().GetOn() {
		t.Errorf("%v, %v", m, err)
	}
	if got := downOf(&pb.Down{}); got != nil {
		t.Errorf("a node makes %v of an unknown kind", got)
	}
}

// A handler that panics on one node's message takes that stream down and nothing else.
func TestAPanicOfTheHandlerEndsOneStream(t *testing.T) {
	r := newRig(t)
	r.onMsg = func(_ link.ToNode, m link.FromNode) {
		if a, ok := m.(link.Answer); ok && a.ID == 13 {
			panic("thirteen")
		}
		r.messages <- m
	}
	bad, good := r.run(t, r.joined(t)), r.run(t, r.joined(t))
	s, other := take(t, bad.up), take(t, good.up)
	if err := s.Send(link.Answer{ID: 13}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, take(t, bad.down), "could not handle")
	if err := other.Send(link.Answer{ID: 1}); err != nil {
		t.Fatal(err)
	}
	take(t, r.messages)
}

func TestTheNumberOfStreamsIsBounded(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.MostNodes = 1 })
	take(t, r.run(t, r.joined(t)).up)
	cred := r.joined(t)
	_, err := hello(t, dial(t, r, cred), cred.Node().String())
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
}

// A noisy node is read more slowly; none of its messages is lost.
func TestANoisyNodeIsHeldBack(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.PerSecond, o.Burst = 50, 10 })
	n := r.run(t, r.joined(t))
	s := take(t, n.up)
	begun := time.Now()
	for i := range uint64(40) {
		if err := s.Send(link.Answer{ID: i}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(40) {
		if a, ok := take(t, r.messages).(link.Answer); !ok || a.ID != i {
			t.Fatalf("message %d is %+v", i, a)
		}
	}
	if d := time.Since(begun); d < 500*time.Millisecond { // Hello and 40 messages, 10 at once, 50 a second
		t.Errorf("it took %v", d)
	}
}

// A node that reads nothing delays no other, and is dropped after a while.
func TestASlowNodeDelaysNoOther(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.Stall = 300 * time.Millisecond })
	cred := r.joined(t)
	rpc, err := hello(t, dial(t, r, cred), cred.Node().String()) // nobody reads
	if err != nil {
		t.Fatal(err)
	}
	slow := take(t, r.up)
	full := false
	for i := range uint64(mostWaiting + 20) { // Send never blocks
		if err := slow.s.Send(link.Ask{ID: i, Data: make([]byte, 200<<10)}); errors.Is(err, ErrFull) {
			full = true
		}
	}
	if !full {
		t.Error("the queue has no bound")
	}
	n := r.run(t, r.joined(t))
	quick := take(t, r.up)
	take(t, n.up)
	if err := quick.s.Send(link.Release{}); err != nil {
		t.Fatal(err)
	}
	take(t, n.got)
	wantErr(t, take(t, r.down).cause, "took nothing")
	for err == nil {
		err = rpc.RecvMsg(&pb.Down{})
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}

func TestDrain(t *testing.T) {
	r := newRig(t)
	n := r.run(t, r.joined(t))
	take(t, n.up)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.server.Drain(ctx)
	wantErr(t, take(t, n.down), "shutting down")
	if d := time.Since(begun); d > patience/2 {
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
	r := newRig(t, func(o *ServerOptions) { o.Keepalive = Keepalive{} }) // 1 s is too short for 400 handshakes on a loaded machine
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
	var streams []link.ToNode
	for range many {
		streams = append(streams, take(t, r.up).s)
	}
	if n := r.server.Streams(); n != many {
		t.Errorf("%d streams", n)
	}
	for i, s := range streams {
		if err := s.Send(link.Number{Generation: link.Generation{Authority: "a", Counter: uint64(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		take(t, n.got)
		if err := take(t, n.up).Send(link.Report{MD5: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	for range many {
		take(t, r.messages)
	}
	t.Logf("%.1f goroutines for a pair of node and stream", float64(runtime.NumGoroutine()-before)/many)
	for _, n := range nodes {
		n.stop()
	}
	for range many {
		take(t, r.down)
	}
	until(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+2 })
}
