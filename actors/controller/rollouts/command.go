package rollouts

import (
	"slices"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/kv"
)

// Outbox is the outbox of requests to the current leader of the rollouts.
const Outbox = "rollout"

// command runs an operator's command on the leader. A command in Obeyed is not repeated if its key is still there: the
// previous leader may have died before it answered, or the store's answer to it was lost.
func (a *rolloutActor) command(k kv.Key, l storage.RemoteCommand) {
	if a.leads == nil {
		return
	}
	delete(a.letters, k)
	if s := a.rollout(l.Rollout); s == nil || !slices.Contains(s.Obeyed, k) {
		if why := a.runCommand(l); why != "" {
			a.answer(answer{k, l, why})
			return
		}
		a.now.CommandDone(k)
	}
	a.scheduleSave(true)
	a.answers = append(a.answers, answer{key: k, message: l})
}

// rollout returns the rollout of a revision, nil for none.
func (a *rolloutActor) rollout(number uint64) *staged.RolloutRecord {
	if a.now != nil && a.now.Revision == number {
		return a.now
	}
	return a.kept[number]
}

// runCommand runs a command, or returns why it is refused.
func (a *rolloutActor) runCommand(l storage.RemoteCommand) (refused string) {
	s := a.rollout(l.Rollout)
	if s == nil {
		return "no staged rollout of this revision: 'edgespan rollout list' lists them"
	}
	machine := a.machine
	if s != a.now {
		machine = nil
	}
	var newest kv.Revision
	for _, n := range a.nodes {
		newest = max(newest, n.Since)
	}
	e, refused := s.Command(a.d.Now(), storage.Author(l.By), string(l.What), machine, newest)
	if e != nil {
		a.step(e)
	}
	return refused
}

// answer sends the result to the replica that asked.
func (a *rolloutActor) answer(one answer) {
	l := one.message
	l.Answered, l.Refused = true, one.refused
	lease := a.d.LeaseID()
	if lease == 0 {
		return // the caller gives up
	}
	there := kv.Exists(one.key)
	a.d.Saver.Add(storage.Save{Op: kv.PutLeased(one.key, storage.Encode(l), lease), Compare: &there})
}
