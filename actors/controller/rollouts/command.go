package rollouts

import (
	"slices"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/kv"
)

// Outbox names the outbox in which replicas leave operators' commands for the leader.
const Outbox = "rollout"

// handleCommand runs an operator's command on the leader. A command in the record's list Obeyed has been carried
// out and is only answered: the previous leader may have died before it answered, or the store's response to it was
// lost.
func (a *rolloutActor) handleCommand(k kv.Key, command storage.RemoteCommand) {
	if a.leadership == nil {
		return
	}
	delete(a.commands, k)
	if record := a.findRecord(command.Rollout); record == nil || !slices.Contains(record.Obeyed, k) {
		if why := a.runCommand(command); why != "" {
			a.sendAnswer(answer{key: k, command: command, refused: why})
			return
		}
		a.current.RecordCommandDone(k)
	}
	a.scheduleSave(true)
	a.answers = append(a.answers, answer{key: k, command: command})
}

// findRecord returns the rollout of a revision, nil for none.
func (a *rolloutActor) findRecord(number uint64) *staged.RolloutRecord {
	if a.current != nil && a.current.Revision == number {
		return a.current
	}
	return a.storedRecords[number]
}

// runCommand runs a command, or returns why it is refused.
func (a *rolloutActor) runCommand(command storage.RemoteCommand) (refused string) {
	record := a.findRecord(command.Rollout)
	if record == nil {
		return "no staged rollout of this revision: 'edgespan rollout list' lists them"
	}
	machine := a.machine
	if record != a.current {
		machine = nil
	}
	var newest kv.Revision // that set the last desired config: an abort holds back all up to it
	for _, n := range a.nodes {
		newest = max(newest, n.Since)
	}
	by := storage.Author(command.By)
	event, refused := record.HandleCommand(a.deps.Now(), by, string(command.What), machine, newest)
	if event != nil {
		a.step(event)
	}
	return refused
}

// sendAnswer sends the result to the replica that asked.
func (a *rolloutActor) sendAnswer(result answer) {
	command := result.command
	command.Answered, command.Refused = true, result.refused
	lease := a.deps.LeaseID()
	if lease == 0 {
		return // without a lease nothing can be answered; the caller gives up after its time limit
	}
	exists := kv.Exists(result.key)
	a.deps.Saver.Add(storage.Save{Op: kv.PutLeased(result.key, storage.Encode(command), lease), Compare: &exists})
}
