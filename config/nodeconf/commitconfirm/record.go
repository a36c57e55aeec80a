package commitconfirm

import (
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

// Source is the origin of a config.
type Source string

// Rollback is the source both of an undo and of an older config that a person applied again.
const (
	Push     Source = "controller"
	Apply    Source = "apply"
	Rollback Source = "rollback"
	File     Source = "file"
	Base     Source = "base" // the latest base, if there is no other config
)

// Generation identifies a desired config; its authority is the controller's store or this node's journal.
type Generation = config.Generation

// Echo is the node's report of its current config.
type Echo struct {
	Generation Generation
	MD5        string
}

// Reason is the cause of an undo.
type Reason string

// After Unhealthy a controller does not push the config again until something changes; after Unconfirmed it pushes
// again after its interval.
const (
	Unhealthy   Reason = "unhealthy"
	Unconfirmed Reason = "unconfirmed"
)

// Undone names the config that was undone, and the reason.
type Undone struct {
	Echo
	Reason  Reason
	Why     string // for people
	Attempt uint64 // of a push
}

// ConfigRecord is a config with its state.
type ConfigRecord struct {
	Seq        uint64 // rises with each record, from 1
	Authority  string // the authority of Seq
	Source     Source
	Generation Generation
	Restores   Generation // of a Rollback: the generation it returned to
	FileDigest string     // of the file that was applied last; configs from other sources keep it
	Document   config.Object
	Peer       string // the PeerConfiguration that goes with the document; opaque here
	Attempt    uint64 // of a Push
	By         string `json:",omitempty"` // of the Candidate

	// md5 caches the digest of the document: computing it takes as long as reading the document, and each report names
	// it. Copies of a record keep it, files do not.
	md5 string
	// text caches the canonical form of the document, nil if it is not known: a push brings it, and two slots store it.
	text []byte

	Open    bool            // its actions are not all done yet
	Due     config.Object   // the full difference whose actions are not known to be done
	Before  Echo            // the report while it is open
	Restart string          // name of a restart action that it requested and that has not happened yet
	Machine string          // the machine's boot ID at the request
	Results []action.Result // of its actions

	Wait     time.Duration // of a pending config: the time to confirm it
	Good     []string      // health items that were good before it, sorted
	Undo     *Undone       // of a pending config: its undo has begun
	Undone   *Undone       // of a confirmed config: the config that was undone for it
	Fallback bool          // neither a file, an apply nor a push brought it: it removes nothing
}

// Echo returns the report of the record once it is applied.
func (r *ConfigRecord) Echo() Echo { return Echo{r.Generation, r.digest()} }

func (r *ConfigRecord) digest() string {
	if r.md5 != "" {
		return r.md5
	}
	return config.MD5(r.Document)
}

// matches reports whether record and candidate desire the same config.
func (r *ConfigRecord) matches(o Candidate) bool { return r.Peer == o.Peer && r.digest() == o.MD5 }

// Clock is the rest of a pending config's time.
type Clock struct {
	Seq       uint64 // of the pending record
	Remaining time.Duration
	Starts    int  // unrequested starts of the agent while the config is pending
	Orderly   bool // the agent was stopped by intention
}

// Slot names one of the four files.
type Slot string

// The slots; each is replaced atomically.
const (
	SlotConfirmed Slot = "confirmed"
	SlotCopy      Slot = "copy"
	SlotPending   Slot = "pending"
	SlotClock     Slot = "clock"
)

// Disk is the state found at a start: nil for a record that is missing or unreadable, with the fault if it is
// unreadable.
type Disk struct {
	Confirmed, Copy, Pending *ConfigRecord
	Clock                    *Clock
	Faults                   map[Slot]string
}
