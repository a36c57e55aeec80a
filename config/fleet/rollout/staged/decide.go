package staged

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"edgespan/config/fleet/rollout"
	"edgespan/config/kv"
)

// Cause is a revision that touched nodes.
type Cause struct {
	Number          uint64
	Author, Message string
}

// Effect records a decision of the machine.
func (s *RolloutRecord) Effect(now time.Time, by rollout.Event, effect rollout.Effect) {
	switch effect := effect.(type) {
	case rollout.Push:
		s.Decide(now, "", fmt.Sprintf("batch %d goes out to %s", effect.Batch, named(effect.Nodes)), batchReason(by))
	case rollout.Delayed:
		s.Decide(now, "", named(effect.Nodes)+" waits for a later batch", "it went offline before it took the change")
	case rollout.Halted:
		s.Decide(now, "", "halted", effect.Why)
	case rollout.Done:
		s.finish(now, effect)
	}
}

// batchReason returns the reason why a batch is pushed now.
func batchReason(e rollout.Event) string {
	switch e.(type) {
	case rollout.Start:
		return "it is the first"
	case rollout.Changed:
		return "nodes want something else than before"
	case rollout.Resume:
		return "it was resumed"
	case rollout.Deadline:
		return "the time of the batch before, or of the rest after it, is over"
	}
	return "all of the batch before have answered"
}

// named lists nodes for people.
func named(names []string) string {
	if len(names) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

// finish ends the rollout after the machine has ended.
func (s *RolloutRecord) finish(now time.Time, d rollout.Done) {
	s.Ended, s.Left = now.UTC(), map[string]string{}
	if s.End == "" {
		if s.End = EndDone; len(d.Failed) > 0 {
			s.End = EndFailed
		}
	}
	for _, u := range append(d.Failed, d.Unreachable...) {
		s.Left[u.Node] = u.Reason
	}
	why := "every node has it"
	if n := len(s.Left); n > 0 {
		why = fmt.Sprintf("%d nodes do not have it", n)
	}
	s.Decide(now, s.By, s.End, why)
}

// Extend resumes an ended rollout with more nodes.
func (s *RolloutRecord) Extend(now time.Time, nodes []string) {
	s.End, s.Ended, s.Left = "", time.Time{}, nil
	s.Decide(now, "", "goes on with "+named(nodes), "they want what they do not have")
}

// Supersede begins the record of another rollout, which carries revisions, and ends the one before (nil for none),
// whose machine the new one continues if it has not ended.
func Supersede(now time.Time, old *RolloutRecord, by Cause, revisions []uint64,
	m *rollout.Rollout) (next *RolloutRecord, ended bool) {
	next = &RolloutRecord{Revision: by.Number, Author: by.Author, Message: by.Message, Began: now.UTC(),
		Revisions: revisions}
	if len(next.Revisions) == 0 || next.Revisions[len(next.Revisions)-1] != next.Revision {
		next.Revisions = append(next.Revisions, next.Revision)
	}
	if old != nil {
		next.Barrier = old.Barrier
		if ended = old.End == ""; ended {
			next.Revisions = append(slices.Clone(old.Revisions), next.Revisions...)
			if m != nil {
				old.Machine = m.Memory()
				next.Machine = old.Machine
			}
			next.By = old.By
			old.End, old.Ended, old.Machine.Up, old.Machine.Gone, old.Machine.Out = EndSuperseded, now.UTC(), nil, nil, nil
			old.Decide(now, "", EndSuperseded,
				fmt.Sprintf("revision %d touches nodes: it carries what is left of this one", next.Revision))
		}
	}
	next.Decide(now, next.Author, fmt.Sprintf("revision %d begins", next.Revision), next.Message)
	return next, ended
}

// Release ends the rollout because staged rollouts were switched off: all nodes have got the config at once.
func (s *RolloutRecord) Release(now time.Time) {
	s.End = EndReleased
	s.Decide(now, "", EndReleased, "config_staged_rollout_enabled is off: all nodes get it at once")
}

// The commands of an operator, as in the API.
const (
	Pause  = "pause"
	Resume = "resume"
	Abort  = "abort"
)

// Command handles an operator's command and returns the event for the machine, or why it refuses. After an abort,
// configs desired since newest are held back.
func (s *RolloutRecord) Command(now time.Time, by, what string, m *rollout.Rollout,
	newest kv.Revision) (e rollout.Event, refused string) {
	switch {
	case s.End != "" || m == nil: // another rollout is current
		out := fmt.Sprintf("it has ended: it is %s since %s", s.End, s.Ended.Format(time.RFC3339))
		if s.By != "" {
			out += ", by " + s.By
		}
		return nil, out
	case what == Pause && m.Paused():
		return nil, "it is paused already, by " + s.By
	case what == Pause:
		s.By = by
		s.Decide(now, by, "paused", "the batch that is out goes on")
		return rollout.Pause{}, ""
	case what == Resume && !m.Paused() && !m.IsHalted():
		return nil, "it is running"
	case what == Resume:
		s.By = ""
		s.Decide(now, by, "resumed", "")
		return rollout.Resume{}, ""
	case what == Abort:
		s.By, s.End, s.Barrier = by, EndAborted, max(s.Barrier, newest)
		return rollout.Abort{}, ""
	}
	return nil, fmt.Sprintf("%q is no command of a rollout", what)
}
