package fleetapi

import (
	"context"
	"errors"
	"io"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// Role is what a caller may do.
type Role = rest.Role

// The roles; each may do what those before it may.
const (
	Viewer   = rest.Viewer
	Operator = rest.Operator
	Admin    = rest.Admin
)

// Caller is who asks.
type Caller = rest.Caller

// Backend is the controller as the routes see it. It masks secrets in every answer, but where Reveal is asked for.
// Errors that it answers with: *ops.Refused (422), *ops.NotFoundError (404), history.Conflicts (412), ErrBusy (503),
// *TooManyError (429), ErrRefused (409), ErrRole (403), ErrNoToken (401), context errors (504); any other is a 500.
type Backend interface {
	// Authenticate finds whose an operator token is, by its hash (pki.OperatorTokenHash).
	Authenticate(ctx context.Context, hash string) (Caller, error)
	// Known is Authenticate of a token that is known without a look at the store: it costs nothing,
	// so it is asked for whoever would have to wait because others at its address guess.
	Known(hash string) (Caller, bool)

	Config(ctx context.Context, q ops.ConfigQuery) (ops.Document, error)
	Paths(ctx context.Context, q ops.PathsQuery) (ops.Document, error)
	Layer(ctx context.Context, q ops.LayerQuery) (ops.Document, error)
	// Metadata is that of "node", "controller" or "aggregator", expanded.
	Metadata(ctx context.Context, of string) (ops.Document, error)
	E2E(ctx context.Context, file string, reveal bool) (ops.Document, error)
	// Export is the seed's files as of one revision, and that revision.
	Export(ctx context.Context, reveal bool) (history.Files, uint64, error)
	// Topology is the file's form, with what is alive now.
	Topology(ctx context.Context) (ops.Document, error)

	Explain(ctx context.Context, node string, path []string) ([]history.Explanation, error)
	History(ctx context.Context, q HistoryQuery) ([]Edition, error)
	// Diff is what changed between two revisions; from 0 is before the first.
	Diff(ctx context.Context, from, to uint64) ([]history.LayerDiff, error)

	Write(ctx context.Context, r WriteRequest) (Written, error)
	// Preview asks the nodes that a SetNetwork or SetNodes would touch for their actions.
	Preview(ctx context.Context, r WriteRequest) (Preview, error)
	PreviewResult(ctx context.Context, id string) (Preview, error)

	Nodes(ctx context.Context) ([]Node, error)
	Node(ctx context.Context, name string) (NodeDetail, error)
	Command(ctx context.Context, c Caller, node string, cmd Command) error
	// Invite opens a join token for one name, new or known. A life of 0 is a day.
	Invite(ctx context.Context, c Caller, node string, life time.Duration, replace bool) (Invitation, error)

	// Hardware lists what nodes proposed of boards that are not known, and what was accepted.
	Hardware(ctx context.Context) ([]Hardware, error)
	// HardwareConfig is what a node proposed; without a node the only proposal, or what is accepted.
	HardwareConfig(ctx context.Context, board, node string, reveal bool) (ops.Document, error)
	AcceptHardware(ctx context.Context, c Caller, board, node, digest string) error
	RejectHardware(ctx context.Context, c Caller, board, node string) error
	ForgetHardware(ctx context.Context, c Caller, board string) error

	// PruneHistory forgets the revisions of before a time, but those that somebody may need.
	PruneHistory(ctx context.Context, c Caller, before time.Time, dryRun bool) (PrunedHistory, error)

	Operators(ctx context.Context) ([]OperatorToken, error)
	AddOperator(ctx context.Context, c Caller, t OperatorToken) (text string, err error)
	RemoveOperator(ctx context.Context, c Caller, name string) error

	// Rollouts are the last changes on their way to the nodes, the newest first.
	Rollouts(ctx context.Context) ([]Rollout, error)
	// CommandRollout pauses, resumes, aborts or reverts the staged rollout of a revision.
	CommandRollout(ctx context.Context, c Caller, revision uint64, cmd RolloutCommand) error
	// ExplainRollout says what was decided of a staged rollout, and why.
	ExplainRollout(ctx context.Context, revision uint64) (RolloutDetail, error)
	// Backup finds a revision of the store that can be read, and answers with what writes all
	// that lasts of it (config/fleet/backup). Version is what the backup says it was written by.
	Backup(ctx context.Context, version string) (func(ctx context.Context, w io.Writer) error, error)

	Peers

	// Await waits until this replica knows a revision. ErrBusy is one that does not come in time,
	// ErrNoRevision one that the store has not.
	Await(ctx context.Context, revision uint64) error

	// Ready says why no request can be served, nil if they can.
	Ready(ctx context.Context) error
}

// WriteRequest is one write of a caller.
type WriteRequest struct {
	Caller  Caller
	Write   ops.Write
	Message string
	IfMatch map[history.Layer]uint64 // revisions that the caller has seen
	DryRun  bool
}

// Written is what a write did, or would do.
type Written struct {
	Revision uint64   `json:"revision"` // of the history; the present one where nothing changed
	Changed  bool     `json:"changed"`
	DryRun   bool     `json:"dryRun,omitempty"`
	Message  string   `json:"message"`
	Warnings []string `json:"warnings"`
	Unknown  []string `json:"unknown"` // keys that no metadata describes
	Effects  []Effect `json:"effects"` // the blast radius: what changes on which nodes
	Actions  []Action `json:"actions"` // of the controller itself
	Peers    []string `json:"peers"`   // whose parameters may change, by descriptors and deployments
}

// Effect is what changes in the effective config of some nodes.
type Effect struct {
	Nodes   []string `json:"nodes"`
	Values  []Value  `json:"values"`
	Actions []Action `json:"actions"` // by the controller's metadata; a preview asks the nodes
}

// Value is one value that changes; secrets are masked.
type Value struct {
	Path   string `json:"path"`
	Old    any    `json:"old,omitempty"`
	New    any    `json:"new,omitempty"`
	HadOld bool   `json:"hadOld"`
	HasNew bool   `json:"hasNew"`
	Origin string `json:"origin,omitempty"` // the layer of the new value
}

// Action is one post-config action and the keys that ask for it.
type Action struct {
	Name      string   `json:"name"`
	Keys      []string `json:"keys"`
	Supported *bool    `json:"supported,omitempty"` // by the node that was asked
}

// HistoryQuery asks for revisions, the newest first.
type HistoryQuery struct {
	Layer  *history.Layer // nil: all
	Before uint64         // older than this one; 0: from the newest
	Limit  int            // 0: 50
}

// Edition is one revision and the layers that it wrote.
type Edition struct {
	Number  uint64    `json:"number"`
	Author  string    `json:"author"`
	Time    time.Time `json:"time"`
	Message string    `json:"message,omitempty"`
	Layers  []string  `json:"layers"`
}

// Preview is which actions a write would entail on the nodes.
type Preview struct {
	ID        string                 `json:"id"`
	Until     time.Time              `json:"availableUntil"`
	Overrides config.Object          `json:"overrides"`
	Nodes     map[string]NodePreview `json:"nodes"`
	Complete  bool                   `json:"complete"` // no node is pending
}

// NodePreview is one node's answer. State is answered, pending, unchanged (its config stays
// the same), unmanaged, offline, failed or unknown-hardware; Why says more of the last.
type NodePreview struct {
	State   string   `json:"state"`
	Why     string   `json:"why,omitempty"`
	Actions []Action `json:"actions"`
}

// Node is one node in a list.
type Node struct {
	Name       string     `json:"name"`
	ID         string     `json:"id,omitempty"` // "" before it has joined
	State      string     `json:"state"`        // config/fleet's words
	Why        string     `json:"why"`
	Online     bool       `json:"online"`
	Ready      bool       `json:"ready"` // online, runs the wanted generation, every parameter in its final state
	Managed    bool       `json:"managed"`
	Software   string     `json:"software,omitempty"`
	Firmware   string     `json:"firmware,omitempty"`
	Board      string     `json:"board,omitempty"`
	Desired    Running    `json:"wanted"`
	Running    Running    `json:"running"`
	LastReport *time.Time `json:"lastReport,omitempty"`
}

// Running names a config.
type Running struct {
	MD5        string `json:"md5,omitempty"`
	Generation string `json:"generation,omitempty"`
}

// NodeDetail is all that is known of one node.
type NodeDetail struct {
	Node
	Explain    []string    `json:"explain"` // why it is as it is, what happens next, and when
	Source     string      `json:"source,omitempty"`
	Pending    string      `json:"pending,omitempty"` // "a:7, 83 s left"
	Held       string      `json:"held,omitempty"`
	Fallback   bool        `json:"fallback,omitempty"`
	Replica    string      `json:"replica,omitempty"` // that has its stream
	Health     []Item      `json:"health"`
	Parameters []Parameter `json:"parameters"`
	Actions    []Done      `json:"actions"`  // results of the last config's
	Failures   []Failure   `json:"failures"` // configs that it refused or undid
}

// Item is one thing that is good or bad.
type Item struct {
	Name   string `json:"name"`
	Good   bool   `json:"good"`
	Detail string `json:"detail,omitempty"`
}

// Parameter is one declared parameter: what is wanted of it, what the node found, and what
// follows (seed opendut-configuration-state-loop).
type Parameter struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Target string `json:"target"` // present, absent
	State  string `json:"state"`
	Review string `json:"review"`           // no, maybe, yes: whether somebody should look
	Reason string `json:"reason,omitempty"` // the node's message, or what is waited for
}

