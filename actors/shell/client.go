package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"edgespan/pubsub/shellproto"
)

// Errors of a Session.
var (
	ErrUnreachable = errors.New("no daemon answers")
	ErrGone        = errors.New("the daemon went away")
)

// unread bounds the frames of one request that wait for their reader. What comes after them waits in the daemon, which
// drops the items of streams.
const unread = 16

// Session is a shell's connection to a daemon of this machine.
type Session struct {
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[remote.RemoteMessage, remote.RemoteMessage]
	cancel context.CancelFunc
	ended  chan struct{} // closed once nothing more arrives
	why    error         // of that

	sending sync.Mutex
	mu      sync.Mutex
	last    uint64
	open    map[uint64]*pending
}

// pending is a request that waits for frames.
type pending struct {
	frames chan shellproto.Frame
	done   chan struct{} // closed when they are no longer read
}

// Dial connects to the daemon that listens on a Unix socket. Its error wraps ErrUnreachable if none answers before ctx
// ends.
func Dial(ctx context.Context, path string) (*Session, error) {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	if c, err := dial(ctx, ""); err != nil { // gRPC would try it again and again, and say less
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	} else if err := c.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	conn, err := grpc.NewClient("passthrough:///shell", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(dial), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxFrame)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	conn.Connect()
	for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
		if s == connectivity.TransientFailure || !conn.WaitForStateChange(ctx, s) {
			_ = conn.Close()
			return nil, fmt.Errorf("%w: it accepts the connection and says nothing", ErrUnreachable)
		}
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stream, err := remote.NewRemotingClient(conn).Receive(own)
	if err != nil {
		cancel()
		_ = conn.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	s := &Session{conn: conn, stream: stream, cancel: cancel, ended: make(chan struct{}), open: map[uint64]*pending{}}
	go s.receive()
	return s, nil
}

// receive passes frames to their requests.
func (s *Session) receive() {
	defer close(s.ended)
	for {
		m, err := s.stream.Recv()
		if err != nil {
			s.why = ended(err)
			return
		}
		frames, err := unpack[shellproto.Frame](m, shellName)
		if err != nil {
			s.why = fmt.Errorf("%w: %w", ErrGone, err)
			s.cancel()
			return
		}
		for _, f := range frames {
			s.mu.Lock()
			p := s.open[f.ID]
			s.mu.Unlock()
			if p == nil {
				continue // given up
			}
			select {
			case p.frames <- f:
			case <-p.done:
			case <-s.stream.Context().Done():
			}
		}
	}
}

// ended returns why a stream has ended, in words.
func ended(err error) error {
	switch s, _ := status.FromError(err); {
	case errors.Is(err, io.EOF), s.Code() == codes.Unavailable, s.Code() == codes.Canceled:
		return ErrGone
	default:
		return errors.New(s.Message())
	}
}

// Do sends a request and calls each with the frames of its answer, until the last one. The session chooses the ID. If
// ctx ends, it cancels the request and returns the cause.
func (s *Session) Do(ctx context.Context, r shellproto.Request, each func(shellproto.Frame) error) error {
	p := &pending{frames: make(chan shellproto.Frame, unread), done: make(chan struct{})}
	id, err := s.begin(r, p)
	if err != nil {
		return err
	}
	defer func() {
		close(p.done)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, id)
	}()
	for {
		select {
		case f := <-p.frames:
			if err := each(f); err != nil || f.End {
				if !f.End {
					s.cancelRequest(id)
				}
				return err
			}
		case <-ctx.Done():
			s.cancelRequest(id)
			return context.Cause(ctx)
		case <-s.ended:
			select {
			case f := <-p.frames: // what arrived before
				if err := each(f); err != nil || f.End {
					return err
				}
				continue
			default:
			}
			return s.why
		}
	}
}

// begin sends a request under the next ID. IDs reach the daemon in order.
func (s *Session) begin(r shellproto.Request, p *pending) (uint64, error) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	s.last++
	r.ID, r.Version = s.last, shellproto.Version
	s.open[r.ID] = p
	s.mu.Unlock()
	err := s.send(r)
	if err != nil {
		s.mu.Lock()
		delete(s.open, r.ID)
		s.mu.Unlock()
	}
	return r.ID, err
}

func (s *Session) send(r shellproto.Request) error {
	m, size, err := pack(gatewayName, r)
	if err != nil {
		return err
	}
	if size > maxRequest-1024 {
		return shellproto.Failf(shellproto.ExitUsage, "the command has %d octets: at most %d are sent", size, maxRequest-1024)
	}
	if err := s.stream.Send(m); err != nil {
		select {
		case <-s.ended: // it knows why
			return s.why
		case <-time.After(time.Second):
			return ErrGone
		}
	}
	return nil
}

func (s *Session) cancelRequest(id uint64) {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = s.send(shellproto.Request{ID: id, Cancel: true}) // a daemon that is gone has ended it
}

// Close ends the session, and with it what is under way.
func (s *Session) Close() error {
	s.cancel()
	<-s.ended
	if err := s.conn.Close(); err != nil {
		return fmt.Errorf("close the session: %w", err)
	}
	return nil
}
