package fleetapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/config/events"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// Hardware lists the base configs that nodes proposed for unknown boards, and the accepted ones.
func (c *Client) Hardware(ctx context.Context) ([]Hardware, error) {
	return rest.Get[[]Hardware](ctx, c.Client, route("boards"), nil)
}

// HardwareConfig returns a node's proposal for a board; without a node the only proposal, or the accepted one.
func (c *Client) HardwareConfig(ctx context.Context, board, node string, reveal bool) (ops.DocumentAnswer, error) {
	v := ofNode(node)
	rest.SetFlag(v, "reveal", reveal)
	return c.document(ctx, route("boards", board), v)
}

// AcceptHardware makes the proposal with this digest the base of all nodes of the board.
func (c *Client) AcceptHardware(ctx context.Context, board, node, digest string) error {
	v := ofNode(node)
	rest.SetText(v, "digest", digest)
	return c.command(ctx, http.MethodPost, route("boards", board, "accept"), v)
}

// RejectHardware deletes the proposals for a board, or the one of a node.
func (c *Client) RejectHardware(ctx context.Context, board, node string) error {
	return c.command(ctx, http.MethodPost, route("boards", board, "reject"), ofNode(node))
}

// ForgetHardware deletes the accepted base config of a board.
func (c *Client) ForgetHardware(ctx context.Context, board string) error {
	return c.command(ctx, http.MethodDelete, route("boards", board), nil)
}

func ofNode(node string) url.Values {
	v := url.Values{}
	rest.SetText(v, "node", node)
	return v
}

// EventQuery selects events of nodes.
type EventQuery struct {
	Node   string    `json:"node,omitempty"`   // by name; "" for all
	Object string    `json:"object,omitempty"` // as in events.Event; "" for all
	Kind   string    `json:"kind,omitempty"`   // "" for all
	Since  time.Time `json:"since,omitzero"`   // that happened later
	Last   int       `json:"last"`             // the newest ones
	Why    bool      `json:"why,omitempty"`    // with the events that led to each
}

// Selects reports whether the query selects an event of a node. The object may be named by its display name.
func (q EventQuery) Selects(e events.Event) bool {
	kind, name, _ := strings.Cut(q.Object, "/")
	named := name != "" && e.Name == name && strings.HasPrefix(e.Object, kind+"/")
	return (e.Concerns(q.Object) || named) && (q.Kind == "" || q.Kind == e.Kind) &&
		(q.Since.IsZero() || e.At().After(q.Since))
}

// MaxEvents is how many events one answer has at most.
const MaxEvents = 1000

// NodeEvent is an event of a node.
type NodeEvent struct {
	Node string `json:"node"` // name
	events.Event
}

// Events answers an EventQuery.
type Events struct {
	Events []NodeEvent `json:"events"` // by time
	// Silent are the replicas that did not answer: events of their nodes are missing.
	Silent []string `json:"silent,omitempty"`
}

// EventSelection is what a query selects of the events of all nodes. It holds at most twice what the query asks for,
// however many events there are.
type EventSelection struct {
	query EventQuery
	list  []selectedEvent
	from  time.Time // older ones have no room
}

type selectedEvent struct {
	NodeEvent
	among []events.Event
}

// Select returns an empty selection of a query.
func (q EventQuery) Select() *EventSelection { return &EventSelection{query: q} }

// Add adds those events of a node that the query selects. The list must not be changed later.
func (s *EventSelection) Add(node string, list []events.Event) {
	for _, e := range list {
		if e.Time.Before(s.from) || !s.query.Selects(e) {
			continue
		}
		if s.list = append(s.list, selectedEvent{NodeEvent{node, e}, list}); len(s.list) >= 2*s.query.Last {
			s.shrink()
		}
	}
}

// shrink drops the oldest events that the query does not ask for.
func (s *EventSelection) shrink() {
	slices.SortFunc(s.list, func(a, b selectedEvent) int { return compareEvents(a.NodeEvent, b.NodeEvent) })
	if extra := len(s.list) - s.query.Last; extra >= 0 {
		s.list = slices.Delete(s.list, 0, extra)
		if len(s.list) > 0 {
			s.from = s.list[0].Time
		}
	}
}

// Newest returns the newest events, by time, with the events that led to each if the query asks for them.
func (s *EventSelection) Newest() []NodeEvent {
	s.shrink()
	out := make([]NodeEvent, 0, len(s.list))
	for _, e := range s.list {
		if s.query.Why {
			e.Chain = events.Chain(e.among, e.Event)
		}
		out = append(out, e.NodeEvent)
	}
	return out
}

// MergeEvents returns the newest events of those that several replicas have, by time. A node that has moved has events
// at two: of one event, the one that has changed last counts.
func MergeEvents(list []NodeEvent, last int) []NodeEvent {
	slices.SortStableFunc(list, func(a, b NodeEvent) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Seq, b.Seq), cmp.Compare(b.Rev, a.Rev))
	})
	list = slices.CompactFunc(list, func(a, b NodeEvent) bool { return a.Node == b.Node && a.Seq == b.Seq })
	slices.SortFunc(list, compareEvents)
	return list[max(0, len(list)-last):]
}

// compareEvents compares the times of events.
func compareEvents(a, b NodeEvent) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Seq, b.Seq))
}

// Events returns events of nodes.
func (c *Client) Events(ctx context.Context, q EventQuery) (Events, error) {
	v := ofNode(q.Node)
	rest.SetText(v, "object", q.Object)
	rest.SetText(v, "kind", q.Kind)
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if q.Last > 0 {
		v.Set("last", strconv.Itoa(q.Last))
	}
	rest.SetFlag(v, "why", q.Why)
	return rest.Get[Events](ctx, c.Client, route("events"), v)
}
