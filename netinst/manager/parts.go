package manager

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// States of the tunnels and members of a network. Nothing else depends on them: the network is Present and its adapters
// are answered while a tunnel waits, and each part reports its own reason.

// partKey names a part of one network.
type partKey struct{ kind, name string }

// partState is what the manager stores for one part.
type partState struct {
	netinst.PartStatus
	desired string
	waits   string // why no object of it can be desired yet
	ids     []netstate.ID
	leaving bool // no longer desired
	present bool // it was fully applied once
}

func (p partState) key() partKey { return partKey{p.Kind, p.Name} }

// expectParts shows the coming changes of the parts: new ones are created, those no longer desired are removed.
func (m *Manager) expectParts(parts []netinst.Part) {
	old := map[partKey]partState{}
	for _, p := range m.parts {
		old[p.key()] = p
	}
	var now []partState
	for _, p := range parts {
		k := partKey{p.Kind, p.Name}
		s, had := old[k]
		delete(old, k)
		if !had || s.desired != p.Desired || s.leaving {
			s = partState{ids: s.ids, PartStatus: netinst.PartStatus{Kind: p.Kind, Name: p.Name, State: netinst.Creating},
				desired: p.Desired,
				waits:   p.Waits}
		}
		if len(p.IDs) > 0 { // otherwise its existing objects are to be removed
			s.ids = p.IDs
		}
		if p.Waits != "" {
			s.State, s.Error = netinst.WaitingForDependencies, p.Waits
		}
		now = append(now, s)
	}
	for _, p := range m.parts {
		if _, left := old[p.key()]; left {
			now = append(now, p.markLeaving())
		}
	}
	m.parts = now
}

func (p partState) markLeaving() partState {
	if p.State != netinst.RemovingFailed && p.State != netinst.CheckAbsentFailed {
		p.State, p.Error = netinst.Removing, ""
	}
	p.leaving = true
	return p
}

// partsApplied takes the failures of parts out of fs, records the result of each part, and returns whether one waits
// for something outside and whether one failed.
func (m *Manager) partsApplied(f *flight, fs []netstate.OpFailure, had netstate.State) (rest []netstate.OpFailure,
	waits,
	failed bool) {
	rest, by := m.splitParts(f, fs, had)
	var now []partState
	for _, p := range m.parts {
		owned := by[p.key()]
		delete(by, p.key())
		switch {
		case p.leaving && len(owned) == 0:
			continue
		case p.leaving:
			p.State, p.Error, failed = removalState(owned), cause(owned), true
		case p.waits != "" && len(owned) > 0: // its existing objects are not removed
			p.Error, failed = p.waits+"; "+cause(owned), true
		case p.waits == "":
			w, bad := p.recordFailures(owned)
			waits, failed = waits || w, failed || bad
		}
		now = append(now, p)
	}
	var strays []partState // created by an earlier incarnation
	for k, owned := range by {
		strays = append(strays,
			partState{PartStatus: netinst.PartStatus{Kind: k.kind, Name: k.name, State: removalState(owned),
				Error: cause(owned)},
				leaving: true})
		failed = true
	}
	slices.SortFunc(strays, func(a, b partState) int { return strings.Compare(a.Name, b.Name) })
	m.parts = append(now, strays...)
	return rest, waits, failed
}

// checksOnly reports whether no op failed: the objects were only found to differ afterwards.
func checksOnly(fs []netstate.OpFailure) bool {
	return slices.ContainsFunc(fs, func(x netstate.OpFailure) bool { return x.Observe }) &&
		!slices.ContainsFunc(fs, func(x netstate.OpFailure) bool { return !x.Observe && !x.Waiting })
}

// removalState returns the state of a part that cannot be removed.
func removalState(fs []netstate.OpFailure) netinst.NIState {
	if checksOnly(fs) {
		return netinst.CheckAbsentFailed
	}
	return netinst.RemovingFailed
}