// Done is the result of one action.
type Done struct {
	Name   string `json:"name"`
	State  string `json:"state"` // done, failed, unsupported, skipped
	Detail string `json:"detail,omitempty"`
}

// Failure is a config that a node refused or undid.
type Failure struct {
	MD5    string    `json:"md5"`
	Reason string    `json:"reason"`
	Why    string    `json:"why"`
	At     time.Time `json:"at"`
}

// Command is what an operator does with a node.
type Command string

// The commands. Adopt takes over a node that runs objects of its own: with Replace these
// may go, with Import they become its node layer.
const (
	Retry        Command = "retry"         // what failed before, and now
	Release      Command = "release"       // end a local config
	AdoptImport  Command = "adopt-import"  //
	AdoptReplace Command = "adopt-replace" //
	Confirm      Command = "confirm"       // the pending config, by hand
	Renew        Command = "renew"         // its certificate, now
	Forget       Command = "forget"        // revoke its certificate and forget that it joined
)

// Invitation is an open join token, shown once.
type Invitation struct {
	Node    string    `json:"node"`
	Token   string    `json:"token"`
	CA      string    `json:"caSha256"`
	Expires time.Time `json:"expires"`
	Command string    `json:"command"` // to be typed on the node
}

// Hardware is a base config that a node told of its board.
type Hardware struct {
	Board    string    `json:"board"`
	Node     string    `json:"node"`         // that told it
	At       time.Time `json:"at"`           // when it was told, or accepted
	By       string    `json:"by,omitempty"` // who has accepted it; "": it counts for nobody
	Digest   string    `json:"digest"`       // by which it is accepted
	Bytes    int       `json:"bytes"`
	Base     []string  `json:"base"`     // versions
	Hardware []string  `json:"hardware"` // versions
	Metadata int       `json:"metadata"` // entries of metadata
}

