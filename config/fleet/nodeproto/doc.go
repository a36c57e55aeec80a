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

// FromNode is a message of a node: Hello, Report, Result, Probed, Answer or Relay.
type FromNode interface{ fromNode() }

// FromController is a message of a controller: Push, Number, Probe, Confirm, Ack, Request, Release, Managed, Renew or
// Relay.
type FromController interface{ fromController() }

// ToNode is the controller's end of the stream to one node.
type ToNode interface {
	// ID identifies a stream within one controller; it never repeats while the controller runs.
	ID() uint64
	// Send queues a message and never blocks; a queued Push or Number is replaced by a newer one. An error means that the
	// message will not arrive.
	Send(m FromController) error
	// End ends the stream; the node learns the reason and reconnects after its back-off.
	End(why string)
}

// ToController is the node's end of the stream to the controller. It lasts from Up to Down.
type ToController interface {
	// Send queues a message and never blocks; a queued Report is replaced by a newer one.
	Send(m FromNode) error
}

// Join is a node's request to join the fleet. The controller spends the token and binds node and name in one
// transaction, and refuses a node that already has another name: the certificate that it issues identifies Node.
type Join struct {
	Token string // its text, a secret
	Name  string // "": the token's name
	Node  string // UUID in lower case
	Key   string // fingerprint of the node's public key
	From  string // network address
}

// Joined is the result of a join.
type Joined struct {
	Name string // in the fleet
	// Joining identifies this join in the node's certificates, if the node was revoked before: only certificates with it
	// are valid then. "": all of the node's certificates are valid.
	Joining string
}

// Generation numbers the desired config of one node (effective config and peer configuration together). The zero value
// means none yet.
type Generation = config.Generation

// Hello is a node's first message on each stream. The controller checks Node against the certificate first; Name is
// only what the node calls itself. Address is never in a message: the controller takes it from the connection.
type Hello struct {
	Node         string // UUID in lower case
	Name         string
	Software     string // version string
	Firmware     string // version string, "" for none
	Board        string // id of the hardware board, "" for unknown
	MD5          string // of the running effective config, "" if it can't be read
	Generation   Generation
	Capabilities []string // features beyond the first version; unknown words are ignored
	Address      string   // the IP address that the node connected from
}

// Report is the current state of a node; a newer one replaces an unsent older one.
type Report struct {
	MD5        string
	Generation Generation // the one that is fully applied
	Restores   Generation // after a rollback: the generation whose config it restores
	Software   string
	Firmware   string
	Board      string
	Source     string         // file, apply, controller, rollback
	Managed    *bool          // the last value that the node received; nil for never
	Held       *Held          // held locally, nil if not
	Pending    *PendingReport // a config that awaits confirmation, nil if none
	Settled    bool           // reconciled, with nothing left to do
	Fallback   bool           // runs on a last good copy or a base; removes nothing from the host
	Health     []HealthReport
	Actions    []Action // results of the post-config actions of the running config
	Parameters []ParameterReport
	Peer       string // digest of the running PeerConfiguration, "" for none
	Ports      []Port // by label
	Events     uint64 // number of the node's last event (config/events); 0 for none, or from an older node
}

// Port describes a port of the node.
type Port struct {
	Label     string
	Addresses []string // IP addresses without prefixes; the first of each family is used
	MTU       int      // octets; 0: unknown
	PublicKey string   // of WireGuard; only under peer.KeyLabel and peer.NextKeyLabel
}

// Held says who holds a node locally, and since when.
type Held struct {
	By    string
	Since time.Time
}

// PendingReport is a config that the node will undo unless it is confirmed.
type PendingReport struct {
	Generation Generation
	Remaining  time.Duration
	Settled    bool     // it was applied, and its actions have finished
	Worse      []string // names of health items that were good before it and are bad now
}

// HealthReport is one health item of a node.
type HealthReport struct {
	Name   string
	Good   bool
	Detail string
}

// ParameterReport is the state of one declared parameter of the peer configuration.
type ParameterReport struct {
	ID         string
	Kind       string
	State      string // spelled as in the seed: Present, Absent, CreatingFailed …
	Detail     string
	Generation Generation // of the config that it answers
	Since      time.Time  // when the node observed the state; zero if unknown
	Attempts   int        // failed ones in a row
	NextTry    time.Time  // on the node; zero for none
}

// PushOutcome is the result of a push.
type PushOutcome int

const (
	Unknown     PushOutcome = iota // sent by a version with more outcomes
	Applied                        // settled, actions finished; Report has the details
	Rejected                       // invalid; nothing was changed
	Unhealthy                      // undone: a health item that was good before went bad
	Unconfirmed                    // undone: health as before, but not confirmed in time
	Accepted                       // valid and stored; Applied, Unhealthy or Unconfirmed follows
	NotStored                      // valid, but the node's disk rejected it; nothing was changed
)

