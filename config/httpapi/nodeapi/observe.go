package nodeapi

import (
	"context"
	"time"

	"edgespan/config/events"
)

// Looker is the part of a Backend that explains: events, differences and reasons.
type Looker interface {
	// Explain says why one object is ready or not: one of ExplainKinds.
	Explain(ctx context.Context, kind, id string) (Explanation, error)
	// Rules reads the counters of an app's access rules, of one adapter if index is not "".
	Rules(ctx context.Context, app, index string) (AppRules, error)
	// ExplainFlow says what becomes of the first packet of a flow between an adapter and a remote end.
	ExplainFlow(ctx context.Context, q FlowQuery) (FlowVerdict, error)
	// Diff lists the differences between the host and the desired state; of is a network as "ni/<uuid>", or "" for all.
	Diff(ctx context.Context, of string) ([]Difference, error)
	// Events emits recorded events, oldest first. With Follow it continues until ctx ends or emit fails, and returns
	// emit's error.
	Events(ctx context.Context, q EventQuery, emit func(Event) error) error
	// FlowLog emits lines of the flow log, oldest first. With Follow it continues until ctx ends or emit fails, and
	// returns emit's error; a slow reader misses lines, and gets their number.
	FlowLog(ctx context.Context, q FlowLogQuery, emit func(FlowRecord) error) error
	// Watch emits the current resources and every change of them until ctx ends or emit fails, and returns emit's error. A
	// slow reader misses intermediate values, never the last one.
	Watch(ctx context.Context, kinds []string, emit func(Observed) error) error
	// Doctor lists problems on this node.
	Doctor(ctx context.Context) ([]Finding, error)
}

// WatchKinds returns the kinds that Watch accepts.
func WatchKinds() []string { return []string{"ni", "app", "adapter", "port"} }

// ExplainKinds returns the kinds that Explain accepts.
func ExplainKinds() []string { return []string{"ni", "app", "adapter", "port"} }

// Explanation says why one object is ready, or not.
type Explanation struct {
	Object  string         `json:"object"` // "ni/<uuid>", "app/<uuid>", "adapter/<app>/<index>" or "port/<label>"
	Name    string         `json:"name"`   // display name, "" for none
	Ready   bool           `json:"ready"`
	Summary string         `json:"summary"` // one sentence without full stop
	Warning string         `json:"warning"` // what a ready network lacks, "" for nothing
	Causes  []Cause        `json:"causes"`
	Uplinks []UplinkChoice `json:"uplinks,omitempty"` // of a network
	Port    *PortDetail    `json:"port,omitempty"`    // of a port
	// Hits are the access rules of an adapter that were hit, as in AdapterStatus.
	Hits     []RuleHits `json:"hits,omitempty"`
	HitsRead time.Time  `json:"hitsRead,omitzero"`
}

// Cause is one reason and its own causes, down to a failed op.
type Cause struct {
	Object   string     `json:"object,omitempty"` // subject of Text, "" for that of the parent
	Text     string     `json:"text"`
	Op       string     `json:"op,omitempty"`
	Command  string     `json:"command,omitempty"`
	Error    string     `json:"error,omitempty"`
	Attempts int        `json:"attempts,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	Retry    *time.Time `json:"retry,omitempty"` // time of the next attempt
	Causes   []Cause    `json:"causes,omitempty"`
}

// The ways in which an object differs.
const (
	Missing    = "missing"
	Changed    = "changed"
	Unexpected = "unexpected"
)

// Difference is one object of the host that differs from the desired state.
type Difference struct {
	Owner  string `json:"owner"`  // "ni/<uuid>", or "host" for objects that belong to no network
	Change string `json:"change"` // Missing, Changed, Unexpected
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Want   string `json:"want"` // "" if no object is desired
	Have   string `json:"have"` // "" if no object exists
	Why    string `json:"why"`  // why the daemon could not correct it, "" if unknown
}

// Event is something that happened, with its cause.
type Event = events.Event

// The kinds of event.
const (
	EventState     = events.State
	EventApplied   = events.Applied
	EventFailed    = events.Failed
	EventRecovered = events.Recovered
	EventRepaired  = events.Repaired
	EventContested = events.Contested
	EventProcess   = events.Process
	EventPort      = events.Port
	EventUplink    = events.Uplink
	EventConfig    = events.Config
	EventCrash     = events.Crash
	EventStorage   = events.Storage
	EventLease     = events.Lease
	EventSecurity  = events.Security
	EventTunnel    = events.Tunnel
	EventShell     = events.Shell
)

// EventKinds returns the kinds of event.
func EventKinds() []string { return events.Kinds() }

// EventQuery selects events.
type EventQuery struct {
	Of     string    // the object that they are about, or one of its adapters; "" for all
	Kind   string    // "" for all
	Since  time.Time // events that happened later; zero for all
	Last   int       // of these the newest ones; 0 for all
	Why    bool      // with the events that led to each
	Follow bool      // then new ones, and those that happen again with their new count
}

// Selects reports whether the query selects an event, apart from Last.
func (q EventQuery) Selects(e Event) bool {
	return e.Concerns(q.Of) && (q.Kind == "" || q.Kind == e.Kind) && (q.Since.IsZero() || e.At().After(q.Since))
}

// The changes that Watch emits. Synchronized, which has no object, is emitted once, after all existing objects were
// emitted as Added.
const (
	Added        = "added"
	Modified     = "modified"
	Deleted      = "deleted"
	Synchronized = "synchronized"
)

// Observed is one change of one resource. A deleted one has its last state.
type Observed struct {
	Time   time.Time `json:"time"`
	Change string    `json:"change"`
	Object *Resource `json:"object,omitempty"`
}

// The levels of a Finding.
const (
	Fine    = "ok"
	Warning = "warning"
	Problem = "problem"
)

// Finding is the result of one check of the doctor.
type Finding struct {
	Check string `json:"check"`
	Level string `json:"level"` // Fine, Warning, Problem
	Text  string `json:"text"`
	Fix   string `json:"fix"` // a command, "" if there is no problem
}
