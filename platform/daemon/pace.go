package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How seldom Go collects garbage while a process has much to do. An apply of a hundred networks allocates ten times
// what lives afterwards, within a second; collecting at each half of what lives took a third of its processor time.
const (
	paceEvery = 100 * time.Millisecond
	paceBusy  = 8 << 20 // bytes allocated between two checks: from here on the process is busy
	paceRest  = 10      // it no longer is after so many checks with less
	paceCalm  = 3       // checks of a process that is not busy, after which only the next collection begins checks anew
)

// GC percentages of a node: an edge node has little memory, and its daemon has work now and then.
const (
	NodeCalm = 50
	NodeBusy = 300
)

// pace decides which of two percentages holds.
type pace struct {
	last uint64
	rest int // checks until the process is no longer busy
}

// isBusy reports whether the process is busy; allocs is the number of bytes allocated so far.
func (p *pace) isBusy(allocs uint64) bool {
	if allocs-p.last >= paceBusy {
		p.rest = paceRest
	} else if p.rest > 0 {
		p.rest--
	}
	p.last = allocs
	return p.rest > 0
}

// PaceCollector sets Go's GC percentage (https://go.dev/doc/gc-guide) to calm, and to busy while the process allocates
// much, until ctx ends. The memory that it then has is returned by ReturnMemory. It checks only for a while after each
// collection, so it never wakes an idle process.
func PaceCollector(ctx context.Context, calm, busy int) {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	now := calm
	debug.SetGCPercent(calm)
	onCollection(ctx, func() {
		metrics.Read(sample)
		p := pace{last: sample[0].Value.Uint64()}
		quiet := 0
		every(ctx, paceEvery, func() (goOn bool) {
			metrics.Read(sample)
			want := calm
			if quiet++; p.isBusy(sample[0].Value.Uint64()) {
				want, quiet = busy, 0
			}
			if want != now {
				debug.SetGCPercent(want)
				now = want
			}
			return quiet < paceCalm
		})
	})
}
