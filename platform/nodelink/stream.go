package nodelink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
	"edgespan/platform/pki"
)

// acceptedHeader is sent once a node is admitted.
const acceptedHeader = "edgespan-link"

// accepted is the header of all admitted streams; gRPC keeps it for as long as they last.
var accepted = metadata.Pairs(acceptedHeader, "1", deltaHeader, "1")

// slowest limits the arrival of one message in pieces.
const slowest = 2 * time.Minute

// stream is one node's stream at the controller.
type stream struct {
	server  *Server
	id      uint64
	node    string
	rpc     grpc.ServerStream
	out     *outbox
	in      joiner
	reports reportReceiver
	rate    *rate.Limiter

	accepted bool   // admitted; of the goroutine that reads
	answer   answer // ends the call, and the read under way
	once     sync.Once
	cause    error // why it ended; read after finish

	peer     pki.Peer
	until    atomic.Int64 // expiry of the node's newest certificate, Unix seconds
	reported atomic.Int64 // the last spread sent to the node, nanoseconds
	partial  atomic.Int64 // start of a message in pieces, Unix nanoseconds; 0: none
}

// answer is what gRPC's stream below a ServerStream can do: send the status, which ends a read under way too.
// grpc.ServerStream offers it only to the goroutine that returns from the handler. That one could not read then, and
// ten thousand second goroutines are 80 MB of stacks (ADR 0093).
type answer interface {
	WriteStatus(s *status.Status) error
}

// link serves one stream from its first message to its end, in the only goroutine of an idle stream besides gRPC's own.
func (s *Server) link(rpc grpc.ServerStream) error {
	answer, ok := grpc.ServerTransportStreamFromContext(rpc.Context()).(answer)
	if !ok {
		return status.Error(codes.Internal, "gRPC's stream cannot be ended while it is read")
	}
	who, err := identify(rpc.Context())
	if err != nil {
		s.no.note("connection without a node certificate refused", source(rpc.Context()), err)
		return status.Error(codes.Unauthenticated, err.Error())
	}
	id, err := s.enter()
	if err != nil {
		return err
	}
	defer s.leave()
	if err := s.tooMany(rpc, who.Node.String()); err != nil {
		s.no.note("node disconnected", source(rpc.Context()), err, zap.String("node", who.Node.String()))
		return err
	}
	st := &stream{
		server: s, id: id, node: who.Node.String(), rpc: rpc, peer: who, answer: answer,
		in:   joiner{limit: answerLimit, shared: s.shared},
		rate: rate.NewLimiter(rate.Limit(s.opts.PerSecond), int(s.opts.Burst)),
	}
	st.until.Store(who.NotAfter.Unix())
	st.out = newOutbox(s.opts.Now, func(m proto.Message) error { return sendDown(rpc, m.(*pb.Down)) })
	late := time.AfterFunc(s.opts.HelloTimeout, func() {
		st.finish(status.Errorf(codes.DeadlineExceeded, "no Hello within %v", s.opts.HelloTimeout))
	})
	st.serve(late)
	s.no.logStreamEnd(source(rpc.Context()), st, st.cause)
	return st.cause
}

// identify returns the node that the certificate of a call names.
func identify(ctx context.Context) (pki.Peer, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return pki.Peer{}, errors.New("identify node: no connection")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return pki.Peer{}, errors.New("identify node: no TLS")
	}
	return pki.PeerOf(info.State)
}

// address returns where a call comes from, without its port; "" if it is no IP address.
func address(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	from, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return ""
	}
	return from.Addr().Unmap().WithZone("").String()
}

// serve reads the Hello, admits the node and reads on until the stream ends. late ends a stream without a Hello.
func (st *stream) serve(late *time.Timer) {
	defer st.in.close()
	err := st.guarded(func() error { return st.begin(late) })
	late.Stop()
	if err == nil {
		err = st.guarded(st.receive)
	}
	st.finish(err)
	if st.accepted {
		st.server.opts.Handler.Disconnected(st, st.cause)
		st.server.release(st)
	}
	st.flush()
}

// guarded runs f; a panic becomes its error.
func (st *stream) guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			st.server.opts.Log.Error("node link panicked", zap.String("node", st.node), zap.Any("panic", r),
				zap.ByteString("stack", debug.Stack()))
			err = status.Error(codes.Internal, "the controller failed to handle a message")
		}
	}()
	return f()
}

// begin reads the node's Hello, which must name the node of the certificate, and admits the node.
func (st *stream) begin(late *time.Timer) error {
	m := &pb.Up{}
	if err := st.rpc.RecvMsg(m); err != nil {
		return closedOr(err)
	}
	late.Stop()
	if m.GetHello() == nil {
		return status.Error(codes.InvalidArgument, "the first message must be a Hello")
	}
	if err := checkSize(fmt.Sprintf("%T", m.GetKind()), proto.Size(m), upLimit(m)); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	st.rate.AllowN(st.server.opts.Now(), 1)
	hello, _ := fromWireUp(m).(nodeproto.Hello)
	if hello.Node != st.node {
		return status.Errorf(codes.PermissionDenied,
			"the certificate is of node %s, not of %.60q: a node can only act for itself", st.node, hello.Node)
	}
	hello.Address = address(st.rpc.Context())
	h := st.server.opts.Handler
	if err := h.Admit(st.rpc.Context(), hello); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	if err := st.server.register(st); err != nil {
		return err
	}
	if err := st.rpc.SendHeader(accepted); err != nil {
		st.server.release(st)
		return err
	}
	st.sendSpread(reconnectSpread(st.server.Streams()))
	st.accepted = true
	h.Connected(st, hello)
	return nil
}

