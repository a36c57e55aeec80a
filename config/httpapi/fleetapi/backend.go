package fleetapi

import (
	"context"
	"errors"
	"io"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// Role is what a caller may do.
type Role = rest.Role

// The roles; each includes the ones before it.
const (
	Viewer   = rest.Viewer
	Operator = rest.Operator
	Admin    = rest.Admin
)

// Caller is the authenticated sender of a request.
type Caller = rest.Caller

// Backend is the controller that the routes call. It masks secrets in every answer unless the query has Reveal. Its
// errors: *ops.Refused (422), *ops.NotFoundError (404), history.Conflicts (412), ErrBusy (503), *TooManyError (429),
// ErrRefused (409), ErrRole (403), ErrNoToken (401), context errors (504); any other is a 500.
type Backend interface {
	// Authenticate finds the owner of an operator token by its hash (pki.OperatorTokenHash).
	Authenticate(ctx context.Context, hash string) (Caller, error)
	// Known is Authenticate for tokens that are known without reading the store. It is cheap, and is called first, so that
	// the owner of a valid token does not queue behind failed attempts from the same address.
	Known(hash string) (Caller, bool)

	Config(ctx context.Context, q ops.ConfigQuery) (ops.DocumentAnswer, error)
	Paths(ctx context.Context, q ops.PathsQuery) (ops.DocumentAnswer, error)
	Layer(ctx context.Context, q ops.LayerQuery) (ops.DocumentAnswer, error)
	// Metadata returns the expanded metadata of "node", "controller" or "aggregator".
	Metadata(ctx context.Context, of string) (ops.DocumentAnswer, error)
	E2E(ctx context.Context, file string, reveal bool) (ops.DocumentAnswer, error)
	// Export returns the seed's files as of one revision, and that revision.
	Export(ctx context.Context, reveal bool) (history.Files, uint64, error)
	// Topology returns the topology in the form of its file, with the current liveness.
	Topology(ctx context.Context) (ops.DocumentAnswer, error)

	Explain(ctx context.Context, node string, path []string) ([]history.ValueHistory, error)
	History(ctx context.Context, q HistoryQuery) ([]Edition, error)
	// Diff returns the changes between two revisions; from 0 is before the first.
	Diff(ctx context.Context, from, to uint64) ([]history.LayerDiff, error)

	Write(ctx context.Context, r WriteRequest) (Written, error)
	// Preview asks the nodes that a SetNetwork or SetNodes would affect for their actions.
	Preview(ctx context.Context, r WriteRequest) (Preview, error)
	PreviewResult(ctx context.Context, id string) (Preview, error)

	Nodes(ctx context.Context) ([]Node, error)
	Node(ctx context.Context, name string) (NodeDetail, error)
	Command(ctx context.Context, c Caller, node string, cmd Command) error
	// Invite opens a join token for one name, new or known. A life of 0 means one day.
	Invite(ctx context.Context, c Caller, node string, life time.Duration, replace bool) (Invitation, error)

	// Events returns events of nodes, as far as controllers have collected them.
	Events(ctx context.Context, q EventQuery) (Events, error)
	// Hardware lists the base configs that nodes proposed for unknown boards, and the accepted ones.
	Hardware(ctx context.Context) ([]Hardware, error)
	// HardwareConfig returns the proposal of a node; without a node the only proposal, or the accepted one.
	HardwareConfig(ctx context.Context, board, node string, reveal bool) (ops.DocumentAnswer, error)
	AcceptHardware(ctx context.Context, c Caller, board, node, digest string) error
	RejectHardware(ctx context.Context, c Caller, board, node string) error
	ForgetHardware(ctx context.Context, c Caller, board string) error

	// PruneHistory deletes the revisions before a time, except those still in use.
	PruneHistory(ctx context.Context, c Caller, before time.Time, dryRun bool) (PrunedHistory, error)

	Operators(ctx context.Context) ([]OperatorToken, error)
	AddOperator(ctx context.Context, c Caller, t OperatorToken) (text string, err error)
	RemoveOperator(ctx context.Context, c Caller, name string) error

	// Rollouts returns the latest rollouts, the newest first.
	Rollouts(ctx context.Context) ([]Rollout, error)
	// CommandRollout pauses, resumes, aborts or reverts the staged rollout of a revision.
	CommandRollout(ctx context.Context, c Caller, revision uint64, cmd RolloutCommand) error
	// ExplainRollout returns the decisions of a staged rollout, with reasons.
	ExplainRollout(ctx context.Context, revision uint64) (RolloutDetail, error)
	// Backup finds a readable revision of the store and returns the function that writes a backup of it
	// (config/fleet/backup). The backup records version as the version of its writer.
	Backup(ctx context.Context, version string) (func(ctx context.Context, w io.Writer) error, error)

	Peers
	Bisects

	// Support asks a connected node for a support archive, and returns once the node has begun to send it. ErrRefused
	// says why it can't.
	Support(ctx context.Context, node string, q nodeproto.SupportRequest) (Archive, error)
	// Shell asks a connected node one command of a debug shell, and returns once it is under way. The answer is frames,
	// one a line, until the command or the time for it ends. ErrRefused says why it can't.
	Shell(ctx context.Context, node string, q nodeproto.ShellRequest) (Archive, error)
	// Await waits until this replica knows a revision. It returns ErrBusy if that takes too long, ErrNoRevision if the
	// store does not have it.
	Await(ctx context.Context, revision uint64) error

	// Ready returns why no requests can be served, nil if they can.
	Ready(ctx context.Context) error
}

// WriteRequest is one write of a caller.
type WriteRequest struct {
	Caller  Caller
	Write   ops.Write
	Message string
	IfMatch map[history.Layer]uint64 // the revisions that the caller has read
	DryRun  bool
}

// Written is the result of a write, or of its dry run.
type Written struct {
	Revision uint64   `json:"revision"` // of the history; the current one if nothing changed
	Changed  bool     `json:"changed"`
	DryRun   bool     `json:"dryRun,omitempty"`
	Message  string   `json:"message"`
	Warnings []string `json:"warnings"`
	Unknown  []string `json:"unknown"` // keys that no metadata describes
	Effects  []Effect `json:"effects"` // the changes of effective configs, by nodes
	Actions  []Action `json:"actions"` // of the controller itself
	Peers    []string `json:"peers"`   // nodes whose parameters may change by descriptors and deployments
}

// Effect is a change of the effective config of some nodes.
type Effect struct {
	Nodes   []string `json:"nodes"`
	Values  []Value  `json:"values"`
	Actions []Action `json:"actions"` // according to the controller's metadata; a preview asks the nodes
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

// Action is one post-config action and the keys that trigger it.
type Action struct {
	Name      string   `json:"name"`
	Keys      []string `json:"keys"`
	Supported *bool    `json:"supported,omitempty"` // by the queried node
}

// HistoryQuery selects revisions, the newest first.
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

// Preview lists the actions that a write would trigger on the nodes.
type Preview struct {
	ID        string                 `json:"id"`
	Until     time.Time              `json:"availableUntil"`
	Overrides config.Object          `json:"overrides"`
	Nodes     map[string]NodePreview `json:"nodes"`
	Complete  bool                   `json:"complete"` // no node is pending
}

// NodePreview is the answer of one node. State is answered, pending, unchanged (its config does not change), unmanaged,
// offline, failed or unknown-hardware; Why explains the last.
type NodePreview struct {
	State   string   `json:"state"`
	Why     string   `json:"why,omitempty"`
	Actions []Action `json:"actions"`
}

// Node is one node in a list.
type Node struct {
	Name       string     `json:"name"`
	ID         string     `json:"id,omitempty"` // "" before it has joined
	State      string     `json:"state"`        // as config/fleet names it
	Why        string     `json:"why"`
	Online     bool       `json:"online"`
	Ready      bool       `json:"ready"` // online, on the desired generation, every parameter in its final state
	Managed    bool       `json:"managed"`
	Software   string     `json:"software,omitempty"`
	Firmware   string     `json:"firmware,omitempty"`
	Board      string     `json:"board,omitempty"`
	Desired    Running    `json:"wanted"`
	Running    Running    `json:"running"`
	LastReport *time.Time `json:"lastReport,omitempty"`
}

// Running identifies a config.
type Running struct {
	MD5        string `json:"md5,omitempty"`
	Generation string `json:"generation,omitempty"`
}

// NodeDetail is everything known about one node.
type NodeDetail struct {
	Node
	Explain    []string    `json:"explain"` // why it is in its state, what happens next, and when
	Source     string      `json:"source,omitempty"`
	Pending    string      `json:"pending,omitempty"` // "a:7, 83 s left"
	Held       string      `json:"held,omitempty"`
	Fallback   bool        `json:"fallback,omitempty"`
	Replica    string      `json:"replica,omitempty"` // that has its stream
	Health     []Item      `json:"health"`
	Parameters []Parameter `json:"parameters"`
	Actions    []Done      `json:"actions"`  // results of the last config
	Failures   []Failure   `json:"failures"` // configs that it rejected or undid
}

// Item is one health item.
type Item struct {
	Name   string `json:"name"`
	Good   bool   `json:"good"`
	Detail string `json:"detail,omitempty"`
}

// Parameter is one declared parameter: its target, the state that the node reported, and what follows (seed
// opendut-configuration-state-loop).
type Parameter struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Target string `json:"target"` // present, absent
	State  string `json:"state"`
	Review string `json:"review"`           // no, maybe, yes: whether a person should look
	Reason string `json:"reason,omitempty"` // the node's message, or what the parameter waits for
}

// Done is the result of one action.
type Done struct {
	Name   string `json:"name"`
	State  string `json:"state"` // done, failed, unsupported, skipped
	Detail string `json:"detail,omitempty"`
}

// Failure is a config that a node rejected or undid.
type Failure struct {
	MD5    string    `json:"md5"`
	Reason string    `json:"reason"`
	Why    string    `json:"why"`
	At     time.Time `json:"at"`
}

// Command is an operator's command for a node.
type Command string

// The commands. Adopt takes over a node that runs its own objects: Replace allows their removal, Import makes them its
// node layer.
const (
	Retry        Command = "retry"   // push what failed before, now
	Release      Command = "release" // end a local config
	AdoptImport  Command = "adopt-import"
	AdoptReplace Command = "adopt-replace"
	Confirm      Command = "confirm" // the pending config, by hand
	Renew        Command = "renew"   // its certificate, now
	Forget       Command = "forget"  // revoke its certificate and delete its record
)

// Invitation is an open join token, shown once.
type Invitation struct {
	Node    string    `json:"node"`
	Token   string    `json:"token"`
	CA      string    `json:"caSha256"`
	Expires time.Time `json:"expires"`
	Command string    `json:"command"` // to run on the node
}

// Hardware is a base config that a node proposed for its board.
type Hardware struct {
	Board    string    `json:"board"`
	Node     string    `json:"node"`         // that proposed it
	At       time.Time `json:"at"`           // of the proposal, or of its acceptance
	By       string    `json:"by,omitempty"` // who accepted it; "": it is not in use
	Digest   string    `json:"digest"`       // to accept it by
	Bytes    int       `json:"bytes"`
	Base     []string  `json:"base"`     // versions
	Hardware []string  `json:"hardware"` // versions
	Metadata int       `json:"metadata"` // entries of metadata
}

// OperatorToken describes a token without its text.
type OperatorToken struct {
	Name    string     `json:"name"`
	Role    Role       `json:"role"`
	Expires *time.Time `json:"expires,omitempty"`
}

// Rollout is the delivery of one revision to the nodes that it affects.
type Rollout struct {
	Revision uint64            `json:"revision"`
	Message  string            `json:"message,omitempty"`
	Author   string            `json:"author"`
	Began    time.Time         `json:"began"`
	Ended    *time.Time        `json:"ended,omitempty"`
	State    string            `json:"state"` // running, paused, halted, done, failed, superseded, aborted, released
	Nodes    int               `json:"nodes"`
	Acked    int               `json:"acked"`
	Failed   map[string]string `json:"failed"`  // reasons by node
	Waiting  map[string]string `json:"waiting"` // what each node waits for
	// The numbers of failed and waiting nodes: in a list, Failed and Waiting contain the first hundred of each.
	FailedNodes  int            `json:"failedNodes,omitempty"`
	WaitingNodes int            `json:"waitingNodes,omitempty"`
	Staged       bool           `json:"staged,omitempty"`  // in batches
	Batches      []RolloutBatch `json:"batches,omitempty"` // of a staged rollout, those that have started
}

// RolloutBatch is the progress of one batch of a staged rollout.
type RolloutBatch struct {
	Number int `json:"number"`
	Nodes  int `json:"nodes"`
	Acked  int `json:"acked"`
	Failed int `json:"failed"`
	Out    int `json:"out"` // unanswered
}

// RolloutDetail is a staged rollout with its decisions and its next step.
type RolloutDetail struct {
	Rollout
	Next      string    `json:"next"`
	Decisions []Verdict `json:"decisions"` // the latest, the oldest first
}

// Verdict is one decision.
type Verdict struct {
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"` // "" is the controller
	What string    `json:"what"`
	Why  string    `json:"why,omitempty"`
}

// RolloutCommand is an operator's command for a staged rollout.
type RolloutCommand string

// The commands. Revert aborts the rollout, and reverts the change on the nodes that have it, in batches too.
const (
	PauseRollout  RolloutCommand = "pause"
	ResumeRollout RolloutCommand = "resume"
	AbortRollout  RolloutCommand = "abort"
	RevertRollout RolloutCommand = "revert"
)

// Archive is an archive that a node sends as it is read. Close ends that, also before its end.
type Archive struct {
	Write func(ctx context.Context, w io.Writer) error
	Close func()
}

// TooManyError refuses a caller who exceeds a rate or a quota: it may try again after Wait (429).
type TooManyError struct {
	Text string
	Wait time.Duration
}

func (e *TooManyError) Error() string { return e.Text }

// Errors of a Backend, besides those listed there.
var (
	ErrBusy    = errors.New("the controller can't take this now")
	ErrRefused = config.Conflict.NewError("refused") // because of the node's state; the text says why
	ErrNoToken = errors.New("the token is unknown or has expired")
	ErrRole    = errors.New("not permitted to the role")
	// ErrNoRevision is returned by Await only.
	ErrNoRevision = errors.New("no such revision")
)
