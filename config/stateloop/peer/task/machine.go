package task

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"edgespan/config/stateloop"
)

// Machine brings a set of tasks to their desired state. The zero value has no tasks.
type Machine struct {
	items map[string]*item
	// removals first, each after its dependents; then creations, each after its dependencies
	order   []*item
	needy   map[string][]*item // the dependents of a task, by its ID
	seq     uint64
	busy    int // steps in flight
	pending map[string]bool
	now     time.Time
}

// item is one task and its state.
type item struct {
	Task
	status  Status
	next    Step      // the next step
	asserts bool      // the check that is next or in flight asserts a previous step
	due     time.Time // not before
	idle    bool      // nothing to do until an event
	seq     uint64    // of the step in flight, 0 for none
	doing   Step
	again   bool // the desired value or the world has changed since the step began: its result is out of date
	gone    bool // it is no longer in the set
	fails   int
	flaps   bool      // it was lost before it was stable
	up      time.Time // since when it is present in this version; zero: it is absent
}

// Step handles an event and returns the steps to do now.
func (m *Machine) Step(e Event) []Do {
	switch e := e.(type) {
	case Desired:
		m.now = e.At
		m.setDesired(e.Tasks)
	case Answered:
		m.now = e.At
		m.answered(e)
	case Touched:
		m.now = e.At
		if i := m.items[e.ID]; i != nil {
			m.touch(i)
		}
	case Tick:
		m.now = e.At
	}
	return m.start()
}

// Changed returns the tasks whose status has changed since the last call, by ID.
func (m *Machine) Changed() []Status {
	var out []Status
	for _, id := range slices.Sorted(maps.Keys(m.pending)) {
		if i := m.items[id]; i != nil && !i.gone {
			out = append(out, i.status)
		}
	}
	m.pending = nil
	return out
}

// Next returns the time of the next Tick; false for never.
func (m *Machine) Next() (at time.Time, ok bool) {
	for _, i := range m.order {
		if i.seq > 0 || i.idle || !i.due.After(m.now) { // the last: it waits for a free slot, or for another task
			continue
		}
		if !ok || i.due.Before(at) {
			at, ok = i.due, true
		}
	}
	return at, ok
}

func (m *Machine) setDesired(tasks []Task) {
	old := m.items
	m.items = make(map[string]*item, len(tasks))
	desiredAll := make([]stateloop.DesiredParameter, 0, len(tasks))
	for _, t := range tasks {
		i := old[t.ID]
		switch {
		case i == nil:
			i = &item{Task: t, next: Check, status: Status{ID: t.ID, Target: t.Target}}
		case i.Target != t.Target || i.Version != t.Version || i.Watched != t.Watched:
			i.Task = t
			i.fails, i.flaps, i.up = 0, false, time.Time{}
			i.again = i.seq > 0
			m.touch(i)
		default:
			i.Task = t
		}
		m.items[t.ID] = i
		desiredAll = append(desiredAll, stateloop.DesiredParameter{ID: t.ID, Target: t.Target, Dependencies: t.Needs})
	}
	for id, i := range old {
		if m.items[id] == nil {
			i.gone = true
			if i.seq > 0 { // its result is still to come
				m.items[id] = i
			}
		} else if i == m.items[id] {
			i.gone = false
		}
	}
	g := stateloop.NewGraph(desiredAll)
	m.order, m.needy = m.order[:0:0], map[string][]*item{}
	for _, id := range append(g.RemovalOrder(), g.CreationOrder()...) {
		m.order = append(m.order, m.items[id])
	}
	for _, i := range m.order {
		for _, n := range i.Needs {
			m.needy[n] = append(m.needy[n], i)
		}
	}
}

// touch checks a task again now, from the beginning. A failure keeps its time.
func (m *Machine) touch(i *item) {
	if i.seq > 0 {
		i.again = i.again || i.doing == Check // another step is followed by an assertion
		return
	}
	i.next, i.asserts, i.idle = Check, false, false
	if i.fails == 0 || !i.up.IsZero() || i.due.Before(m.now) {
		i.due = m.now
	}
}

// start begins the steps that are due, in order.
func (m *Machine) start() []Do {
	var out []Do
	for _, i := range m.order {
		if m.busy >= Parallel {
			break
		}
		if i.seq > 0 || i.idle || i.due.After(m.now) || !m.free(i) {
			continue
		}
		m.seq++
		m.busy++
		i.seq, i.doing, i.again = m.seq, i.next, false
		out = append(out, Do{Task: i.Task, Step: i.next, Seq: m.seq})
	}
	return out
}

// free reports whether a task need not wait for another one. A check is always free.
func (m *Machine) free(i *item) bool {
	switch i.next {
	case Make:
		for _, id := range i.Needs {
			n := m.items[id]
			if n == nil || n.gone || n.Target == stateloop.ToBeAbsent || n.status.State == stateloop.Present &&
				n.status.Version == n.Version {
				continue
			}
			m.setStatus(i, stateloop.WaitingForDependencies,
				fmt.Sprintf("waits for %s, which is %s", id, cmp.Or(n.status.State, stateloop.Creating)))
			return false
		}
	case Remove: // dependents go first; one that failed to be removed holds up no other
		for _, n := range m.needy[i.ID] {
			if n.Target == stateloop.ToBeAbsent && n.status.State != stateloop.Absent && n.fails == 0 {
				m.setStatus(i, stateloop.WaitingForDependencies, fmt.Sprintf("waits for the end of %s", n.ID))
				return false
			}
		}
	case Check:
	}
	return true
}

