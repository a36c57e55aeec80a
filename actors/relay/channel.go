package relay

import (
	"context"
	"errors"
	"io"
	"sync"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/relayflow"
)

// Reasons why a relay ends.
var (
	errClosed = errors.New("the relay is closed")
	errFlood  = errors.New("the other side sent more than it was allowed to")
)

// Channel is one end of a relay. Its methods may be called from any goroutine; Read and Write each from one at a time.
type Channel struct {
	id   uint64
	send func(nodeproto.Relay) error // never blocks
	gone func()                      // called once, when the channel has ended on this side

	mu      sync.Mutex
	in      [][]byte // received and not read
	recv    relayflow.Receiver
	out     relayflow.Sender
	end     error         // why nothing more arrives, io.EOF if the other side has sent everything; nil: it goes on
	closed  bool          // on this side
	changed chan struct{} // closed and replaced at each change
}

func newChannel(id uint64, send func(nodeproto.Relay) error, gone func()) *Channel {
	return &Channel{id: id, send: send, gone: gone, changed: make(chan struct{})}
}

// change wakes Read and Write. The lock is held.
func (c *Channel) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// begin sends the first message of this side, with its first credit.
func (c *Channel) begin(m nodeproto.Relay) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.ID, m.Credit = c.id, c.recv.Begin()
	return c.send(m)
}

// received handles a message of the other side.
func (c *Channel) received(m nodeproto.Relay) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil || c.closed {
		return
	}
	c.out.Credited(m.Credit)
	switch {
	case len(m.Data) == 0:
	case c.recv.Received(len(m.Data)):
		c.in = append(c.in, m.Data)
	default:
		c.end, c.in = errFlood, nil
	}
	if m.End && c.end == nil {
		if c.end = io.EOF; m.Error != "" {
			c.end = &RemoteError{config.Truncate(m.Error, nodeproto.MaxText)}
		}
	}
	c.change()
}

// RemoteError is why the other side ended a relay.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return e.Text }

// fail ends the channel because its stream has ended.
func (c *Channel) fail(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		c.end = why
	}
	c.change()
}

// Read reads what has arrived. It waits until something does, the other side ends the relay (io.EOF if it has sent
// everything), or ctx ends.
func (c *Channel) Read(ctx context.Context, p []byte) (int, error) {
	for {
		n, credit, wait, err := c.take(p)
		if credit > 0 && err == nil {
			err = c.send(nodeproto.Relay{ID: c.id, Credit: credit})
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// take takes received bytes, or returns what to wait for.
func (c *Channel) take(p []byte) (n int, credit uint64, wait <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.in) > 0 && len(p) > 0 {
		n = copy(p, c.in[0])
		if c.in[0] = c.in[0][n:]; len(c.in[0]) > 0 {
			return n, 0, nil, nil
		}
		c.in[0], c.in = nil, c.in[1:]
		if credit = c.recv.Taken(); c.end != nil {
			credit = 0 // nothing follows
		}
		return n, credit, nil, nil
	}
	if err = c.end; err == nil && c.closed {
		err = errClosed
	}
	return 0, 0, c.changed, err
}

// Write sends p as the other side credits it, and returns once everything is on its way, the relay has ended, or ctx
// ends.
func (c *Channel) Write(ctx context.Context, p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, wait, err := c.sendPiece(p[done:])
		if done += n; err != nil {
			return done, err
		}
		if n > 0 {
			continue
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return done, ctx.Err()
		}
	}
	return done, nil
}

// sendPiece sends one piece, or returns what to wait for.
func (c *Channel) sendPiece(p []byte) (n int, wait <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, nil, errClosed
	case errors.Is(c.end, io.EOF):
		return 0, nil, io.ErrClosedPipe
	case c.end != nil:
		return 0, nil, c.end
	}
	if n = c.out.Take(len(p)); n == 0 {
		return 0, c.changed, nil
	}
	// The queue of the stream keeps what it is given, and the caller may use p again.
	return n, nil, c.send(nodeproto.Relay{ID: c.id, Data: append([]byte(nil), p[:n]...)})
}

// Close ends the relay on both sides. why is for the other side, nil if everything was sent. Further calls do nothing.
func (c *Channel) Close(why error) {
	c.mu.Lock()
	first, over := !c.closed, c.end != nil && !errors.Is(c.end, errFlood) // the other side knows that it is over
	c.closed = true
	c.change()
	c.mu.Unlock()
	if !first {
		return
	}
	if !over {
		m := nodeproto.Relay{ID: c.id, End: true}
		if why != nil {
			m.Error = config.Truncate(why.Error(), nodeproto.MaxText)
		}
		_ = c.send(m) // if the stream is gone, so is the other side
	}
	c.gone()
}

// Stream returns the channel as a reader and writer that end with ctx.
func (c *Channel) Stream(ctx context.Context) io.ReadWriter { return stream{ctx, c} }

type stream struct {
	ctx context.Context //nolint:containedctx // the interfaces of io have none
	c   *Channel
}

func (s stream) Read(p []byte) (int, error)  { return s.c.Read(s.ctx, p) }
func (s stream) Write(p []byte) (int, error) { return s.c.Write(s.ctx, p) }
