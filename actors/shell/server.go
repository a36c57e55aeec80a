package shell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"edgespan/actors/supervise"
	"edgespan/pubsub/shellproto"
)

// Bounds of a server.
const (
	maxShells      = 128
	sparedForAdmin = 16               // of these, so that others cannot keep an administrator out
	maxConnections = 2 * maxShells    // also those that never become shells
	maxUnhandled   = 2 * maxUnderWay  // requests of one shell that were read and not handled
	silence        = 10 * time.Second // after which a connection without a shell is closed
	bufferSize     = 4 << 10          // of a connection, each way
	pidBuckets     = 1
)

// Server serves shells.
type Server struct {
	Node shellproto.Node
	// Identify returns the user at the other end of a connection.
	Identify func(net.Conn) (shellproto.Who, error)
	Log      *zap.Logger

	remote.UnimplementedRemotingServer // refuses calls other than the one stream

	system   *actor.ActorSystem
	refusals *refusals
	mu       sync.Mutex
	shells   int
	last     uint64
}

// Serve serves shells on a listener until ctx ends, which is no error. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.system = supervise.System(s.Log, pidBuckets)
	s.refusals = newRefusals(s.Log)
	defer s.system.Shutdown()
	g := grpc.NewServer(grpc.Creds(kernel{identify: s.Identify}), grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxConcurrentStreams(1), grpc.ReadBufferSize(bufferSize), grpc.WriteBufferSize(bufferSize),
		grpc.SharedWriteBuffer(true), grpc.ConnectionTimeout(silence), grpc.MaxHeaderListSize(bufferSize),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: silence}))
	remote.RegisterRemotingServer(g, s)
	ended := make(chan error, 1)
	limited := &bounded{Listener: l, identify: s.Identify, others: make(chan struct{}, maxConnections-sparedForAdmin),
		admins: make(chan struct{}, sparedForAdmin)}
	go func() { ended <- g.Serve(limited) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		g.Stop()
		err = <-ended
	}
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve shells: %w", err)
	}
	return nil
}

// Count returns how many shells are attached.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shells
}

// enter counts a shell, and returns its number.
func (s *Server) enter(who shellproto.Who) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := maxShells
	if !who.Admin {
		limit -= sparedForAdmin
	}
	if s.shells >= limit {
		return 0, status.Errorf(codes.ResourceExhausted, "%d shells are attached: end one first", s.shells)
	}
	s.shells++
	s.last++
	return s.last, nil
}

// Receive serves one shell, until it goes or sends what none would.
func (s *Server) Receive(stream grpc.BidiStreamingServer[remote.RemoteMessage, remote.RemoteMessage]) error {
	p, _ := peer.FromContext(stream.Context())
	who, ok := p.AuthInfo.(identity)
	if !ok {
		return status.Error(codes.Unauthenticated, "unknown user")
	}
	number, err := s.enter(who.Who)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	g := &gateway{node: s.Node, who: who.Who, log: s.Log, out: newQueue(), refusals: s.refusals, ctx: ctx}
	pid, err := s.system.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return g }, supervise.Mailbox(),
		actor.WithReceiverMiddleware(supervise.Lifecycle(s.Log))), fmt.Sprintf("%s-%d", gatewayName, number))
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		cancel(send(ctx, g.out, stream))
	}()
	defer func() {
		cancel(nil)
		<-sending
		s.system.Root.Stop(pid)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shells--
	}()
	if err != nil {
		return status.Error(codes.Internal, "no gateway")
	}
	return s.receive(stream, pid)
}

// receive passes requests to the gateway. It reads no more of them than the gateway handles.
func (s *Server) receive(stream grpc.BidiStreamingServer[remote.RemoteMessage, remote.RemoteMessage],
	to *actor.PID) error {
	unhandled := make(chan struct{}, maxUnhandled)
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the shell has gone, which is how it ends
		}
		requests, err := unpack[shellproto.Request](m, gatewayName)
		if err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		for _, r := range requests {
			select {
			case unhandled <- struct{}{}:
			case <-stream.Context().Done():
				return nil
			}
			s.system.Root.Send(to, received{r, func() { <-unhandled }})
		}
	}
}

// send sends what waits for a shell, until the shell has gone.
func send(ctx context.Context, out *queue, stream grpc.BidiStreamingServer[remote.RemoteMessage, remote.RemoteMessage],
) error {
	for {
		m, sent, err := out.take(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(m); err != nil {
			return err
		}
		sent()
	}
}

// bounded is a listener with a bound on connections that are open. One more is closed at once. Administrators have
// places of their own.
type bounded struct {
	net.Listener
	identify       func(net.Conn) (shellproto.Who, error)
	others, admins chan struct{}
}

// place takes a place for a connection, nil if there is none.
func (b *bounded) place(c net.Conn) chan struct{} {
	places := []chan struct{}{b.others}
	if who, err := b.identify(c); err == nil && who.Admin {
		places = append(places, b.admins)
	}
	for _, free := range places {
		select {
		case free <- struct{}{}:
			return free
		default:
		}
	}
	return nil
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if free := b.place(c); free != nil {
			return &counted{Conn: c, gone: sync.OnceFunc(func() { <-free })}, nil
		}
		_ = c.Close()
	}
}

type counted struct {
	net.Conn
	gone func()
}

func (c *counted) Close() error {
	defer c.gone()
	return c.Conn.Close()
}

// identity is a user as gRPC carries it.
type identity struct {
	credentials.CommonAuthInfo
	shellproto.Who
}

func (identity) AuthType() string { return "unix" }

// kernel are credentials of the server's side: the user is known before gRPC reads an octet.
type kernel struct {
	identify func(net.Conn) (shellproto.Who, error)
}

var errServerOnly = errors.New("only a server has these credentials")

func (k kernel) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	under := c
	if counted, ok := c.(*counted); ok {
		under = counted.Conn
	}
	who, err := k.identify(under)
	if err != nil {
		return nil, nil, err
	}
	return c, identity{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, who}, nil
}

func (kernel) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errServerOnly
}
func (kernel) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}
func (k kernel) Clone() credentials.TransportCredentials { return k }
func (kernel) OverrideServerName(string) error           { return nil }
