package nodelink

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"edgespan/config/fleet/nodeproto"
	"edgespan/platform/conns"
	"edgespan/platform/pki"
	"edgespan/pubsub/ratelimit"
)

// Handler receives the messages of nodes. Each stream calls it from one goroutine, so a blocking call delays only that
// node's messages. After a takeover, the end of the older stream may be reported after the start of the newer one:
// compare their IDs.
type Handler interface {
	// Join spends a token and binds a node to its name, or refuses. Once it has returned, this replica admits a
	// certificate of this join.
	Join(ctx context.Context, j nodeproto.Join) (nodeproto.Joined, error)
	// Admit refuses a node that must not connect. Hello.Node is the certificate's.
	Admit(ctx context.Context, h nodeproto.Hello) error
	Connected(s nodeproto.ToNode, h nodeproto.Hello)
	Received(s nodeproto.ToNode, m nodeproto.FromNode)
	Disconnected(s nodeproto.ToNode, cause error)
}

// Keepalive sets when a silent connection is pinged, and how long it may take to answer.
type Keepalive struct{ Time, Timeout time.Duration }

// ServerOptions are a server's settings; the comments give the values that replace zero.
type ServerOptions struct {
	Authority *pki.Authority
	Handler   Handler
	Log       *zap.Logger      // none
	Now       func() time.Time // the clock
	Keepalive Keepalive        // 30 s, 10 s
	MaxNodes  int              // 20,000 streams
	PerSecond float64          // 20 messages of one node a second pass at full speed …
	Burst     float64          // … after 200 at once
	// 1 join a second from one address, after 20 at once; 100 times as many from all addresses together
	Joins float64
	// KnowsToken reports whether a join token has that hash, without reading the store: joins with a known token have a
	// share of their own. nil: no token is known.
	KnowsToken   func(hash string) bool
	Unfinished   int64         // 256 MiB of unfinished messages of all nodes
	HelloTimeout time.Duration // 10 s until a stream's first message
	UnknownNodes int           // 4096 connections without a certificate, in addition to the nodes' …
	PerAddress   int           // … 1024 of them from one address, times Joins
	// 1 per CPU: handshakes computed at once; the others wait for half of HelloTimeout at most
	Handshakes int
	Refusal    time.Duration // 1 s delay before refusing a stream of a node that opens too many
	Stall      time.Duration // 30 s for writing one message
	Sweep      time.Duration // 10 s between two checks of all streams
}

