package fleet

import (
	"time"

	"edgespan/config/layers"
	"edgespan/config/stateloop/peer"
)

// Event is what happened to one node.
type Event interface{ event() }

type (
	// Known says where a node is known from, all of it each time. A node that is in none
	// of the three is no node of ours.
	Known struct {
		Topology bool
		Joined   bool      // it has a certificate that is not revoked
		Token    time.Time // until when a join token for it is open; zero without one
	}
	// Desired is what a node shall have, all of it each time.
	Desired struct {
		Digest
		Generation Generation
		For        layers.Versions // that it was computed for
		Managed    bool            // sysParams.managedConfig of the effective config
		Unknown    bool            // the hardware is: what belongs to it may be missing
		// With is the PeerConfiguration that goes with it, nil for none; nobody changes it. Where
		// it declares the same it is the same one.
		With  *peer.Configuration
		Fault string // why there is no config ("ports: is an object in …"); Digest and Managed mean nothing then
	}
	// Connected comes with a node's stream, to any replica of the controller. It replaces
	// the stream before.
	Connected struct{ Stream, Replica string }
	// Disconnected is the end of a stream. That of one that was replaced is no news.
	Disconnected struct{ Stream string }
	// Report is what a node says of itself, every few seconds.
	Report struct {
		Stream     string
		Digest     Digest // Config is "" where the node can't read its config
		Generation Generation
		Restores   Generation // the one whose config it runs, where the node took a number of its own
		layers.Versions
		Managed *bool          // what it was told last; nil for never
		Held    *Held          // it keeps a local config
		Pending *PendingConfig // it runs a config that nobody has confirmed
		Bad     []string       // health items and parameters that are bad
		Results []Result       // of the last config's actions
		// Parts are the parameters that the node reports: true for one that it reports Absent in
		// its answer to this generation. They are only asked for where Parting says so.
		Parts   map[string]bool
		Settled bool // it is at nothing any more
	}
	// Acked says that a push has arrived.
	Acked struct{ Attempt uint64 }
	// Rejected says that the node did not take what was pushed.
	Rejected struct {
		Attempt uint64
		Digest  Digest
		Faults  string
	}
	// NotStored says that a push has arrived and that the node's disk has no room for it, or
	// is broken: it is pushed again after the interval, as what is wrong is not the config.
	NotStored struct {
		Attempt uint64
		Digest  Digest // Peer is not looked at
		Why     string
	}
	// Undone says that the node went back by itself to what was confirmed before.
	Undone struct {
		Attempt uint64
		Digest  Digest
		Reason  Reason // Unhealthy or Unconfirmed
		Why     string
	}
	// Answered is the other half of the round trip that Probe began.
	Answered struct {
		Stream     string
		Probe      uint64
		Generation Generation
		Digest     Digest
		Worse      []string // good before the config, bad now
	}
	// Asked tells what became of AskBaseConfig: the node was asked, or not yet.
	Asked struct {
		Granted bool
		Next    time.Time // when it may ask again
	}
	// Compared is the answer to Compare.
	Compared struct {
		Desired, Running Digest
		Removes          []string // objects that the node runs and the wanted config has not
	}
	// AdoptionDecided is an operator's: with Replace the node's own objects may go. Without,
	// they are imported into the layers: the wanted config that comes of it removes nothing.
	AdoptionDecided struct{ Replace bool }
	// ReleaseAsked is an operator's who ends a local config.
	ReleaseAsked struct{ By string }
	// Retry is an operator's: what failed before is tried again, and now.
	Retry struct{}
	// Admission is the rollout's: while Staged, a node gets the config Open and no other.
	Admission struct {
		Staged bool
		Open   Digest
	}
	// Recalled is what the store has of the node, written by another replica. Own writes
	// are not told.
	Recalled struct{ Memory }
	// Unread is that the store has something of the node that can't be read here, as a newer
	// version may have written it. Until it is recalled nothing is judged, pushed or stored.
	Unread struct{ Why string }
	// TooLarge is that the store does not take the memory: the older half of its failures is forgotten.
	TooLarge struct{}
	// Changed is other settings, from now on. The replica stays what it is.
	Changed struct{ Settings }
	// Tick is the timer, or any other moment to look.
	Tick struct{}
)

func (Known) event()           {}
func (Desired) event()         {}
func (Connected) event()       {}
func (Disconnected) event()    {}
func (Report) event()          {}
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

// Held is a local config that the node keeps against the controller's.
type Held struct {
	By    string
	Since time.Time
}

// PendingConfig is a config that the node undoes unless it is confirmed in time.
type PendingConfig struct {
	Generation Generation
	Settled    bool          // it was applied, and its actions have run
	Remaining  time.Duration // until the node undoes it
	Worse      []string      // good before it, bad now
}

// Result is what became of one post-config action: done, failed, unsupported, skipped.
type Result struct{ Action, Result, Why string }

// Effect is what to do now. Effects are done in their order: Save is stored before what
// comes after it is sent.
type Effect interface{ effect() }

type (
	// Push sends the wanted config, or only its number where the node has it already.
	Push struct {
		Attempt    uint64 // echoed by Acked, Rejected and Undone; 0 for a number
		Generation Generation
		Digest     Digest
		Whole      bool
		Confirm    time.Duration // in which the config must be confirmed; 0 for a number
	}
	// SetManaged says to the node, outside the config, whether it is managed.
	SetManaged struct{ Managed bool }
	// Probe begins a round trip on the node's stream.
	Probe struct{ Probe uint64 }
	// Confirm makes the node keep what it runs.
	Confirm struct{ Generation Generation }
	// Release ends the node's local config.
	Release struct{}
	// Compute asks for the wanted config of versions that the node reports.
	Compute struct{ layers.Versions }
	// Compare asks what the wanted config would remove of what the node runs.
	Compare struct{ Desired, Running Digest }
	// RequestBaseConfig wants the node to be asked for its base config, hardware config and
	// metadata. Queries says whether that may be; Asked brings its answer.
	RequestBaseConfig struct{ Board string }
	// SetTimer asks for Tick at a time, in place of the one before; zero is none.
	SetTimer struct{ At time.Time }
	// Save stores what must survive. An answer of the node is acknowledged after that only:
	// until then the node says it again.
	Save struct{ Memory }
	// Status is the news that a node's state is another, or another config's.
	Status struct {
		state State // as the machine tells it apart
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
