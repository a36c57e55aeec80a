package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/layers/metadata"
	"edgespan/config/nodeconf/action"
	"edgespan/config/nodeconf/commitconfirm"
)

// Options are what an agent stands on. Disk, Judge, Host and Runner are required.
type Options struct {
	Disk      Disk
	Validator Validator
	Host      Host
	Runner    Runner
	File      File   // nil for a node without a config file
	Machine   string // the machine's boot id
	Facts     Facts
	Log       *zap.Logger // none
	// ReportEvery is how often the controller hears how the node is, beside each change; 5 s.
	ReportEvery time.Duration
	// Happened is told what people may want to know of: offers, confirms and undos. Nil
	// for nobody. It must not block.
	Happened func(Happening)
}

// Disk keeps small files by name. Its methods may block; at most one is called at a time
// for one name.
type Disk interface {
	// Read gives a file's content, or an error that wraps fs.ErrNotExist.
	Read(name string) ([]byte, error)
	// Write replaces a file: after an error or a power cut its old or new content is there,
	// or the one before, if it was removed meanwhile.
	Write(name string, content []byte) error
	// WriteSpare replaces a file that is there for the case that another one is spoilt: a power
	// cut soon after may leave it old, new or spoilt itself.
	WriteSpare(name string, content []byte) error
	// Remove takes a file away; it need not wait for the disk. A missing one is no error.
	Remove(name string) error
}

// File reads the config file. It may block. The name is "" where there is none.
type File func() (content []byte, name string, err error)

// Validator reads what a document means, by the node's own metadata, and the PeerConfiguration
// that goes with it ("" for none). It is pure, and called from several goroutines. A File or an
// Apply is held to more than a push: it may have no key that nobody knows.
type Validator func(document config.Object, peer string, from commitconfirm.Source) commitconfirm.Verdict

// Host is what a config is published to. Its methods are called in the actor's turn and
// never block.
type Host interface {
	// Start begins with each start of the actor; wake says, from any goroutine, that there
	// may be something new: Drain follows at once, Look soon.
	Start(wake func())
	Drain()
	Publish(p commitconfirm.Publish)
	// Trouble says what keeps a wish from being what runs, "" for nothing.
	Trouble(text string)
	Observe() Observation
	Stop()
}

// Observation is what there is to be seen of the host.
type Observation struct {
	// Settled says that everything wanted by the last publication has answered it.
	Settled    bool
	Health     []nodeproto.Health // by name
	Parameters []nodeproto.Parameter
	Ports      []nodeproto.Port // by label
}

// Runner does what a difference entails.
type Runner interface {
	// Do does one step, until ctx ends. document is what the node runs.
	Do(ctx context.Context, do action.Do, document config.Object) error
	// Restart begins the end of the agent (action.NameRestart) or of the machine
	// (action.NameReboot); without an error the end follows.
	Restart(ctx context.Context, name string) error
}

// Facts are what a node knows of itself.
type Facts struct {
	Name       string
	Software   string // version string
	Firmware   string // "" for none
	Board      string // "" for unknown
	Controller string // HOST:PORT of the one that it joined, "" for none
	Bases      map[string]config.Object
	Hardware   map[string]config.Object // of its board; nil where it has no type for it
	Metadata   *metadata.Metadata
	Actions    action.Table
}

// Notes are what is kept beside the configs.
type Notes struct {
	Managed *bool           `json:"managed,omitempty"` // what the node was told last; nil for never
	Held    *nodeproto.Held `json:"held,omitempty"`
}

// Happening is one thing that people may want to know of.
type Happening struct {
	What  commitconfirm.What
	About commitconfirm.Echo
	Why   string
}

// Request is a config that a person or a file wants.
type Request struct {
	Document config.Object
	Verdict  *commitconfirm.Verdict // nil: the agent asks the Judge
	Local    bool                   // against the controller, until Release
	By       string                 // who wants it
	Confirm  time.Duration
}

// Status is how a node stands.
type Status struct {
	commitconfirm.State
	Settled    bool // the pending config was applied, and its actions have run
	Managed    *bool
	Held       *nodeproto.Held
	Controller string
	Linked     bool // the controller can be reached
}
