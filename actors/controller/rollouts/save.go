package rollouts

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/kv"
)

// saveResult is the result of a save.
type saveResult struct {
	epoch   int
	done    bool                    // the transaction was committed
	at      kv.Revision             // of the transaction
	kept    []*staged.RolloutRecord // the records that it put
	dropped []uint64                // the revisions of the records that it deleted
	answers []answer                // to send if it is done
	err     error
}

// admissionsResult is the result of writing admissions.
type admissionsResult struct {
	epoch      int
	rollout    uint64
	at         kv.Revision // of the stored record that the admissions follow from
	admissions map[string]staged.Admission
	done       bool // the transaction was committed
	err        error
}

// scheduleSave marks the record as changed. runPending saves it at once if now is set, otherwise after saveDelay.
func (a *rolloutActor) scheduleSave(now bool) {
	a.dirty = true
	if now {
		a.saveScheduled = false
	} else if !a.saveScheduled && !a.saving {
		a.saveScheduled = true
		self := a.self
		a.deps.After(saveDelay, func() { a.deps.Send(self, saveDue{}) })
	}
}

// save stores the current rollout and those that ended. Decisions are carried out only after that, so that the next
// leader makes the same ones.
func (a *rolloutActor) save() {
	if !a.dirty || a.saving || a.saveScheduled || a.current == nil {
		return
	}
	if a.machine != nil {
		a.current.Machine = a.machine.Memory()
	}
	s := saveResult{epoch: a.epoch, kept: append(a.ended, a.current.Clone()), answers: a.answers}
	txn := kv.Txn{Compares: []kv.Compare{a.leadership.Fence()}, Else: []kv.Op{kv.Get(a.leadership.Key)}}
	for _, one := range s.kept {
		k := staged.RolloutKey(one.Revision)
		txn.Compares = append(txn.Compares, kv.AtRevision(k, a.storedRevisions[one.Revision]))
		txn.Then = append(txn.Then, kv.Put(k, storage.Encode(one)))
	}
	s.dropped = staged.SurplusRollouts(a.storedRecords, a.current, storage.IsAutomatic)
	for _, number := range s.dropped {
		txn.Then = append(txn.Then, kv.Delete(staged.RolloutKey(number)))
	}
	a.saving, a.dirty, a.ended, a.answers = true, false, nil, nil
	self := a.self
	a.deps.Leaf("rollout", func() {
		o, err := a.deps.Commit(a.deps.Context, txn)
		s.done, s.at, s.err = err == nil && o.Succeeded, o.Revision, err
		a.deps.Send(self, s)
	})
}

// handleSaveResult continues after a save. If it failed, or another leader may have written, the leader starts over
// from the store.
func (a *rolloutActor) handleSaveResult(m saveResult) {
	if m.epoch != a.epoch {
		return
	}
	a.saving = false
	if !m.done {
		if m.err != nil {
			a.deps.Log.Warn("store a rollout", zap.Error(m.err))
		}
		for _, one := range m.answers {
			a.commands[one.key] = one.command // they are validated again
		}
		a.retryLater()
		return
	}
	if !a.dirty {
		a.touchedInSave = nil
	}
	for _, s := range m.kept {
		a.storedRecords[s.Revision], a.storedRevisions[s.Revision] = s, m.at
	}
	for _, number := range m.dropped {
		delete(a.storedRecords, number)
		delete(a.storedRevisions, number)
	}
	for _, one := range m.answers {
		a.sendAnswer(one)
	}
}

// retryLater starts over with the stored state after a while, when the outcome of the last transaction is known.
func (a *rolloutActor) retryLater() {
	for _, one := range a.answers {
		a.commands[one.key] = one.command
	}
	maps.Copy(a.touched, a.touchedInSave) // the save had no effect
	self, by := a.self, *a.leadership
	a.stepDown()
	a.pendingLeadership = &by
	a.deps.After(storage.CampaignRetry, func() { a.deps.Send(self, restartDue{}) })
}

// Bounds on writing admissions: the admissions of one transaction, and the transactions in flight, which the store may
// sync together.
const (
	maxAdmissionsPerTxn = kv.MaxOps
	maxTxnsAtOnce       = 8
)

