// Package nodeproto owns the messages between a node and its controller: plain values that the actors of both sides
// send and handle (docs/architecture.md, law 2; the wire form is platform/nodelink's and never leaves it).
//
// It bounds the size of a node's messages (bounds.go), and never validates them beyond that; it knows no wire format,
// no stream and no certificate. Sent values are shared and immutable.
//
// Read doc.go first, which has all messages.
package nodeproto

import (
	"time"

	"edgespan/config"
)

// FromNode is a message of a node: Hello, Report, Result, Probed or Answer.
type FromNode interface{ fromNode() }

// FromController is a message of a controller: Push, Number, Probe, Confirm, Ack, Ask, Release, Managed or Renew.
type FromController interface{ fromController() }

// ToNode is the stream to one node, as its controller holds it.
type ToNode interface {
	// ID tells streams of one controller apart; it never repeats while the controller runs.
	ID() uint64
	// Send queues a message and never blocks; a queued Push or Number gives way to a newer
	// one. An error says that the message will not arrive.
	Send(m FromController) error
	// End ends the stream; the node learns the reason and reconnects after its back-off.
	End(why string)
}

// ToController is the stream to the controller, as a node holds it. It lasts from Up to
// Down.
type ToController interface {
	// Send queues a message and never blocks; a queued Report gives way to a newer one.
	Send(m FromNode) error
}

// Join is a node's wish to belong to the fleet. Whoever decides spends the token and binds
// node and name in one transaction, and refuses a node that has another name already: the
// certificate that follows speaks for Node.
type Join struct {
	Token string // its text, a secret
	Name  string // "": the one that the token is for
	Node  string // UUID in lower case
	Key   string // fingerprint of the node's public key
	From  string // network address
}

// Joined is what a join made of a node.
type Joined struct {
	Name string // in the fleet
	// Joining names this join in the node's certificates, where the node was revoked before: only
	// certificates with it count then. "": all of the node's do.
	Joining string
}

// Generation numbers the wanted config of one node (effective config and peer
// configuration together). The zero value says "none yet".
type Generation = config.Generation

// Hello is a node's first message on each stream. Node is checked against the
// certificate before anybody sees it; Name is only what the node calls itself. Address is
// never in a message: the controller's side fills it in from the connection.
type Hello struct {
	Node         string // UUID in lower case
	Name         string
	Software     string // version string
	Firmware     string // version string, "" for none
	Board        string // id of the hardware board, "" for unknown
	MD5          string // of the effective config in use, "" where it cannot be read
	Generation   Generation
	Capabilities []string // what this version can do beyond the first one; unknown words are ignored
	Address      string   // the IP address that the node connected from, as the controller sees it
}

// Report is the state of a node as it is now; a newer one takes the place of an older
// one that was not sent yet.
type Report struct {
	MD5        string
	Generation Generation // the one that is fully applied
	Restores   Generation // of a rollback: whose config that is
	Software   string
	Firmware   string
	Board      string
	Source     string   // file, apply, controller, rollback
	Managed    *bool    // what the node was told last, echoed; nil for never
	Held       *Held    // held locally, nil if not
	Pending    *Pending // a config that waits for its confirmation, nil if none
	Settled    bool     // reconciled until nothing was left to do
	Fallback   bool     // runs on a last good copy or a base; removes nothing from the host
	Health     []Health
	Actions    []Action // results of the post-config actions of what it runs
	Parameters []Parameter
	Peer       string // digest of the PeerConfiguration of what it runs, "" for none
	Ports      []Port // by label
}

// Port is what is known of a port of the node.
type Port struct {
	Label     string
	Addresses []string // IP addresses without prefixes; the first one of a family counts
	MTU       int      // octets; 0: unknown
}

// Held says who holds a node locally, and since when.
type Held struct {
	By    string
	Since time.Time
}

// Pending is a config that the node will undo unless it is confirmed.
type Pending struct {
	Generation Generation
	Remaining  time.Duration
	Settled    bool     // it was applied, and its actions have run
	Worse      []string // names of health items that were good before it and are bad now
}

// Health is one thing that is good or bad on a node.
type Health struct {
	Name   string
	Good   bool
	Detail string
}

// Parameter is the state of one declared parameter of the peer configuration.
type Parameter struct {
	ID         string
	Kind       string
	State      string // spelled as in the seed: Present, Absent, CreatingFailed …
	Detail     string
	Generation Generation // of the config that it answers
	Since      time.Time  // when the node found it so; zero where it does not say
	Attempts   int        // that failed, one after the other
	NextTry    time.Time  // of the node; zero for none
}

