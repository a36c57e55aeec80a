package manager

import (
	"fmt"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// The rules of an adapter's limits (flows.go, frames.go) count the packets they drop. The full observation of each
// minute reads the counters, so that a flood causes no additional observation.

// droppedReportEvery is how long drops are reported after the last of them.
const droppedReportEvery = 10 * time.Minute

// dropped counts what the limits of one adapter have dropped.
type dropped struct {
	read    map[netstate.ID]netinst.Drops // as last read, by chain; none: not read yet
	packets netinst.Drops                 // since the manager began, or since drops were last reported
	last    time.Time
	// The bounds of flows, of fragments a second, and of neighbours.
	flows, fragments, neighbours int
}

// countDropped adds the increase of the counters since the last reading. A counter that is lower was written again.
// Drops from before this process are ignored, because their time is unknown.
func (m *Manager) countDropped(f *flight, e Applied) {
	made := map[netstate.ID]bool{}
	for _, op := range e.Done {
		for _, it := range op.Items {
			if op.Kind == netstate.KindChain && it.Have == nil {
				made[it.ID()] = true
			}
		}
	}
	for k, ids := range f.desired.ByAdapter {
		a := m.adapters[k]
		if a == nil {
			continue
		}
		before, read := a.dropped.packets, map[netstate.ID]netinst.Drops{}
		for _, id := range ids {
			c, _ := f.desired.State[id].(netstate.Chain)
			now, known := dropsOf(c, e.Counted[id])
			had, hadRead := a.dropped.read[id]
			switch {
			case made[id]:
				read[id] = netinst.Drops{}
			case known:
				read[id] = now
				a.dropped.add(now, had, hadRead)
			case hadRead:
				read[id] = had
			}
		}
		if a.dropped.read = read; a.dropped.packets != before {
			a.dropped.last, a.dropped.flows = e.At, netinst.FlowBound(a.config.Spec, m.config, m.maxTracked)
			a.dropped.fragments = netinst.FragmentBound(a.config.Spec, f.desired.MTU)
			a.dropped.neighbours = netinst.NeighbourBound(a.config.Spec)
		}
		if a.dropped.packets.Any() && e.At.Sub(a.dropped.last) >= droppedReportEvery {
			a.dropped.packets = netinst.Drops{}
		}
	}
}

// show sets the drops of a link, if there are any.
func (d dropped) show(u *netinst.AdapterLink) {
	if d.packets.Any() {
		u.Dropped, u.MaxFlows, u.MaxFragments, u.MaxNeighbours = d.packets, d.flows, d.fragments, d.neighbours
	}
}

// add adds the increase of a chain's counters.
func (d *dropped) add(now, had netinst.Drops, hadRead bool) {
	for i := range now {
		switch {
		case !hadRead:
		case now[i] >= had[i]:
			d.packets[i] += now[i] - had[i]
		default:
			d.packets[i] += now[i]
		}
	}
}

// dropsOf sums the counters of a chain's limits. It returns false for another chain, and if the counters are not those
// of its rules: an earlier release has written it.
func dropsOf(c netstate.Chain, counters []netstate.Counter) (sum netinst.Drops, ok bool) {
	limits := netinst.LimitsOf(c)
	if limits == nil || len(limits) != len(counters) {
		return sum, false
	}
	for i, l := range limits {
		if l != 0 {
			sum[l] += counters[i].Packets
		}
	}
	return sum, true
}

// droppedWarning names the adapter whose limits have dropped the largest number of packets, and counts the others.
func (m *Manager) droppedWarning() string {
	var worst netinst.AdapterKey
	n, highest := 0, uint64(0)
	for _, k := range m.keys() {
		if d := m.adapters[k].dropped; d.packets.Any() {
			n++
			if sum := d.packets.Sum(); sum > highest {
				worst, highest = k, sum
			}
		}
	}
	if n == 0 {
		return ""
	}
	var link netinst.AdapterLink
	m.adapters[worst].dropped.show(&link)
	text := fmt.Sprintf("adapter %s/%d: %s", worst.AppUUID, worst.Index, link.DroppedText())
	if n > 1 {
		text += fmt.Sprintf(" (and of %d more adapters)", n-1)
	}
	return text
}
