package commitconfirm

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

// The times of a node.
const (
	DefaultConfirm = 120 * time.Second // of a push that names none
	settleTimeout  = 30 * time.Second  // then the actions are run all the same
	beat           = 5 * time.Second   // the clock is written, and the controller asked again
)

// Machine is the judgement of one node. Before Boot it does nothing.
//
//	event              | what it does
//	-------------------+--------------------------------------------------------------------
//	Boot               | what is on the disk goes on: the pending config within its time, an undo
//	                   | that had begun, else the confirmed one, its copy, or the latest base;
//	                   | a second start that nobody asked for undoes what is pending
//	Offered            | faults: Rejected. Else Write, and with Stored: Publish and a timer of 30 s; one
//	                   | waits while actions run or an undo does, and the newest of those that wait wins
//	Settled, TimedOut  | the actions of the difference are run
//	ActionsDone        | it is applied; a restart that they ask for comes last, once that is written
//	ControllerAnswered | confirms, when it is of a question after settling, names the generation,
//	                   | and nothing that was good before is bad
//	Confirmed          | confirms
//	Tick               | takes from the time that is left; at its end the pending config is undone
//	RollbackAsked      | undoes what is pending
//
// An undo publishes the confirmed config, and when that has settled runs the actions of the
// difference back, and of what was due before. All others are ignored where they fit nothing.
type Machine struct {
	start, machine string // of this start, and of the machine's
	authority      string // of the numbers that are given out from now on
	confirmed      Record
	pending        *Record
	clock          Clock
	phase          phase
	settled        bool // what is published was observed on the host
	deferred       []Event

	timer   int // the last publish, and its timer
	run     int // the last run of actions
	running bool
	asked   int // questions; those after first are of the pending config, and after its settling
	first   int

	items     map[string]bool // health; nil while nothing is known
	fresh     bool            // items came after what is published had settled
	sinceBeat time.Duration

	stages []stage
	out    bool // the first stage's write is on its way
}

type phase int

const (
	unborn      phase = iota
	reconciling       // until it settled or the timer ended
	waiting           // for actions of the config before
	acting            // its actions are run
	steady            // it is applied
	restarting        // the end is near
)

// stage is a write with what comes when it stands, or does not.
type stage struct {
	write      Write
	then       func() []Effect
	fails      func(why string) []Effect
	background bool // nothing waits for it
}

// Step takes one event, and those that have waited and need not any more.
func (m *Machine) Step(e Event) (fx []Effect) {
	if _, boots := e.(Boot); boots != (m.phase == unborn) {
		return nil
	}
	fx = m.enqueue(e)
	for e := m.due(); e != nil; e = m.due() {
		switch e := e.(type) {
		case Boot:
			fx = append(fx, m.boot(e)...)
		case Candidate:
			fx = append(fx, m.acceptCandidate(e)...)
		case Stored:
			fx = append(fx, m.stored(e.Why)...)
		case Settled:
			fx = append(fx, m.applySettled(e)...)
		case TimedOut:
			if e.ID == m.timer && m.phase == reconciling {
				fx = append(fx, m.reconciled()...)
			}
		case ActionsDone:
			fx = append(fx, m.actionsDone(e)...)
		case RestartFailed:
			fx = append(fx, m.restartFailed(e.Why)...)
		case Confirmed:
			fx = append(fx, m.confirmByUser(e)...)
		case ControllerAnswered:
			fx = append(fx, m.answered(e)...)
		case Health:
			m.items, m.fresh = maps.Clone(e.Items), true
		case Tick:
			fx = append(fx, m.tick(e.Elapsed)...)
		case RollbackAsked:
			fx = append(fx, m.rollback()...)
		case Stopping:
			fx = append(fx, m.stopping()...)
		case expired:
			fx = append(fx, m.expire()...)
		}
	}
	return fx
}

// defers says whether an event has to wait: all that decides, while a decision is on its
// way to the disk; offers also while actions run, an undo does or the end is near.
func (m *Machine) defers(e Event) bool {
	switch e.(type) {
	case Stored, Health, Tick, Stopping, Boot:
		return false
	case Candidate: // what came before it is decided before it
		return m.busy() || m.undoing() || m.running || m.phase == restarting || len(m.deferred) > 1
	}
	return m.busy()
}

// enqueue puts an event behind those that wait.
func (m *Machine) enqueue(e Event) []Effect {
	var out []Effect
	if _, is := e.(Candidate); is { // the newest wish wins
		m.deferred = slices.DeleteFunc(m.deferred, func(old Event) bool {
			o, is := old.(Candidate)
			if is {
				out = append(out, superseded(o))
			}
			return is
		})
	}
	m.deferred = append(m.deferred, e)
	return out
}

