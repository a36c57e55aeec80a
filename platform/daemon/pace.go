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
	paceRest  = 10 // it no longer is after so many checks with less
	paceCalm  = 3  // checks of a process that is not busy, after which only the next collection begins checks anew
)

// Pace is when a process collects garbage.
type Pace struct {
	Calm, Busy int    // Go's GC percentage (https://go.dev/doc/gc-guide)
	From       uint64 // bytes allocated within 100 ms: from here on the process is busy
}

// pace decides which of two percentages holds.
type pace struct {
	from uint64
	last uint64
	rest int // checks until the process is no longer busy
}

// isBusy reports whether the process is busy; allocs is the number of bytes allocated so far.
func (p *pace) isBusy(allocs uint64) bool {
	if allocs-p.last >= p.from {
		p.rest = paceRest
	} else if p.rest > 0 {
		p.rest--
	}
	p.last = allocs
	return p.rest > 0
}

// PaceCollector sets Go's GC percentage to that of a calm process, and of a busy one while the process allocates much,
// until ctx ends. The memory that it then has is returned by ReturnMemory. It checks only for a while after each
// collection, so it never wakes an idle process.
func PaceCollector(ctx context.Context, of Pace) {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	now := of.Calm
	debug.SetGCPercent(now)
	onCollection(ctx, func() {
		metrics.Read(sample)
		p := pace{from: of.From, last: sample[0].Value.Uint64()}
		quiet := 0
		every(ctx, paceEvery, func() (goOn bool) {
			metrics.Read(sample)
			want := of.Calm
			if quiet++; p.isBusy(sample[0].Value.Uint64()) {
				want, quiet = of.Busy, 0
			}
			if want != now {
				debug.SetGCPercent(want)
				now = want
			}
			return quiet < paceCalm
		})
	})
}
