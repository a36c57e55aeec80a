package agent

import (
	"context"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/relay"
	"edgespan/config"
	"edgespan/config/events"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/layers/metadata"
	"edgespan/config/nodeconf/action"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/pubsub/trace"
)

// Options configure an agent. Disk, Validator, Host and Runner are required.
type Options struct {
	Disk      Disk
	Validator Validator
	Host      Host
	Runner    Runner
	File      File   // nil: no config file
	Machine   string // the machine's boot id
	Facts     NodeFacts
	Log       *zap.Logger   // nil: no log
	Tracer    *trace.Tracer // nil: no traces
	// ReportEvery is the interval of reports to the controller, in addition to those of changes. 0: 5 s.
	ReportEvery time.Duration
	// OnEvent receives what people may want to know: candidates, confirmations and undos. It must not block. nil: no
	// receiver.
	OnEvent func(Event)
	// Relays answers the controller's relays. nil: the node tells the controller that it has none.
	Relays *relay.Server
	// LastEvent returns the number of the node's last event, and Events those that changed after another one; nil: the
	// node has none. They must not block.
	LastEvent func() uint64
	Events    func(events.Request) events.Answer
}

// Disk stores small files by name. Its methods may block; at most one call at a time is made for each name.
type Disk interface {
	// Read returns a file's content, or an error that wraps fs.ErrNotExist.
	Read(name string) ([]byte, error)
	// Write replaces a file. After an error or a power cut the file has its old or new content, or, if it was removed
	// meanwhile, the content before.
	Write(name string, content []byte) error
	// WriteSpare replaces the copy of another file. A power cut soon after may leave it old, new or damaged.
	WriteSpare(name string, content []byte) error
	// Remove removes a file; it need not wait until the removal is on disk. A missing file is no error.
	Remove(name string) error
}

// File reads the config file. It may block. The name is "" if there is none.
type File func() (content []byte, name string, err error)

// Validator validates a document by the node's own metadata, with its PeerConfiguration ("" for none). It is pure, and
// called from several goroutines. A File or an Apply is checked more strictly than a push: unknown keys are faults.
type Validator func(document config.Object, peer string, from commitconfirm.Source) commitconfirm.Verdict

// Host is where a config is published. Its methods are called in the actor's turn and never block.
type Host interface {
	// Start is called at each start of the actor. The host calls wake, from any goroutine, when something may have
	// changed: the agent then calls Drain at once and Observe soon.
	Start(wake func())
	Drain()
	// Publish publishes a config; of is its trace, if it has one.
	Publish(p commitconfirm.Publish, of trace.Context)
	// ReportProblem reports why the desired config does not run, "" for no reason.
	ReportProblem(text string)
	Observe() Observation
	Stop()
}

// Observation is the observed state of the host.
type Observation struct {
	// Settled reports whether everything that the last publication desires has answered it.
	Settled    bool
	Health     []nodeproto.HealthReport // by name
	Parameters []nodeproto.ParameterReport
	Ports      []nodeproto.Port // by label
}

// Runner runs the actions that a difference entails.
type Runner interface {
	// Do runs one step, until ctx ends. document is the node's current config.
	Do(ctx context.Context, do action.Do, document config.Object) error
	// Restart starts the end of the agent (action.NameRestart) or of the machine (action.NameReboot), which follows unless
	// it returns an error.
	Restart(ctx context.Context, name string) error
}

// NodeFacts are what a node knows of itself.
type NodeFacts struct {
	Name       string
	Software   string // version string
	Firmware   string // "" for none
	Board      string // "" for unknown
	Controller string // HOST:PORT of the controller that it joined, "" for none
	Bases      map[string]config.Object
	Hardware   map[string]config.Object // of its board; nil if the board has no hardware type
	Metadata   *metadata.Metadata
	Actions    action.ActionTable
	// Link is what changes with the link to the controller. nil: there is no controller.
	Link LinkFacts
}

// LinkFacts are what a node knows of its link to the controller, and what it has for it. The methods never block.
type LinkFacts interface {
	// ClusterKeys returns the public WireGuard key for encrypted clusters, and the one that will replace it; "" while
	// there is none.
	ClusterKeys() (key, next string)
	// Controllers returns the addresses of the controllers, sorted: those given, and those of their names, as far as they
	// were resolved.
	Controllers() []netip.Addr
	// Watch makes f be called after each change, from any goroutine, in place of an earlier f.
	Watch(f func())
}

// Notes are stored in addition to the configs.
type Notes struct {
	Managed *bool           `json:"managed,omitempty"` // the controller's last word; nil: none yet
	Held    *nodeproto.Held `json:"held,omitempty"`
}

// Event is an event that people may want to know of.
type Event struct {
	What  commitconfirm.Outcome
	About commitconfirm.Echo
	Why   string
}

// Request is a config that a person or a program applies.
type Request struct {
	Document config.Object
	Verdict  *commitconfirm.Verdict // nil: the agent calls the Validator
	Local    bool                   // overrides the controller, until Release
	By       string                 // who applies it
	Caller   string                 // the user that sent it, as the kernel knows it; "": unknown
	Confirm  time.Duration
	// Replaces is the config that it was made from: rest.ErrConflict if the node's is another by then. Zero: any.
	Replaces config.Generation
}

// Status is the state of a node.
type Status struct {
	commitconfirm.State
	Settled    bool // the pending config is applied, and its actions have run
	Managed    *bool
	Held       *nodeproto.Held
	Controller string
	Linked     bool          // the controller can be reached
	Document   config.Object // of the config that is desired; not to be changed
	FileDigest string        // of the config file that was applied last, "" for none
	Name       string        // the node's
}
