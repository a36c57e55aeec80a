package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// When memory goes back to the machine: soon after a burst of work, as an apply or a
// push to ten thousand nodes is. A burst needs twice of what a process needs in between,
// which is most of its life.
const (
	burstLook  = 5 * time.Second
	burstQuiet = 1 << 20 // octets allocated between two looks: the burst is over
	burstWorth = 4 << 20 // octets allocated since memory was given back: it is worth it
	burstLooks = 12      // after so many looks it is given back although work goes on
)

// burst follows how much was allocated.
type burst struct {
	last, given uint64
	looks       int // since the last one that was over
}

// over says that a burst has ended since memory was last given back, by the octets
// allocated so far.
func (b *burst) over(allocs uint64) bool {
	quiet := allocs-b.last < burstQuiet
	b.last = allocs
	b.looks++
	if !quiet && b.looks < burstLooks || allocs-b.given < burstWorth {
		return false
	}
	b.given, b.looks = allocs, 0
	return true
}

// GiveBack gives memory back to the machine after each burst of work until ctx ends.
func GiveBack(ctx context.Context) {
	var b burst
	allocs := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	for t := time.NewTicker(burstLook); ; {
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
			metrics.Read(allocs)
			if b.over(allocs[0].Value.Uint64()) {
				debug.FreeOSMemory()
			}
		}
	}
}
