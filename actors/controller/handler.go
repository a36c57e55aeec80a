package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/relay"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/relayflow"
	"edgespan/config/httpapi/fleetapi"
)

// Admit refuses a node that has not joined, or is forgotten or revoked. It waits for a node that joined at another
// replica a moment ago.
func (c *Controller) Admit(ctx context.Context, h nodeproto.Hello) error {
	s := c.d.dir.node(h.Node)
	if s == nil {
		if err := c.await(ctx, h.Node); err != nil {
			return err
		}
		s = c.d.dir.node(h.Node)
	}
	if s == nil || s.Process() == nil {
		return fmt.Errorf("admit node %s: not joined: run 'edgespan join' with a new token",
			h.Node)
	}
	if !s.HasJoined() {
		return fmt.Errorf("admit node %s: certificate revoked", h.Node)
	}
	return nil
}

// await waits until the fleet knows a node that is in the store.
func (c *Controller) await(ctx context.Context, id string) error {
	e, err := c.d.Reader(ctx).Get(history.NodeKey(id))
	if err != nil {
		return fmt.Errorf("admit node %s: %w", id, err)
	}
	if !e[0].Exists() {
		return fmt.Errorf("admit node %s: not joined: run 'edgespan join' with a new token", id)
	}
	_, err = c.d.Request(ctx, c.d.fleet, admit{id: id})
	return err
}

// Connected attaches a new stream to its node.
func (c *Controller) Connected(s nodeproto.ToNode, h nodeproto.Hello) {
	if handle := c.d.dir.node(h.Node); handle != nil {
		c.d.streams.Store(s.ID(), handle) // before the stream can end
		c.d.relays.Connected(s, h)
		handle.Attach(s)
		c.d.Send(handle.Process(), nodes.Connected{Stream: s, Hello: h})
		return
	}
	s.End("node removed from the fleet")
}

// Received passes a message of a node to its actor, and one of a relay to the caller that waits for it.
func (c *Controller) Received(s nodeproto.ToNode, m nodeproto.FromNode) {
	if r, ok := m.(nodeproto.Relay); ok {
		c.d.relays.Received(s, r)
		return
	}
	if handle := c.handleOf(s); handle != nil {
		c.d.Send(handle.Process(), nodes.Message{Stream: s, Message: m})
	}
}

// Disconnected detaches a stream that ended.
func (c *Controller) Disconnected(s nodeproto.ToNode, _ error) {
	c.d.relays.Disconnected(s)
	handle := c.handleOf(s)
	if handle == nil {
		return
	}
	c.d.streams.Delete(s.ID())
	handle.Detach(s)
	c.d.Send(handle.Process(), nodes.Disconnected{Stream: s})
}

func (c *Controller) handleOf(s nodeproto.ToNode) *nodes.Handle {
	if v, ok := c.d.streams.Load(s.ID()); ok {
		return v.(*nodes.Handle)
	}
	return nil
}

// Limits of what a node sends through a relay, as it comes: it could send without an end.
const (
	maxArchive     = 64 << 20 // bytes
	archiveTimeout = 4 * time.Minute
	archiveSilence = time.Minute // between two pieces
	maxShell       = 16 << 20    // bytes of one command's answer
	shellTimeout   = 10 * time.Minute
)

// Support asks a node for a support archive. Its error says why the node does not begin to send one.
func (c *Controller) Support(ctx context.Context, node string, q nodeproto.SupportRequest) (fleetapi.Archive, error) {
	in := &relayReader{what: "support", instead: "run 'edgespan support' on it", silence: archiveSilence,
		until: time.Now().Add(archiveTimeout), limit: maxArchive, left: maxArchive}
	if err := c.open(in, node, nodeproto.RelaySupport, q); err != nil {
		return fleetapi.Archive{}, err
	}
	var err error
	if in.first, err = in.begin(ctx); err != nil {
		in.channel.Close(err)
		return fleetapi.Archive{}, in.refusal(ctx, err)
	}
	return in.archive(), nil
}

