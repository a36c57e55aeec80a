package agent

import (
	"slices"
	"time"

	"edgespan/config/fleet/nodeside"
	"edgespan/config/nodeconf/commitconfirm"
)

// hostView is the last observation of the host, and the publication that the machine has asked about.
type hostView struct {
	look        Observation
	lookedAt    time.Time
	observeTook time.Duration
	settlingID  int // the publication that has not settled yet; 0 for none
	asked       commitconfirm.Nonce
}

// publish publishes a config to the host. At the start it first waits for the config file, if that is new.
func (s *shell) publish(p commitconfirm.Publish, accepted bool) {
	s.settlingID, s.asked = p.ID, commitconfirm.Nonce{}
	if s.held != nil && !accepted {
		s.held = &p
		return
	}
	s.decided()
	s.live = p
	v := s.busyVerdict
	if !accepted || v == nil {
		again := s.o.Validator(p.Document, p.Peer, commitconfirm.Push)
		v = &again
	}
	if len(v.Faults) > 0 { // stored by an earlier version: leave the host as it is
		s.refuse("resume the last applied config", v.Faults)
		return
	}
	s.live.Config = v.Config
	s.o.Host.Publish(s.live, s.applying.Context())
	s.scheduleReport()
	s.watchSoon()
}

// observeHost observes the host soon, at a bounded rate.
func (s *shell) observeHost() {
	s.o.Host.Drain()
	s.watchSoon()
}

func (s *shell) watchSoon() {
	if !s.isRunning(observeTimer) {
		s.setTimer(observeTimer, 0, max(0, max(reportDelay, observeShare*s.observeTook)-time.Since(s.lookedAt)))
	}
}

// watch observes the host.
func (s *shell) watch() {
	s.cancel(observeTimer)
	s.lookedAt = time.Now()
	was := s.look
	s.look = s.o.Host.Observe()
	s.observeTook = time.Since(s.lookedAt)
	if !s.booted {
		return
	}
	if was.Settled != s.look.Settled || !slices.Equal(was.Health, s.look.Health) ||
		!slices.Equal(was.Parameters, s.look.Parameters) ||
		!slices.EqualFunc(was.Ports, s.look.Ports, nodeside.SamePort) {
		s.scheduleReport()
	}
	s.step(commitconfirm.HealthChanged{Items: healthByName(s.look)})
	if s.look.Settled && s.settlingID > 0 && s.held == nil {
		id := s.settlingID
		s.settlingID = 0
		s.step(commitconfirm.Settled{ID: id, Items: healthByName(s.look)})
	}
}

// healthByName returns the health by name.
func healthByName(l Observation) map[string]bool {
	out := make(map[string]bool, len(l.Health))
	for _, h := range l.Health {
		out[h.Name] = h.Good
	}
	return out
}
