package commitconfirm

import (
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

// Event is what happened.
type Event interface{ event() }

type (
	// Boot is the start of the agent. It comes first.
	Boot struct {
		Start   string // a UUID that no other start has or had
		Machine string // the machine's boot id: another one after each of its boots
		Disk    Disk
		Bases   map[string]config.Object // of the image, by name
	}
	// Candidate is a config that the node is to take.
	Candidate struct {
		Source     Source
		Generation Generation // of a push; others get a number of the node's journal
		Document   config.Object
		MD5        string // of the document, by who has spelled it already; "" for nobody
		Peer       string
		FileDigest string        // of a File
		Attempt    uint64        // of a push: the controller's number for it
		Confirm    time.Duration // undone after it; none stands at once, but a push has DefaultConfirm
		DryRun     bool          // say what would happen
		// Validate gives the faults of the document and of the PeerConfiguration that goes with it, by the node's own
		// metadata. It is asked only where nothing else decides.
		Validate func() config.Faults
	}
	// Stored answers each Write: it is on the disk, or it is not and the old content is.
	Stored struct{ Why string } // "" for well
	// Settled says that what was published is observed on the host.
	Settled struct {
		ID    int
		Items map[string]bool // health, where it is known at once
	}
	// TimedOut is the end of the timer that was set with this number.
	TimedOut struct{ ID int }
	// ActionsDone answers RunActions: every action of the difference has a result, save the
	// restart that is to come.
	ActionsDone struct {
		ID      int
		Results []action.Result
		Restart string // action.NameRestart, action.NameReboot or ""
	}
	// RestartFailed says that a restart could not be begun.
	RestartFailed struct{ Why string }
	// Confirmed is the word of a person.
	Confirmed struct {
		Generation Generation // which one; the zero one is whatever is pending
		DryRun     bool
	}
	// ControllerAnswered is the end of a round trip: the controller has the node's report and
	// says what it wants.
	ControllerAnswered struct {
		Nonce      Nonce // of the Ask that it answers
		Generation Generation
	}
	// Health is what is good now, and what is not, by name.
	Health struct{ Items map[string]bool }
	// Tick says how much time passed since the last one, by a clock that nobody sets.
	Tick struct{ Elapsed time.Duration }
	// RollbackAsked undoes what is pending.
	RollbackAsked struct{}
	// Stopping says that the agent is to end, by intention; the process ends after its effects.
	Stopping struct{}
	// expired is the machine's own: the time of what is pending is over.
	expired struct{}
)

func (Boot) event()               {}
func (Candidate) event()          {}
func (Stored) event()             {}
func (Settled) event()            {}
func (TimedOut) event()           {}
func (ActionsDone) event()        {}
func (RestartFailed) event()      {}
func (Confirmed) event()          {}
func (ControllerAnswered) event() {}
func (Health) event()             {}
func (Tick) event()               {}
func (RollbackAsked) event()      {}
func (Stopping) event()           {}
func (expired) event()            {}

// Verdict is what a document and its PeerConfiguration come to: the faults of both.
type Verdict struct {
	Config   any // what is published; nothing with Faults
	Warnings config.Faults
	Faults   config.Faults
}

// Nonce is a question's number. None repeats, restarts included.
type Nonce struct {
	Start  string
	Number int
}

// Effect is what to do now. Effects of a step are done in their order.
type Effect interface{ effect() }

type (
	// Write replaces a slot: by the record, by the clock, or by nothing where both are nil.
	// It is answered by Stored; there is one at a time.
	Write struct {
		Slot   Slot
		Record *Record
		Clock  *Clock
	}
	// Publish makes a config the node's. Settled answers.
	Publish struct {
		ID         int
		Seq        uint64 // of the record
		Source     Source
		Generation Generation
		FileDigest string // of the file that was applied last
		Document   config.Object
		Peer       string
		Keep       bool // nothing may be removed from the host by it
		Config     any  // of the Verdict: who validates the document puts it here
	}
	// StartTimer asks for TimedOut.
	StartTimer struct {
		ID    int
		After time.Duration
	}
	// RunActions runs the actions of a difference, all but a restart.
	RunActions struct {
		ID      int
		Diff    config.Object
		Reverse bool // of an undo
	}
	// Restart ends the agent or the machine.
	Restart struct{ Action string }
	// Undo says that the pending config is given up.
	Undo struct{ Undone }
	// RequestVerdict begins a round trip to the controller: a report that carries the nonce.
	RequestVerdict struct {
		Nonce Nonce
		Echo  Echo
	}
	// Report tells people and the controller what happened.
	Report struct {
		What   What
		Echo   Echo // the config that it is about
		Why    string
		Faults config.Faults
		Diff   config.Object // of a dry run: what would change
	}
)

func (Write) effect()          {}
func (Publish) effect()        {}
func (StartTimer) effect()     {}
func (RunActions) effect()     {}
func (Restart) effect()        {}
func (Undo) effect()           {}
func (RequestVerdict) effect() {}
func (Report) effect()         {}

// What is the matter of a report.
type What string

// Those that end an offer are Rejected, Refused, Superseded, Accepted, Renumbered,
// Unchanged and WouldTake; a word of a person ends with NowConfirmed, Undo, WouldConfirm or
// Declined.
const (
	Rejected     What = "rejected"      // the document has faults
	Refused      What = "refused"       // the disk can't be written
	Declined     What = "declined"      // there is nothing to confirm, or to go back from
	Superseded   What = "superseded"    // a newer offer came before this one was taken
	Accepted     What = "accepted"      // it is on the disk, and published
	WouldTake    What = "would take"    // a dry run
	WouldConfirm What = "would confirm" // a dry run
	Unchanged    What = "unchanged"     // the file was applied before
	Renumbered   What = "renumbered"    // the config is the same, only its generation is new
	Applied      What = "applied"       // to the end of its actions
	NowConfirmed What = "confirmed"
	Unready      What = "not confirmed" // something that was good is bad
	GoneBack     What = "gone back"     // an undo is at its end
	OnFallback   What = "fallback"      // the node's config could not be read
	NotRun       What = "not run"       // actions that nobody knows any more
	Trouble      What = "trouble"       // with the disk
)
