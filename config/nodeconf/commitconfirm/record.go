package commitconfirm

import (
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

// Source is where a config came from.
type Source string

// A Rollback is what an undo went back to, and an older config that a person took again.
const (
	Push     Source = "controller"
	Apply    Source = "apply"
	Rollback Source = "rollback"
	File     Source = "file"
	Base     Source = "base" // the latest base, for want of any other
)

// Generation is the number of one wish; Authority is the controller's store or this
// node's journal.
type Generation = config.Generation

// Echo is what a node reports of the config that is in force.
type Echo struct {
	Generation Generation
	MD5        string
}

// Reason is why a config was undone.
type Reason string

// After Unhealthy a controller doesn't push the config again until something changes; after
// Unconfirmed it does after its interval.
const (
	Unhealthy   Reason = "unhealthy"
	Unconfirmed Reason = "unconfirmed"
)

// Undone says which config was given up, and why.
type Undone struct {
	Echo
	Reason  Reason
	Why     string // for people
	Attempt uint64 // of a push
}

// Record is a config with what is known of it.
type Record struct {
	Seq        uint64 // rises with each record; from 1
	Authority  string // whose number Seq is
	Source     Source
	Generation Generation
	Restores   Generation // of a Rollback: what it went back to
	FileDigest string     // of the file that was applied last; it stays through other sources
	Document   config.Object
	Peer       string // the PeerConfiguration that goes with the document; opaque here
	Attempt    uint64 // of a Push

	// md5 is the document's, where it was spelled already: that takes as long as reading it,
	// and each report names it. Copies of a record keep it, a file does not.
	md5 string

	Open    bool            // it was not applied yet, to the end of its actions
	Due     config.Object   // the full difference whose actions are not known to be done
	Before  Echo            // what is reported while it is open
	Restart string          // a restart that it asked for and that did not happen yet: the action's name
	Machine string          // the machine's boot at which it asked
	Results []action.Result // of its actions

	Wait     time.Duration // of a pending one: so long it may stay without being confirmed
	Good     []string      // health items that were good before it, sorted
	Undo     *Undone       // of a pending one: its undo has begun
	Undone   *Undone       // of a confirmed one: what was given up for it
	Fallback bool          // no file, apply or push brought it: it removes nothing
}

// Echo is what is reported of the record once it is applied.
func (r *Record) Echo() Echo { return Echo{r.Generation, r.digest()} }

func (r *Record) digest() string {
	if r.md5 != "" {
		return r.md5
	}
	return config.MD5(r.Document)
}

// same says whether both wish for the same.
func (r *Record) same(o Candidate) bool { return r.Peer == o.Peer && r.digest() == o.MD5 }

// Clock is what is left of a pending config's time.
type Clock struct {
	Seq       uint64 // of the pending record
	Remaining time.Duration
	Starts    int  // of the agent since it is pending, that nobody had asked for
	Orderly   bool // the agent was stopped by intention
}

// Slot names one of the four files.
type Slot string

// Each is replaced as a whole.
const (
	SlotConfirmed Slot = "confirmed"
	SlotCopy      Slot = "copy"
	SlotPending   Slot = "pending"
	SlotClock     Slot = "clock"
)

// Disk is what was found at a start: nil for what is missing or could not be read, with the
// fault of the latter.
type Disk struct {
	Confirmed, Copy, Pending *Record
	Clock                    *Clock
	Faults                   map[Slot]string
}