// flush waits a moment for a write in progress.
func (st *stream) flush() {
	st.out.close(ErrClosed)
	if idle := st.out.flushed(); idle != nil {
		wait := time.NewTimer(time.Second)
		defer wait.Stop()
		select {
		case <-idle:
		case <-wait.C:
		}
	}
}

// finish ends the stream; the first cause counts. A write in progress may end before the read does.
func (st *stream) finish(cause error) {
	st.once.Do(func() {
		st.cause = cause
		go func() {
			st.flush()
			_ = st.answer.WriteStatus(status.Convert(cause)) // it has no other end by then
		}()
	})
}

// receive reads until the stream ends.
func (st *stream) receive() error {
	for {
		m := &pb.Up{}
		if err := st.rpc.RecvMsg(m); err != nil {
			return closedOr(err)
		}
		if err := st.handle(m); err != nil {
			return err
		}
	}
}

// closedOr returns the status of a read's error: it is no fault if the node closed the stream.
func closedOr(err error) error {
	if errors.Is(err, io.EOF) {
		return status.Error(codes.OK, "")
	}
	return err
}

// handle handles one wire message.
func (st *stream) handle(m *pb.Up) error {
	now := st.server.opts.Now()
	if wait := st.rate.ReserveN(now, 1).DelayFrom(now); wait > 0 {
		if err := st.sleep(wait); err != nil {
			return err
		}
	}
	if c := m.GetChunk(); c != nil {
		whole, err := st.addPiece(c)
		if err != nil || whole == nil {
			return err
		}
		m = &pb.Up{}
		if err := decode(whole, m); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
	} else if err := st.in.between(); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := checkSize(fmt.Sprintf("%T", m.GetKind()), proto.Size(m), upLimit(m)); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if r := m.GetSigningRequest(); r != nil {
		return st.renew(r)
	}
	if r := m.GetReport(); r != nil {
		if _, err := st.reports.completeReport(r); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
	}
	return st.deliver(fromWireUp(m))
}

func (st *stream) addPiece(c *pb.Chunk) ([]byte, error) {
	whole, err := st.in.add(c)
	switch {
	case errors.Is(err, errBusy):
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case !st.in.open:
		st.partial.Store(0)
	case st.partial.Load() == 0:
		st.partial.Store(st.server.opts.Now().UnixNano())
	}
	return whole, nil
}

// deliver passes a message on.
func (st *stream) deliver(m nodeproto.FromNode) error {
	if _, again := m.(nodeproto.Hello); again {
		return status.Error(codes.InvalidArgument, "second Hello: must be sent once")
	}
	if m != nil { // otherwise it is a kind of a newer version
		st.server.opts.Handler.Received(st, m)
	}
	return nil
}

// sleep throttles the reader, which in turn stops the node from sending.
func (st *stream) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-st.rpc.Context().Done():
		return status.FromContextError(st.rpc.Context().Err()).Err()
	}
}

// check returns why the stream must end, nil if it may continue.
func (st *stream) check() error {
	who, now := st.peer, st.server.opts.Now()
	who.NotAfter = time.Unix(st.until.Load(), 0)
	if err := st.server.opts.Authority.Admit(who); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	if d := st.out.blockedFor(now); d > st.server.opts.Stall {
		return status.Errorf(codes.DeadlineExceeded, "the node received nothing for %v", d.Round(time.Second))
	}
	if since := st.partial.Load(); since != 0 && now.UnixNano()-since > int64(slowest) {
		return status.Errorf(codes.DeadlineExceeded, "message not completed within %v", slowest)
	}
	return nil
}

// sendSpread sends the node a new reconnect spread if it differs from the last one.
func (st *stream) sendSpread(over time.Duration) {
	if !needsNewSpread(time.Duration(st.reported.Load()), over) {
		return
	}
	m := &pb.Down{Kind: &pb.Down_Spread{Spread: &pb.Spread{OverMs: over.Milliseconds()}}}
	if st.out.put(m, state) == nil { // else the queue is full: at the next look
		st.reported.Store(int64(over))
	}
}

// ID identifies the stream.
func (st *stream) ID() uint64 { return st.id }

// End ends the stream with a reason.
func (st *stream) End(why string) { st.finish(status.Error(codes.Aborted, validUTF8(why))) }

// Send queues a message.
func (st *stream) Send(m nodeproto.FromController) error {
	wire := toWireDown(m)
	if wire == nil {
		return fmt.Errorf("send to node %s: %T: not a message", st.node, m)
	}
	if err := checkSize(fmt.Sprintf("%T", m), proto.Size(wire), downLimit(wire)); err != nil {
		return fmt.Errorf("send to node %s: %w", st.node, err)
	}
	c := lasting
	switch m.(type) {
	case nodeproto.Push, nodeproto.Number:
		c = desired
	default:
	}
	if err := st.out.put(wire, c); err != nil {
		return fmt.Errorf("send to node %s: %w", st.node, err)
	}
	return nil
}

// sendDown writes one message, in pieces if it is large.
func sendDown(rpc grpc.ServerStream, m *pb.Down) error {
	if proto.Size(m) <= pieceSize {
		return rpc.SendMsg(m)
	}
	whole, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	for _, c := range split(whole) {
		if err := rpc.SendMsg(&pb.Down{Kind: &pb.Down_Chunk{Chunk: c}}); err != nil {
			return err
		}
	}
	return nil
}