// writeAdmissions admits the nodes of the current batch once the batch is stored, and revokes the admission of nodes
// that wait again. It derives them from the stored record, not from the decisions of this process: so it completes what
// a dead leader left undone and repeats nothing. A config that a node got after the rollout was stored is not part of
// that rollout.
func (a *rolloutActor) writeAdmissions() {
	if a.current == nil || a.saving || a.writingAdmissions > 0 || a.dirty && !a.saveScheduled {
		return
	}
	admissions := a.findAdmissionChanges()
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(admissions)), maxAdmissionsPerTxn) {
		m := admissionsResult{epoch: a.epoch, rollout: a.current.Revision, at: a.storedRevisions[a.current.Revision],
			admissions: map[string]staged.Admission{}}
		// Compare the record too: a late transaction must not admit nodes after an abort.
		txn := kv.Txn{Compares: []kv.Compare{a.leadership.Fence(), kv.AtRevision(staged.RolloutKey(m.rollout), m.at)}}
		for _, id := range ids {
			m.admissions[id] = admissions[id]
			txn.Then = append(txn.Then, kv.Put(history.AdmissionKey(id), storage.Encode(admissions[id])))
		}
		a.writingAdmissions++
		self := a.self
		a.deps.Leaf("admissions", func() {
			o, err := a.deps.Commit(a.deps.Context, txn)
			m.done, m.err = err == nil && o.Succeeded, err
			a.deps.Send(self, m)
		})
	}
}

// findAdmissionChanges returns the admissions that differ from the stored rollout.
func (a *rolloutActor) findAdmissionChanges() map[string]staged.Admission {
	stored := a.storedRecords[a.current.Revision]
	if stored == nil {
		return nil
	}
	return stored.AdmissionChanges(a.nodeByName, a.storedRevisions[a.current.Revision], a.current.End != "",
		maxAdmissionsPerTxn*maxTxnsAtOnce)
}

// handleAdmissionsResult continues after one transaction of admissions. If it failed, the leader starts over from the
// store.
func (a *rolloutActor) handleAdmissionsResult(m admissionsResult) {
	if m.epoch != a.epoch {
		return
	}
	a.writingAdmissions--
	if !m.done {
		if m.err == nil && (a.saving || a.current.Revision != m.rollout || a.storedRevisions[m.rollout] != m.at) {
			return // a save of this leader was faster: writeAdmissions runs again once it is stored
		}
		if m.err != nil {
			a.deps.Log.Warn("admit the nodes of a batch", zap.Error(m.err))
		}
		a.retryLater()
		return
	}
	for id, admission := range m.admissions {
		if node := a.nodes[id]; node != nil {
			node.Admission = admission
		}
	}
}

// resumeLastRollout begins a term of leadership: it continues what the previous leader stored.
func (a *rolloutActor) resumeLastRollout() {
	a.epoch++
	a.machine, a.current, a.nodesToStep = nil, nil, nil
	a.dirty, a.saving, a.saveScheduled, a.writingAdmissions = false, false, false, 0
	last := a.lastRecord()
	if last == nil {
		a.startGathering()
		return
	}
	a.current = last.Clone()
	a.deps.Log.Info("lead the rollouts", zap.Uint64("revision", last.Revision), zap.String("state", last.State()))
	if last.End == "" {
		a.current.RecordDecision(a.deps.Now(), "", fmt.Sprintf("replica %s leads", a.deps.Replica), "")
		a.resumeMachine(last)
		if !a.staging.On {
			a.endAtOnce()
		}
	}
	for _, k := range slices.Sorted(maps.Keys(a.commands)) {
		a.handleCommand(k, a.commands[k])
	}
	a.startGathering()
}

// stepDown drops the state that only a leader has.
func (a *rolloutActor) stepDown() {
	a.epoch++
	a.timerCount++ // running timers are ignored
	a.leadership, a.pendingLeadership, a.machine, a.current, a.gatherSince = nil, nil, nil, nil, time.Time{}
	a.dirty, a.saving, a.writingAdmissions, a.saveScheduled = false, false, 0, false
	a.nodesToStep, a.ended, a.answers = nil, nil, nil
}
