package fleet

import (
	"cmp"
	"slices"
	"time"

	"edgespan/config/layers"
)

// Step handles one event and returns the effects. It ignores stale events: ends of streams that were replaced, reports
// on them, answers to attempts and probes that are not the last.
func (n *Node) Step(now time.Time, e Event) []Effect {
	n.clamp(now)
	var out []Effect
	if n.applyEvent(now, e) && n.unread == "" {
		out = append(out, Save{n.mem.clone()})
	}
	return n.requiredEffects(now, out)
}

// clamp limits recorded times to now, so that a clock that was set back can't delay anything longer than intended.
func (n *Node) clamp(now time.Time) {
	for _, t := range []*time.Time{&n.mem.Push.At, &n.sentManagedAt, &n.numberAt, &n.released, &n.probeAt, &n.heard,
		&n.since,
		&n.begun, &n.queried, &n.freed} {
		if t.After(now) {
			*t = now
		}
	}
}

// applyEvent records the event, and reports whether the memory must be saved.
func (n *Node) applyEvent(now time.Time, e Event) (save bool) {
	switch e := e.(type) {
	case Known:
		n.known = e
	case Desired:
		save = n.restartTrial(e)
		n.desired, n.hasWant = e, true
		if e.Fault == "" {
			n.managed = &e.Managed
		}
	case Connected:
		n.handleConnected(now, e)
	case Disconnected:
		if e.Stream == n.stream && n.stream != "" {
			n.handleConnected(now, Connected{})
		}
	case ReportReceived:
		return n.handleReport(now, e)
	case Admission:
		n.admission = e
	case Compared:
		if c := (Compare{e.Desired, e.Running}); c == n.compare {
			n.compared, n.removes = true, slices.Clone(e.Removes)
		}
	case Asked:
		n.query = e.Next
		if e.Granted {
			n.queried = now
		}
	case Answered:
		n.handleProbeAnswer(now, e)
	case Changed:
		e.Replica = n.set.Replica
		n.set = e.Settings
	case Tick:
		n.timer = time.Time{} // it fired
	default:
		return n.applyLasting(now, e)
	}
	return save
}

// restartTrial prepares for a trial that begins: an operator asks for it, so it does not wait because the same config
// was pushed before, and an undo of that push is no result of this trial.
func (n *Node) restartTrial(d Desired) (save bool) {
	m := &n.mem
	if d.Trial == 0 || !n.hasWant || n.desired.Digest == d.Digest || m.Push.Digest != d.Digest {
		return false
	}
	m.Floor, m.Push.At, m.Push.Undos = m.Push.Number, time.Time{}, 0
	return true
}

// applyLasting is applyEvent for events that concern the memory.
func (n *Node) applyLasting(now time.Time, e Event) (save bool) {
	m := &n.mem
	switch e := e.(type) {
	case Acked:
		if e.Attempt == m.Push.Number {
			n.acked, n.unstored = e.Attempt, NotStored{}
		}
	case NotStored:
		e.Why = truncateReason(e.Why)
		if e.Attempt == m.Push.Number {
			n.acked = e.Attempt
		}
		if e.Digest.Config == m.Push.Digest.Config {
			n.unstored = e // also of an earlier attempt: a slow node answers after the next push
		}
	case Rejected:
		return n.handleFailure(ConfigFailure{Digest: e.Digest, Attempt: e.Attempt, Reason: Invalid, Why: e.Faults, At: now})
	case Undone:
		if e.Reason != Unconfirmed {
			return n.handleFailure(ConfigFailure{Digest: e.Digest, Attempt: e.Attempt, Reason: Unhealthy, Why: e.Why, At: now})
		}
		if e.Attempt != m.Push.Number || e.Attempt <= m.Floor || m.Push.Undone {
			return false
		}
		m.Push.Undone, m.Push.At = true, now
		m.Push.Undos++
		return true
	case AdoptionDecided:
		save = e.Replace && !m.Adopted
		m.Adopted = m.Adopted || e.Replace
	case ReleaseAsked:
		if n.reported && n.report.Held == nil {
			return false
		}
		save = m.Releasing != e.By
		m.Releasing = e.By
	case Retry:
		m.forget(func(f ConfigFailure) bool { return f.Digest == n.desired.Digest })
		m.Floor, m.Push.At, m.Push.Undos = m.Push.Number, time.Time{}, 0
		return true
	case Unread:
		n.unread = e.Why
	case TooLarge:
		save = len(m.Failures) > 0
		m.Failures = slices.Clone(m.Failures[(len(m.Failures)+1)/2:])
	case Recalled:
		n.unread = ""
		if n.isConnectedHere() {
			m.merge(e.Memory)
			return true
		}
		n.mem = e.clone()
	}
	return save
}

