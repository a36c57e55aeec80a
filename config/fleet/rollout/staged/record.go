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

// Record is one staged rollout as the store keeps it, below its revision.
type Record struct {
	Revision  uint64    `json:"revision"`
	Revisions []uint64  `json:"revisions"` // that it carries: its own, and those before that it took over
	Author    string    `json:"author"`
	Message   string    `json:"message,omitempty"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended,omitzero"`
	End       string    `json:"end,omitempty"` // done, failed, aborted, superseded, released
	By        string    `json:"by,omitempty"`  // who paused or aborted it
	// what nodes want since before it was aborted, and doesn't go out
	Barrier   kv.Revision       `json:"barrier,omitempty"`
	Left      map[string]string `json:"left,omitempty"` // at its end: who does not have it, and why
	Machine   rollout.Memory    `json:"machine"`
	Decisions []Decision        `json:"decisions,omitempty"` // the oldest first
	Obeyed    []kv.Key          `json:"obeyed,omitempty"`    // letters whose commands are done, the oldest first

	// other is what a newer version keeps beside that: it is written as it was read.
	other config.Unknown
}

// writtenRecord is a Record without its own JSON form.
type writtenRecord Record

// UnmarshalJSON keeps what it does not know.
func (s *Record) UnmarshalJSON(text []byte) (err error) {
	s.other, err = config.ReadRecord(text, (*writtenRecord)(s))
	return err
}

// MarshalJSON writes what was kept too.
func (s Record) MarshalJSON() ([]byte, error) {
	return config.WriteRecord(writtenRecord(s), s.other)
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
	maxDecisions = 200 // are kept of one rollout, the newest
	maxStaged    = 10  // rollouts of people are kept, and as many of the controller's own
	maxNamed     = 20  // nodes are named in one decision
	maxObeyed    = 50  // letters are kept of one rollout: who wrote one waits for ten seconds
)

// Decision is one thing that was decided of a rollout, and why.
type Decision struct {
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"` // "" is the controller
	What string    `json:"what"`
	Why  string    `json:"why,omitempty"`
}

// Decide keeps what was decided, and why.
func (s *Record) Decide(now time.Time, by, what, why string) {
	s.Decisions = append(s.Decisions, Decision{At: now.UTC(), By: by, What: what, Why: why})
	if n := len(s.Decisions) - maxDecisions; n > 0 {
		s.Decisions = slices.Clone(s.Decisions[n:])
	}
}

// CommandDone keeps that the command of a letter is done.
func (s *Record) CommandDone(k kv.Key) {
	s.Obeyed = append(s.Obeyed, k)
	if n := len(s.Obeyed) - maxObeyed; n > 0 {
		s.Obeyed = slices.Clone(s.Obeyed[n:])
	}
}

// State is where a rollout stands, in one word.
func (s *Record) State() string {
	switch {
	case s.End != "":
		return s.End
	case s.Machine.Paused:
		return "paused"
	case s.Machine.Halted:
		return "halted"
	}
	return "running"
}

// Clone shares nothing with s that either changes.
func (s *Record) Clone() *Record {
	c := *s
	c.Revisions, c.Decisions, c.Obeyed = slices.Clone(s.Revisions), slices.Clone(s.Decisions), slices.Clone(s.Obeyed)
	return &c
}

// Key is where a rollout is: sorted by revision.
func Key(number uint64) kv.Key { return history.RolloutKey(fmt.Sprintf("%016x", number)) }

// NumberOf is the revision of a rollout's key.
func NumberOf(name string) (uint64, bool) {
	n, err := strconv.ParseUint(name, 16, 64)
	return n, err == nil
}
