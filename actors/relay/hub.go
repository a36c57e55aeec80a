package relay

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"edgespan/config/fleet/nodeproto"
)

// Reasons why a Hub opens no relay.
var (
	ErrUnsupported = errors.New("not supported by the node's version")
	ErrBusy        = errors.New("too many are under way: try again later")
)

// maxRelays bounds the relays of one controller, and maxOfNode those to one node, one of each kind: each holds up to a
// window in memory, and uses a caller's connection.
const (
	maxRelays = 8
	maxOfNode = 4
)

// Hub is a controller's end of the relays to its nodes.
type Hub struct {
	mu      sync.Mutex
	last    uint64
	open    int
	streams map[uint64]*ofStream // by the stream's id
}

// ofStream are the relays of one stream of a node that can relay.
type ofStream struct {
	to    nodeproto.ToNode
	open  map[uint64]*Channel
	kinds map[string]int
}

// Connected starts a stream. Nodes that do not know relays have none.
func (h *Hub) Connected(s nodeproto.ToNode, hello nodeproto.Hello) {
	if !slices.Contains(hello.Capabilities, nodeproto.CanRelay) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams == nil {
		h.streams = map[uint64]*ofStream{}
	}
	h.streams[s.ID()] = &ofStream{to: s}
}

// Disconnected ends a stream and all of its relays.
func (h *Hub) Disconnected(s nodeproto.ToNode) {
	h.mu.Lock()
	of := h.streams[s.ID()]
	delete(h.streams, s.ID())
	var open []*Channel
	if of != nil {
		for _, c := range of.open {
			open = append(open, c)
		}
	}
	h.mu.Unlock()
	for _, c := range open {
		c.fail(errors.New("the node has disconnected"))
	}
}

// Received handles a message of a node. It never blocks. Messages for a relay that has ended are dropped.
func (h *Hub) Received(s nodeproto.ToNode, m nodeproto.Relay) {
	h.mu.Lock()
	var c *Channel
	if of := h.streams[s.ID()]; of != nil {
		c = of.open[m.ID]
	}
	h.mu.Unlock()
	if c != nil {
		c.received(m)
	}
}

// Open opens a relay to the node of a stream. The caller closes it.
func (h *Hub) Open(s nodeproto.ToNode, kind string, argument []byte) (*Channel, error) {
	c, err := h.enter(s, kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	if err := c.begin(nodeproto.Relay{Kind: kind, Data: argument}); err != nil {
		c.gone()
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return c, nil
}

// enter counts a new relay, or refuses it.
func (h *Hub) enter(s nodeproto.ToNode, kind string) (*Channel, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.streams[s.ID()]
	switch {
	case of == nil:
		return nil, ErrUnsupported
	case h.open >= maxRelays || len(of.open) >= maxOfNode || of.kinds[kind] >= nodeproto.RelaysOf(kind):
		return nil, ErrBusy
	}
	if of.open == nil {
		of.open, of.kinds = map[uint64]*Channel{}, map[string]int{}
	}
	h.last++
	h.open++
	id := h.last
	var once sync.Once
	c := newChannel(id, func(m nodeproto.Relay) error { return of.to.Send(m) }, func() {
		once.Do(func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.open--
			delete(of.open, id)
			of.kinds[kind]--
		})
	})
	of.open[id] = c
	of.kinds[kind]++
	return c, nil
}

// Count returns the number of open relays.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}
