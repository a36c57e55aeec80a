package daemon

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// When memory is returned to the machine: soon after a burst of work, such as an apply or a push to ten thousand
// nodes. A burst needs twice the memory that a process needs in between, which is most of its life.
const (
	burstCheckEvery = 5 * time.Second
	burstQuiet      = 1 << 20 // bytes allocated between two checks: below this the burst is over
	burstWorth      = 4 << 20 // bytes allocated since the last return: below this a return is not worth it
	burstChecks     = 12      // after this many checks memory is returned during work, too
)

// NodeMemory is the number of bytes that Go may use on a node before it collects sooner than its percentage says. Few
// nodes reach it; one with a thousand networks uses a quarter less by it at its start.
const NodeMemory = 212 << 20

// limit returns the memory limit, at least least, for so many live bytes and bytes of stacks. It grows with them,
// since collections that free nothing are a waste.
func limit(least int64, live, stacks uint64) int64 { return max(least, int64(live+live/5*2+stacks)) }

// burst tracks allocations.
type burst struct {
	last, given uint64
	looks       int // checks since the last return
}

// isQuiet reports whether little was allocated since the last check.
func (b *burst) isQuiet(allocs uint64) bool { return allocs-b.last < burstQuiet }

// over reports whether a burst has ended since the last return. allocs is the number of bytes allocated so far.
func (b *burst) over(allocs uint64) bool {
	quiet := b.isQuiet(allocs)
	b.last = allocs
	b.looks++
	if !quiet && b.looks < burstChecks || allocs-b.given < burstWorth {
		return false
	}
	b.given, b.looks = allocs, 0
	return true
}

// ReturnMemory returns memory to the machine after each burst of work until ctx ends. If least is not 0, it also sets
// Go's memory limit to at least that many bytes, unless GOMEMLIMIT sets one (https://go.dev/doc/gc-guide). It checks
// only from a collection until a burst is over, so it never wakes an idle process.
func ReturnMemory(ctx context.Context, least int64) {
	var b burst
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"}}
	limited := least > 0 && debug.SetMemoryLimit(-1) == math.MaxInt64
	if limited {
		debug.SetMemoryLimit(least)
	}
	onCollection(ctx, func() {
		every(ctx, burstCheckEvery, func() (goOn bool) {
			metrics.Read(samples)
			allocs := samples[0].Value.Uint64()
			if limited {
				debug.SetMemoryLimit(limit(least, samples[1].Value.Uint64(), samples[2].Value.Uint64()))
			}
			quiet := b.isQuiet(allocs)
			if b.over(allocs) {
				debug.FreeOSMemory()
				_ = forgetProgram() // then it stays mapped: that costs nothing but memory
			}
			return !quiet
		})
	})
}