// due takes the event that comes now, nil for none: the end of the time of what is pending, before all that has waited
// for a write.
func (m *Machine) due() Event {
	if !m.busy() && m.late() {
		return expired{}
	}
	i := slices.IndexFunc(m.deferred, func(e Event) bool { return !m.defers(e) })
	if i < 0 {
		return nil
	}
	e := m.deferred[i]
	m.deferred = slices.Delete(m.deferred, i, i+1)
	return e
}

// digest is the MD5 of an offer's document.
func (o Candidate) digest() string {
	if o.MD5 != "" {
		return o.MD5
	}
	return config.MD5(o.Document)
}

func superseded(o Candidate) Effect {
	return Report{What: Superseded, Echo: Echo{o.Generation, o.digest()}, Why: "a newer one came"}
}

// save queues a write.
func (m *Machine) save(w Write, then func() []Effect, fails func(why string) []Effect) []Effect {
	m.stages = append(m.stages, stage{w, then, fails, false})
	return m.kick()
}

// note queues a write that nothing waits for.
func (m *Machine) note(w Write) []Effect {
	nothing := func() []Effect { return nil }
	fails := func(why string) []Effect {
		return []Effect{Report{What: Trouble, Why: "write " + string(w.Slot) + ": " + why}}
	}
	m.stages = append(m.stages, stage{w, nothing, fails, true})
	return m.kick()
}

func (m *Machine) kick() []Effect {
	if m.out || len(m.stages) == 0 {
		return nil
	}
	m.out = true
	return []Effect{m.stages[0].write}
}

func (m *Machine) stored(why string) []Effect {
	if !m.out {
		return nil
	}
	s := m.stages[0]
	m.stages, m.out = m.stages[1:], false
	var out []Effect
	if why == "" {
		out = s.then()
	} else {
		out = s.fails(why)
	}
	return append(out, m.kick()...)
}

func (m *Machine) busy() bool {
	return slices.ContainsFunc(m.stages, func(s stage) bool { return !s.background })
}

func (m *Machine) undoing() bool { return m.pending != nil && m.pending.Undo != nil }

// live is the config that the node is to have now.
func (m *Machine) live() Record {
	switch {
	case m.undoing():
		return m.restored()
	case m.pending != nil:
		return *m.pending
	}
	return m.confirmed
}

// current is the record in which the state of what is going on is kept, and its slot.
func (m *Machine) current() (*Record, Slot) {
	if m.pending != nil {
		return m.pending, SlotPending
	}
	return &m.confirmed, SlotConfirmed
}

// restored is the record that an undo ends with.
func (m *Machine) restored() Record {
	r := m.confirmed
	r.Seq, r.Authority, r.Source = m.pending.Seq+1, m.authority, Rollback
	r.Restores = cmp.Or(m.confirmed.Restores, r.Generation) // what an undo went back to is gone back to once more
	r.Generation = Generation{Authority: r.Authority, Counter: r.Seq}
	r.FileDigest = m.pending.FileDigest
	r.Attempt, r.Open, r.Due, r.Restart, r.Results = 0, false, nil, "", nil
	r.Undone = m.pending.Undo
	return r
}

// State is what `get pending` shows, and what is reported on each connection.
type State struct {
	Echo      Echo // of the config that is in force, to the end of its actions and restart
	Desired   Echo // of the one that is to be
	Source    Source
	Restores  Generation
	Attempt   uint64 // of the push that brought it; 0 for none
	Fallback  bool
	Pending   bool
	Remaining time.Duration // of a pending one
	Undoing   bool
	Undone    *Undone // what was given up last
	Bad       []string
	Results   []action.Result
}

// State is where the node stands.
func (m *Machine) State() State {
	live, now := m.live(), m.echo()
	current, _ := m.current()
	s := State{
		Echo: now, Desired: live.Echo(), Source: live.Source, Restores: live.Restores, Attempt: live.Attempt,
		Fallback: live.Fallback,
		Pending:  m.pending != nil, Undoing: m.undoing(), Undone: live.Undone, Bad: m.bad(), Results: current.Results,
	}
	if s.Pending { // an undo has no time left
		s.Remaining = m.clock.Remaining
	}
	return s
}

// echo is what the node may say that it has: a config is in force when its actions are
// done and the restart that they ask for has been.
func (m *Machine) echo() Echo {
	r, _ := m.current()
	if r.Open || r.Restart != "" {
		return r.Before
	}
	return r.Echo()
}

// Pending says whether a config has to prove itself, or is being undone.
func (m *Machine) Pending() bool { return m.pending != nil }

// Live is the config that the node is to have now.
func (m *Machine) Live() Record { return m.live() }