// isConnectedHere reports whether this replica has the node's stream.
func (n *Node) isConnectedHere() bool { return n.stream != "" && n.replica == n.set.Replica }

// handleConnected begins a stream and discards the state of the one before.
func (n *Node) handleConnected(now time.Time, e Connected) {
	if was, ok := n.stream != "", e.Stream != ""; was != ok || n.since.IsZero() {
		n.since = now
	}
	n.stream, n.replica, n.begun = e.Stream, e.Replica, now
	n.reported, n.sentManaged, n.probing, n.confirmable = false, nil, false, false
	n.numbered, n.released, n.probeAt = Generation{}, time.Time{}, time.Time{}
}

// handleReport handles a report.
func (n *Node) handleReport(now time.Time, r ReportReceived) (save bool) {
	if r.Stream != n.stream || n.stream == "" {
		return false
	}
	m := &n.mem
	freed := n.report.Held != nil && r.Held == nil
	n.report, n.reported, n.heard = r, true, now
	if !n.isConnectedHere() {
		return false
	}
	if r.Digest == m.Push.Digest || r.Pending != nil && r.Pending.Generation == m.Push.Generation {
		n.acked, n.unstored = m.Push.Number, NotStored{}
	}
	if r.Held == nil && m.Releasing != "" {
		m.Releasing, save = "", true
	}
	if freed && !m.Push.Undone && !now.Before(n.freed.Add(n.set.Resend)) {
		m.Push.At, n.freed, save = time.Time{}, now, true // the interval does not apply: an operator ended the local config
	}
	if m.forget(func(f ConfigFailure) bool { return f.For != r.Versions }) {
		m.Floor, save = m.Push.Number, true // other versions may accept what these did not
	}
	if m.forget(func(f ConfigFailure) bool { return f.Digest == r.Digest && r.Pending == nil }) {
		save = true // the node runs it after all
	}
	if r.Parts != nil && n.evaluate(now).state == InSync && m.dropGone(n.desired.With, r.Parts, r.Settled) {
		save = true
	}
	return save
}

// handleFailure remembers a config that failed on the node. An answer counts once.
func (n *Node) handleFailure(f ConfigFailure) (save bool) {
	m := &n.mem
	if f.For = m.Push.For; f.Attempt == m.Push.Number {
		f.Digest = m.Push.Digest
	} else if f.Digest.Config == "" {
		return false // no config has an empty digest
	}
	if old := m.findFailure(f.Digest); f.Attempt <= m.Floor || f.Attempt > m.Push.Number || old != nil &&
		old.Attempt >= f.Attempt {
		return false
	}
	m.recordFailure(f)
	return true
}

// handleProbeAnswer ends a probe. A node that is unhealthy or runs another config is not confirmed: its next report
// says more.
func (n *Node) handleProbeAnswer(now time.Time, e Answered) {
	if e.Stream != n.stream || !n.probing || e.Probe != n.probe {
		return
	}
	n.probing = false
	n.confirmable = n.evaluate(now).state == stateConfirming &&
		e.Generation == n.desired.Generation && e.Digest == n.desired.Digest && len(e.Worse) == 0
}

// requiredEffects returns the effects that the current state requires.
func (n *Node) requiredEffects(now time.Time, out []Effect) []Effect {
	if n.isConnectedHere() && n.known.Joined {
		out = n.syncManagement(now, out)
	}
	v := n.evaluate(now)
	switch v.state {
	case InSync:
		if !n.mem.Adopted { // the push removed nothing that the controller's config lacks
			n.mem.Adopted = true
			out = append(out, Save{n.mem.clone()})
		}
	case stateComparing:
		if c := n.currentComparison(); c != n.compare {
			n.compare, n.compared = c, false
			out = append(out, c)
		}
	case stateRenumbering:
		if v.at.IsZero() {
			n.numbered, n.numberAt = n.desired.Generation, now
			out = append(out, Push{Generation: n.desired.Generation, Digest: n.desired.Digest})
		}
	case stateConfirming:
		out = n.confirm(now, v, out)
	case UnknownHardware:
		if n.set.Queries && v.at.IsZero() {
			n.query = now.Add(n.set.Resend) // until Asked gives the time
			out = append(out, RequestBaseConfig{n.report.Board})
		}
	case stateDue:
		out = n.push(now, out)
	default:
	}
	return n.publishState(now, out)
}

