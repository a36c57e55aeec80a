package manager

import (
	"fmt"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// What an adapter's bound of flows (flows.go) has dropped is counted by the rule itself. The full
// look of each minute reads the counters, so that a flood costs no look more.

// droppedReportEvery is how long drops are told after the last of them.
const droppedReportEvery = 10 * time.Minute

// dropped is what the bound of one adapter has dropped.
type dropped struct {
	counter uint64 // as it was read last
	known   bool   // it was
	packets uint64 // since the manager began, or since drops were told last
	last    time.Time
	limit   int // the bound
}

// countDropped notes how far the counters have gone since they were read last. One that is lower
// was written anew. What was counted before this process began is not known to be of today.
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
		for _, id := range ids {
			d := &a.dropped
			if made[id] && netinst.IsCounting(id) {
				d.counter, d.known = 0, true
				continue
			}
			n, read := e.Dropped[id]
			if !read {
				continue
			}
			more := n
			if n >= d.counter {
				more -= d.counter
			}
			if !d.known {
				more = 0
			}
			d.counter, d.known = n, true
			if more > 0 {
				d.packets, d.last = d.packets+more, e.At
				d.limit = netinst.FlowBound(a.config.UnderlayConfig, m.config, m.maxTracked)
			}
		}
		if a.dropped.packets > 0 && e.At.Sub(a.dropped.last) >= droppedReportEvery {
			a.dropped.packets = 0
		}
	}
}

// droppedWarning names the adapter whose bound has dropped most lately, and how many more there are.
func (m *Manager) droppedWarning() string {
	var worst netinst.AdapterKey
	n, limit := 0, dropped{}
	for _, k := range m.keys() {
		if d := m.adapters[k].dropped; d.packets > 0 {
			n++
			if d.packets > limit.packets {
				worst, limit = k, d
			}
		}
	}
	if n == 0 {
		return ""
	}
	text := fmt.Sprintf("adapter %s/%d: %s", worst.AppUUID, worst.UnderlayIndex,
		netinst.UnderlayNetworkStatus{Dropped: limit.packets, MaxFlows: limit.limit}.DroppedText())
	if n > 1 {
		text += fmt.Sprintf(" (and of %d more adapters)", n-1)
	}
	return text
}
