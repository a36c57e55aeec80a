package nodeapi

import (
	"context"
	"time"
)

// Looker is the part of a Backend for who asks why: what happens and what differs.
type Looker interface {
	// Explain says why one object is ready or not: kind ni, app or adapter.
	Explain(ctx context.Context, kind, id string) (Explanation, error)
	// Diff says what on the host is not as the running config wants it; of is a network
	// as "ni/<uuid>", or "" for all of it.
	Diff(ctx context.Context, of string) ([]Difference, error)
	// Events gives what happened, oldest first. With Follow it goes on until ctx ends or
	// emit fails, and gives emit's error back.
	Events(ctx context.Context, q EventQuery, emit func(Event) error) error
	// Watch gives what there is and every change of it until ctx ends or emit fails, and
	// gives emit's error back. A reader that is slow misses values in between, never the
	// last one.
	Watch(ctx context.Context, kinds []string, emit func(Observed) error) error
	// Doctor looks for what is in the way of a node at work here.
	Doctor(ctx context.Context) ([]Finding, error)
}

// WatchKinds are the kinds that Watch knows.
func WatchKinds() []string { return []string{"ni", "app", "adapter", "port"} }

// ExplainKinds are the kinds that Explain knows.
func ExplainKinds() []string { return []string{"ni", "app", "adapter"} }

// Explanation is why one object is ready, or not.
type Explanation struct {
	Object  string  `json:"object"` // as "ni/<uuid>", "app/<uuid>", "adapter/<app>/<index>"
	Name    string  `json:"name"`   // as people call it, "" for none
	Ready   bool    `json:"ready"`
	Summary string  `json:"summary"` // one sentence without full stop
	Warning string  `json:"warning"` // what a ready network does without, "" for nothing
	Causes  []Cause `json:"causes"`
}

// Cause is one reason and what is behind it, down to an op that failed.
type Cause struct {
	Object   string     `json:"object,omitempty"` // what Text is about, "" for the one above
	Text     string     `json:"text"`
	Op       string     `json:"op,omitempty"`
	Command  string     `json:"command,omitempty"`
	Error    string     `json:"error,omitempty"`
	Attempts int        `json:"attempts,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	Retry    *time.Time `json:"retry,omitempty"` // when it is tried again
	Causes   []Cause    `json:"causes,omitempty"`
}

// How an object differs.
const (
	Missing    = "missing"
	Changed    = "changed"
	Unexpected = "unexpected"
)

// Difference is one object of the host that is not as wanted.
type Difference struct {
	Owner  string `json:"owner"`  // "ni/<uuid>", or "host" for the ground of all
	Change string `json:"change"` // Missing, Changed, Unexpected
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Want   string `json:"want"` // "" where nothing is wanted
	Have   string `json:"have"` // "" where nothing is there
	Why    string `json:"why"`  // why the daemon could not put it right, "" if it did not say
}

// Event is something that happened on the node.
type Event struct {
	Seq     uint64    `json:"seq"` // counts from the daemon's start
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`   // one of EventKinds
	Object  string    `json:"object"` // as in Explanation, or "port/<label>", "host", "config", "actor/<id>"
	Name    string    `json:"name,omitempty"`
	Text    string    `json:"text"`
	Op      string    `json:"op,omitempty"`
	Command string    `json:"command,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// The kinds of event.
const (
	EventState     = "state"     // a network or an app changed its state
	EventApplied   = "applied"   // the host was changed
	EventFailed    = "failed"    // an op failed, or fails for another reason now
	EventRecovered = "recovered" // what failed does not any more
	EventRepaired  = "repaired"  // others had changed what is ours
	EventContested = "contested" // others change it again and again: from now on repairs are counted
	EventProcess   = "process"   // a process of ours had died
	EventPort      = "port"      // a port came, went or changed
	EventConfig    = "config"    // a config was published or refused
	EventCrash     = "crash"     // an actor crashed
	EventStorage   = "storage"   // the disk takes no change, or does again; what a start found
	EventSecurity  = "security"  // somebody is where only the node belongs
)

// EventQuery picks events: those about Of ("" for all), of what is kept the Last ones
// (0 for all), and with Follow those to come.
type EventQuery struct {
	Of     string
	Last   int
	Follow bool
}

// The changes that Watch tells. Synchronized comes once, when everything that there
// was has been told as Added; it has no object.
const (
	Added        = "added"
	Modified     = "modified"
	Deleted      = "deleted"
	Synchronized = "synchronized"
)

// Observed is one change of one resource. A deleted one is as it was last seen.
type Observed struct {
	Time   time.Time `json:"time"`
	Change string    `json:"change"`
	Object *Resource `json:"object,omitempty"`
}

// How much a Finding matters.
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
	Fix   string `json:"fix"` // a command, "" where nothing is wrong
}
