package commitconfirm

import (
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/nodeconf/action"
)

// maxStarts limits how often the agent may start unrequested within the time of a pending config.
const maxStarts = 1

// boot continues with the state on the disk.
func (m *Machine) boot(e Boot) []Effect {
	m.start, m.machine = e.Start, e.Machine
	m.phase = reconciling
	out := m.selectConfirmed(e)
	m.confirmed.md5 = m.confirmed.digest()
	if p := e.Disk.Pending; p != nil && p.Seq > m.confirmed.Seq {
		r := *p
		r.md5 = r.digest()
		m.pending = &r
		return append(out, m.resume(e.Disk)...)
	} else if why, bad := e.Disk.Faults[SlotPending]; bad {
		out = append(out, Announce{What: NotRun, Echo: m.confirmed.Echo(),
			Why: "what was pending can't be read, and so the actions of going back are unknown: " + why})
		out = append(out, m.writeRecord(Write{Slot: SlotPending})...)
	} else if p != nil { // left over from before
		out = append(out, m.writeRecord(Write{Slot: SlotPending})...)
	}
	_, begin := m.recordRestart()
	return append(out, begin(m.publish)...)
}

// selectConfirmed selects the config that an undo returns to: the confirmed one, its copy, or the latest base. A copy
// or a base removes nothing from the host.
//
// The copy is written after the confirmed record: if the copy is newer, the confirmed record was damaged later, and an
// older record was read in its place.
func (m *Machine) selectConfirmed(e Boot) []Effect {
	spoilt := e.Disk.Confirmed != nil && e.Disk.Copy != nil &&
		e.Disk.Copy.Authority == e.Disk.Confirmed.Authority && e.Disk.Copy.Seq > e.Disk.Confirmed.Seq
	if r := e.Disk.Confirmed; r != nil && !spoilt {
		m.confirmed, m.authority = *r, r.Authority
		if !r.Fallback {
			return nil
		}
		return []Effect{Announce{What: OnFallback, Echo: r.Echo(), Why: "nothing was pushed or applied since"}}
	}
	m.authority = e.Start // the numbers used so far are unknown now
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
		return []Effect{Announce{What: OnFallback, Echo: r.Echo(), Why: "the node's config: " + why +
			": its last good copy is taken"}}
	}
	name := latestName(e.Bases)
	m.confirmed = ConfigRecord{Source: Base, Document: e.Bases[name], Fallback: true}
	if m.confirmed.Document == nil {
		m.confirmed.Document = config.Object{} // an image without a base: it removes nothing
	}
	return []Effect{Announce{What: OnFallback, Echo: m.confirmed.Echo(), Why: "the node's config: " + why +
		": the latest base is taken: " + name}}
}

// latestName returns the last name in natural order.
func latestName(bases map[string]config.Object) string {
	if len(bases) == 0 {
		return ""
	}
	return slices.MaxFunc(slices.Collect(maps.Keys(bases)), layers.CompareNatural)
}

// resume continues with a pending config: it continues an undo that had begun; otherwise the config has the rest of its
// time and one unrequested start.
func (m *Machine) resume(d Disk) []Effect {
	asked, begin := m.recordRestart()
	if m.isUndoing() {
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
			return append(m.publish(), Announce{What: Trouble, Echo: m.pending.Echo(), Why: "write clock: " + why})
		})
	})
}

// recordRestart records that a requested restart has happened: a restart of the agent with any start of it, a reboot
// with another boot of the machine. Later steps wait until that is on the disk, so that it excuses one start only.
func (m *Machine) recordRestart() (asked bool, begin func(then func() []Effect) []Effect) {
	r, slot := m.current()
	if r.Restart == "" || r.Restart == action.NameReboot && r.Machine == m.machine {
		return false, func(then func() []Effect) []Effect { return then() }
	}
	r.Restart = ""
	next := *r
	return true, func(then func() []Effect) []Effect {
		return m.save(Write{Slot: slot, Record: &next}, then, func(why string) []Effect {
			return append(then(), Announce{What: Trouble, Echo: next.Echo(), Why: "write: " + why})
		})
	}
}
