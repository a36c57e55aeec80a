package nodelink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
	"edgespan/platform/pki"
)

const (
	dialTimeout  = 10 * time.Second
	beginTimeout = 20 * time.Second // from the first octet to admission, or to the answer to a join
	renewRetry   = 10 * time.Minute // after a failed renewal
)

// Listener receives the controller's messages. Up and Down alternate; while Received blocks, later messages wait.
type Listener interface {
	Up(s nodeproto.ToController)
	Received(m nodeproto.FromController)
	Down(cause error)
}

// ClientOptions are a client's settings; the comments give the values that replace zero.
type ClientOptions struct {
	Controller  string // HOST:PORT, or several joined by commas, tried in turn
	Credentials *pki.Credentials
	Hello       func() nodeproto.Hello // called at the start of each stream; Node is filled in
	Listener    Listener
	// Dialing is called with each address before it is dialed, from any goroutine; nil for nothing.
	Dialing   func(netip.Addr)
	Log       *zap.Logger      // none
	Now       func() time.Time // the clock
	Random    func() float64   // 0 to 1; math/rand
	Keepalive Keepalive        // 30 s, 10 s; gRPC raises a time below 10 s to 10 s
}

func (o *ClientOptions) defaults() {
	setDefault(&o.Log, zap.NewNop())
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	setDefault(&o.Keepalive.Time, 30*time.Second)
	setDefault(&o.Keepalive.Timeout, 10*time.Second)
}

// Client is the node's end of the link.
type Client struct{ opts ClientOptions }

// NewClient returns a client; Run starts it.
func NewClient(opts ClientOptions) *Client {
	opts.defaults()
	return &Client{opts: opts}
}

// Run keeps a stream to the controller open, and reconnects after a back-off whenever it ends, until ctx is done. After
// an established stream, the node waits a random part of its controller's spread, and the whole spread before each
// further attempt. With several controllers, each attempt uses the next one. The wait grows over all of them, so that a
// fleet that lost every controller doesn't retry more often the more controllers there are. Run returns an error only
// for invalid options.
func (c *Client) Run(ctx context.Context) error {
	all, err := Addresses(c.opts.Controller)
	if err != nil {
		return fmt.Errorf("run node link: %w", err)
	}
	c.keepStream(ctx, all, func(ctx context.Context, address string) (streamEnd, error) {
		last, err := c.session(ctx, address)
		return last, c.explainExpiry(last.up, err)
	})
	return nil
}