// syncManagement returns the effects that don't depend on the config: the versions, whether the node is managed, and
// the end of a local config.
func (n *Node) syncManagement(now time.Time, out []Effect) []Effect {
	if n.reported && !(n.asked && n.computing == n.report.Versions) && !(n.hasWant && n.desired.For == n.report.Versions) {
		n.computing, n.asked = n.report.Versions, true
		out = append(out, Compute{n.computing})
	}
	if n.hasWant && n.reported && n.desired.For == n.report.Versions {
		n.asked, n.computing = false, layers.Versions{}
	}
	if n.needsManagerNotice(now) {
		managed := *n.managed
		n.sentManaged, n.sentManagedAt = &managed, now
		out = append(out, SetManaged{managed})
	}
	if n.needsRelease() && !now.Before(n.released.Add(n.set.Resend)) {
		n.released = now
		out = append(out, Release{})
	}
	return out
}

// needsManagerNotice reports whether SetManaged is due: on a new stream, on a change, and again after Resend if the
// node reports another value.
func (n *Node) needsManagerNotice(now time.Time) bool {
	switch {
	case n.managed == nil:
		return false
	case n.sentManaged == nil || *n.sentManaged != *n.managed:
		return true
	}
	return n.reportsOtherManager() && !now.Before(n.sentManagedAt.Add(n.set.Resend))
}

// reportsOtherManager reports whether the node reports another value of managed than the controller's.
func (n *Node) reportsOtherManager() bool {
	return n.reported && n.managed != nil && (n.report.Managed == nil || *n.report.Managed != *n.managed)
}

func (n *Node) needsRelease() bool {
	return n.mem.Releasing != "" && n.reported && n.report.Held != nil
}

// confirm probes a node that has settled, and confirms its config once it has answered.
func (n *Node) confirm(now time.Time, v verdict, out []Effect) []Effect {
	switch {
	case n.confirmable:
		n.confirmable, n.probeAt = false, now
		return append(out, Confirm{n.desired.Generation})
	case v.at.IsZero():
		n.probe++
		n.probing, n.probeAt, n.probed = true, now, n.desired.Generation
		return append(out, Probe{n.probe})
	}
	return out
}

// push sends the desired config. The attempt is stored first: a controller that dies between the two has pushed
// nothing, and waits as after a lost push.
func (n *Node) push(now time.Time, out []Effect) []Effect {
	m := &n.mem
	again := m.Push.Number > 0 && m.Push.Digest == n.desired.Digest && now.Before(m.Push.At.Add(n.set.Interval))
	undos := 0
	if m.Push.Digest == n.desired.Digest {
		undos = m.Push.Undos
	}
	m.Push = Attempt{
		Number: m.Push.Number + 1, Generation: n.desired.Generation, Digest: n.desired.Digest, For: n.desired.For, At: now,
		On: n.stream, Again: again, Undos: undos,
	}
	m.Adopted = true
	m.recordPush(n.desired.With)
	return append(out, Save{m.clone()},
		Push{Attempt: m.Push.Number, Generation: n.desired.Generation, Digest: n.desired.Digest, Whole: true,
			Confirm: cmp.Or(n.desired.Trial, n.set.Confirm)})
}

// publishState emits a Status if the state changed, and sets the timer.
func (n *Node) publishState(now time.Time, out []Effect) []Effect {
	v := n.evaluate(now)
	if current := (mark{v.state, n.desired.Digest, n.desired.Fault + n.unread, n.unstored.Why}); !n.announced ||
		current != n.status {
		n.status, n.announced = current, true
		out = append(out, Status{v.state, n.explainState(now, v)})
	}
	at := v.at
	if n.isConnectedHere() && n.known.Joined {
		if n.reportsOtherManager() {
			at = earlier(at, n.sentManagedAt.Add(n.set.Resend))
		}
		if n.needsRelease() {
			at = earlier(at, n.released.Add(n.set.Resend))
		}
	}
	if !at.Equal(n.timer) {
		n.timer = at
		out = append(out, SetTimer{at})
	}
	return out
}

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
