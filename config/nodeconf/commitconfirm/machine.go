package commitconfirm

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

// The node's intervals.
const (
	DefaultConfirm = 120 * time.Second // of a push that names none
	settleTimeout  = 30 * time.Second  // after it the actions run without Settled
	clockInterval  = 5 * time.Second   // interval at which the clock is written and the controller asked again
)

// Machine decides for one node. Before Boot it does nothing.
//
//	event              | reaction
//	-------------------+--------------------------------------------------------------------
//	Boot               | continues with the state on the disk: the pending config within its time, an
//	                   | undo that had begun, else the confirmed config, its copy, or the latest base;
//	                   | a second unrequested start undoes the pending config
//	Candidate          | faults: Rejected. Else Write, and with Stored: Publish and a timer of 30 s; a
//	                   | candidate waits while actions or an undo run, and the newest waiting one wins
//	Settled, TimedOut  | runs the actions of the difference
//	ActionsDone        | the config is applied; a restart that they request comes last, once that is
//	                   | written
//	ControllerAnswered | confirms if it answers a question after settling, names the generation, and
//	                   | nothing that was good before is bad
//	Confirmed          | confirms
//	Tick               | reduces the time that is left; at its end undoes the pending config
//	RollbackAsked      | undoes the pending config
//
// An undo publishes the confirmed config and, once that has settled, runs the actions of the reverse difference and
// those that were due before. An event that does not fit the present state is ignored.
type Machine struct {
	start, machine string // IDs of this start, and of the machine's boot
	authority      string // authority of the numbers from now on
	confirmed      ConfigRecord
	pending        *ConfigRecord
	clock          Clock
	phase          phase
	settled        bool // the published config was observed on the host
	deferred       []Event

	timer         int // the last publish, and its timer
	run           int // the last run of actions
	running       bool
	questions     int // questions; those after first concern the pending config after it settled
	firstQuestion int

	health          map[string]bool // health; nil while nothing is known
	fresh           bool            // items arrived after the published config had settled
	sinceClockWrite time.Duration

	writes   []queuedWrite
	inFlight bool // the first stage's write is in flight
}

type phase int

const (
	notStarted  phase = iota
	reconciling       // until it settles or the timer ends
	waiting           // for actions of the previous config
	acting            // its actions run
	steady            // the config is applied
	restarting        // a restart is near
)

// queuedWrite is a write with the continuations for its success and its failure.
type queuedWrite struct {
	write      Write
	then       func() []Effect
	fails      func(why string) []Effect
	background bool // nothing waits for it
}

// Step handles one event, and the deferred events that need not wait any longer.
func (m *Machine) Step(e Event) (fx []Effect) {
	if _, boots := e.(Boot); boots != (m.phase == notStarted) {
		return nil
	}
	fx = m.enqueue(e)
	for e := m.nextEvent(); e != nil; e = m.nextEvent() {
		switch e := e.(type) {
		case Boot:
			fx = append(fx, m.boot(e)...)
		case Candidate:
			fx = append(fx, m.acceptCandidate(e)...)
		case Stored:
			fx = append(fx, m.handleStored(e.Why)...)
		case Settled:
			fx = append(fx, m.applySettled(e)...)
		case TimedOut:
			if e.ID == m.timer && m.phase == reconciling {
				fx = append(fx, m.handleReconciled()...)
			}
		case ActionsDone:
			fx = append(fx, m.handleActionsDone(e)...)
		case RestartFailed:
			fx = append(fx, m.handleRestartFailed(e.Why)...)
		case Confirmed:
			fx = append(fx, m.confirmByUser(e)...)
		case ControllerAnswered:
			fx = append(fx, m.handleAnswer(e)...)
		case HealthChanged:
			m.health, m.fresh = maps.Clone(e.Items), true
		case Tick:
			fx = append(fx, m.handleTick(e.Elapsed)...)
		case RollbackAsked:
			fx = append(fx, m.rollback()...)
		case Stopping:
			fx = append(fx, m.handleStopping()...)
		case expired:
			fx = append(fx, m.expire()...)
		}
	}
	return fx
}

// mustWait reports whether an event must wait: every deciding event while a decision is being written, and a candidate
// also while actions or an undo run or a restart is near.
func (m *Machine) mustWait(e Event) bool {
	switch e.(type) {
	case Stored, HealthChanged, Tick, Stopping, Boot:
		return false
	case Candidate: // events before it are decided first
		return m.isBusy() || m.isUndoing() || m.running || m.phase == restarting || len(m.deferred) > 1
	}
	return m.isBusy()
}

// enqueue puts an event behind the waiting ones.
func (m *Machine) enqueue(e Event) []Effect {
	var out []Effect
	if _, ok := e.(Candidate); ok { // the newest candidate wins
		m.deferred = slices.DeleteFunc(m.deferred, func(old Event) bool {
			o, ok := old.(Candidate)
			if ok {
				out = append(out, announceSuperseded(o))
			}
			return ok
		})
	}
	m.deferred = append(m.deferred, e)
	return out
}

