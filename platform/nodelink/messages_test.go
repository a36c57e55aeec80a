package nodelink

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
	"edgespan/platform/pki"
)

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
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
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
	if err := rpc.SendMsg(&pb.Up{Kind: &pb.Up_Hello{Hello: &pb.Hello{Node: node}}}); err != nil &&
		!errors.Is(err, io.EOF) {
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
	wantErr(t, err, "a node can only act for itself")

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
	if c := answer.GetCertificate(); !strings.Contains(c.GetRefused(), "can only act for itself") ||
		len(c.GetChain()) > 0 {
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
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	rpc, err := dial(t, r, cred).NewStream(ctx, &linkStream, linkMethod)
	if err != nil {
		return nil, err
	}
	return rpc, rpc.RecvMsg(&pb.Down{})
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
		"a second Hello": {[]*pb.Up{{Kind: &pb.Up_Hello{Hello: &pb.Hello{}}}}, codes.InvalidArgument,
			"second Hello"},
		"an oversized kind": {[]*pb.Up{{Kind: &pb.Up_SigningRequest{SigningRequest: &pb.SigningRequest{Csr: make([]byte,
			smallLimit)}}}}, codes.InvalidArgument, "must be"},
		"an oversized wire message": {[]*pb.Up{{Kind: &pb.Up_Answer{Answer: &pb.Answer{Data: make([]byte, wireLimit)}}}},
			codes.ResourceExhausted, "larger than max"},
		"a piece without beginning": {[]*pb.Up{chunk(&pb.Chunk{Data: []byte("a")})}, codes.InvalidArgument, "first piece"},
		"a giant announced": {[]*pb.Up{chunk(&pb.Chunk{Total: 1 << 40, Digest: digest[:], Data: []byte("a")})},
			codes.InvalidArgument, "must be"},
		"more than announced": {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("abc")})},
			codes.InvalidArgument, "announced"},
		"a wrong digest": {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("ba")})},
			codes.InvalidArgument, "digest"},
		"an empty piece": {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:]})}, codes.InvalidArgument,
			"empty piece"},
		"pieces of no message": {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("ab")})},
			codes.InvalidArgument, "proto"},
		"a message between pieces": {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("a")}),
			{Kind: &pb.Up_Report{Report: &pb.Report{}}}}, codes.InvalidArgument, "between two pieces"},
		"a beginning between pieces": {[]*pb.Up{chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("a")}),
			chunk(&pb.Chunk{Total: 2, Digest: digest[:], Data: []byte("a")})}, codes.InvalidArgument, "within another"},
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
		wantErr(t, rpc.RecvMsg(&pb.Down{}), "must be a Hello")
	})
	t.Run("pieces before Hello", func(t *testing.T) {
		rpc := open(t, dial(t, r, r.joined(t)))
		first := &pb.Chunk{Total: answerLimit, Digest: make([]byte, sha256.Size), Data: []byte{1}}
		if err := rpc.SendMsg(&pb.Up{Kind: &pb.Up_Chunk{Chunk: first}}); err != nil {
			t.Fatal(err)
		}
		wantErr(t, rpc.RecvMsg(&pb.Down{}), "must be a Hello")
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
	r := newRig(t, func(o *ServerOptions) { o.HelloTimeout = 500 * time.Millisecond })
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
	if got, ok := take(t, r.messages).(nodeproto.Report); !ok || got.MD5 != "x" {
		t.Errorf("got %+v", got)
	}
	if got, ok := take(t, r.messages).(nodeproto.Result); !ok || got.Outcome != nodeproto.Unknown {
		t.Errorf("got %+v", got)
	}
	if err := e.s.Send(nodeproto.Managed{On: true}); err != nil {
		t.Fatal(err)
	}
	m := &pb.Down{}
	if err := rpc.RecvMsg(m); err != nil || !m.GetManaged().GetOn() {
		t.Errorf("%v, %v", m, err)
	}
	if got := fromWireDown(&pb.Down{}); got != nil {
		t.Errorf("a node makes %v of an unknown kind", got)
	}
}

// A handler that panics on one node's message takes that stream down and nothing else.
func TestAPanicOfTheHandlerEndsOneStream(t *testing.T) {
	r := newRig(t)
	r.onMsg = func(_ nodeproto.ToNode, m nodeproto.FromNode) {
		if a, ok := m.(nodeproto.Answer); ok && a.ID == 13 {
			panic("thirteen")
		}
		r.messages <- m
	}
	bad, good := r.run(t, r.joined(t)), r.run(t, r.joined(t))
	s, other := take(t, bad.up), take(t, good.up)
	if err := s.Send(nodeproto.Answer{ID: 13}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, take(t, bad.down), "failed to handle")
	if err := other.Send(nodeproto.Answer{ID: 1}); err != nil {
		t.Fatal(err)
	}
	take(t, r.messages)
}

func TestTheNumberOfStreamsIsBounded(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.MaxNodes = 1 })
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
		if err := s.Send(nodeproto.Answer{ID: i}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(40) {
		if a, ok := take(t, r.messages).(nodeproto.Answer); !ok || a.ID != i {
			t.Fatalf("message %d is %+v", i, a)
		}
	}
	if d := time.Since(begun); d < 500*time.Millisecond { // Hello and 40 messages, 10 at once, 50 a second
		t.Errorf("it took %v", d)
	}
}

// A node that reads nothing delays no other, and is dropped after a while.
func TestASlowNodeDelaysNoOther(t *testing.T) {
	r := newRig(t, func(o *ServerOptions) { o.Stall = time.Second })
	cred := r.joined(t)
	rpc, err := hello(t, dial(t, r, cred), cred.Node().String()) // nobody reads
	if err != nil {
		t.Fatal(err)
	}
	slow := take(t, r.up)
	full, data := false, make([]byte, 200<<10)
	for i := range uint64(maxWaiting + 20) { // Send never blocks
		if err := slow.s.Send(nodeproto.Request{ID: i, Data: data}); errors.Is(err, ErrFull) {
			full = true
		}
	}
	if !full {
		t.Error("the queue has no bound")
	}
	n := r.run(t, r.joined(t))
	quick := take(t, r.up)
	take(t, n.up)
	if err := quick.s.Send(nodeproto.Release{}); err != nil {
		t.Fatal(err)
	}
	take(t, n.got)
	wantErr(t, take(t, r.down).cause, "received nothing")
	for err == nil {
		err = rpc.RecvMsg(&pb.Down{})
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}