// Shell asks a node one command of a debug shell.
func (c *Controller) Shell(_ context.Context, node string, q nodeproto.ShellRequest) (fleetapi.Archive, error) {
	in := &relayReader{what: "shell", instead: "run 'edgespan shell' on it", silence: shellTimeout,
		until: time.Now().Add(shellTimeout), limit: maxShell, left: maxShell, lines: true}
	if err := c.open(in, node, nodeproto.RelayShell, q); err != nil {
		return fleetapi.Archive{}, err
	}
	in.first = make([]byte, 0, relayflow.PieceSize)
	return in.archive(), nil
}

// open begins a relay with a connected node.
func (c *Controller) open(in *relayReader, node, kind string, q any) error {
	handle := c.d.dir.nodeByName(node)
	if handle == nil {
		return &ops.NotFoundError{What: fmt.Sprintf("node %q", node)}
	}
	stream, _ := handle.Connection()
	if _, replica, _ := handle.At(); stream == nil && replica != "" && replica != c.d.Replica {
		return fmt.Errorf("%s: %w: the node is connected to replica %s: ask that one", in.what, fleetapi.ErrRefused,
			replica)
	}
	if stream == nil {
		return fmt.Errorf("%s: %w: node offline: %s", in.what, fleetapi.ErrRefused, in.instead)
	}
	argument, err := json.Marshal(q)
	if err != nil {
		return err
	}
	in.channel, err = c.d.relays.Open(stream, kind, argument)
	switch {
	case errors.Is(err, relay.ErrUnsupported):
		return fmt.Errorf("%w: %w: %s", fleetapi.ErrRefused, err, in.instead)
	case err != nil:
		return fmt.Errorf("%w: %w", fleetapi.ErrBusy, err)
	}
	return nil
}

// relayReader reads what a node sends, within limits.
type relayReader struct {
	what, instead string // for errors: what is asked for, and where else to get it
	channel       *relay.Channel
	first         []byte // read to know whether the node sends anything
	until         time.Time
	silence       time.Duration // between two pieces
	limit, left   int           // bytes
	lines         bool          // an error comes as a last line
}

func (r *relayReader) archive() fleetapi.Archive {
	return fleetapi.Archive{Write: r.writeTo, Close: func() { r.channel.Close(errors.New("the caller has gone")) }}
}

// refusal returns why a node has not begun to send anything.
func (r *relayReader) refusal(ctx context.Context, err error) error {
	var remote *relay.RemoteError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w: the node sent nothing within %v", r.what, fleetapi.ErrRefused, r.silence)
	case errors.As(err, &remote):
		return fmt.Errorf("%s: %w: the node says: %w", r.what, fleetapi.ErrRefused, err)
	}
	return fmt.Errorf("%s: %w: %w", r.what, fleetapi.ErrRefused, err)
}

// begin waits for the first piece.
func (r *relayReader) begin(ctx context.Context) ([]byte, error) {
	p := make([]byte, relayflow.PieceSize)
	n, err := r.read(ctx, p)
	return p[:n], err
}

func (r *relayReader) read(ctx context.Context, p []byte) (int, error) {
	wait := min(r.silence, time.Until(r.until))
	if wait <= 0 { // also if something waits here: a caller can be slow without an end
		return 0, context.DeadlineExceeded
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return r.channel.Read(ctx, p)
}

// writeTo writes what comes, as it comes.
func (r *relayReader) writeTo(ctx context.Context, w io.Writer) error {
	p := r.first
	for {
		if r.left -= len(p); r.left < 0 {
			return fmt.Errorf("%s: the node sends more than %d bytes", r.what, r.limit)
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		p = r.first[:cap(r.first)]
		n, err := r.read(ctx, p)
		if p = p[:n]; errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && r.lines {
			return r.endLine(ctx, w, err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
	}
}

// endLine says in a last line why nothing more comes: the status was sent long ago.
func (r *relayReader) endLine(ctx context.Context, w io.Writer, why error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(why, context.DeadlineExceeded) {
		why = fmt.Errorf("a command takes at most %v through the controller", shellTimeout)
	}
	text, err := json.Marshal(map[string]any{"end": true, "exit": 1, "error": r.refusal(ctx, why).Error()})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%s\n", text)
	return err
}

// admit asks the fleet to answer once it knows a node and, if joining is set, that join.
type admit struct{ id, joining string }
