package storage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// Messages to /leader, and from it to /rollout.
type (
	// Elected reports that this replica leads; Deposed that it must not lead any more.
	Elected struct{ By kv.Leadership }
	Deposed struct{}
	// compactDue and sweepDue are timers of one leadership.
	compactDue struct{ term int }
	sweepDue   struct{ term int }
	// OutboxEvent is an event of a key in the leader's outbox.
	OutboxEvent struct{ Event kv.Event }
	// requestDone is the result of a leader request.
	requestDone struct {
		term int
		key  kv.Key
		err  error
	}
	// requestDue retries a leader request.
	requestDue struct {
		term int
		key  kv.Key
	}
	// sizeMeasured is the revision and size of the store a moment ago.
	sizeMeasured struct {
		term int
		at   kv.Revision
		size int64 // 0: unknown
	}
)

// How often the leader compacts the store's own history and sweeps leftovers of large writes. It sweeps when it starts
// to lead and then every sweepEvery, and removes what is older than any write can take.
const (
	CompactEvery = time.Minute
	sweepEvery   = time.Hour
	SweepAge     = 10 * time.Minute
)

// Retention is how much of its history the store keeps.
var Retention = kv.Retention{Age: 10 * time.Minute, Revisions: 10_000, Bytes: 64 << 20, Least: 10 * time.Minute}

// leaderActor is /leader: who leads, and what the leader does for all replicas.
type leaderActor struct {
	d      *Writer
	notify func(any) // sends /rollout Elected and Deposed
	self   *actor.PID

	leads *kv.Leadership
	began time.Time          // when this leadership began
	term  int                // counts leaderships: timers of an earlier one are ignored
	ctx   context.Context    // of the term
	end   context.CancelFunc // of ctx
	marks []kv.Mark
	least int64     // size of the store before it grew; 0: unknown
	grew  time.Time // when it had grown by Retention.Bytes; zero: it has not

	requests map[kv.Key]kv.Entry // requests without an answer
	doing    map[kv.Key]bool     // those started in this term
}

// NewLeader returns the actor /leader. It reports Elected and Deposed through tell.
func NewLeader(d *Writer, tell func(any)) actor.Actor {
	return &leaderActor{d: d, notify: tell, requests: map[kv.Key]kv.Entry{}, doing: map[kv.Key]bool{}}
}

// Receive handles elections and the timers of the current leadership.
func (a *leaderActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.self = c.Self()
		if !a.d.Offline {
			a.d.Leaf("election", func() { a.d.campaign(a.self) })
		}
	case Elected:
		a.begin(m.By)
		a.notify(m)
	case Deposed:
		a.stepDown()
		a.notify(m)
	case compactDue:
		if a.leads != nil && m.term == a.term {
			a.measureSize()
		}
	case sizeMeasured:
		if a.leads != nil && m.term == a.term {
			a.compact(m.at, m.size)
		}
	case sweepDue:
		if a.leads != nil && m.term == a.term {
			a.sweep()
		}
	case migrateDue:
		if a.leads != nil && m.term == a.term {
			a.migrate(m.after)
		}
	case OutboxEvent:
		a.handleOutboxEvent(m.Event)
	case requestDone:
		if m.term == a.term {
			a.finishRequest(m)
		}
	case requestDue:
		if m.term == a.term {
			a.runRequest(m.key)
		}
	}
}

// begin starts the work of the leader.
func (a *leaderActor) begin(by kv.Leadership) {
	a.d.Log.Info("this replica is the leader", zap.String("replica", a.d.Replica),
		zap.Uint64("revision", uint64(by.Revision)))
	a.stepDown()
	a.leads = &by
	a.ctx, a.end = context.WithCancel(a.d.Context)
	a.began = a.d.Now()
	a.measureSize()
	a.sweep()
	a.migrate(0)
	for _, key := range slices.Sorted(maps.Keys(a.requests)) {
		a.runRequest(key)
	}
}

// stepDown cancels the work of the leader. Once another replica leads, the fence rejects transactions that are still in
// flight.
func (a *leaderActor) stepDown() {
	if a.leads != nil {
		a.end()
	}
	a.term++
	a.leads, a.marks, a.least, a.grew = nil, nil, 0, time.Time{}
	clear(a.doing)
}

// handleOutboxEvent records a request in the leader's outbox.
func (a *leaderActor) handleOutboxEvent(e kv.Event) {
	k := e.Entry.Key
	if o := ValueOf[leaderRequest](e); o.Lease == 0 || o.Answered || o.Withdrawn {
		delete(a.requests, k)
		return
	}
	a.requests[k] = e.Entry
	a.runRequest(k)
}