// keepStream opens one stream after the other, to each controller in turn, until ctx is done.
func (c *Client) keepStream(ctx context.Context, all []string,
	stream func(ctx context.Context, address string) (streamEnd, error)) {
	var b reconnect
	said := map[string]string{}
	for i := 0; ; i = (i + 1) % len(all) {
		last, err := stream(ctx, all[i])
		if ctx.Err() != nil {
			return
		}
		var refused *Refused
		wait := b.next(last, errors.As(err, &refused) || errors.Is(err, ErrRejoin), c.opts.Random())
		if later := (*laterError)(nil); errors.As(err, &later) {
			wait = max(wait, later.after)
		}
		if text := err.Error(); text != said[all[i]] || last.up > 0 { // log a repeated error once
			said[all[i]] = text
			say := c.opts.Log.Info
			if errors.Is(err, ErrRejoin) || errors.Is(err, errOtherCA) {
				say = c.opts.Log.Error // only a person can end it
			}
			say("node link is down", zap.String("controller", all[i]), zap.Error(err), zap.Duration("retry", wait))
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// ErrRejoin reports that no stream is possible until the node joins again: it was off for longer than its certificate's
// life, and only a stream renews the certificate.
var ErrRejoin = errors.New("needs re-join")

// errOtherCA reports that the server's certificate has a CA that the node does not know. Another program may have
// answered, so the node retries as after any other fault.
var errOtherCA = errors.New("the controller's certificate is signed by an unknown CA")

// explainExpiry explains a failed stream by an expired node certificate, or by a rotation of the controller's CA
// while the node was away. The node still retries occasionally: its clock may be wrong.
func (c *Client) explainExpiry(up time.Duration, err error) error {
	p, none := c.opts.Credentials.Peer()
	switch {
	case err == nil || up > 0 || none != nil:
		return err
	case c.opts.Now().Before(p.NotAfter) && pki.IsUnknownCA(err):
		return fmt.Errorf("%w: if its CA was rotated while the node was offline, run 'edgespan nodes replace NAME' at the "+
			"controller and the printed 'edgespan join' on the node: %w", errOtherCA, err)
	case c.opts.Now().Before(p.NotAfter):
		return err
	}
	return fmt.Errorf("%w: the node's certificate expired at %s by its clock: correct the clock, or run 'edgespan nodes "+
		"replace NAME' at the controller and the printed 'edgespan join' on the node: %w",
		ErrRejoin, p.NotAfter.UTC().Format(time.RFC3339), err)
}

// session runs one stream and returns how long it lasted and why it ended.
func (c *Client) session(ctx context.Context, address string) (streamEnd, error) {
	host, err := hostOf(address)
	if err != nil {
		return streamEnd{}, err
	}
	settings, err := c.opts.Credentials.TLS(host)
	if err != nil {
		return streamEnd{}, err
	}
	conn, err := connect(address, credentials.NewTLS(settings), c.opts.Keepalive, c.opts.Dialing)
	if err != nil {
		return streamEnd{}, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rpc, err := c.begin(ctx, cancel, conn)
	if err != nil {
		return streamEnd{}, err
	}
	s := &session{
		client: c, rpc: rpc, renew: make(chan struct{}, 1), ended: make(chan struct{}),
		in: joiner{limit: pushLimit, shared: newBudget(pushLimit)},
	}
	if header, err := rpc.Header(); err == nil {
		s.reports.on = len(header.Get(deltaHeader)) > 0
	}
	s.out = newOutbox(c.opts.Now, func(m proto.Message) error { return sendUp(rpc, m.(*pb.Up)) })
	begun := c.opts.Now()
	c.opts.Log.Info("node link is up", zap.String("controller", address))
	c.opts.Listener.Up(s)
	go s.receive()
	s.wait(ctx)
	s.out.close(ErrClosed)
	cancel()
	<-s.ended
	c.opts.Listener.Down(s.cause)
	if idle := s.out.flushed(); idle != nil {
		<-idle // the context is done: a write ends at once
	}
	return streamEnd{max(c.opts.Now().Sub(begun), 1), s.spread}, s.cause
}

// begin opens the stream, sends Hello and waits until the controller admits the node.
func (c *Client) begin(ctx context.Context, cancel func(), conn *grpc.ClientConn) (grpc.ClientStream, error) {
	late := time.AfterFunc(beginTimeout, cancel)
	defer late.Stop()
	rpc, err := conn.NewStream(ctx, &linkStream, linkMethod)
	if err != nil {
		return nil, convertError(err)
	}
	hello := c.opts.Hello()
	hello.Node = c.opts.Credentials.Node().String()
	// SendMsg's error only says that the stream ended; RecvMsg returns the reason.
	if err := rpc.SendMsg(toWireUp(hello)); err == nil {
		if header, err := rpc.Header(); err == nil && len(header.Get(acceptedHeader)) > 0 {
			if late.Stop() {
				return rpc, nil
			}
			return nil, errors.New("timed out waiting for the controller to accept the stream")
		}
	}
	err = rpc.RecvMsg(&pb.Down{})
	if err == nil {
		err = errors.New("the controller sent a message before it accepted the stream")
	}
	return nil, withRetryTime(convertError(err), rpc.Trailer())
}

// session is one stream at the node.
type session struct {
	client  *Client
	rpc     grpc.ClientStream
	out     *outbox
	in      joiner
	renew   chan struct{}
	reports reportSender

	once  sync.Once
	ended chan struct{}
	cause error // read after ended is closed

	spread time.Duration // the controller's; read after ended is closed
}

// wait renews the certificate when it is due, until the stream ends.
func (s *session) wait(ctx context.Context) {
	o := s.client.opts
	spread := o.Random()
	due := func() time.Duration { return max(0, o.Credentials.RenewAt(spread).Sub(o.Now())) }
	// A clock adjustment during the stream does not wake a timer set before it.
	t := time.NewTimer(min(due(), renewalCheckEvery))
	defer t.Stop()
	for {
		reported := false
		select {
		case <-ctx.Done():
			return
		case <-s.ended:
			return
		case <-t.C:
		case <-s.renew:
			reported = true
		}
		if reported || due() == 0 { // otherwise the answer has moved it
			s.requestRenewal()
		}
		t.Reset(min(s.retry(due()), renewalCheckEvery))
	}
}

// renewalCheckEvery is how often the certificate's due time is checked.
const renewalCheckEvery = time.Hour

// retry returns when to check again after sending a request: an answer moves the due time; without one, the request is
// repeated after a while, or before the certificate expires.
func (s *session) retry(due time.Duration) time.Duration {
	if due > 0 {
		return due
	}
	p, err := s.client.opts.Credentials.Peer()
	if err != nil {
		return renewRetry
	}
	left := p.NotAfter.Sub(s.client.opts.Now())
	return max(time.Second, min(renewRetry, left/10))
}

func (s *session) requestRenewal() {
	csr, err := s.client.opts.Credentials.RenewalRequest()
	if err == nil {
		err = s.out.put(&pb.Up{Kind: &pb.Up_SigningRequest{SigningRequest: &pb.SigningRequest{Csr: csr}}}, lasting)
	}
	if err != nil {
		s.client.opts.Log.Warn("certificate not renewed", zap.Error(err))
	}
}

// receive reads until the stream ends.
func (s *session) receive() {
	for {
		m := &pb.Down{}
		err := s.rpc.RecvMsg(m)
		if err == nil {
			err = s.handle(m)
		}
		if err != nil {
			s.once.Do(func() {
				s.cause = convertError(err)
				s.in.close()
				close(s.ended)
			})
			return
		}
	}
}

func (s *session) handle(m *pb.Down) error {
	if c := m.GetChunk(); c != nil {
		whole, err := s.in.add(c)
		if err != nil || whole == nil {
			return err
		}
		m = &pb.Down{}
		if err := decode(whole, m); err != nil {
			return err
		}
	} else if err := s.in.between(); err != nil {
		return err
	}
	if err := checkSize(fmt.Sprintf("%T", m.GetKind()), proto.Size(m), downLimit(m)); err != nil {
		return err
	}
	if c := m.GetCertificate(); c != nil {
		s.install(c)
		return nil
	}
	if spread := m.GetSpread(); spread != nil {
		s.spread = millis(spread.GetOverMs())
		s.reports.repeatAfter(clampSpread(s.spread))
		return nil
	}
	word := fromWireDown(m)
	if _, now := word.(nodeproto.Renew); now {
		select {
		case s.renew <- struct{}{}:
		default: // a wake-up is already pending
		}
		return nil
	}
	if word != nil { // otherwise it is a kind of a newer version
		s.reports.forgetAfter(word)
		s.client.opts.Listener.Received(word)
	}
	return nil
}

func (s *session) install(c *pb.Certificate) {
	var err error
	if c.GetRefused() != "" {
		err = &Refused{c.GetRefused()}
	} else {
		err = s.client.opts.Credentials.Install(c.GetChain(), c.GetRoots())
	}
	if err != nil {
		s.client.opts.Log.Warn("certificate not renewed", zap.Error(err))
	}
}

// Send queues a message.
func (s *session) Send(m nodeproto.FromNode) error {
	if _, hello := m.(nodeproto.Hello); hello {
		return errors.New("send to controller: Hello begins a stream and is not sent again")
	}
	if r, ok := m.(nodeproto.Report); ok {
		return s.reports.put(s.client.opts.Now(), r, s.put)
	}
	wire := toWireUp(m)
	if wire == nil {
		return fmt.Errorf("send to controller: %T: not a message", m)
	}
	return s.put(wire, lasting)
}

func (s *session) put(wire *pb.Up, c class) error {
	if err := checkSize(fmt.Sprintf("%T", wire.GetKind()), proto.Size(wire), upLimit(wire)); err != nil {
		return fmt.Errorf("send to controller: %w", err)
	}
	if err := s.out.put(wire, c); err != nil {
		return fmt.Errorf("send to controller: %w", err)
	}
	return nil
}

// sendUp writes one message, in pieces if it is large.
func sendUp(rpc grpc.ClientStream, m *pb.Up) error {
	if proto.Size(m) <= pieceSize {
		return rpc.SendMsg(m)
	}
	whole, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	for _, c := range split(whole) {
		if err := rpc.SendMsg(&pb.Up{Kind: &pb.Up_Chunk{Chunk: c}}); err != nil {
			return err
		}
	}
	return nil
}
