package commitconfirm

import (
	"maps"
	"slices"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

// publish makes the live config the host's.
func (m *Machine) publish() []Effect {
	r := m.live()
	m.timer++
	m.phase, m.settled, m.fresh = reconciling, false, false
	m.firstQuestion = m.questions
	return []Effect{
		Publish{ID: m.timer, Seq: r.Seq, Source: r.Source, Generation: r.Generation, By: r.By, FileDigest: r.FileDigest,
			Document: r.Document, Peer: r.Peer, Keep: r.Fallback},
		StartTimer{m.timer, settleTimeout},
	}
}

func (m *Machine) applySettled(e Settled) []Effect {
	if e.ID != m.timer || m.settled {
		return nil
	}
	m.settled, m.fresh = true, e.Items != nil
	if e.Items != nil {
		m.health = maps.Clone(e.Items)
	}
	switch m.phase {
	case reconciling:
		return m.handleReconciled()
	case steady:
		return m.requestVerdict()
	default:
		return nil
	}
}

// handleReconciled runs the actions once the previous config's actions are finished.
func (m *Machine) handleReconciled() []Effect {
	if m.running {
		m.phase = waiting
		return nil
	}
	r, _ := m.current()
	if len(r.Due) == 0 {
		return m.finishActions(r.Results, r.Restart)
	}
	m.phase = acting
	m.run++
	m.running, m.fresh = true, false
	return []Effect{RunActions{m.run, r.Due, m.isUndoing()}}
}

func (m *Machine) handleActionsDone(e ActionsDone) []Effect {
	if !m.running || e.ID != m.run {
		return nil
	}
	m.running = false
	switch m.phase {
	case waiting:
		return m.handleReconciled()
	case acting:
		r, _ := m.current()
		restart := e.Restart
		if r.Restart == action.NameReboot || restart == "" {
			restart = r.Restart // a restart that has not happened yet
		}
		return m.finishActions(e.Results, restart)
	default:
		return nil // an undo has begun meanwhile
	}
}

// finishActions records that the actions are done, and then restarts if they request it.
func (m *Machine) finishActions(results []action.Result, restart string) []Effect {
	if m.isUndoing() {
		return m.finishUndo(results, restart)
	}
	r, slot := m.current()
	if !r.Open && r.Restart == restart {
		return m.handleFinished()
	}
	next := *r
	next.Open, next.Due, next.Results = false, nil, results
	if next.Restart != restart {
		next.Restart, next.Machine = restart, m.machine
	}
	if slot == SlotPending && len(results) == 0 && restart == "" {
		*r = next // after a crash the same actions run again, and there are none
		return m.handleFinished()
	}
	return m.save(Write{Slot: slot, Record: &next}, func() []Effect {
		*r = next
		return m.handleFinished()
	}, func(why string) []Effect {
		r.Open, r.Due, r.Results, r.Restart = false, nil, results, ""
		return append(m.handleUnwritten(r, restart, why), m.announceApplied()...)
	})
}

// handleUnwritten handles a record whose end could not be written: its actions run again at the next start, and no
// restart happens, since the machine would not remember it afterwards.
func (m *Machine) handleUnwritten(r *ConfigRecord, restart, why string) []Effect {
	if restart != "" {
		r.Results = append(slices.Clone(r.Results),
			action.Result{Action: restart, State: action.Failed, Cause: "it can't be noted: " + why})
	}
	return []Effect{Announce{What: Trouble, Echo: r.Echo(), Why: "write: " + why}}
}

func (m *Machine) handleFinished() []Effect {
	r, _ := m.current()
	if r.Restart != "" {
		m.phase = restarting
		return []Effect{Restart{r.Restart}}
	}
	return m.announceApplied()
}

func (m *Machine) announceApplied() []Effect {
	m.phase = steady
	r, _ := m.current()
	return append([]Effect{Announce{What: Applied, Echo: r.Echo()}}, m.requestVerdict()...)
}

func (m *Machine) handleRestartFailed(why string) []Effect {
	r, slot := m.current()
	if m.phase != restarting {
		return nil
	}
	next := *r
	next.Results = append(slices.Clone(r.Results), action.Result{Action: r.Restart, State: action.Failed, Cause: why})
	next.Restart = ""
	*r = next
	m.phase = steady
	return append(m.writeRecord(Write{Slot: slot, Record: &next}), m.announceApplied()...)
}

// requestVerdict begins a round trip to the controller, after settling and the actions.
func (m *Machine) requestVerdict() []Effect {
	if m.pending == nil || m.isUndoing() || m.phase != steady || !m.settled {
		return nil
	}
	m.questions++
	return []Effect{RequestVerdict{Nonce{m.start, m.questions}, m.echo()}}
}

func (m *Machine) handleAnswer(e ControllerAnswered) []Effect {
	switch {
	case m.pending == nil, m.isUndoing(), m.phase != steady, !m.settled,
		e.Nonce.Start != m.start, e.Nonce.Number <= m.firstQuestion, e.Nonce.Number > m.questions,
		e.Generation != m.pending.Generation:
		return nil
	case len(m.pending.Good) > 0 && !m.fresh:
		return nil // the controller is asked again
	}
	if bad := m.newlyBadItems(); len(bad) > 0 {
		return []Effect{Announce{What: Unready, Echo: m.pending.Echo(), Why: joinBad(bad)}}
	}
	return m.confirm()
}

func joinBad(bad []string) string {
	return "good before and bad now: " + strings.Join(bad, ", ")
}

func (m *Machine) confirmByUser(e Confirmed) []Effect {
	refuse := func(why string) []Effect {
		return []Effect{Announce{What: Declined, Echo: Echo{Generation: e.Generation}, Why: why}}
	}
	switch {
	case m.pending == nil:
		return refuse("nothing is pending")
	case m.isUndoing():
		return refuse("it is being undone: " + m.pending.Undo.Why)
	case e.Generation != (Generation{}) && e.Generation != m.pending.Generation:
		return refuse("pending is " + m.pending.Generation.String())
	case e.DryRun:
		return []Effect{Announce{What: WouldConfirm, Echo: m.pending.Echo()}}
	}
	return m.confirm()
}

func (m *Machine) confirm() []Effect {
	r := *m.pending
	r.Wait, r.Good = 0, nil
	return m.save(Write{Slot: SlotConfirmed, Record: &r}, func() []Effect {
		m.confirmed = r
		return append([]Effect{Announce{What: NowConfirmed, Echo: r.Echo()}}, m.dropPending()...)
	}, func(why string) []Effect {
		return []Effect{Announce{What: Trouble, Echo: r.Echo(), Why: "it can't be confirmed: " + why}}
	})
}

// handleTick reduces the time that is left, and saves the clock at each beat.
func (m *Machine) handleTick(elapsed time.Duration) []Effect {
	if m.pending == nil || m.isUndoing() {
		return nil
	}
	elapsed = max(0, elapsed)
	m.clock.Remaining = max(0, m.clock.Remaining-elapsed)
	if m.sinceClockWrite += elapsed; m.sinceClockWrite < clockInterval {
		return nil
	}
	m.sinceClockWrite = 0
	out := m.requestVerdict()
	if slices.ContainsFunc(m.writes, func(s queuedWrite) bool { return s.write.Slot == SlotClock }) {
		return out // the disk is slow
	}
	return append(out, m.noteClock()...)
}

func (m *Machine) noteClock() []Effect {
	c := m.clock
	return m.writeRecord(Write{Slot: SlotClock, Clock: &c})
}

func (m *Machine) handleStopping() []Effect {
	if m.pending == nil || m.isUndoing() {
		return nil
	}
	m.clock.Orderly = true
	return m.noteClock()
}

// isExpired reports whether the time of the pending config is over.
func (m *Machine) isExpired() bool {
	return m.pending != nil && !m.isUndoing() && m.clock.Remaining <= 0
}

func (m *Machine) expire() []Effect {
	if bad := m.newlyBadItems(); len(bad) > 0 {
		return m.undo(Unhealthy, joinBad(bad))
	}
	return m.undo(Unconfirmed, "not confirmed within "+m.pending.Wait.String())
}

func (m *Machine) rollback() []Effect {
	switch {
	case m.pending == nil:
		return []Effect{Announce{What: Declined, Why: "nothing is pending; to go further back, apply that config"}}
	case m.isUndoing():
		return []Effect{Announce{What: Declined, Echo: m.pending.Echo(), Why: "it is being undone: " + m.pending.Undo.Why}}
	}
	return m.undo(Unconfirmed, "rolled back by hand")
}

// undo returns to the confirmed config. It does so even if the undo can't be written: the host comes first.
func (m *Machine) undo(reason Reason, why string) []Effect {
	r := *m.pending
	r.Before = m.echo()
	r.Undo = &Undone{m.pending.Echo(), reason, why, m.pending.Attempt}
	r.Due = mergeKeys(r.Due, config.FullDiff(r.Document, m.confirmed.Document))
	m.clock.Remaining = 0
	begin := func() []Effect {
		m.pending = &r
		return append([]Effect{Undo{*r.Undo}}, m.publish()...)
	}
	return m.save(Write{Slot: SlotPending, Record: &r}, begin, func(trouble string) []Effect {
		return append(begin(), Announce{What: Trouble, Echo: r.Echo(), Why: "write: " + trouble})
	})
}

// finishUndo ends an undo.
func (m *Machine) finishUndo(results []action.Result, restart string) []Effect {
	next := m.restored()
	next.Results, next.Restart, next.Machine, next.Before = results, restart, m.machine, m.pending.Before
	say := Announce{What: WentBack, Echo: next.Echo(), Why: next.Undone.Why}
	return m.save(Write{Slot: SlotConfirmed, Record: &next}, func() []Effect {
		m.confirmed = next
		out := append([]Effect{say}, m.dropPending()...)
		return append(out, m.handleFinished()...)
	}, func(why string) []Effect {
		next.Restart = ""
		m.confirmed, m.pending = next, nil // the disk has the undo: it runs once more at the next start
		out := append([]Effect{say}, m.handleUnwritten(&m.confirmed, restart, why)...)
		return append(out, m.announceApplied()...)
	})
}
