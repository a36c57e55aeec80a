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

// RecordEffect records a decision of the machine.
func (r *RolloutRecord) RecordEffect(now time.Time, by rollout.Event, effect rollout.Effect) {
	switch effect := effect.(type) {
	case rollout.Push:
		r.RecordDecision(now, "", fmt.Sprintf("batch %d goes out to %s", effect.Batch, listNames(effect.Nodes)),
			batchReason(by))
	case rollout.Delayed:
		r.RecordDecision(now, "", listNames(effect.Nodes)+" waits for a later batch",
			"it went offline before it took the change")
	case rollout.Halted:
		r.RecordDecision(now, "", "halted", effect.Why)
	case rollout.Done:
		r.finish(now, effect)
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

// listNames lists nodes for people.
func listNames(names []string) string {
	if len(names) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

// finish ends the rollout after the machine has ended.
func (r *RolloutRecord) finish(now time.Time, d rollout.Done) {
	r.Ended, r.Left = now.UTC(), map[string]string{}
	if r.End == "" {
		if r.End = EndDone; len(d.Failed) > 0 {
			r.End = EndFailed
		}
	}
	for _, u := range append(d.Failed, d.Unreachable...) {
		r.Left[u.Node] = u.Reason
	}
	why := "every node has it"
	if n := len(r.Left); n > 0 {
		why = fmt.Sprintf("%d nodes do not have it", n)
	}
	r.RecordDecision(now, r.By, r.End, why)
}

// Extend resumes an ended rollout with more nodes.
func (r *RolloutRecord) Extend(now time.Time, nodes []string) {
	r.End, r.Ended, r.Left = "", time.Time{}, nil
	r.RecordDecision(now, "", "goes on with "+listNames(nodes), "they want what they do not have")
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
			old.RecordDecision(now, "", EndSuperseded,
				fmt.Sprintf("revision %d touches nodes: it carries what is left of this one", next.Revision))
		}
	}
	next.RecordDecision(now, next.Author, fmt.Sprintf("revision %d begins", next.Revision), next.Message)
	return next, ended
}

// Release ends the rollout because staged rollouts were switched off: all nodes have got the config at once.
func (r *RolloutRecord) Release(now time.Time) {
	r.End = EndReleased
	r.RecordDecision(now, "", EndReleased, "config_staged_rollout_enabled is off: all nodes get it at once")
}

// The commands of an operator, as in the API.
const (
	Pause  = "pause"
	Resume = "resume"
	Abort  = "abort"
)

// HandleCommand handles an operator's command and returns the event for the machine, or why it refuses. After an abort,
// configs that became desired up to the store revision newest are held back.
func (r *RolloutRecord) HandleCommand(now time.Time, by, what string, m *rollout.Rollout,
	newest kv.Revision) (e rollout.Event, refused string) {
	switch {
	case r.End != "" || m == nil: // another rollout is current
		out := fmt.Sprintf("it has ended: it is %s since %s", r.End, r.Ended.Format(time.RFC3339))
		if r.By != "" {
			out += ", by " + r.By
		}
		return nil, out
	case what == Pause && m.Paused():
		return nil, "it is paused already, by " + r.By
	case what == Pause:
		r.By = by
		r.RecordDecision(now, by, "paused", "the batch that is out goes on")
		return rollout.Pause{}, ""
	case what == Resume && !m.Paused() && !m.IsHalted():
		return nil, "it is running"
	case what == Resume:
		r.By = ""
		r.RecordDecision(now, by, "resumed", "")
		return rollout.Resume{}, ""
	case what == Abort:
		r.By, r.End, r.Barrier = by, EndAborted, max(r.Barrier, newest)
		return rollout.Abort{}, ""
	}
	return nil, fmt.Sprintf("%q is no command of a rollout", what)
}
