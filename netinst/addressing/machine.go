package addressing

import (
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/pubsub/backoff"
)

// repairRest is the time between two repairs: a program that keeps changing a port gets one answer a second.
const repairRest = time.Second

var retries = backoff.Backoff{First: 100 * time.Millisecond, Max: time.Minute}

// Event is an input of a Machine's Step.
type Event interface{ addressingEvent() }

// The events of a Machine.
type (
	// Configured carries all ports of a config, and the present leases. Until the config is Valid, nothing is applied: it
	// might remove what the next one needs.
	Configured struct {
		Ports  []netinst.PortConfig
		Leases Leases
		Valid  bool
	}
	// HostChanged reports that a port may have changed on the host.
	HostChanged struct{}
	// ApplierReady announces an applier that has just started.
	ApplierReady struct{}
	// Applied is the end of an Apply. Changed means that it changed the host, Failed that something is not as desired.
	Applied struct {
		Seq             uint64
		Changed, Failed bool
	}
	// Due reports the end of a Wait.
	Due struct{ Token uint64 }
)

func (Configured) addressingEvent()   {}
func (HostChanged) addressingEvent()  {}
func (ApplierReady) addressingEvent() {}
func (Applied) addressingEvent()      {}
func (Due) addressingEvent()          {}

// Effect is an output of a Machine's Step.
type Effect interface{ addressingEffect() }

// The effects of a Machine.
type (
	// Apply requests an apply of the ports' desired state.
	Apply struct {
		Seq  uint64
		Want netstate.State
	}
	// Wait asks for a Due; it replaces a former one. Shared is as in manager.Timer.
	Wait struct {
		Token  uint64
		After  time.Duration
		Shared bool
	}
)

func (Apply) addressingEffect() {}
func (Wait) addressingEffect()  {}

// Machine decides when the ports' state is applied: at once after a change of the config, after a change by others at
// most once a second, again after a failure, and each netinst.CheckEvery. At most one apply is in flight.
type Machine struct {
	want            netstate.State
	valid, ready    bool
	inFlight, dirty bool
	resting         bool // changes of the host wait for the Wait
	changed         bool // the host changed during the rest or the apply in flight
	seq, token      uint64
	backoff         time.Duration
}

// Step takes one event and returns the effects.
func (m *Machine) Step(e Event) []Effect {
	switch e := e.(type) {
	case Configured:
		want := Desired(e.Ports, e.Leases)
		if e.Valid && (!m.valid || want.String() != m.want.String()) {
			m.want, m.valid, m.dirty = want, true, true
		}
	case HostChanged:
		switch {
		case len(m.want) == 0:
		case m.resting || m.inFlight:
			m.changed = true
		default:
			m.dirty = true
		}
	case ApplierReady:
		m.ready, m.inFlight, m.dirty = true, false, true
	case Applied:
		return m.applied(e)
	case Due:
		if e.Token != m.token {
			return nil
		}
		quiet := m.resting && !m.changed
		if m.resting = false; quiet {
			return m.wait(netinst.CheckEvery, true)
		}
		m.dirty = true
	}
	return m.next()
}

// next starts an apply if one is due.
func (m *Machine) next() []Effect {
	if !m.valid || !m.ready || m.inFlight || !m.dirty {
		return nil
	}
	m.inFlight, m.dirty, m.changed = true, false, false
	m.seq++
	return []Effect{Apply{m.seq, m.want}}
}

// applied handles the end of an apply.
func (m *Machine) applied(e Applied) []Effect {
	if e.Seq != m.seq || !m.inFlight {
		return nil
	}
	m.inFlight = false
	if m.dirty {
		return m.next()
	}
	m.resting = (e.Changed || m.changed) && len(m.want) > 0
	switch {
	case e.Failed:
		m.resting, m.changed = false, false
		m.backoff = retries.Next(m.backoff)
		return m.wait(m.backoff, false)
	case len(m.want) == 0:
		m.backoff = 0
		m.token++
		return nil
	}
	m.backoff = 0
	if m.resting {
		return m.wait(repairRest, false)
	}
	return m.wait(netinst.CheckEvery, true)
}

func (m *Machine) wait(after time.Duration, shared bool) []Effect {
	m.token++
	return []Effect{Wait{m.token, after, shared}}
}

// IsSettled reports whether the desired state is on the host, as far as is known.
func (m *Machine) IsSettled() bool { return m.valid && !m.inFlight && !m.dirty && m.backoff == 0 }
