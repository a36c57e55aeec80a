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
	compactDue struct{ reign int }
	sweepDue   struct{ reign int }
	// Mail is an event of a key in the leader's outbox.
	Mail struct{ Event kv.Event }
	// carried is the result of a leader request.
	carried struct {
		reign int
		key   kv.Key
		err   error
	}
	// carryDue retries a leader request.
	carryDue struct {
		reign int
		key   kv.Key
	}
	// marked is the revision and size of the store a moment ago.
	marked struct {
		reign int
		at    kv.Revision
		size  int64 // 0: unknown
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
	d    *Writer
	tell func(any) // sends /rollout Elected and Deposed
	self *actor.PID

	leads *kv.Leadership
	began time.Time          // when this leadership began
	reign int                // counts leaderships: timers of an earlier one are ignored
	ctx   context.Context    // of the reign
	end   context.CancelFunc // of ctx
	marks []kv.Mark
	least int64     // size of the store before it grew; 0: unknown
	grew  time.Time // when it had grown by Retention.Bytes; zero: it has not

	orders map[kv.Key]kv.Entry // requests without an answer
	doing  map[kv.Key]bool     // those started in this reign
}

// NewLeader returns the actor /leader. It reports Elected and Deposed through tell.
func NewLeader(d *Writer, tell func(any)) actor.Actor {
	return &leaderActor{d: d, tell: tell, orders: map[kv.Key]kv.Entry{}, doing: map[kv.Key]bool{}}
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
		a.tell(m)
	case Deposed:
		a.stepDown()
		a.tell(m)
	case compactDue:
		if a.leads != nil && m.reign == a.reign {
			a.mark()
		}
	case marked:
		if a.leads != nil && m.reign == a.reign {
			a.compact(m.at, m.size)
		}
	case sweepDue:
		if a.leads != nil && m.reign == a.reign {
			a.sweep()
		}
	case migrateDue:
		if a.leads != nil && m.reign == a.reign {
			a.migrate(m.after)
		}
	case Mail:
		a.mailed(m.Event)
	case carried:
		if m.reign == a.reign {
			a.requestDone(m)
		}
	case carryDue:
		if m.reign == a.reign {
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
	a.mark()
	a.sweep()
	a.migrate(0)
	for _, key := range slices.Sorted(maps.Keys(a.orders)) {
		a.runRequest(key)
	}
}

// stepDown cancels the work of the leader. Once another replica leads, the fence rejects transactions that are still in
// flight.
func (a *leaderActor) stepDown() {
	if a.leads != nil {
		a.end()
	}
	a.reign++
	a.leads, a.marks, a.least, a.grew = nil, nil, 0, time.Time{}
	clear(a.doing)
}

// mailed records a request in the leader's outbox.
func (a *leaderActor) mailed(e kv.Event) {
	k := e.Entry.Key
	if o := ValueOf[leaderRequest](e); o.Lease == 0 || o.Answered || o.Withdrawn {
		delete(a.orders, k)
		return
	}
	a.orders[k] = e.Entry
	a.runRequest(k)
}

// runRequest runs a leader request as a write of this replica.
func (a *leaderActor) runRequest(k kv.Key) {
	e, is := a.orders[k]
	if a.leads == nil || !is || a.doing[k] {
		return
	}
	a.doing[k] = true
	o := ValueOf[leaderRequest](kv.Event{Kind: kv.EventPut, Entry: e})
	w := WriteRequest{ctx: a.ctx, Request: o.request(),
		pending: &pendingWrite{leaderRequest: o, key: k, at: e.ModRevision, by: *a.leads, replica: a.d.Replica}}
	reign, self := a.reign, a.self
	a.d.Leaf("order", func() {
		a.d.Send(self, carried{reign, k, a.d.Do(w.ctx, w).Err})
	})
}

// requestDone retries a request that the store could not run or whose outcome is unknown. An answered request leaves
// orders when the watch delivers its answer.
func (a *leaderActor) requestDone(m carried) {
	delete(a.doing, m.key)
	if m.err == nil || isRefusal(m.err) || errors.Is(m.err, errOvertaken) {
		return
	}
	a.d.Log.Warn("optimize, for another replica", zap.Error(m.err))
	a.later(LeadAgain, carryDue{a.reign, m.key})
}

// later sends a message after t, unless the controller has ended.
func (a *leaderActor) later(t time.Duration, word any) {
	self := a.self
	a.d.After(t, func() { a.d.Send(self, word) })
}

// mark reads the current revision and size of the store.
func (a *leaderActor) mark() {
	ctx, by, reign, self := a.ctx, *a.leads, a.reign, a.self
	a.later(CompactEvery, compactDue{reign})
	a.d.Leaf("mark", func() {
		o, err := a.d.Commit(ctx, kv.Txn{Compares: []kv.Compare{by.Fence()}, Then: []kv.Op{kv.Get(by.Key)}})
		if err == nil && o.Succeeded {
			size, err := a.d.size(ctx)
			if err != nil && ctx.Err() == nil {
				a.d.Log.Warn("measure the store", zap.Error(err))
			}
			a.d.Send(self, marked{reign, o.Revision, size})
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
	a.later(sweepEvery, sweepDue{a.reign})
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
func (d *Access) sweep(ctx context.Context, by kv.Leadership) (swept int, err error) {
	for range sweepTries {
		s, err := history.NewSweep(d.Reader(ctx), d.Now().Add(-SweepAge))
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
			o, err := d.Commit(ctx, txn)
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