// Outcome is what became of a config that was pushed.
type Outcome int

// The outcomes of a push.
const (
	Unknown     Outcome = iota // said by a version that knows more outcomes
	Applied                    // settled, actions done; Report says how well
	Rejected                   // faulty; nothing was touched
	Unhealthy                  // undone: a health item that was good before went bad
	Unconfirmed                // undone: health as before, but nobody confirmed
	Accepted                   // valid and stored; Applied, Unhealthy or Unconfirmed follows
	NotStored                  // valid, but the disk of the node refused it; nothing was touched
)

// String is the outcome in one word.
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case Rejected:
		return "rejected"
	case Unhealthy:
		return "unhealthy"
	case Unconfirmed:
		return "unconfirmed"
	case Accepted:
		return "accepted"
	case NotStored:
		return "not stored"
	default:
		return "unknown"
	}
}

// Result is what became of one push. A node says one that ends the matter (Rejected,
// Unhealthy, Unconfirmed) again on each stream until an Ack names its attempt.
type Result struct {
	Attempt    uint64     // of the push
	Generation Generation // of the push
	MD5        string     // of the pushed document
	Outcome    Outcome
	Restored   Generation    // which one an undo went back to
	Faults     config.Faults // why it was rejected or not stored, or what went bad
	Actions    []Action
}

// Action is the result of one post-config action.
type Action struct {
	Name   string
	State  string // done, failed, unsupported, skipped
	Detail string
}

// Answer answers one Ask; Error is "" if Data is the answer.
type Answer struct {
	ID    uint64
	Data  []byte
	Error string
}

// Push is a whole config for a node: what it shall be, and how long it may stay without
// being confirmed. Documents are in canonical form.
type Push struct {
	Attempt           uint64 // counts the pushes to this node; echoed by each Result
	Generation        Generation
	MD5               string // of Document
	Document          []byte // the effective config
	PeerConfiguration []byte
	Confirm           time.Duration // 0: no confirmation is asked for
	Managed           bool
}

// Number tells a node that what it runs now counts as this generation: nothing is
// applied, no action is done, nothing is to be confirmed.
type Number struct{ Generation Generation }

// Probe begins a round trip: the node answers Probed with the same number.
type Probe struct{ Number uint64 }

// Probed is the other half of a Probe: what the node runs, and what was good before its
// pending config and is bad now.
type Probed struct {
	Number     uint64
	Generation Generation
	MD5        string
	Peer       string // as in a Report
	Worse      []string
}

// Ack says that the Result of an attempt is kept and need not be said again.
type Ack struct{ Attempt uint64 }

// Confirm makes a pending config the confirmed one.
type Confirm struct{ Generation Generation }

// What a controller can ask a node for. The Data of questions and answers is JSON.
const (
	RequestBaseConfig = "base-config" // of hardware that the controller does not know; answered by a BaseConfig
	RequestPreview    = "preview"     // which actions would the document in Data entail; answered by a Preview
	RequestConfig     = "config"      // the document that the node runs
)

// BaseConfig answers AskBaseConfig: of each kind the latest that the node has, by version.
type BaseConfig struct {
	Base     map[string]config.Object `json:"base,omitempty"`
	Hardware map[string]config.Object `json:"hardware,omitempty"` // none where the node has no type for its board
	Metadata config.Object            `json:"metadata,omitempty"` // expanded
}

// Preview answers AskPreview.
type Preview struct {
	Actions []PreviewAction `json:"actions"` // in the order of execution
}

// PreviewAction is one action that a document would entail.
type PreviewAction struct {
	Name      string   `json:"name"`
	Keys      []string `json:"keys"`      // config.FormatPath of the entries that carry it
	Supported bool     `json:"supported"` // the node has something to do for it
}

// Request asks a node something. The answer carries the same ID, which does not repeat on
// one stream.
type Request struct {
	ID   uint64
	Kind string
	Data []byte
}

// Release ends a local hold: the node takes its config from the controller again.
type Release struct{}

// Managed tells a node, outside of its config, who rules it.
type Managed struct{ On bool }

// Renew tells a node to renew its certificate now and not when two thirds of its life
// are over.
type Renew struct{}

func (Hello) fromNode()  {}
func (Report) fromNode() {}
func (Result) fromNode() {}
func (Answer) fromNode() {}
func (Probed) fromNode() {}

func (Push) fromController()    {}
func (Number) fromController()  {}
func (Confirm) fromController() {}
func (Request) fromController() {}
func (Release) fromController() {}
func (Managed) fromController() {}
func (Renew) fromController()   {}
func (Probe) fromController()   {}
func (Ack) fromController()     {}
