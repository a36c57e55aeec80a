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

// Limits of a support archive that a node sends, as it comes: it could send without an end.
const (
	maxArchive     = 64 << 20 // bytes
	archiveTimeout = 4 * time.Minute
	archiveSilence = time.Minute // between two pieces
)

// Support asks a node for a support archive. Its error says why the node does not begin to send one.
func (c *Controller) Support(ctx context.Context, node string, q nodeproto.SupportRequest) (fleetapi.Archive, error) {
	handle := c.d.dir.nodeByName(node)
	if handle == nil {
		return fleetapi.Archive{}, &ops.NotFoundError{What: fmt.Sprintf("node %q", node)}
	}
	stream, _ := handle.Connection()
	if _, replica, _ := handle.At(); stream == nil && replica != "" && replica != c.d.Replica {
		return fleetapi.Archive{}, fmt.Errorf("support: %w: the node is connected to replica %s: ask that one",
			fleetapi.ErrRefused, replica)
	}
	if stream == nil {
		return fleetapi.Archive{}, fmt.Errorf("support: %w: node offline: run 'edgespan support' on it",
			fleetapi.ErrRefused)
	}
	argument, err := json.Marshal(q)
	if err != nil {
		return fleetapi.Archive{}, err
	}
	channel, err := c.d.relays.Open(stream, nodeproto.RelaySupport, argument)
	switch {
	case errors.Is(err, relay.ErrUnsupported):
		return fleetapi.Archive{}, fmt.Errorf("%w: %w: run 'edgespan support' on it", fleetapi.ErrRefused, err)
	case err != nil:
		return fleetapi.Archive{}, fmt.Errorf("%w: %w", fleetapi.ErrBusy, err)
	}
	in := &archiveReader{channel: channel, until: time.Now().Add(archiveTimeout), left: maxArchive}
	if in.first, err = in.begin(ctx); err != nil {
		channel.Close(err)
		return fleetapi.Archive{}, supportError(ctx, err)
	}
	return fleetapi.Archive{Write: in.writeTo, Close: func() { channel.Close(errors.New("the caller has gone")) }}, nil
}

// supportError returns why a node has not begun to send an archive.
func supportError(ctx context.Context, err error) error {
	var remote *relay.RemoteError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("support: %w: the node sent nothing within %v", fleetapi.ErrRefused, archiveSilence)
	case errors.As(err, &remote):
		return fmt.Errorf("support: %w: the node says: %w", fleetapi.ErrRefused, err)
	}
	return fmt.Errorf("support: %w: %w", fleetapi.ErrRefused, err)
}

// archiveReader reads an archive within the limits.
type archiveReader struct {
	channel *relay.Channel
	first   []byte // read to know whether the node sends one
	until   time.Time
	left    int
}

// begin waits for the first piece.
func (r *archiveReader) begin(ctx context.Context) ([]byte, error) {
	p := make([]byte, relayflow.PieceSize)
	n, err := r.read(ctx, p)
	return p[:n], err
}

func (r *archiveReader) read(ctx context.Context, p []byte) (int, error) {
	wait := min(archiveSilence, time.Until(r.until))
	if wait <= 0 { // also if something waits here: a caller can be slow without an end
		return 0, context.DeadlineExceeded
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return r.channel.Read(ctx, p)
}

// writeTo writes the archive as it comes.
func (r *archiveReader) writeTo(ctx context.Context, w io.Writer) error {
	p := r.first
	for {
		if r.left -= len(p); r.left < 0 {
			return fmt.Errorf("support: the node sends more than %d bytes", maxArchive)
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		p = r.first[:cap(r.first)]
		n, err := r.read(ctx, p)
		if p = p[:n]; errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("support: %w", err)
		}
	}
}

// admit asks the fleet to answer once it knows a node and, if joining is set, that join.
type admit struct{ id, joining string }