// nextEvent returns the next event, nil for none: the end of the pending config's time comes before all events that
// waited for a write.
func (m *Machine) nextEvent() Event {
	if !m.isBusy() && m.isExpired() {
		return expired{}
	}
	i := slices.IndexFunc(m.deferred, func(e Event) bool { return !m.mustWait(e) })
	if i < 0 {
		return nil
	}
	e := m.deferred[i]
	m.deferred = slices.Delete(m.deferred, i, i+1)
	return e
}

// digest returns the MD5 of a candidate's document.
func (o Candidate) digest() string {
	if o.MD5 != "" {
		return o.MD5
	}
	return config.MD5(o.Document)
}

func announceSuperseded(o Candidate) Effect {
	return Announce{What: Superseded, Echo: Echo{o.Generation, o.digest()}, Why: "a newer one came"}
}

// save queues a write.
func (m *Machine) save(w Write, then func() []Effect, fails func(why string) []Effect) []Effect {
	m.writes = append(m.writes, queuedWrite{w, then, fails, false})
	return m.resetWatchdog()
}

// writeRecord queues a write that nothing waits for.
func (m *Machine) writeRecord(w Write) []Effect {
	nothing := func() []Effect { return nil }
	fails := func(why string) []Effect {
		return []Effect{Announce{What: Trouble, Why: "write " + string(w.Slot) + ": " + why}}
	}
	m.writes = append(m.writes, queuedWrite{w, nothing, fails, true})
	return m.resetWatchdog()
}

func (m *Machine) resetWatchdog() []Effect {
	if m.inFlight || len(m.writes) == 0 {
		return nil
	}
	m.inFlight = true
	return []Effect{m.writes[0].write}
}

func (m *Machine) handleStored(why string) []Effect {
	if !m.inFlight {
		return nil
	}
	s := m.writes[0]
	m.writes, m.inFlight = m.writes[1:], false
	var out []Effect
	if why == "" {
		out = s.then()
	} else {
		out = s.fails(why)
	}
	return append(out, m.resetWatchdog()...)
}

func (m *Machine) isBusy() bool {
	return slices.ContainsFunc(m.writes, func(s queuedWrite) bool { return !s.background })
}

func (m *Machine) isUndoing() bool { return m.pending != nil && m.pending.Undo != nil }

// live returns the record of the config that the node should have now.
func (m *Machine) live() ConfigRecord {
	switch {
	case m.isUndoing():
		return m.restored()
	case m.pending != nil:
		return *m.pending
	}
	return m.confirmed
}

// current returns the record that holds the present progress, and its slot.
func (m *Machine) current() (*ConfigRecord, Slot) {
	if m.pending != nil {
		return m.pending, SlotPending
	}
	return &m.confirmed, SlotConfirmed
}

// restored returns the record that an undo ends with.
func (m *Machine) restored() ConfigRecord {
	r := m.confirmed
	r.Seq, r.Authority, r.Source = m.pending.Seq+1, m.authority, Rollback
	r.Restores = cmp.Or(m.confirmed.Restores, r.Generation) // an undo of a rollback names the same origin
	r.Generation = Generation{Authority: r.Authority, Counter: r.Seq}
	r.FileDigest = m.pending.FileDigest
	if u := m.pending.Undo; u != nil {
		r.By = "an undo of " + u.Generation.String() + ": " + u.Why
	}
	r.Attempt, r.Open, r.Due, r.Restart, r.Results = 0, false, nil, "", nil
	r.Undone = m.pending.Undo
	return r
}

// State is the content of `get pending`, and of the report on each connection.
type State struct {
	Echo      Echo // of the current config, after its actions and restart
	Desired   Echo // of the config that is desired
	Source    Source
	Restores  Generation
	Attempt   uint64 // of the push that brought it; 0 for none
	Fallback  bool
	Pending   bool
	Remaining time.Duration // of a pending config
	Undoing   bool
	Undone    *Undone // the config that was undone last
	Bad       []string
	Results   []action.Result
}

// State returns the node's present state.
func (m *Machine) State() State {
	live, now := m.live(), m.echo()
	current, _ := m.current()
	s := State{
		Echo: now, Desired: live.Echo(), Source: live.Source, Restores: live.Restores, Attempt: live.Attempt,
		Fallback: live.Fallback,
		Pending:  m.pending != nil, Undoing: m.isUndoing(), Undone: live.Undone, Bad: m.newlyBadItems(),
		Results: current.Results,
	}
	if s.Pending { // an undo has no time left
		s.Remaining = m.clock.Remaining
	}
	return s
}

// echo returns the config that the node may report: a config is current once its actions are done and the restart that
// they request has happened.
func (m *Machine) echo() Echo {
	r, _ := m.current()
	if r.Open || r.Restart != "" {
		return r.Before
	}
	return r.Echo()
}

// Pending reports whether a config awaits its confirmation or is being undone.
func (m *Machine) Pending() bool { return m.pending != nil }

// Live returns the record of the config that the node should have now.
func (m *Machine) Live() ConfigRecord { return m.live() }
