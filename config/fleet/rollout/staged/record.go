package staged

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/rollout"
	"edgespan/config/kv"
)

// RolloutRecord is one staged rollout in its stored form, under its revision.
type RolloutRecord struct {
	Revision  uint64    `json:"revision"`
	Revisions []uint64  `json:"revisions"` // its own, and earlier ones that it took over
	Author    string    `json:"author"`
	Message   string    `json:"message,omitempty"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended,omitzero"`
	End       string    `json:"end,omitempty"` // done, failed, aborted, superseded, released
	By        string    `json:"by,omitempty"`  // who paused or aborted it
	// no rollout brings a node a config that became desired up to this revision of the store; set by an abort
	Barrier   kv.Revision       `json:"barrier,omitempty"`
	Left      map[string]string `json:"left,omitempty"` // at its end: the nodes without the config, and why
	Machine   rollout.Memory    `json:"machine"`
	Decisions []Decision        `json:"decisions,omitempty"` // oldest first
	Obeyed    []kv.Key          `json:"obeyed,omitempty"`    // remote commands that are done, oldest first

	// other holds the fields of a newer version: they are written back as they were read.
	other config.Unknown
}

// writtenRecord is a Record without its own JSON form.
type writtenRecord RolloutRecord

// UnmarshalJSON keeps unknown fields.
func (r *RolloutRecord) UnmarshalJSON(text []byte) (err error) {
	r.other, err = config.ReadRecord(text, (*writtenRecord)(r))
	return err
}

// MarshalJSON also writes the unknown fields.
func (r RolloutRecord) MarshalJSON() ([]byte, error) {
	return config.WriteRecord(writtenRecord(r), r.other)
}

// The ends of a rollout.
const (
	EndDone       = "done"
	EndFailed     = "failed"
	EndAborted    = "aborted"
	EndSuperseded = "superseded"
	EndReleased   = "released" // the flag was turned off: all at once
)

const (
	maxDecisions = 200 // of one rollout, the newest
	maxStaged    = 10  // kept rollouts of people, and as many of the controller's own
	maxNamed     = 20  // nodes named in one decision
	maxObeyed    = 50  // remote commands kept per rollout: the sender of one waits for ten seconds
)

// Decision is one decision about a rollout, with its reason.
type Decision struct {
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"` // "" for the controller
	What string    `json:"what"`
	Why  string    `json:"why,omitempty"`
}

// RecordDecision records a decision and its reason.
func (r *RolloutRecord) RecordDecision(now time.Time, by, what, why string) {
	r.Decisions = append(r.Decisions, Decision{At: now.UTC(), By: by, What: what, Why: why})
	if n := len(r.Decisions) - maxDecisions; n > 0 {
		r.Decisions = slices.Clone(r.Decisions[n:])
	}
}

// RecordCommandDone records that the remote command at a key is done.
func (r *RolloutRecord) RecordCommandDone(k kv.Key) {
	r.Obeyed = append(r.Obeyed, k)
	if n := len(r.Obeyed) - maxObeyed; n > 0 {
		r.Obeyed = slices.Clone(r.Obeyed[n:])
	}
}

// State returns the state of a rollout in one word.
func (r *RolloutRecord) State() string {
	switch {
	case r.End != "":
		return r.End
	case r.Machine.Paused:
		return "paused"
	case r.Machine.Halted:
		return "halted"
	}
	return "running"
}

// Clone returns a copy that shares no mutable memory with s.
func (r *RolloutRecord) Clone() *RolloutRecord {
	c := *r
	c.Revisions, c.Decisions, c.Obeyed = slices.Clone(r.Revisions), slices.Clone(r.Decisions), slices.Clone(r.Obeyed)
	return &c
}

// RolloutKey returns the key of a rollout: keys sort by revision.
func RolloutKey(number uint64) kv.Key { return history.RolloutKey(fmt.Sprintf("%016x", number)) }

// NumberOf returns the revision of a rollout's key.
func NumberOf(name string) (uint64, bool) {
	n, err := strconv.ParseUint(name, 16, 64)
	return n, err == nil
}