// runRequest runs a leader request as a write of this replica.
func (a *leaderActor) runRequest(k kv.Key) {
	e, ok := a.requests[k]
	if a.leads == nil || !ok || a.doing[k] {
		return
	}
	a.doing[k] = true
	o := ValueOf[leaderRequest](kv.Event{Kind: kv.EventPut, Entry: e})
	w := WriteRequest{ctx: a.ctx, Request: o.request(),
		pending: &pendingWrite{leaderRequest: o, key: k, at: e.ModRevision, by: *a.leads, replica: a.d.Replica}}
	term, self := a.term, a.self
	a.d.Leaf("order", func() {
		a.d.Send(self, requestDone{term, k, a.d.Write(w.ctx, w).Err})
	})
}

// finishRequest retries a request that the store could not run or whose outcome is unknown. An answered request leaves
// orders when the watch delivers its answer.
func (a *leaderActor) finishRequest(m requestDone) {
	delete(a.doing, m.key)
	if m.err == nil || isRefusal(m.err) || errors.Is(m.err, errOvertaken) {
		return
	}
	a.d.Log.Warn("optimize, for another replica", zap.Error(m.err))
	a.sendAfter(CampaignRetry, requestDue{a.term, m.key})
}

// sendAfter sends a message after t, unless the controller has ended.
func (a *leaderActor) sendAfter(t time.Duration, word any) {
	self := a.self
	a.d.After(t, func() { a.d.Send(self, word) })
}

// measureSize reads the current revision and size of the store.
func (a *leaderActor) measureSize() {
	ctx, by, term, self := a.ctx, *a.leads, a.term, a.self
	a.sendAfter(CompactEvery, compactDue{term})
	a.d.Leaf("mark", func() {
		o, err := a.d.Commit(ctx, kv.Txn{Compares: []kv.Compare{by.Fence()}, Then: []kv.Op{kv.Get(by.Key)}})
		if err == nil && o.Succeeded {
			size, err := a.d.size(ctx)
			if err != nil && ctx.Err() == nil {
				a.d.Log.Warn("measure the store", zap.Error(err))
			}
			a.d.Send(self, sizeMeasured{term, o.Revision, size})
		}
	})
}

// compact compacts the store's own history as far as Retention permits. The revisions of layers are keys, and are not
// affected.
func (a *leaderActor) compact(at kv.Revision, size int64) {
	now := time.Now()
	a.marks = append(a.marks, kv.Mark{Revision: at, At: now})
	if a.least == 0 || size > 0 && size < a.least {
		a.least = size
	}
	if a.grew.IsZero() && size-a.least >= Retention.Bytes {
		a.grew = now
	}
	to := Retention.CompactTo(a.marks, now, at, size-a.least)
	a.marks = Retention.Needed(a.marks, now)
	if to == 0 {
		return
	}
	if !a.grew.IsZero() && !a.marks[0].At.Before(a.grew) { // compaction has freed the growth, or never will
		a.least, a.grew = 0, time.Time{}
	}
	ctx, grown := a.ctx, size-a.least
	a.d.Leaf("compact", func() {
		if err := a.d.compactTo(ctx, to, grown); err != nil && ctx.Err() == nil {
			a.d.Log.Warn("compact the store", zap.Uint64("to", uint64(to)), zap.Error(err))
		}
	})
}

// sweep removes what unfinished large writes left behind.
func (a *leaderActor) sweep() {
	ctx, by := a.ctx, *a.leads
	a.sendAfter(sweepEvery, sweepDue{a.term})
	a.d.Leaf("sweep", func() {
		n, err := a.d.sweep(ctx, by)
		if n > 0 {
			a.d.Log.Info("removed leftovers of large writes", zap.Int("parts", n))
		}
		if err != nil && ctx.Err() == nil {
			a.d.Log.Warn("sweep the store", zap.Error(err))
		}
	})
}

// sweepTries is how often a sweep starts over because of concurrent writes.
const sweepTries = 20

// errSwept ends a sweep that found no moment between two writes. The next one tries again.
var errSwept = errors.New("too many concurrent writes")

// sweep returns how many parts it removed. It relies on the writers' wall clocks, which may be wrong: if it takes a
// running write for an abandoned one, that write is planned again, because each transaction of the sweep moves the
// head.
func (a *Access) sweep(ctx context.Context, by kv.Leadership) (swept int, err error) {
	for range sweepTries {
		s, err := history.NewSweep(a.Reader(ctx), a.Now().Add(-SweepAge))
		if err != nil {
			return swept, err
		}
		if len(s.Parts) == 0 {
			return swept, nil
		}
		var at kv.Revision
		for i := range s.Parts {
			txn := s.Txn(i, at)
			txn.Compares = append(slices.Clone(txn.Compares), by.Fence())
			txn.Else = append(slices.Clone(txn.Else), kv.Get(by.Key))
			o, err := a.Commit(ctx, txn)
			if err != nil {
				return swept, err
			}
			if !o.Succeeded {
				if o.Results[1].Entry.ModRevision != by.Revision {
					return swept, nil // another leads
				}
				break
			}
			swept, at = swept+1, o.Revision
		}
	}
	return swept, errSwept
}
