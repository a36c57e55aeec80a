package manager

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// applied handles the end of an apply: it publishes every status that the apply answers, then starts the next apply or
// the retry, or ends the manager.
func (m *Manager) applied(e Applied) []Effect {
	f := m.flight
	if f == nil || f.seq != e.Seq {
		return nil // from an applier that has since crashed
	}
	m.flight = nil
	if e.Err != "" {
		m.full = true
		m.setPartsUnknown(e.Err)
		return append(m.showFailed(f, []string{e.Err}, true), m.retryOr(m.growBackoff())...)
	}
	if f.intent == undesired {
		m.partsApplied(f, e.Failures, e.Before)
		return append(m.listen(f), m.removed(f, e.Failures)...)
	}

	m.applyEnded(f, e)
	m.countDropped(f, e)
	contest := m.publishContest()
	rest, partWaits, partFailed := m.partsApplied(f, e.Failures, e.Before)
	owned, byAdapter, waits := m.splitFailures(f, rest)
	waits = waits || partWaits
	out := append(m.listen(f), contest...)
	for _, k := range m.keys() {
		fs := byAdapter[k]
		if m.adapters[k].lease.Number == 0 {
			// An adapter that this incarnation never applied: an object that can't be removed may be its own, from an earlier
			// incarnation. It must not be reported as removed.
			fs = append(slices.Clone(fs), byAdapter[netinst.AdapterKey{}]...)
		}
		out = append(out, m.publishAdapter(f, k, fs, len(owned) > 0, e.Before)...)
	}
	delete(byAdapter, netinst.AdapterKey{})
	failed := worstFirst(owned)
	switch {
	case failed:
		out = append(out, m.showFailed(f, texts(owned), checksOnly(owned))...)
	case len(owned) > 0:
		out = append(out, m.show(netinst.WaitingForDependencies, owned[0].Err)...)
	default:
		m.appliedGen, m.appliedFor, m.wasApplied = f.gen, f.ports, true
		out = append(out, m.showApplied(f, driftText(e.Drift))...)
	}
	m.full = m.full || len(e.Drift) > 0 // a full reading may have found it; any other knows only the last write
	m.waiting = waits
	failed = failed || partFailed
	for _, fs := range byAdapter {
		for _, x := range fs {
			failed = failed || !x.Waiting
		}
	}
	if !failed && len(owned) == 0 {
		out = append(out, m.markApplied(f)...)
	}
	out = append(append(out, m.startNext(failed, waits || len(owned) > 0, e.Failures)...), m.scheduleObserve()...)
	return append(out, m.checkTouched(e.At)...)
}

// startNext returns the next step after an apply: a retry if something failed or waits, otherwise the next apply.
func (m *Manager) startNext(failed, waits bool, fs []netstate.OpFailure) []Effect {
	switch {
	case failed:
		return m.retryOr(m.growBackoff())
	case waits:
		m.failing = false
		m.backoff = min(retries.Next(m.backoff), slowestWait(fs))
		return m.retryOr(m.backoff)
	}
	m.backoff, m.failing = 0, false
	m.retryTok = 0
	return m.next()
}

// scheduleObserve schedules a full comparison of the network with the host after every apply, failed or not: while the
// network waits or fails, possibly for hours, other programs may change its objects.
func (m *Manager) scheduleObserve() []Effect {
	if m.checkTok != 0 {
		return nil
	}
	m.token++
	m.checkTok = m.token
	return []Effect{Timer{m.checkTok, netinst.CheckEvery, true}}
}

// showApplied shows a network whose objects are all as desired, except for drift that is left.
func (m *Manager) showApplied(f *flight, drift string) []Effect {
	switch {
	case drift != "":
		return m.show(netinst.CheckPresentFailed, drift)
	case m.ends.restTok != 0: // its dnsmasq ended during this apply
		return m.show(netinst.CheckPresentFailed, m.ends.why)
	case f.desired.Withdrawn != "":
		return m.show(netinst.WaitingForDependencies, f.desired.Withdrawn)
	case f.desired.PortError != "":
		return m.show(netinst.WaitingForDependencies, f.desired.PortError)
	}
	return m.show(netinst.Present, "")
}

// splitFailures splits failures into the network's own and each adapter's, and reports whether one waits for something
// outside. The zero key has removals that belong to no known adapter: they count as the network's own, too.
func (m *Manager) splitFailures(f *flight, fs []netstate.OpFailure) (owned []netstate.OpFailure,
	by map[netinst.AdapterKey][]netstate.OpFailure,
	waits bool) {
	by = map[netinst.AdapterKey][]netstate.OpFailure{}
	if len(fs) == 0 {
		return nil, by, false
	}
	owner := f.owners()
	for _, x := range fs {
		if k, ok := owner[x.ID]; ok {
			by[k] = append(by[k], x)
			waits = waits || x.Waiting
			continue
		}
		owned = append(owned, x)
		if x.Remove {
			by[netinst.AdapterKey{}] = append(by[netinst.AdapterKey{}], x)
		}
	}
	return owned, by, waits
}