func (o *ServerOptions) defaults() {
	setDefault(&o.Log, zap.NewNop())
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.KnowsToken == nil {
		o.KnowsToken = func(string) bool { return false }
	}
	setDefault(&o.Keepalive.Time, 30*time.Second)
	setDefault(&o.Keepalive.Timeout, 10*time.Second)
	setDefault(&o.MaxNodes, 20000)
	setDefault(&o.PerSecond, 20)
	setDefault(&o.Burst, 200)
	setDefault(&o.Joins, 1)
	setDefault(&o.UnknownNodes, 4096)
	setDefault(&o.PerAddress, 1024*max(1, int(min(o.Joins, 1000))))
	setDefault(&o.Unfinished, 256<<20)
	setDefault(&o.HelloTimeout, 10*time.Second)
	setDefault(&o.Handshakes, runtime.GOMAXPROCS(0))
	setDefault(&o.Refusal, time.Second)
	setDefault(&o.Stall, 30*time.Second)
	setDefault(&o.Sweep, 10*time.Second)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Server is the controller's end of the link.
type Server struct {
	opts    ServerOptions
	grpc    *grpc.Server
	shared  *budget
	gate    *joinLimiter
	no      *refusals
	accepts handshakes
	streams *ratelimit.Buckets // rate at which each node opens streams
	stop    chan struct{}      // ends the sweep
	swept   chan struct{}

	mu       sync.Mutex
	lastID   uint64
	open     int // streams, including those without a Hello
	nodes    map[string]*stream
	draining bool
	started  bool
}

// readBuffer: TLS has a buffer of its own for each record, so a second one for frames only costs memory (gRPC's own is
// 32 KiB per connection; its write buffers come from a pool).
const readBuffer = 0

// Octets on their way that the receiver has not asked for yet, by direction. They are fixed: gRPC's dynamic windows
// send a ping with each message, which is answered, and grow to 16 MiB. With a round trip of 300 ms, an answer of 8 MiB
// takes 20 s, a push of 16 MiB 5 s.
const (
	upWindow   = 128 << 10 // a node may make the controller hold as much
	downWindow = 1 << 20
)

// spareConnections are allowed beyond MaxNodes: for joining nodes, and for nodes that reconnect before their dead
// connection was detected.
const spareConnections = 1000

// NewServer returns a server; Serve starts it.
func NewServer(opts ServerOptions) *Server {
	opts.defaults()
	s := &Server{
		opts: opts, shared: newBudget(opts.Unfinished), gate: newJoinLimiter(opts.Joins), no: newRefusals(opts.Log, opts.Now),
		streams: ratelimit.NewBuckets(streamsPace, streamsAtOnce).SetMaxNames(opts.MaxNodes + spareConnections),
		stop:    make(chan struct{}), swept: make(chan struct{}), nodes: map[string]*stream{},
	}
	s.accepts = handshakes{credentials.NewTLS(opts.Authority.ServerTLSInTurn(acquireTurn)), s.no,
		make(turns, opts.Handshakes), opts.HelloTimeout / 2, &nodeConns{by: map[string][]*turnConn{}}}
	s.grpc = grpc.NewServer(
		grpc.Creds(s.accepts),
		grpc.MaxRecvMsgSize(wireLimit), grpc.MaxSendMsgSize(wireLimit), grpc.MaxHeaderListSize(8<<10),
		grpc.MaxConcurrentStreams(2), grpc.ConnectionTimeout(opts.HelloTimeout),
		grpc.ReadBufferSize(readBuffer), grpc.InTapHandle(refuseJoin),
		grpc.StaticStreamWindowSize(upWindow), grpc.StaticConnWindowSize(upWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: opts.Keepalive.Time, Timeout: opts.Keepalive.Timeout, MaxConnectionIdle: time.Minute,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
	)
	s.grpc.RegisterService(&service, s)
	return s
}

// Serve accepts connections until Drain. It is called once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.draining || s.started {
		s.mu.Unlock()
		return errors.Join(errors.New("serve node link: already started or ended"), l.Close())
	}
	s.started = true
	s.mu.Unlock()
	go s.sweep()
	err := s.grpc.Serve(conns.Limit(l, conns.Bounds{
		UnknownNodes: s.opts.UnknownNodes, PerAddress: s.opts.PerAddress, Crowded: s.opts.PerAddress / 64,
		Known: s.opts.MaxNodes + spareConnections, Timeout: 2 * s.opts.HelloTimeout, Grace: s.opts.HelloTimeout,
		Returning: s.opts.UnknownNodes / 4,
	}))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Drain ends the server: it accepts no new streams, tells open ones to reconnect later (to another replica, spread as
// after any other end), and finishes current writes until ctx is done.
func (s *Server) Drain(ctx context.Context) {
	s.mu.Lock()
	first := !s.draining
	s.draining = true
	standing := make([]*stream, 0, len(s.nodes))
	for _, st := range s.nodes {
		standing = append(standing, st)
	}
	started := s.started
	s.mu.Unlock()
	for _, st := range standing {
		st.finish(status.Error(codes.Unavailable, "the controller is shutting down"))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
	if first {
		close(s.stop)
	}
	if started {
		<-s.swept
	}
}

// Streams returns the number of connected nodes.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.nodes)
}

// sweep checks all streams periodically: one goroutine instead of timers per stream. It ends streams with an expired or
// revoked certificate, and streams with a message that is not read or not finished. It also keeps the reconnect spread
// up to date.
func (s *Server) sweep() {
	defer close(s.swept)
	tick := time.NewTicker(s.opts.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		standing := make([]*stream, 0, len(s.nodes))
		for _, st := range s.nodes {
			standing = append(standing, st)
		}
		s.mu.Unlock()
		for _, st := range standing {
			if err := st.check(); err != nil {
				st.finish(err)
				continue
			}
			st.sendSpread(reconnectSpread(len(standing)))
		}
	}
}

// enter counts a new stream, or refuses it.
func (s *Server) enter() (id uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return 0, status.Error(codes.Unavailable, "the controller is shutting down")
	}
	if s.open >= s.opts.MaxNodes+spareConnections || len(s.nodes) >= s.opts.MaxNodes {
		return 0, status.Errorf(codes.ResourceExhausted, "%d streams are open: limit reached", s.open)
	}
	s.open++
	s.lastID++
	return s.lastID, nil
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// register makes a stream its node's only one: the newest wins.
func (s *Server) register(st *stream) error {
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		return status.Error(codes.Unavailable, "the controller is shutting down")
	}
	older := s.nodes[st.node]
	s.nodes[st.node] = st
	s.mu.Unlock()
	if older != nil {
		older.finish(status.Error(codes.Aborted, "a newer stream of this node took over"))
	}
	return nil
}

func (s *Server) release(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[st.node] == st {
		delete(s.nodes, st.node)
	}
}
