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

// stored is the result of a save.
type stored struct {
	epoch   int
	done    bool
	at      kv.Revision
	kept    []*staged.RolloutRecord
	dropped []uint64
	answers []answer
	err     error
}

// opened is the result of opening gates.
type opened struct {
	epoch   int
	rollout uint64
	at      kv.Revision // of the rollout's record with that decision
	gates   map[string]staged.Admission
	done    bool
	err     error
}

// scheduleSave marks the record as changed. Unless now is set, the save is delayed by saveLater.
func (a *rolloutActor) scheduleSave(now bool) {
	a.dirty = true
	if now {
		a.later = false
	} else if !a.later && !a.saving {
		a.later = true
		self := a.self
		a.d.After(saveLater, func() { a.d.Send(self, saveNow{}) })
	}
}

// save stores the current rollout and those that ended. Decisions are carried out only after that, so that the next
// leader makes the same ones.
func (a *rolloutActor) save() {
	if !a.dirty || a.saving || a.later || a.now == nil {
		return
	}
	if a.machine != nil {
		a.now.Machine = a.machine.Memory()
	}
	s := stored{epoch: a.epoch, kept: append(a.ended, a.now.Clone()), answers: a.answers}
	txn := kv.Txn{Compares: []kv.Compare{a.leads.Fence()}, Else: []kv.Op{kv.Get(a.leads.Key)}}
	for _, one := range s.kept {
		k := staged.Key(one.Revision)
		txn.Compares = append(txn.Compares, kv.At(k, a.at[one.Revision]))
		txn.Then = append(txn.Then, kv.Put(k, storage.Encode(one)))
	}
	s.dropped = staged.SurplusRollouts(a.kept, a.now, storage.IsAutomatic)
	for _, number := range s.dropped {
		txn.Then = append(txn.Then, kv.Delete(staged.Key(number)))
	}
	a.saving, a.dirty, a.ended, a.answers = true, false, nil, nil
	self := a.self
	a.d.Leaf("rollout", func() {
		o, err := a.d.Commit(a.d.Context, txn)
		s.done, s.at, s.err = err == nil && o.Succeeded, o.Revision, err
		a.d.Send(self, s)
	})
}

// stored continues after a save. If it failed, or another leader may have written, the leader starts over from the
// store.
func (a *rolloutActor) stored(m stored) {
	if m.epoch != a.epoch {
		return
	}
	a.saving = false
	if !m.done {
		if m.err != nil {
			a.d.Log.Warn("store a rollout", zap.Error(m.err))
		}
		for _, one := range m.answers {
			a.letters[one.key] = one.message // they are validated again
		}
		a.retryLater()
		return
	}
	if !a.dirty {
		a.taken = nil
	}
	for _, s := range m.kept {
		a.kept[s.Revision], a.at[s.Revision] = s, m.at
	}
	for _, number := range m.dropped {
		delete(a.kept, number)
		delete(a.at, number)
	}
	for _, one := range m.answers {
		a.answer(one)
	}
}

// retryLater starts over with the stored state after a while, when the outcome of the last transaction is known.
func (a *rolloutActor) retryLater() {
	for _, one := range a.answers {
		a.letters[one.key] = one.message
	}
	maps.Copy(a.touched, a.taken) // the save had no effect
	self, by := a.self, *a.leads
	a.stepDown()
	a.mandate = &by
	a.d.After(storage.LeadAgain, func() { a.d.Send(self, leadOn{}) })
}

// Bounds on opening gates: the gates of one transaction, and the transactions that the store may sync together.
const (
	gatesAtOnce = kv.MaxOps
	maxOpening  = 8
)

// openGates opens the gates of the nodes in the current batch once the batch is stored, and closes those of nodes that
// wait again. It compares the stored state with the gates, not decisions: so it completes what a dead leader left
// undone and repeats nothing. A config that a node got after the rollout was stored is not part of that rollout.
func (a *rolloutActor) openGates() {
	if a.now == nil || a.saving || a.opening > 0 || a.dirty && !a.later {
		return
	}
	gates := a.gatesToSet()
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(gates)), gatesAtOnce) {
		m := opened{epoch: a.epoch, rollout: a.now.Revision, at: a.at[a.now.Revision], gates: map[string]staged.Admission{}}
		// Compare the record too: a late transaction must not open gates after an abort.
		txn := kv.Txn{Compares: []kv.Compare{a.leads.Fence(), kv.At(staged.Key(m.rollout), m.at)}}
		for _, id := range ids {
			m.gates[id] = gates[id]
			txn.Then = append(txn.Then, kv.Put(history.AdmissionKey(id), storage.Encode(gates[id])))
		}
		a.opening++
		self := a.self
		a.d.Leaf("gates", func() {
			o, err := a.d.Commit(a.d.Context, txn)
			m.done, m.err = err == nil && o.Succeeded, err
			a.d.Send(self, m)
		})
	}
}

// gatesToSet returns the gates that differ from the stored rollout.
func (a *rolloutActor) gatesToSet() map[string]staged.Admission {
	durable := a.kept[a.now.Revision]
	if durable == nil {
		return nil
	}
	return durable.Gates(a.named, a.at[a.now.Revision], a.now.End != "", gatesAtOnce*maxOpening)
}

func (a *rolloutActor) opened(m opened) {
	if m.epoch != a.epoch {
		return
	}
	a.opening--
	if !m.done {
		if m.err == nil && (a.saving || a.now.Revision != m.rollout || a.at[m.rollout] != m.at) {
			return // a save of this leader was faster: openGates runs again once it is stored
		}
		if m.err != nil {
			a.d.Log.Warn("admit the nodes of a batch", zap.Error(m.err))
		}
		a.retryLater()
		return
	}
	for id, g := range m.gates {
		if w := a.nodes[id]; w != nil {
			w.Gate = g
		}
	}
}

// begin continues what the previous leader stored.
func (a *rolloutActor) begin() {
	a.epoch++
	a.machine, a.now, a.dirty, a.saving, a.opening, a.later, a.recheck = nil, nil, false, false, 0, false, nil
	last := a.last()
	if last == nil {
		a.scheduleRecheck()
		return
	}
	a.now = last.Clone()
	a.d.Log.Info("lead the rollouts", zap.Uint64("revision", last.Revision), zap.String("state", last.State()))
	if last.End == "" {
		a.now.Decide(a.d.Now(), "", fmt.Sprintf("replica %s leads", a.d.Replica), "")
		a.loadRecord(last)
		if !a.staging.On {
			a.release()
		}
	}
	for _, k := range slices.Sorted(maps.Keys(a.letters)) {
		a.command(k, a.letters[k])
	}
	a.scheduleRecheck()
}

// stepDown drops the state that only a leader has.
func (a *rolloutActor) stepDown() {
	a.epoch++
	a.timers++ // running timers are ignored
	a.leads, a.mandate, a.machine, a.now, a.gathers = nil, nil, nil, nil, time.Time{}
	a.dirty, a.saving, a.opening, a.later = false, false, 0, false
	a.recheck, a.ended, a.answers = nil, nil, nil
}
