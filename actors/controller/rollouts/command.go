package rollouts

import (
	"fmt"
	"slices"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/rollout"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// Mailbox is the mailbox of the leader, whoever that is.
const Mailbox = "rollout"

// command takes a command of an operator, on the replica that leads. One that is done is not
// done again where the letter is still there: the leader may have died before it answered, or
// the store lost its answer to the leader.
func (a *rolloutActor) command(k kv.Key, l storage.RemoteCommand) {
	if a.leads == nil {
		return
	}
	delete(a.letters, k)
	if s := a.rollout(l.Rollout); s == nil || !slices.Contains(s.Obeyed, k) {
		if why := a.obey(l); why != "" {
			a.answer(answer{k, l, why})
			return
		}
		a.now.obeyed(k)
	}
	a.stir(true)
	a.answers = append(a.answers, answer{key: k, letter: l})
}

// rollout is the one of a revision, nil for none.
func (a *rolloutActor) rollout(number uint64) *Record {
	if a.now != nil && a.now.Revision == number {
		return a.now
	}
	return a.kept[number]
}

// obey does what an operator wants, or says why not.
func (a *rolloutActor) obey(l storage.RemoteCommand) (refused string) {
	s := a.now
	switch {
	case s == nil || s.Revision != l.Rollout:
		if s = a.rollout(l.Rollout); s == nil {
			return "there is no staged rollout of this revision"
		}
		fallthrough
	case s.End != "":
		out := fmt.Sprintf("it has ended: it is %s since %s", s.End, s.Ended.Format(time.RFC3339))
		if s.By != "" {
			out += ", by " + s.By
		}
		return out
	}
	now := a.d.Now()
	switch what := fleetapi.RolloutCommand(l.What); what {
	case fleetapi.PauseRollout:
		if a.machine.Paused() {
			return "it is paused already, by " + s.By
		}
		s.By = storage.Author(l.By)
		s.decide(now, s.By, "paused", "the batch that is out goes on")
		a.step(rollout.Pause{})
	case fleetapi.ResumeRollout:
		if !a.machine.Paused() && !a.machine.IsHalted() {
			return "it is running"
		}
		s.By = ""
		s.decide(now, storage.Author(l.By), "resumed", "")
		a.step(rollout.Resume{})
	case fleetapi.AbortRollout:
		s.By, s.End = storage.Author(l.By), EndAborted
		for _, w := range a.nodes {
			s.Barrier = max(s.Barrier, w.since)
		}
		a.step(rollout.Abort{})
	default:
		return fmt.Sprintf("%q is no command of a rollout", what)
	}
	return ""
}

// answer tells the replica that asked.
func (a *rolloutActor) answer(one answer) {
	l := one.letter
	l.Answered, l.Refused = true, one.refused
	lease := a.d.LeaseID()
	if lease == 0 {
		return // who asked gives up
	}
	there := kv.Exists(one.key)
	a.d.Saver.Add(storage.Save{Op: kv.PutLeased(one.key, storage.Encode(l), lease), Compare: &there})
}
