package fleet

import (
	"time"

	"edgespan/config/layers"
	"edgespan/config/stateloop/peer"
)

// Event is something that happened to one node.
type Event interface{ event() }

type (
	// Known lists every source that knows the node; it replaces the Known before. A node with none of the three is
	// unknown.
	Known struct {
		Topology bool
		Joined   bool      // it has a certificate that is not revoked
		Token    time.Time // when the join token that is open for it expires; zero without one
	}
	// Desired is the node's desired config; it replaces the Desired before.
	Desired struct {
		Digest
		Generation Generation
		For        layers.Versions // the versions that it was computed for
		Managed    bool            // sysParams.managedConfig of the effective config
		Unknown    bool            // the hardware is unknown: configs that belong to it may be missing
		// With is the PeerConfiguration that belongs to the config, nil for none. It is read-only, and the same pointer as
		// long as it declares the same.
		With  *peer.Configuration
		Fault string // why there is no config ("ports: is an object in …"); Digest and Managed are then invalid
		// Trial is the time after which the node undoes the config: it is on trial, whatever a rollout admits, and never
		// confirmed. 0: it is not.
		Trial time.Duration
	}
	// Connected reports a node's stream to any replica of the controller. It replaces the stream before.
	Connected struct{ Stream, Replica string }
	// Disconnected reports the end of a stream. It is ignored for a stream that was replaced.
	Disconnected struct{ Stream string }
	// ReportReceived is the state that a node reports, every few seconds.
	ReportReceived struct {
		Stream     string
		Digest     Digest // Config is "" if the node can't read its config
		Generation Generation
		Restores   Generation // the generation whose config it runs, if the node allocated a number by itself
		layers.Versions
		Managed *bool          // what the controller sent last; nil for never
		Held    *Held          // the node keeps a local config
		Pending *PendingConfig // the node runs a config that is not confirmed
		Bad     []string       // health items and parameters that are bad
		Results []Result       // of the actions of the last config
		// Parts are the parameters that the node reports: true for one that it reports Absent in its answer to this
		// generation. The controller asks for them only while Parting is true.
		Parts   map[string]bool
		Settled bool // no work is left on the node
	}
	// Acked reports that a push arrived.
	Acked struct{ Attempt uint64 }
	// Rejected reports that the node's validation rejected the push.
	Rejected struct {
		Attempt uint64
		Digest  Digest
		Faults  string
	}
	// NotStored reports that a push arrived and that the node could not store it: its disk is full or broken. It is pushed
	// again after the interval, because the config is not at fault.
	NotStored struct {
		Attempt uint64
		Digest  Digest // Peer is ignored
		Why     string
	}
	// Undone reports that the node returned to its confirmed config by itself.
	Undone struct {
		Attempt uint64
		Digest  Digest
		Reason  Reason // Unhealthy or Unconfirmed
		Why     string
	}
	// Answered is the node's answer to Probe.
	Answered struct {
		Stream     string
		Probe      uint64
		Generation Generation
		Digest     Digest
		Worse      []string // items that were good before the config and are bad now
	}
	// Asked is the answer to RequestBaseConfig: the node was asked, or may not be asked yet.
	Asked struct {
		Granted bool
		Next    time.Time // when the node may be asked again
	}
	// Compared is the answer to Compare.
	Compared struct {
		Desired, Running Digest
		Removes          []string // objects that the node runs and the desired config lacks
	}
	// AdoptionDecided is an operator's decision: with Replace, a push may remove the node's own objects. Without, they are
	// imported into the layers, and the resulting desired config removes nothing.
	AdoptionDecided struct{ Replace bool }
	// ReleaseAsked is an operator's request to end the node's local config.
	ReleaseAsked struct{ By string }
	// Retry is an operator's request to push again at once, including configs that failed before.
	Retry struct{}
	// Admission comes from the rollout: while Staged, the node gets the config Open and no other.
	Admission struct {
		Staged bool
		Open   Digest
	}
	// Recalled is the node's memory as another replica stored it. It does not follow this replica's own writes.
	Recalled struct{ Memory }
	// Unread reports that the stored memory can't be read, as a newer version may have written it. Until Recalled comes,
	// nothing is pushed or stored.
	Unread struct{ Why string }
	// TooLarge reports that the store rejects the memory for its size: the older half of its failures is dropped.
	TooLarge struct{}
	// Changed brings new settings. The name of the replica does not change.
	Changed struct{ Settings }
	// Tick reports that the timer fired, or asks for another look at the node.
	Tick struct{}
)

func (Known) event()           {}
func (Desired) event()         {}
func (Connected) event()       {}
func (Disconnected) event()    {}
func (ReportReceived) event()  {}
func (Acked) event()           {}
func (Rejected) event()        {}
func (NotStored) event()       {}
func (Undone) event()          {}
func (Answered) event()        {}
func (Asked) event()           {}
func (Compared) event()        {}
func (AdoptionDecided) event() {}
func (ReleaseAsked) event()    {}
func (Retry) event()           {}
func (Admission) event()       {}
func (Recalled) event()        {}
func (Unread) event()          {}
func (TooLarge) event()        {}
func (Changed) event()         {}
func (Tick) event()            {}

// Held is a local config that the node keeps instead of the controller's.
type Held struct {
	By    string
	Since time.Time
}

// PendingConfig is a config that the node undoes unless it is confirmed in time.
type PendingConfig struct {
	Generation Generation
	Settled    bool          // it was applied, and its actions have finished
	Remaining  time.Duration // until the node undoes it
	Worse      []string      // items that were good before it and are bad now
}

// Result is the outcome of one post-config action: done, failed, unsupported, skipped.
type Result struct{ Action, Result, Why string }

// Effect is something for the caller to do. Effects are executed in order: Save is stored before the effects after it
// are sent.
type Effect interface{ effect() }

type (
	// Push sends the desired config, or only its generation if the node has the config already.
	Push struct {
		Attempt    uint64 // echoed by Acked, Rejected and Undone; 0 without a config
		Generation Generation
		Digest     Digest
		Whole      bool
		Confirm    time.Duration // how long the node waits for the confirmation; 0 without a config
	}
	// SetManaged sends the node, outside the config, whether it is managed.
	SetManaged struct{ Managed bool }
	// Probe begins a round trip on the node's stream.
	Probe struct{ Probe uint64 }
	// Confirm makes the node keep the config that it runs.
	Confirm struct{ Generation Generation }
	// Release ends the node's local config.
	Release struct{}
	// Compute asks for the desired config for the versions that the node reports.
	Compute struct{ layers.Versions }
	// Compare asks which objects that the node runs the desired config would remove.
	Compare struct{ Desired, Running Digest }
	// RequestBaseConfig asks the node for its base config, hardware config and metadata. Queries decides whether the node
	// may be asked now; Asked brings that decision.
	RequestBaseConfig struct{ Board string }
	// SetTimer requests a Tick at a time and replaces the timer before; zero stops it.
	SetTimer struct{ At time.Time }
	// Save stores what must survive. A node's answer is acknowledged only after that: until then the node repeats it.
	Save struct{ Memory }
	// Status reports that the node's state changed, or belongs to another config.
	Status struct {
		state State // the internal state, before State.shown
		Why   string
	}
)

func (Push) effect()              {}
func (SetManaged) effect()        {}
func (Probe) effect()             {}
func (Confirm) effect()           {}
func (Release) effect()           {}
func (Compute) effect()           {}
func (Compare) effect()           {}
func (RequestBaseConfig) effect() {}
func (SetTimer) effect()          {}
func (Save) effect()              {}
func (Status) effect()            {}
