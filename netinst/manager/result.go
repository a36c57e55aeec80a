package manager

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// applied judges the end of an apply: every status that it answers, then the next
// apply, the retry, or the end.
func (m *Manager) applied(e Applied) []Effect {
	f := m.flight
	if f == nil || f.seq != e.Seq {
		return nil // of an applier that has died since
	}
	m.flight = nil
	if e.Err != "" {
		m.full = true
		m.partsUnseen(e.Err)
		return append(m.showFailed(f, []string{e.Err}, true), m.retryOr(m.grow())...)
	}
	if f.intent == undesired {
		m.partsApplied(f, e.Failures, e.Had)
		return append(m.listen(f), m.removed(f, e.Failures)...)
	}

	m.applyEnded(f, e)
	m.countDropped(f, e)
	contest := m.publishContest()
	rest, partWaits, partFailed := m.partsApplied(f, e.Failures, e.Had)
	owned, byAdapter, waits := m.sort(f, rest)
	waits = waits || partWaits
	out := append(m.listen(f), contest...)
	for _, k := range m.keys() {
		fs := byAdapter[k]
		if m.adapters[k].lease.Number == 0 {
			// Never made by this incarnation: what can't be removed may be its, made by
			// an earlier one. Nobody may be told that it has gone.
			fs = append(slices.Clone(fs), byAdapter[netinst.AdapterKey{}]...)
		}
		out = append(out, m.answer(f, k, fs, len(owned) > 0, e.Had)...)
	}
	delete(byAdapter, netinst.AdapterKey{})
	failed := worstFirst(owned)
	switch {
	case failed:
		out = append(out, m.showFailed(f, texts(owned), checksOnly(owned))...)
	case len(owned) > 0:
		out = append(out, m.show(netinst.WaitingForDependencies, owned[0].Err)...)
	default:
		m.appliedGen, m.appliedFor, m.everOK = f.gen, f.ports, true
		out = append(out, m.showStanding(f, driftText(e.Drift))...)
	}
	m.full = m.full || len(e.Drift) > 0 // a dump found it maybe, and what is known without one is our last write
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
	out = append(append(out, m.after(failed, waits || len(owned) > 0)...), m.checkLater()...)
	return append(out, m.checkTouched(e.At)...)
}

// after is what comes after an apply: a retry where something failed or waits, else the next.
func (m *Manager) after(failed, waits bool) []Effect {
	switch {
	case failed:
		return m.retryOr(m.grow())
	case waits:
		m.failing = false
		m.backoff = min(retries.Next(m.backoff), waitRetry)
		return m.retryOr(m.backoff)
	}
	m.backoff, m.failing = 0, false
	m.retryTok = 0
	return m.next()
}

// checkLater has the network compared with the host in full, however an apply ended:
// while it waits or fails, for hours maybe, others may change what stands of it.
func (m *Manager) checkLater() []Effect {
	if m.checkTok != 0 {
		return nil
	}
	m.token++
	m.checkTok = m.token
	return []Effect{Timer{m.checkTok, netinst.CheckEvery, true}}
}

// showStanding shows a network all of whose objects are as wanted, but for drift that is left.
func (m *Manager) showStanding(f *flight, drift string) []Effect {
	switch {
	case drift != "":
		return m.show(netinst.CheckPresentFailed, drift)
	case m.ends.restTok != 0: // its dnsmasq ended while this apply was under way
		return m.show(netinst.CheckPresentFailed, m.ends.why)
	case f.desired.Withdrawn != "":
		return m.show(netinst.WaitingForDependencies, f.desired.Withdrawn)
	case f.desired.PortError != "":
		return m.show(netinst.WaitingForDependencies, f.desired.PortError)
	}
	return m.show(netinst.Present, "")
}

