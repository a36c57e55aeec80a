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

// Drift is what others change of a network that stands. It is mended as soon as it is seen;
// with NetworkInstanceConfig.Observe it is told and left as it is, until the wish itself
// changes or somebody puts the host right. What never stood is made in either case.

// Leave says what to make of a network whose drift is left: all that differs from want stays
// as it is in have and is named in drift, except what the world brings and takes away by itself.
func Leave(have, want netstate.State) (target netstate.State, drift []netstate.Failure) {
	target = maps.Clone(have)
	for id, o := range want {
		if !sameObject(have[id], o) && comes(have, want, id) {
			target[id] = o
		}
	}
	leaveWhatLacks(target, have, want)
	all := maps.Clone(have)
	maps.Copy(all, want)
	for _, id := range all.IDs() {
		if !sameObject(target[id], want[id]) {
			drift = append(drift, netstate.Failure{ID: id,
				Observe: true, Remove: want[id] == nil, Err: id.String() + ": " + howItDiffers(have[id], want[id])})
		}
	}
	return target, drift
}

// comes says whether it is no change by others, but what comes and goes with guests, with the
// links and routes of the host, and with a process that ends: that is made, put in and taken
// away as ever. A link of others that was made anew can't be told from one that was taken out
// of our bridge, nor one of ours that was put down from one whose making was cut short.
func comes(have, want netstate.State, id netstate.ID) bool {
	switch w := want[id].(type) {
	case netstate.Link:
		old, is := have[id].(netstate.Link)
		return w.Type != netstate.Bridge && (!is || old.Vxlan != nil && old.Vxlan.Lost != "")
	case netstate.Port:
		return have[id] == nil && w.Master != ""
	case netstate.Route:
		return have[id] == nil && w.Dev != "" && want[netstate.ID{Kind: netstate.KindLink, Name: w.Dev}] == nil
	case netstate.Process:
		return have[id] == nil
	}
	return false
}

// leaveWhatLacks takes out of target what is new in it and needs what drifted away.
func leaveWhatLacks(target, have, want netstate.State) {
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

func sameObject(a, b netstate.Object) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Text() == b.Text()
}

func howItDiffers(have, want netstate.Object) string {
	switch {
	case have == nil:
		return "absent"
	case want == nil:
		return "not wanted"
	}
	return fmt.Sprintf("%q", have.Text())
}

// desiredMark is the same for two wishes exactly when a network that one of them made stands for
// the other too.
func desiredMark(f *flight) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d\n%s\n%s", f.gen, f.ports, f.desired.State)
	return hex.EncodeToString(sum.Sum(nil))
}

// Resume tells, before any event, the last Stood of an earlier incarnation on this boot of the
// machine: what drifted while nobody looked is drift too.
func (m *Manager) Resume(mark string) { m.appliedMark = mark }

// Adopt takes over, before any event, what FoundLeases found, since the journal may not have
// it: what is on the host wins. standing says that the network is on the host: where its drift is only
// observed, what differs is drift, although nobody knows any more that it was made.
func (m *Manager) Adopt(found map[netinst.AdapterKey]netinst.Lease, standing bool) {
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
	m.standing = standing && m.appliedMark == ""
}

// beginObserve decides for an apply that is about to begin whether drift is left. Where it is not, the
// network is said to stand no more until that apply is done: who dies in it begins anew.
func (m *Manager) beginObserve(f *flight) []Effect {
	if m.config.Observe {
		f.mark = desiredMark(f)
	}
	if m.standing && f.mark != "" {
		m.standing, m.appliedMark, f.look = false, f.mark, true
		return []Effect{AppliedMark{f.mark}}
	}
	m.standing = false
	f.look = f.mark != "" && f.mark == m.appliedMark
	if f.look || m.appliedMark == "" {
		return nil
	}
	m.appliedMark = ""
	return []Effect{AppliedMark{}}
}

// markApplied notes that all was made that does not wait for the world.
func (m *Manager) markApplied(f *flight) []Effect {
	if f.mark == "" || f.mark == m.appliedMark {
		return nil
	}
	m.appliedMark = f.mark
	return []Effect{AppliedMark{f.mark}}
}

// driftText is what is told of drift; "" without any.
func driftText(fs []netstate.Failure) string {
	if len(fs) == 0 {
		return ""
	}
	why := "drift, left as it is: " + fs[0].Err
	if n := len(fs) - 1; n != 0 {
		why += fmt.Sprintf(" (and %d more)", n)
	}
	return why
}