// OperatorToken is whom a token belongs to, never its text.
type OperatorToken struct {
	Name    string     `json:"name"`
	Role    Role       `json:"role"`
	Expires *time.Time `json:"expires,omitempty"`
}

// Rollout is one revision on its way to the nodes that it touches.
type Rollout struct {
	Revision uint64            `json:"revision"`
	Message  string            `json:"message,omitempty"`
	Author   string            `json:"author"`
	Began    time.Time         `json:"began"`
	Ended    *time.Time        `json:"ended,omitempty"`
	State    string            `json:"state"` // running, paused, halted, done, failed, superseded, aborted, released
	Nodes    int               `json:"nodes"`
	Acked    int               `json:"acked"`
	Failed   map[string]string `json:"failed"`  // why
	Waiting  map[string]string `json:"waiting"` // for what
	// How many nodes failed and wait: in a list, Failed and Waiting name the first hundred of each.
	FailedNodes  int            `json:"failedNodes,omitempty"`
	WaitingNodes int            `json:"waitingNodes,omitempty"`
	Staged       bool           `json:"staged,omitempty"`  // it goes out in batches
	Batches      []RolloutBatch `json:"batches,omitempty"` // of a staged one, those that have gone out
}

// RolloutBatch is how far one batch of a staged rollout has come.
type RolloutBatch struct {
	Number int `json:"number"`
	Nodes  int `json:"nodes"`
	Acked  int `json:"acked"`
	Failed int `json:"failed"`
	Out    int `json:"out"` // not answered yet
}

// RolloutDetail is a staged rollout with what was decided of it, and what comes next.
type RolloutDetail struct {
	Rollout
	Next      string    `json:"next"`
	Decisions []Verdict `json:"decisions"` // the last ones, the oldest first
}

// Verdict is one decision.
type Verdict struct {
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"` // "" is the controller
	What string    `json:"what"`
	Why  string    `json:"why,omitempty"`
}

// RolloutCommand is what an operator does with a staged rollout.
type RolloutCommand string

// The commands. A revert aborts, and takes the change back where it is, in batches too.
const (
	PauseRollout  RolloutCommand = "pause"
	ResumeRollout RolloutCommand = "resume"
	AbortRollout  RolloutCommand = "abort"
	RevertRollout RolloutCommand = "revert"
)

// TooManyError refuses what a caller asks for too often, or too much of: it may ask again after a while (429).
type TooManyError struct {
	Text string
	Wait time.Duration
}

func (e *TooManyError) Error() string { return e.Text }

// Errors of a Backend beside those that its comment names.
var (
	ErrBusy    = errors.New("the controller can't take this now")
	ErrRefused = config.Conflict.NewError("refused") // by the state of a node; the text says why
	ErrNoToken = errors.New("the token is unknown or has expired")
	ErrRole    = errors.New("not permitted to the role")
	// ErrNoRevision is of Await alone.
	ErrNoRevision = errors.New("no such revision")
)
