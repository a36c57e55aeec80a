package controller

import (
	"context"
	"fmt"

	"edgespan/actors/controller/nodes"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
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
		handle.Attach(s)
		c.d.Send(handle.Process(), nodes.Connected{Stream: s, Hello: h})
		return
	}
	s.End("node removed from the fleet")
}

// Received passes a message of a node to its actor.
func (c *Controller) Received(s nodeproto.ToNode, m nodeproto.FromNode) {
	if handle := c.handleOf(s); handle != nil {
		c.d.Send(handle.Process(), nodes.Message{Stream: s, Message: m})
	}
}

// Disconnected detaches a stream that ended.
func (c *Controller) Disconnected(s nodeproto.ToNode, _ error) {
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

// admit asks the fleet to answer once it knows a node and, if joining is set, that join.
type admit struct{ id, joining string }
