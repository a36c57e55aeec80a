package fleetapi

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"edgespan/config/fleet/bisect"
	"edgespan/config/httpapi/rest"
)

// Bisects are searches for the revision with which nodes' health went bad.
type Bisects interface {
	// StartBisect begins a search, which tests configs on one node. ErrRefused says that the node tests for another one.
	StartBisect(ctx context.Context, c Caller, r bisect.Request) (Bisect, error)
	// Bisects returns the last search of each node that tested, the newest first.
	Bisects(ctx context.Context) ([]Bisect, error)
	// AbortBisect ends the search of a node; the node goes back to what it should have.
	AbortBisect(ctx context.Context, c Caller, node string) error
}

// Bisect is one search.
type Bisect struct {
	Node       string       `json:"node"` // the canary
	Nodes      []string     `json:"nodes"`
	Good       uint64       `json:"good"`
	Bad        uint64       `json:"bad"`
	Health     string       `json:"health"`
	By         string       `json:"by"`
	Began      time.Time    `json:"began"`
	Ended      *time.Time   `json:"ended,omitempty"`
	State      string       `json:"state"` // testing, undoing, or the result: found, inconclusive, failed, aborted
	Why        string       `json:"why,omitempty"`
	Candidates int          `json:"candidates"` // revisions that change the canary's config
	Pushes     int          `json:"pushes"`
	MaxPushes  int          `json:"maxPushes"`
	Testing    uint64       `json:"testing,omitempty"` // the revision whose config the canary tests
	Steps      []BisectStep `json:"steps"`
	First      uint64       `json:"first,omitempty"`    // the first bad revision
	LastGood   uint64       `json:"lastGood,omitempty"` // the last good one that changed the canary
	Suspects   []uint64     `json:"suspects"`           // of an inconclusive search, which may be the first bad one
	Canary     string       `json:"canary,omitempty"`   // what the canary has at the end
}

// BisectStep is the verdict on one revision.
type BisectStep struct {
	At       time.Time `json:"at"`
	Revision uint64    `json:"revision"`
	Author   string    `json:"author"`
	Time     time.Time `json:"time"`
	Message  string    `json:"message,omitempty"`
	Keys     []string  `json:"keys"`           // that it changes on the canary, the first few
	More     int       `json:"more,omitempty"` // others
	Others   []string  `json:"others"`         // other nodes of the search that it changes
	Verdict  string    `json:"verdict"`        // good, bad, can't say
	By       string    `json:"by"`             // push, report, simulation, history, same config
	Why      string    `json:"why"`
}

// NewBisect returns the view of a search.
func NewBisect(r *bisect.Record) Bisect {
	b := Bisect{Node: r.Node, Nodes: r.Nodes, Good: r.Good, Bad: r.Bad, Health: r.Check, By: r.By, Began: r.Began,
		State: r.Phase, Why: r.Why, Candidates: len(r.Candidates) - 1, Pushes: r.Pushes, MaxPushes: r.MaxPushes(),
		Canary: r.Has, Steps: []BisectStep{}, Suspects: []uint64{}}
	if r.Phase == bisect.Ended {
		ended := r.Ended
		b.Ended, b.State = &ended, r.Result
	}
	if c, ok := r.Pin(); ok {
		b.Testing = c.Revision
	}
	if c, ok := r.First(); ok {
		b.First, b.LastGood = c.Revision, r.Candidates[r.Lo].Revision
	}
	if r.Result == bisect.Inconclusive {
		b.Suspects = r.Suspects()
	}
	for _, s := range r.Steps {
		c, _ := r.CandidateOf(s.Revision)
		b.Steps = append(b.Steps, BisectStep{At: s.At, Revision: s.Revision, Author: c.Author, Time: c.Time,
			Message: c.Message, Keys: c.Keys, More: c.More, Others: c.Others, Verdict: string(s.Verdict), By: s.By, Why: s.Why})
	}
	return b
}

func bisectRows() []row {
	return []row{
		{Method: "GET", Path: "bisects", Role: Viewer,
			Summary: "the last search of each canary for the revision that made nodes bad",
			Answer:  reflect.TypeFor[[]Bisect](), Serve: serveBisects},
		{Method: "POST", Path: "bisects", Role: Operator,
			Summary: "search the revision that made nodes bad, by tests on one of them", Effect: rest.Acts,
			Body: reflect.TypeFor[bisect.Request](), Answer: reflect.TypeFor[Bisect](), Status: http.StatusCreated,
			Serve: startBisect},
		{Method: "POST", Path: "bisects/{node}/abort", Role: Operator,
			Summary: "end a search; its canary goes back to what it should have", Effect: rest.Acts, Answer: nothing,
			Serve: abortBisect},
	}
}

func serveBisects(a *api, c *call) (reply, error) { return answer(a.backend.Bisects(c.Context())) }

func startBisect(a *api, c *call) (reply, error) {
	var r bisect.Request
	if err := c.decode(&r); err != nil {
		return reply{}, err
	}
	return answer(a.backend.StartBisect(c.Context(), c.Caller, r))
}

func abortBisect(a *api, c *call) (reply, error) {
	return done(a.backend.AbortBisect(c.Context(), c.Caller, c.values["node"]))
}

// StartBisect begins a search.
func (c *Client) StartBisect(ctx context.Context, r bisect.Request) (Bisect, error) {
	q, err := newBodyRequest(http.MethodPost, route("bisects"), nil, r)
	if err != nil {
		return Bisect{}, err
	}
	return rest.Ask[Bisect](ctx, c.Client, q)
}

// Bisects returns the last searches.
func (c *Client) Bisects(ctx context.Context) ([]Bisect, error) {
	return rest.Get[[]Bisect](ctx, c.Client, route("bisects"), nil)
}

// AbortBisect ends the search of a node.
func (c *Client) AbortBisect(ctx context.Context, node string) error {
	return c.command(ctx, http.MethodPost, route("bisects", node, "abort"), nil)
}
