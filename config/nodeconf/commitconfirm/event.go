package commitconfirm

import (
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

// Event is an input of the machine.
type Event interface{ event() }

type (
	// Boot is the start of the agent and the first event.
	Boot struct {
		Start   string // a UUID that no other start has
		Machine string // the machine's boot ID: it changes with each boot
		Disk    Disk
		Bases   map[string]config.Object // of the image, by name
	}
	// Candidate is a config that the node is asked to apply.
	Candidate struct {
		Source     Source
		Generation Generation // of a push; others get a number of the node's journal
		Document   config.Object
		MD5        string // MD5 of the document if the sender has computed it, else ""
		Text       []byte // canonical form of the document if the sender has it, else nil; it is never changed
		Peer       string
		FileDigest string        // of a File
		Attempt    uint64        // of a push: the controller's number for it
		By         string        // who or what it is from, for people: a user, a file, a rollout
		Confirm    time.Duration // time until it is undone; 0 for never, but DefaultConfirm for a push
		DryRun     bool          // only report the effect
		// Validate returns the faults of the document and of its PeerConfiguration by the node's own metadata. The machine
		// calls it only if nothing else decides.
		Validate func() config.Faults
	}
	// Stored answers each Write: the content is on the disk, or the write failed and the old content remains.
	Stored struct{ Why string } // "" for success
	// Settled reports that the published config is observed on the host.
	Settled struct {
		ID    int
		Items map[string]bool // health, if it is known at once
	}
	// TimedOut reports that the timer with this number has ended.
	TimedOut struct{ ID int }
	// ActionsDone answers RunActions: every action of the difference has a result, except the restart that follows.
	ActionsDone struct {
		ID      int
		Results []action.Result
		Restart string // action.NameRestart, action.NameReboot or ""
	}
	// RestartFailed reports that a restart could not begin.
	RestartFailed struct{ Why string }
	// Confirmed is a person's confirmation.
	Confirmed struct {
		Generation Generation // the config to confirm; the zero value means any pending config
		DryRun     bool
	}
	// ControllerAnswered ends a round trip: the controller has the node's report and answers with its desired generation.
	ControllerAnswered struct {
		Nonce      Nonce // of the RequestVerdict that it answers
		Generation Generation
	}
	// HealthChanged names the items that are good (true) and bad (false).
	HealthChanged struct{ Items map[string]bool }
	// Tick reports how much time has passed since the last one, by the monotonic clock.
	Tick struct{ Elapsed time.Duration }
	// RollbackAsked requests an undo of the pending config.
	RollbackAsked struct{}
	// Stopping reports that the agent ends by intention; the process ends after the effects of this event.
	Stopping struct{}
	// expired is the machine's own event: the time of the pending config is over.
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
func (HealthChanged) event()      {}
func (Tick) event()               {}
func (RollbackAsked) event()      {}
func (Stopping) event()           {}
func (expired) event()            {}

// Verdict is the result of validating a document and its PeerConfiguration: the faults of both.
type Verdict struct {
	Config   any // the value to publish; nil if there are faults
	Warnings config.Faults
	Faults   config.Faults
}

// Nonce numbers a question. No nonce repeats, across restarts included.
type Nonce struct {
	Start  string
	Number int
}

// Effect is an output of the machine. The effects of a step are executed in order.
type Effect interface{ effect() }

type (
	// Write replaces a slot by the record or the clock, or removes it if both are nil. Stored answers it; one Write is
	// in flight at a time.
	Write struct {
		Slot   Slot
		Record *ConfigRecord
		Clock  *Clock
	}
	// Publish makes a config the node's current one. Settled answers it.
	Publish struct {
		ID         int
		Seq        uint64 // of the record
		Source     Source
		Generation Generation
		By         string
		FileDigest string // of the file that was applied last
		Document   config.Object
		Peer       string
		Keep       bool // the config may remove nothing from the host
		Config     any  // of the Verdict: the validator puts it here
	}
	// StartTimer starts a timer; TimedOut answers it.
	StartTimer struct {
		ID    int
		After time.Duration
	}
	// RunActions runs the actions of a difference, except a restart.
	RunActions struct {
		ID      int
		Diff    config.Object
		Reverse bool // of an undo
	}
	// Restart restarts the agent or the machine.
	Restart struct{ Action string }
	// Undo reports that the pending config is given up.
	Undo struct{ Undone }
	// RequestVerdict begins a round trip to the controller with a report that carries the nonce.
	RequestVerdict struct {
		Nonce Nonce
		Echo  Echo
	}
	// Announce describes an event to people and to the controller.
	Announce struct {
		What   Outcome
		Echo   Echo // the config of the report
		Why    string
		Faults config.Faults
		Diff   config.Object // of a dry run: the changes
	}
)

func (Write) effect()          {}
func (Publish) effect()        {}
func (StartTimer) effect()     {}
func (RunActions) effect()     {}
func (Restart) effect()        {}
func (Undo) effect()           {}
func (RequestVerdict) effect() {}
func (Announce) effect()       {}

// Outcome is the subject of a report.
type Outcome string

// A candidate ends with Rejected, Refused, Superseded, Accepted, Renumbered, Unchanged or WouldTake; a person's command
// ends with NowConfirmed, Undo, WouldConfirm or Declined.
const (
	Rejected     Outcome = "rejected"      // the document has faults
	Refused      Outcome = "refused"       // the disk can't be written
	Declined     Outcome = "declined"      // there is nothing to confirm or to roll back
	Superseded   Outcome = "superseded"    // a newer candidate came before this one was accepted
	Accepted     Outcome = "accepted"      // on the disk and published
	WouldTake    Outcome = "would take"    // a dry run
	WouldConfirm Outcome = "would confirm" // a dry run
	Unchanged    Outcome = "unchanged"     // the file was applied before
	Renumbered   Outcome = "renumbered"    // the config is the same, only its generation is new
	Applied      Outcome = "applied"       // its actions are done
	NowConfirmed Outcome = "confirmed"
	Unready      Outcome = "not confirmed" // an item that was good is bad
	WentBack     Outcome = "gone back"     // an undo has ended
	OnFallback   Outcome = "fallback"      // the node's config could not be read
	NotRun       Outcome = "not run"       // actions whose config is unknown by now
	Trouble      Outcome = "trouble"       // the disk failed
)