// String returns the outcome in one word.
func (o PushOutcome) String() string {
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

// Result is the result of one push. A node repeats a final one (Rejected, Unhealthy, Unconfirmed) on each stream until
// an Ack names its attempt.
type Result struct {
	Attempt    uint64     // of the push
	Generation Generation // of the push
	MD5        string     // of the pushed document
	Outcome    PushOutcome
	Restored   Generation    // the generation that an undo restored
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

// Push is a complete config for a node, with the time limit for its confirmation. Documents are in canonical form.
type Push struct {
	Attempt           uint64 // counts the pushes to this node; echoed by each Result
	Generation        Generation
	MD5               string // of Document
	Document          []byte // the effective config
	PeerConfiguration []byte
	Confirm           time.Duration // 0: no confirmation is needed
	Managed           bool
	Trace             string // traceparent of the write that it comes from; "" for none
	Cause             string // what made the controller push, for people; "" from an older controller
}

// Number gives the running config of a node a new generation: nothing is applied, no action runs, nothing needs a
// confirmation.
type Number struct{ Generation Generation }

// Probe begins a round trip: the node answers Probed with the same number.
type Probe struct{ Number uint64 }

// Probed answers a Probe: what the node runs, and the health items that were good before its pending config and are bad
// now.
type Probed struct {
	Number     uint64
	Generation Generation
	MD5        string
	Peer       string // as in a Report
	Worse      []string
}

// Ack reports that the Result of an attempt is stored and need not be repeated.
type Ack struct{ Attempt uint64 }

// Confirm confirms a pending config.
type Confirm struct{ Generation Generation }

// The kinds of Request. The Data of requests and answers is JSON.
const (
	RequestBaseConfig = "base-config" // for hardware that the controller does not know; answered by a BaseConfig
	RequestPreview    = "preview"     // which actions would the document in Data trigger; answered by a Preview
	RequestConfig     = "config"      // the document that the node runs
	RequestEvents     = "events"      // an events.Request; answered by an events.Answer
)

// BaseConfig answers RequestBaseConfig: the latest config of each kind that the node has, by version.
type BaseConfig struct {
	Base     map[string]config.Object `json:"base,omitempty"`
	Hardware map[string]config.Object `json:"hardware,omitempty"` // none if the node has no type for its board
	Metadata config.Object            `json:"metadata,omitempty"` // expanded
}

// PreviewAnswer answers RequestPreview.
type PreviewAnswer struct {
	Actions []PreviewAction `json:"actions"` // in execution order
}

// PreviewAction is one action that a document would trigger.
type PreviewAction struct {
	Name      string   `json:"name"`
	Keys      []string `json:"keys"`      // config.FormatPath of the keys that trigger it
	Supported bool     `json:"supported"` // the node can execute it
}

// Request is a request to a node. The answer has the same ID, which does not repeat on one stream.
type Request struct {
	ID   uint64
	Kind string
	Data []byte
}

// CanRelay is the capability of a node that answers relays.
const CanRelay = "relay"

// Relay is one step of a relay: bytes both ways beside the other messages, until either side ends it. The controller
// opens it, with a message that has a Kind. Each side sends at most as many messages with data as the other one has
// credited, so that a slow reader delays no other message (actors/relay).
type Relay struct {
	ID     uint64 // does not repeat on one stream
	Kind   string // opens it; Data is its argument then, and uses no credit
	Data   []byte
	Credit uint64 // how many more messages with data the other side may send
	End    bool   // nothing follows, from either side
	Error  string // of an End, "" if everything was sent
}

// The kinds of Relay.
const (
	RelaySupport = "support" // a support archive; Data is a SupportRequest in JSON
	// RelayShell is one command of a debug shell: Data is a ShellRequest, and each answer a frame, in lines of JSON.
	RelayShell = "shell"
)

// RelaysOf returns how many relays of a kind one node answers at a time.
func RelaysOf(kind string) int {
	if kind == RelayShell { // a stream, and what is asked beside it
		return 3
	}
	return 1
}

// ShellRequest is one command of a debug shell (pubsub/shellproto).
type ShellRequest struct {
	Op    string   `json:"op"`
	Args  []string `json:"args,omitempty"`
	Write bool     `json:"write,omitempty"`
	By    string   `json:"by"` // who asks the controller for it
}

// SupportRequest says what a support archive of a node has.
type SupportRequest struct {
	Since  time.Duration `json:"since,omitempty"` // how far log and events go back; 0: the node's default
	NoLogs bool          `json:"noLogs,omitempty"`
	Flows  bool          `json:"flows,omitempty"`
	By     string        `json:"by"` // who asks the controller for it
}

// Release ends a local hold: the node takes its config from the controller again.
type Release struct{}

// Managed sets, outside the config, whether the controller manages the node.
type Managed struct{ On bool }

// Renew makes a node renew its certificate now, instead of after two thirds of its life.
type Renew struct{}

func (Hello) fromNode()  {}
func (Report) fromNode() {}
func (Result) fromNode() {}
func (Answer) fromNode() {}
func (Probed) fromNode() {}
func (Relay) fromNode()  {}

func (Push) fromController()    {}
func (Number) fromController()  {}
func (Confirm) fromController() {}
func (Request) fromController() {}
func (Release) fromController() {}
func (Managed) fromController() {}
func (Renew) fromController()   {}
func (Probe) fromController()   {}
func (Ack) fromController()     {}
func (Relay) fromController()   {}