// sort splits failures into the network's own and each adapter's, and says
// whether one waits for the world. Under the zero key are removals of what no adapter
// that is known wants or had: they count as the network's own, too.
func (m *Manager) sort(f *flight, fs []netstate.Failure) (owned []netstate.Failure,
	by map[netinst.AdapterKey][]netstate.Failure,
	waits bool) {
	owner := map[netstate.ID]netinst.AdapterKey{}
	for k, ids := range f.desired.ByAdapter {
		for _, id := range ids {
			owner[id] = k
		}
	}
	by = map[netinst.AdapterKey][]netstate.Failure{}
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

// worstFirst sorts a network's own failures, causes before what is blocked by them, and
// says whether there is more than waiting: for another network to leave a subnet, or for
// the world.
func worstFirst(fs []netstate.Failure) bool {
	rank := func(x netstate.Failure) int {
		switch {
		case !x.Waiting:
			return 0
		case !x.Blocked:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(fs, func(x, y netstate.Failure) int { return rank(x) - rank(y) })
	return len(fs) > 0 && rank(fs[0]) != 1 // 2: blocked by what is not the network's own
}

func texts(fs []netstate.Failure) []string {
	var errs []string
	for _, x := range fs {
		errs = append(errs, x.Err)
	}
	return errs
}

// underlay is what an adapter has on the host, and what its app was seen to use.
func (m *Manager) underlay(a *adapterState, l netinst.Lease,
	c netinst.UnderlayNetworkConfig) netinst.UnderlayNetworkStatus {
	u := netinst.UnderlayNetworkStatus{
		IP: l.IP, MAC: l.MAC, IfName: c.IfName,
		HostIfName: netinst.HostSide(m.owner.Number, l.Number, c), Bridge: netinst.BridgeName(m.owner.Number),
	}
	if len(a.addresses) > 0 {
		u.IP, u.Addresses = a.addresses.first(a.leased), a.addresses.list()
	}
	if a.dropped.packets > 0 {
		u.Dropped, u.MaxFlows = a.dropped.packets, a.dropped.limit
	}
	return u
}

// answer publishes what became of one adapter in this apply. network says that
// something of the network failed, had is what stood before.
func (m *Manager) answer(f *flight, k netinst.AdapterKey, fs []netstate.Failure, network bool,
	had netstate.State) []Effect {
	a := m.adapters[k]
	c, took := f.versions[k]
	if !took {
		return nil // it came after the apply had begun
	}
	removeFailed := slices.ContainsFunc(fs, func(x netstate.Failure) bool { return x.Remove })
	if a.gone && !c.Activate && !removeFailed {
		delete(m.adapters, k)
		return []Effect{WithdrawAdapter{k}} // also what an earlier incarnation published
	}
	if c.TargetVersion == 0 {
		return nil // an earlier incarnation's, of which its last status stands
	}
	s := netinst.AppAdapterStatus{AppUUID: k.AppUUID, UnderlayIndex: k.UnderlayIndex, TargetVersion: c.TargetVersion}
	if l, ok := f.leases[k]; ok && c.Activate && !f.inactive {
		s.UnderlayStatus = m.underlay(a, l, c.UnderlayConfig)
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
		// What failed may be what the adapter needs; if it was up, it still is. After a
		// restart nothing was said of it yet: what was observed counts.
		s.Activated = f.complete(k, had)
		if a.published != nil {
			s.Activated = a.published.Activated
		}
		s.Error, s.Waiting = "network instance "+m.name()+" is not ready", true
	default:
		s.Activated = len(fs) == 0
		if f.desired.Withdrawn != "" && c.Activate { // its link stands all the same
			s.Error, s.Waiting = "network instance "+m.name()+" is withdrawn: "+f.desired.Withdrawn, true
		}
	}
	if len(fs) > 0 {
		s.Error = rootCause(fs)
		s.Waiting = !slices.ContainsFunc(fs, func(x netstate.Failure) bool { return !x.Waiting })
		s.CheckFailed = !s.Waiting && checksOnly(fs)
	}
	if a.published != nil && *a.published == s {
		return nil
	}
	a.published = &s
	return []Effect{PublishAdapter{s}}
}

// complete says whether every object of an adapter was on the host as it is wanted.
func (f *flight) complete(k netinst.AdapterKey, had netstate.State) bool {
	ids := f.desired.ByAdapter[k]
	for _, id := range ids {
		if w, h := f.desired.State[id], had[id]; w == nil || h == nil || w.Text() != h.Text() {
			return false
		}
	}
	return len(ids) != 0
}

// rootCause prefers a failure over what only waits for it.
func rootCause(fs []netstate.Failure) string {
	for _, x := range fs {
		if !strings.HasPrefix(x.Err, "waits for ") {
			return x.Err
		}
	}
	return fs[0].Err
}

// removed judges the end of an apply of nothing.
func (m *Manager) removed(f *flight, fs []netstate.Failure) []Effect {
	if len(fs) > 0 {
		return append(m.showFailed(f, texts(fs), checksOnly(fs)), m.retryOr(m.grow())...)
	}
	var out []Effect
	for _, k := range m.keys() {
		a := m.adapters[k]
		c := f.versions[k]
		if c.TargetVersion == 0 { // not taken into the apply, or an earlier incarnation's
			c = a.config
		}
		if a.gone {
			delete(m.adapters, k)
			out = append(out, WithdrawAdapter{k})
			continue
		}
		s := netinst.AppAdapterStatus{AppUUID: k.AppUUID, UnderlayIndex: k.UnderlayIndex, TargetVersion: c.TargetVersion}
		if c.Activate {
			s.Error = "network instance " + m.name() + " is deleted"
		}
		if a.published == nil || *a.published != s {
			a.published = &s
			out = append(out, PublishAdapter{s})
		}
	}
	m.backoff = 0
	if m.intent == desired { // it came back meanwhile
		m.shown, m.everOK, m.dirty = false, false, true
		return append(out, m.next()...)
	}
	m.done = true
	return append(out, WithdrawNetwork{}, Done{})
}

// showFailed shows why the network is not as wanted, and when it is tried again; check as checksOnly.
func (m *Manager) showFailed(f *flight, errs []string, check bool) []Effect {
	state := netinst.CreatingFailed
	switch {
	case f.intent == undesired && check:
		state = netinst.CheckAbsentFailed
	case f.intent == undesired:
		state = netinst.RemovingFailed
	case check || m.everOK && m.config.Generation == f.gen:
		state = netinst.CheckPresentFailed
	}
	why := errs[0]
	if n := len(errs) - 1; n > 0 {
		why += fmt.Sprintf(" (and %d more)", n)
	}
	return m.show(state, fmt.Sprintf("%s; next retry in %v", why, retries.Next(m.backoff)))
}

// grow is the wait until what failed is tried again.
func (m *Manager) grow() time.Duration {
	m.backoff, m.failing = retries.Next(m.backoff), true
	return m.backoff
}

// retryOr goes on at once when the wish changed meanwhile, else after d.
func (m *Manager) retryOr(d time.Duration) []Effect {
	if m.dirty {
		m.retryTok = 0
		return m.next()
	}
	m.token++
	m.retryTok = m.token
	return []Effect{Timer{m.retryTok, d, false}}
}

// timer acts on the end of a timer that still counts.
func (m *Manager) timer(e TimerDue) []Effect {
	switch e.Token {
	case 0:
		return nil
	case m.retryTok:
		m.retryTok = 0
		return m.change()
	case m.checkTok:
		m.checkTok = 0
		m.full = true
		if m.failing && m.retryTok != 0 { // the retry looks at all, within retries.Max
			return nil
		}
		return m.change()
	case m.ends.restTok:
		return m.change()
	case m.damping.tok:
		m.damping.tok = 0
		return m.checkTouched(e.At)
	case m.damping.tellTok:
		return m.contestOver(e.At)
	case m.slowTok:
		return m.slow(e.At)
	case m.addressToken:
		return m.expireAddresses(e.At)
	case m.overlap.restTok:
		return m.overlapOver()
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

// show publishes the network's status if it says something new.
func (m *Manager) show(state netinst.NIState, why string) []Effect {
	warnings := slices.DeleteFunc([]string{m.warning, m.partsWarning(), m.damping.text(), m.droppedWarning()},
		func(s string) bool { return s == "" })
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

// name is what people call the network.
func (m *Manager) name() string {
	if m.config.DisplayName != "" {
		return fmt.Sprintf("%q", m.config.DisplayName)
	}
	return m.owner.Name
}
