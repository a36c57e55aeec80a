package daemon

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// When memory goes back to the machine: soon after a burst of work, as an apply or a
// push to ten thousand nodes is. A burst needs twice of what a process needs in between,
// which is most of its life.
const (
	burstCheckEvery = 5 * time.Second
	burstQuiet      = 1 << 20 // octets allocated between two looks: the burst is over
	burstWorth      = 4 << 20 // octets allocated since memory was given back: it is worth it
	burstChecks     = 12      // after so many looks it is given back although work goes on
)

// NodeMemory is how many octets Go may hold on a node before it collects sooner than its percentage
// asks. Few nodes ever hold so much; one of a thousand networks holds a quarter less by it at its start.
const NodeMemory = 212 << 20

// limit is how much Go may hold, of least octets, where so many live and so many are of stacks:
// collections that free nothing only cost, so it goes up with them.
func limit(least int64, live, stacks uint64) int64 { return max(least, int64(live+live/5*2+stacks)) }

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
	if !quiet && b.looks < burstChecks || allocs-b.given < burstWorth {
		return false
	}
	b.given, b.looks = allocs, 0
	return true
}

// ReturnMemory gives memory back to the machine after each burst of work until ctx ends. With least, in
// octets, it bounds what a burst may take, unless GOMEMLIMIT does (https://go.dev/doc/gc-guide).
func ReturnMemory(ctx context.Context, least int64) {
	var b burst
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"}}
	limited := least > 0 && debug.SetMemoryLimit(-1) == math.MaxInt64
	if limited {
		debug.SetMemoryLimit(least)
	}
	for t := time.NewTicker(burstCheckEvery); ; {
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
			metrics.Read(samples)
			if limited {
				debug.SetMemoryLimit(limit(least, samples[1].Value.Uint64(), samples[2].Value.Uint64()))
			}
			if b.over(samples[0].Value.Uint64()) {
				debug.FreeOSMemory()
			}
		}
	}
}