func (m *Machine) answered(a Answered) {
	i := m.items[a.ID]
	if i == nil || i.seq != a.Seq || a.Seq == 0 {
		return
	}
	m.busy--
	i.seq = 0
	if i.gone {
		delete(m.items, a.ID)
		return
	}
	if i.again {
		i.next, i.asserts, i.idle, i.due = Check, false, false, m.now
		return
	}
	switch {
	case i.doing != Check:
		m.done(i, a)
	case i.Target == stateloop.ToBeAbsent:
		m.checkedAbsent(i, a)
	default:
		m.checkedPresent(i, a)
	}
}

// done handles the end of a Make or Remove.
func (m *Machine) done(i *item, a Answered) {
	switch a.Found {
	case Well:
		i.next, i.asserts, i.due = Check, true, m.now.Add(i.Settle)
		if i.Target == stateloop.ToBeAbsent {
			i.due = m.now
		}
		if i.fails == 0 {
			m.setStatus(i, inProgress(i.Target), "")
		}
	case Waiting:
		m.wait(i, a.Reason)
	default:
		m.fail(i, failedTo(i.Target), a.Reason)
	}
}

func (m *Machine) checkedAbsent(i *item, a Answered) {
	switch {
	case a.Found == Absent || i.Watched:
		i.fails, i.idle = 0, true
		m.setStatus(i, stateloop.Absent, "")
	case a.Found == Failed:
		m.fail(i, stateloop.CheckAbsentFailed, a.Reason)
	case a.Found == Waiting:
		m.wait(i, a.Reason)
	case i.asserts:
		m.fail(i, stateloop.RemovingFailed, cmp.Or(a.Reason, "it is still there"))
	default:
		m.act(i, Remove)
	}
}

func (m *Machine) checkedPresent(i *item, a Answered) {
	asserts := i.asserts
	i.asserts = false
	switch a.Found {
	case Present:
		m.present(i)
	case Busy:
		i.next, i.due = Check, m.now.Add(i.Every)
		m.setStatus(i, stateloop.Creating, a.Reason)
	case Waiting:
		m.wait(i, a.Reason)
	case Broken:
		i.next, i.due = Check, m.now.Add(i.Every)
		m.setStatus(i, stateloop.CreatingFailed, a.Reason)
	case Absent:
		lost := !i.up.IsZero()
		soon := lost && m.now.Sub(i.up) < i.Stable
		i.up = time.Time{}
		switch {
		case i.Watched:
			i.next, i.due = Check, m.now.Add(i.Every)
			m.setStatus(i, stateloop.CheckPresentFailed, a.Reason)
		case asserts || soon:
			i.flaps = true
			m.fail(i, stateloop.CreatingFailed, cmp.Or(a.Reason, "it is not there"))
		default:
			if lost {
				i.fails, i.flaps = 0, false
			}
			m.act(i, Make)
		}
	default:
		m.fail(i, stateloop.CheckPresentFailed, a.Reason)
	}
}

// present handles a task that was found present. A task that was lost before is on probation.
func (m *Machine) present(i *item) {
	if i.up.IsZero() {
		i.up = m.now
	}
	i.next, i.due = Check, m.now.Add(i.Every)
	if stable := i.up.Add(i.Stable); i.flaps && m.now.Before(stable) {
		if stable.Before(i.due) {
			i.due = stable
		}
		i.status.NextTry = time.Time{}
		m.changed(i)
		return // keep the reason of the last failure
	}
	i.fails, i.flaps = 0, false
	m.setStatus(i, stateloop.Present, "")
}

// act creates or removes a task, once it is free.
func (m *Machine) act(i *item, s Step) {
	i.next, i.asserts, i.due = s, false, m.now
	i.status.NextTry = time.Time{}
	if i.fails == 0 {
		m.setStatus(i, inProgress(i.Target), "")
	}
}

// wait retries after a while without counting a failure.
func (m *Machine) wait(i *item, reason string) {
	i.next, i.asserts = Check, false
	i.due = m.now.Add(max(Waits.First, i.Every))
	m.setStatus(i, stateloop.WaitingForDependencies, reason)
}

// fail retries after the back-off.
func (m *Machine) fail(i *item, s stateloop.State, reason string) {
	i.fails++
	i.next, i.asserts, i.due = Check, false, m.now.Add(Waits.After(i.fails))
	m.setStatus(i, s, reason)
	i.status.NextTry = i.due
	m.changed(i)
}

func (m *Machine) setStatus(i *item, s stateloop.State, reason string) {
	since := i.status.Since
	if i.status.State != s || i.status.Version != i.Version || i.status.Target != i.Target {
		since = m.now
	}
	was := i.status
	i.status = Status{ID: i.ID, Target: i.Target, Version: i.Version, State: s, Reason: reason, Since: since,
		Attempts: i.fails}
	if i.status != was {
		m.changed(i)
	}
}

func (m *Machine) changed(i *item) {
	if m.pending == nil {
		m.pending = map[string]bool{}
	}
	m.pending[i.ID] = true
}

func inProgress(t stateloop.Target) stateloop.State {
	if t == stateloop.ToBeAbsent {
		return stateloop.Removing
	}
	return stateloop.Creating
}

func failedTo(t stateloop.Target) stateloop.State {
	if t == stateloop.ToBeAbsent {
		return stateloop.RemovingFailed
	}
	return stateloop.CreatingFailed
}
