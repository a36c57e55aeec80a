package commitconfirm

import (
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/nodeconf/action"
)

// maxStarts is how often the agent may start by itself within the time of a pending config.
const maxStarts = 1

// boot goes on with what is on the disk.
func (m *Machine) boot(e Boot) []Effect {
	m.start, m.machine = e.Start, e.Machine
	m.phase = reconciling
	out := m.found(e)
	m.confirmed.md5 = m.confirmed.digest()
	if p := e.Disk.Pending; p != nil && p.Seq > m.confirmed.Seq {
		r := *p
		r.md5 = r.digest()
		m.pending = &r
		return append(out, m.resume(e.Disk)...)
	} else if why, bad := e.Disk.Faults[SlotPending]; bad {
		out = append(out, Report{What: NotRun, Echo: m.confirmed.Echo(),
			Why: "what was pending can't be read, and so the actions of going back are unknown: " + why})
		out = append(out, m.note(Write{Slot: SlotPending})...)
	} else if p != nil { // left over
		out = append(out, m.note(Write{Slot: SlotPending})...)
	}
	_, begin := m.fulfil()
	return append(out, begin(m.publish)...)
}

// found takes the config that an undo goes back to: the confirmed one, or its copy, or the
// latest base. Both of the latter remove nothing from the host.
//
// The copy is written after the confirmed one: where it is newer, that was spoilt later, and
// what was read in its place is the one before.
func (m *Machine) found(e Boot) []Effect {
	spoilt := e.Disk.Confirmed != nil && e.Disk.Copy != nil &&
		e.Disk.Copy.Authority == e.Disk.Confirmed.Authority && e.Disk.Copy.Seq > e.Disk.Confirmed.Seq
	if r := e.Disk.Confirmed; r != nil && !spoilt {
		m.confirmed, m.authority = *r, r.Authority
		if !r.Fallback {
			return nil
		}
		return []Effect{Report{What: OnFallback, Echo: r.Echo(), Why: "nothing was pushed or applied since"}}
	}
	m.authority = e.Start // the numbers that were given out are not known any more
	why := "there is none"
	if fault, bad := e.Disk.Faults[SlotConfirmed]; bad {
		why = "it can't be read: " + fault
	} else if spoilt {
		why = "only an older one can be read"
	}
	if r := e.Disk.Copy; r != nil {
		m.confirmed = *r
		m.confirmed.Fallback = true
		m.confirmed.Open, m.confirmed.Due, m.confirmed.Restart = false, nil, ""
		return []Effect{Report{What: OnFallback, Echo: r.Echo(), Why: "the node's config: " + why +
			": its last good copy is taken"}}
	}
	name := latest(e.Bases)
	m.confirmed = Record{Source: Base, Document: e.Bases[name], Fallback: true}
	if m.confirmed.Document == nil {
		m.confirmed.Document = config.Object{} // an image without a base: nothing is removed by it
	}
	return []Effect{Report{What: OnFallback, Echo: m.confirmed.Echo(), Why: "the node's config: " + why +
		": the latest base is taken: " + name}}
}

// latest is the last name in natural order.
func latest(bases map[string]config.Object) string {
	if len(bases) == 0 {
		return ""
	}
	return slices.MaxFunc(slices.Collect(maps.Keys(bases)), layers.CompareNatural)
}

// resume goes on with a pending config: an undo that had begun goes on, else it has what is
// left of its time, and one start that nobody asked for.
func (m *Machine) resume(d Disk) []Effect {
	asked, begin := m.fulfil()
	if m.undoing() {
		return begin(m.publish)
	}
	if why, bad := d.Faults[SlotClock]; bad {
		return begin(func() []Effect { return m.undo(Unconfirmed, "its time can't be read: "+why) })
	}
	m.clock = Clock{Seq: m.pending.Seq, Remaining: m.pending.Wait}
	if d.Clock != nil && d.Clock.Seq == m.pending.Seq {
		m.clock = *d.Clock
	}
	if !asked && !m.clock.Orderly {
		m.clock.Starts++
	}
	m.clock.Orderly = false
	if m.clock.Starts > maxStarts {
		return begin(func() []Effect { return m.undo(Unhealthy, "the node started twice without being asked to") })
	}
	if m.clock.Remaining <= 0 {
		return begin(m.expire)
	}
	c := m.clock
	return begin(func() []Effect {
		return m.save(Write{Slot: SlotClock, Clock: &c}, m.publish, func(why string) []Effect {
			return append(m.publish(), Report{What: Trouble, Echo: m.pending.Echo(), Why: "write clock: " + why})
		})
	})
}

// fulfil notes that a restart which was asked for has been: of the agent by any start of it,
// of the machine by another boot of it. What comes then waits for that to be on the disk,
// so that it excuses one start only.
func (m *Machine) fulfil() (asked bool, begin func(then func() []Effect) []Effect) {
	r, slot := m.current()
	if r.Restart == "" || r.Restart == action.NameReboot && r.Machine == m.machine {
		return false, func(then func() []Effect) []Effect { return then() }
	}
	r.Restart = ""
	next := *r
	return true, func(then func() []Effect) []Effect {
		return m.save(Write{Slot: slot, Record: &next}, then, func(why string) []Effect {
			return append(then(), Report{What: Trouble, Echo: next.Echo(), Why: "write: " + why})
		})
	}
}