// worstFirst sorts a network's own failures, causes before what is blocked by them, and reports whether there is more
// than waiting for another network to leave a subnet, or for something outside.
func worstFirst(fs []netstate.OpFailure) bool {
	rank := func(x netstate.OpFailure) int {
		switch {
		case !x.Waiting:
			return 0
		case !x.Blocked:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(fs, func(x, y netstate.OpFailure) int { return rank(x) - rank(y) })
	return len(fs) > 0 && rank(fs[0]) != 1 // 2: blocked by an object that is not the network's own
}

func texts(fs []netstate.OpFailure) []string {
	var errs []string
	for _, x := range fs {
		errs = append(errs, x.Err)
	}
	return errs
}

// adapterLink returns the current state of an adapter: its links, and the addresses its app was observed to use.
func (m *Manager) adapterLink(a *adapterState, l netinst.Lease,
	c netinst.AdapterSpec) netinst.AdapterLink {
	u := netinst.AdapterLink{
		IP: l.IP, MAC: l.MAC, IfName: c.IfName,
		HostIfName: netinst.HostSide(m.owner.Number, l.Number, c), Bridge: netinst.BridgeName(m.owner.Number),
	}
	if len(a.addresses) > 0 {
		u.IP, u.Addresses = a.addresses.primary(a.leased), a.addresses.list()
	}
	u.Lease = a.leaseWord
	if six := netinst.AdapterIP6(m.config, c, l); six.IsValid() && l.IP.IsValid() {
		u.Addresses = l.IP.String() + "," + six.String()
	}
	a.dropped.show(&u)
	return u
}

// publishAdapter publishes the result of one adapter in this apply. network means that part of the network failed; had
// is the host's state before the apply.
func (m *Manager) publishAdapter(f *flight, k netinst.AdapterKey, fs []netstate.OpFailure, network bool,
	had netstate.State) []Effect {
	a := m.adapters[k]
	c, took := f.versions[k]
	if !took {
		return nil // it arrived after the start of the apply
	}
	removeFailed := slices.ContainsFunc(fs, func(x netstate.OpFailure) bool { return x.Remove })
	if a.gone && !c.Activate && !removeFailed {
		delete(m.adapters, k)
		return []Effect{WithdrawAdapter{k}} // also a status published by an earlier incarnation
	}
	if c.TargetVersion == 0 {
		return nil // from an earlier incarnation, whose last status remains
	}
	s := netinst.AppAdapterStatus{AppUUID: k.AppUUID, Index: k.Index, TargetVersion: c.TargetVersion}
	if l, ok := f.leases[k]; ok && c.Activate && !f.inactive {
		s.Link = m.adapterLink(a, l, c.Spec)
	}
	switch {
	case !c.Activate:
		s.Activated = removeFailed
	case f.inactive:
		s.Activated = removeFailed
		s.Error, s.Waiting = "network instance "+m.name()+" is not activated", true
	case f.refused[k] != "":
		s.Error = f.refused[k]
	case network && len(fs) == 0:
		// The failed object may be one that the adapter needs; if the adapter was up, it still is. After a restart it has no
		// status yet: then the observed state counts.
		s.Activated = f.complete(k, had)
		if a.published != nil {
			s.Activated = a.published.Activated
		}
		s.Error, s.Waiting = "network instance "+m.name()+" is not ready", true
	default:
		s.Activated = len(fs) == 0
		if f.desired.Withdrawn != "" && c.Activate { // its link exists nevertheless
			s.Error, s.Waiting = "network instance "+m.name()+" is withdrawn: "+f.desired.Withdrawn, true
		}
	}
	if len(fs) > 0 {
		s.Error = rootCause(fs)
		s.Waiting = !slices.ContainsFunc(fs, func(x netstate.OpFailure) bool { return !x.Waiting })
		s.CheckFailed = !s.Waiting && checksOnly(fs)
	}
	if a.published != nil && *a.published == s {
		return nil
	}
	a.published = &s
	return []Effect{PublishAdapter{s}}
}

// complete reports whether every object of an adapter was on the host as desired.
func (f *flight) complete(k netinst.AdapterKey, had netstate.State) bool {
	ids := f.desired.ByAdapter[k]
	for _, id := range ids {
		if w, h := f.desired.State[id], had[id]; w == nil || !netstate.Same(w, h) {
			return false
		}
	}
	return len(ids) != 0
}

// rootCause prefers a failure over objects that only wait for it.
func rootCause(fs []netstate.OpFailure) string {
	for _, x := range fs {
		if !strings.HasPrefix(x.Err, "waits for ") {
			return x.Err
		}
	}
	return fs[0].Err
}

// removed handles the end of an apply of the empty state.
func (m *Manager) removed(f *flight, fs []netstate.OpFailure) []Effect {
	if len(fs) > 0 {
		return append(m.showFailed(f, texts(fs), checksOnly(fs)), m.retryOr(m.growBackoff())...)
	}
	var out []Effect
	for _, k := range m.keys() {
		a := m.adapters[k]
		c := f.versions[k]
		if c.TargetVersion == 0 { // not part of the apply, or of an earlier incarnation
			c = a.config
		}
		if a.gone {
			delete(m.adapters, k)
			out = append(out, WithdrawAdapter{k})
			continue
		}
		s := netinst.AppAdapterStatus{AppUUID: k.AppUUID, Index: k.Index, TargetVersion: c.TargetVersion}
		if c.Activate {
			s.Error = "network instance " + m.name() + " is deleted"
		}
		if a.published == nil || *a.published != s {
			a.published = &s
			out = append(out, PublishAdapter{s})
		}
	}
	m.backoff = 0
	if m.intent == desired { // the config returned meanwhile
		m.shown, m.wasApplied, m.dirty = false, false, true
		return append(out, m.next()...)
	}
	m.done = true
	return append(out, WithdrawNetwork{}, Done{})
}

// showFailed shows why the network is not as desired, and when it is retried; check as in checksOnly.
func (m *Manager) showFailed(f *flight, errs []string, check bool) []Effect {
	state := netinst.CreatingFailed
	switch {
	case f.intent == undesired && check:
		state = netinst.CheckAbsentFailed
	case f.intent == undesired:
		state = netinst.RemovingFailed
	case check || m.wasApplied && m.config.Generation == f.gen:
		state = netinst.CheckPresentFailed
	}
	why := errs[0]
	if n := len(errs) - 1; n > 0 {
		why += fmt.Sprintf(" (and %d more)", n)
	}
	return m.show(state, fmt.Sprintf("%s; next retry in %v", why, retries.Next(m.backoff)))
}

// growBackoff returns the next waiting time of the back-off.
func (m *Manager) growBackoff() time.Duration {
	if !m.failing { // a wait that was announced is no reason to try others so late
		m.backoff = min(m.backoff, waitRetry)
	}
	m.backoff, m.failing = retries.Next(m.backoff), true
	return m.backoff
}

// retryOr starts the next apply at once if the desired state has changed meanwhile, otherwise after d.
func (m *Manager) retryOr(d time.Duration) []Effect {
	if m.dirty {
		m.retryTok = 0
		return m.next()
	}
	m.token++
	m.retryTok = m.token
	return []Effect{Timer{m.retryTok, d, m.waitsLong()}}
}

// waitsLong reports whether the retry is as rare as the check, and at the same time: then it is the check.
func (m *Manager) waitsLong() bool { return !m.failing && m.backoff == netinst.CheckEvery }

// timer handles the end of a timer that still counts.
func (m *Manager) timer(e TimerDue) []Effect {
	switch e.Token {
	case 0:
		return nil
	case m.retryTok:
		m.retryTok = 0
		if m.waitsLong() {
			m.full, m.checkTok = true, 0
		}
		return m.change()
	case m.checkTok:
		m.checkTok, m.event = 0, BeganCheck
		m.full = true
		if (m.failing || m.waitsLong()) && m.retryTok != 0 { // the retry observes everything, within retries.Max
			return nil
		}
		return m.change()
	case m.ends.restTok:
		m.event = BeganProcess
		return m.change()
	case m.damping.timerTok:
		m.damping.timerTok, m.event = 0, BeganHost
		return m.checkTouched(e.At)
	case m.damping.contestTok:
		return m.endContest(e.At)
	case m.slowTok:
		return m.reportSlowOps(e.At)
	case m.addressToken:
		return m.expireAddresses(e.At)
	case m.overlap.restTok:
		return m.endOverlap()
	case m.overlap.calmTok:
		if m.overlap.now.Clash == "" {
			m.overlap.rest = 0
		}
	case m.graceTok:
		m.adaptersKnown = true
		return m.next()
	}
	return nil
}

// show publishes the network's status if it has changed.
func (m *Manager) show(state netinst.NIState, why string) []Effect {
	warnings := slices.DeleteFunc([]string{m.warning, m.tunnelWarning(), m.partsWarning(), m.damping.text(),
		m.droppedWarning()}, func(s string) bool { return s == "" })
	s := netinst.NetworkInstanceStatus{
		UUID: m.config.UUID, DisplayName: m.config.DisplayName, State: state, Bridge: netinst.BridgeName(m.owner.Number),
		Number: m.owner.Number, Generation: m.appliedGen, DesiredPorts: m.appliedFor, Port: m.port, Error: why,
		Warning: strings.Join(warnings, "; "), Parts: m.partStatuses(state, why),
	}
	if m.shown && s.Equal(m.status) {
		return nil
	}
	m.status, m.shown = s, true
	return []Effect{PublishNetwork{s}}
}

// name returns the network's display name.
func (m *Manager) name() string {
	if m.config.DisplayName != "" {
		return fmt.Sprintf("%q", m.config.DisplayName)
	}
	return m.owner.Name
}