// setPartsUnknown records that the host could not be read: the state of every part is unknown.
func (m *Manager) setPartsUnknown(why string) {
	for i, p := range m.parts {
		switch {
		case p.leaving:
			m.parts[i].State, m.parts[i].Error = netinst.CheckAbsentFailed, why
		case p.waits == "":
			m.parts[i].State, m.parts[i].Error = netinst.CheckPresentFailed, why
		}
	}
}

// recordFailures records the result of a desired part.
func (p *partState) recordFailures(fs []netstate.OpFailure) (waits, failed bool) {
	waits = !slices.ContainsFunc(fs, func(x netstate.OpFailure) bool { return !x.Waiting })
	seen := slices.ContainsFunc(fs, func(x netstate.OpFailure) bool { return x.Observe })
	switch {
	case len(fs) == 0:
		p.State, p.Error, p.present = netinst.Present, "", true
		return false, false
	case waits:
		p.State = netinst.WaitingForDependencies
	case seen || p.present:
		p.State = netinst.CheckPresentFailed
	default:
		p.State = netinst.CreatingFailed
	}
	p.Error = cause(fs)
	return waits, !waits
}

// splitParts separates the failures of parts from all others. An object to be removed that belongs to no desired part
// is recognised by its name, and its owner by its mark.
func (m *Manager) splitParts(f *flight, fs []netstate.OpFailure, had netstate.State) (rest []netstate.OpFailure,
	by map[partKey][]netstate.OpFailure) {
	owner := map[netstate.ID]partKey{}
	for _, p := range m.parts {
		for _, id := range p.ids {
			if _, taken := owner[id]; !taken && !f.ofAdapter(id) {
				owner[id] = p.key()
			}
		}
	}
	by = map[partKey][]netstate.OpFailure{}
	for _, x := range fs {
		k, ok := owner[x.ID]
		if !ok && x.Remove && strings.HasPrefix(x.ID.Name, string(netinst.BridgeName(m.owner.Number))+"v") {
			k, ok = partKey{netinst.PartTunnel, m.tunnelName(x.ID.Name, had)}, true
		}
		if !ok {
			rest = append(rest, x)
			continue
		}
		by[k] = append(by[k], x)
	}
	return rest, by
}

func (f *flight) ofAdapter(id netstate.ID) bool {
	for _, ids := range f.desired.ByAdapter {
		if slices.Contains(ids, id) {
			return true
		}
	}
	return false
}

// tunnelName returns the remote name in the mark of a tunnel's link, or the link's own name if it has no mark.
func (m *Manager) tunnelName(link string, had netstate.State) string {
	l, _ := had[netstate.ID{Kind: netstate.KindLink, Name: link}].(netstate.Link)
	if name, ok := netinst.TunnelOf(l.Alias); ok {
		return name
	}
	return link
}

// cause describes failures for people: those of objects that failed, not of those that depend on them.
func cause(fs []netstate.OpFailure) string {
	i := max(0, slices.IndexFunc(fs, func(x netstate.OpFailure) bool { return !x.Blocked }))
	if fs[i].Cause != "" {
		return strings.TrimSuffix(fs[i].Cause, ": "+netstate.ErrWaiting.Error())
	}
	return fs[i].Err
}

func (m *Manager) isCluster() bool {
	return m.config.Type == netinst.Switch && max(len(m.config.Tunnels), len(m.config.Members)) > 0
}

// partStatuses returns the statuses of the bridge, whose state is the network's own, and of the parts.
func (m *Manager) partStatuses(state netinst.NIState, why string) []netinst.PartStatus {
	if len(m.parts) == 0 && !m.isCluster() {
		return nil
	}
	out := []netinst.PartStatus{{Kind: netinst.PartBridge, State: state, Error: why}}
	for _, p := range m.parts {
		out = append(out, p.PartStatus)
	}
	return out
}

// partsWarning names the parts that are missing.
func (m *Manager) partsWarning() string {
	var not []string
	for _, p := range m.parts {
		if p.Error != "" {
			not = append(not, fmt.Sprintf("%s %s: %s", p.Kind, p.Name, p.Error))
		}
	}
	return strings.Join(not, "; ")
}
