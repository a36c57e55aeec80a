package flows

import (
	"context"
	"time"

	"edgespan/netinst/flowlog"
	"edgespan/netinst/netstate"
)

// longFlow is the age from which on a flow that goes on is recorded, once in each such period.
const longFlow = 5 * time.Minute

// tellOfLongFlows records flows that go on, until ctx ends. A failure is one of listing: the next time may succeed, and
// what ends is recorded anyway.
func (f *Recorder) tellOfLongFlows(ctx context.Context) {
	tick := time.NewTicker(longFlow)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.baseline:
			f.list(ctx, time.Now(), f.begin)
		case now := <-tick.C:
			f.list(ctx, now, func(r flowlog.Record, networks int) { f.putSlowly(ctx, r, networks) })
			f.forget(now.Add(-missedAfter))
		}
	}
}

// missedAfter is how old the last record of a flow is that must have ended: several were expected since.
const missedAfter = 4 * longFlow

// list emits the records of flows that have gone on for long.
func (f *Recorder) list(ctx context.Context, now time.Time, emit func(r flowlog.Record, networks int)) {
	book := f.book.Load()
	if book == nil {
		return
	}
	_ = f.o.List(ctx, func(e netstate.EndedFlow) {
		if !e.Start.IsZero() && now.Sub(e.Start) < longFlow {
			return
		}
		for _, r := range book.Records(e) {
			r.GoesOn = true
			emit(r, book.Networks())
		}
	})
}

// putSlowly queues a record once there is room: a list of many flows must not displace those that end.
func (f *Recorder) putSlowly(ctx context.Context, r flowlog.Record, networks int) {
	for {
		f.mu.Lock()
		full := f.queues.Full(r.Network, 2*networks) // half of the share is left to flows that end
		if !full {
			f.queues.Put(r.Network, r, networks)
		}
		f.mu.Unlock()
		signal(f.more)
		if !full {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-f.room:
		}
	}
}
