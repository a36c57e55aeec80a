package manager

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// Drift is a change by another program to a network that was applied. It is repaired as soon as it is observed. With
// NetworkInstanceConfig.Observe it is reported and left, until the desired state or what leads to the network
// (TouchMoved) changes, or the host matches it again. Objects that were never applied are created in either case.

// LeaveDrift computes the target of an apply that leaves drift: everything that differs from want keeps its form in
// have and is listed in drift, except objects that come and go by themselves.
func LeaveDrift(have, want netstate.State) (target netstate.State, drift []netstate.OpFailure) {
	target = maps.Clone(have)
	for id, o := range want {
		if !netstate.Same(have[id], o) && isTransient(have, want, id) {
			target[id] = o
		}
	}
	removeDangling(target, have, want)
	all := maps.Clone(have)
	maps.Copy(all, want)
	for _, id := range all.IDs() {
		if !netstate.Same(target[id], want[id]) {
			drift = append(drift, netstate.OpFailure{ID: id,
				Observe: true, Remove: want[id] == nil, Err: id.String() + ": " + diffText(have[id], want[id])})
		}
	}
	return target, drift
}

// isTransient reports whether a difference is not a change by another program but comes and goes with guests, with
// the links and routes of the host, or with a process that ends: these objects are always created, added and removed.
// A foreign link that was recreated can't be told from one that was taken out of the bridge, nor a link that was set
// down from one whose creation was interrupted.
func isTransient(have, want netstate.State, id netstate.ID) bool {
	switch w := want[id].(type) {
	case netstate.Link:
		old, ok := have[id].(netstate.Link)
		return w.Type != netstate.Bridge && (!ok || old.Vxlan != nil && old.Vxlan.Lost != "")
	case netstate.Port:
		return have[id] == nil && w.Master != ""
	case netstate.Route:
		return have[id] == nil && w.Dev != "" && want[netstate.ID{Kind: netstate.KindLink, Name: w.Dev}] == nil
	case netstate.Process:
		return have[id] == nil
	}
	return false
}

// removeDangling removes from target new objects that need one that drifted away.
func removeDangling(target, have, want netstate.State) {
	for again := true; again; {
		again = false
		for id, o := range target {
			lacks := func(n netstate.ID) bool { return target[n] == nil && want[n] != nil }
			if have[id] == nil && slices.ContainsFunc(o.Needs(), lacks) {
				delete(target, id)
				again = true
			}
		}
	}
}

func diffText(have, want netstate.Object) string {
	switch {
	case have == nil:
		return "absent"
	case want == nil:
		return "unexpected"
	}
	return fmt.Sprintf("%q", have.Text())
}

// desiredMark returns a digest that is equal for two desired states exactly when a network applied for one of them also
// satisfies the other. bridges are the attributes that each bridge has (netstate.BridgeAttrs): what another release
// applied has others, and is applied anew instead of being called drift.
func desiredMark(f *flight, bridges map[string]uint64) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d\n%s\n%v\n%s", f.gen, f.ports, bridges, f.desired.State)
	return hex.EncodeToString(sum.Sum(nil))
}

// Resume restores, before any event, the last AppliedMark of an earlier incarnation on this boot of the machine:
// changes made between the incarnations are drift too.
func (m *Manager) Resume(mark string) { m.appliedMark = mark }

// Adopt takes over, before any event, the leases that FoundLeases found, since the journal may lack them: the host
// wins. onHost means that the network is on the host: if its drift is only observed, every difference counts as drift,
// even though the AppliedMark of its last apply is lost.
func (m *Manager) Adopt(found map[netinst.AdapterKey]netinst.Lease, onHost bool) {
	for k, l := range found {
		held := m.held[k]
		if l.Number != 0 {
			held.Number = l.Number
		}
		if l.IP.IsValid() {
			held.IP = l.IP
		}
		if l.MAC != "" {
			held.FixedMAC = held.FixedMAC && held.MAC == l.MAC
			held.MAC = l.MAC
		}
		held.Gone = 0
		m.held[k] = held
	}
	m.adopted = len(found) != 0
	m.foundRunning = onHost && m.appliedMark == ""
}

// beginObserve decides whether an apply that is about to begin leaves drift. If it does not, the AppliedMark is cleared
// until the apply is done, so that a crash during it makes the next incarnation apply from the start.
func (m *Manager) beginObserve(f *flight) []Effect {
	if m.config.Observe {
		f.mark = desiredMark(f, netstate.BridgeAttrs())
	}
	if m.foundRunning && f.mark != "" && !m.anew {
		m.foundRunning, m.appliedMark, f.observeOnly = false, f.mark, true
		return []Effect{AppliedMark{f.mark}}
	}
	m.foundRunning = false
	f.observeOnly = f.mark != "" && f.mark == m.appliedMark && !m.anew
	m.anew = false
	if f.observeOnly || m.appliedMark == "" {
		return nil
	}
	m.appliedMark = ""
	return []Effect{AppliedMark{}}
}

// markApplied sets the AppliedMark once everything is applied that does not wait for something outside.
func (m *Manager) markApplied(f *flight) []Effect {
	if f.mark == "" || f.mark == m.appliedMark {
		return nil
	}
	m.appliedMark = f.mark
	return []Effect{AppliedMark{f.mark}}
}

// driftText describes drift; "" for none.
func driftText(fs []netstate.OpFailure) string {
	if len(fs) == 0 {
		return ""
	}
	why := "drift, left as it is: " + fs[0].Err
	if n := len(fs) - 1; n != 0 {
		why += fmt.Sprintf(" (and %d more)", n)
	}
	return why
}
