package manager

import (
	"fmt"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// The rule of an adapter's flow limit (flows.go) counts the packets it drops. The full observation of each minute reads
// the counters, so that a flood causes no additional observation.

// droppedReportEvery is how long drops are reported after the last of them.
const droppedReportEvery = 10 * time.Minute

// dropped counts what the limit of one adapter has dropped.
type dropped struct {
	counter uint64 // as last read
	known   bool   // it has been read at least once
	packets uint64 // since the manager began, or since drops were last reported
	last    time.Time
	limit   int // the bound
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

// droppedWarning names the adapter whose limit has dropped most recently, and the number of the others.
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
