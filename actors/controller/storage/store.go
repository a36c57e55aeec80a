package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/supervise"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/pubsub/ratelimit"
	"edgespan/pubsub/trace"
)

// Bounds on waiting writes, in total and of one caller.
const (
	maxWrites   = 64
	MaxOfCaller = maxWrites / 4
)

// Writer runs this replica's writes of layers one at a time, and as leader those of the other replicas.
type Writer struct {
	*Access
	Offline    bool                                  // writes trigger nothing else
	Backup     func(context.Context) (string, error) // see controller.Options
	SnapshotAt func(history.State) *ops.Snapshot     // in which a write on a state of the layers is validated
	Ready      func() bool                           // the store has been read
	Stored     *ratelimit.Buckets                    // limits what callers who are not admins may store
	Waits      func() bool                           // migrations must wait for a staged rollout to end
	pid        *actor.PID                            // of /store
	requests   sync.Map                              // chan leaderRequest by key, for callers that wait for the leader
}

// Start starts /store below c, and the saver.
func (wr *Writer) Start(c actor.Context) (err error) {
	wr.pid, err = c.SpawnNamed(wr.Vital("store", func() actor.Actor { return &storeActor{d: wr} }), "store")
	if err == nil {
		wr.Leaf("saver", wr.Saver.run)
	}
	return err
}

// Actor returns the PID of /store.
func (wr *Writer) Actor() *actor.PID { return wr.pid }

// Write runs a write in /store.
func (wr *Writer) Write(ctx context.Context, w WriteRequest) WriteResult {
	w.ctx = ctx
	answer, err := wr.Request(ctx, wr.pid, w)
	if err != nil {
		return WriteResult{Err: err}
	}
	return answer.(WriteResult)
}

// WriteRequest is one write, for the store actor.
type WriteRequest struct {
	ctx     context.Context
	Request fleetapi.WriteRequest
	trace   string        // traceparent of the span that stores it
	pending *pendingWrite // nil: not for another replica
	fence   []kv.Compare  // conditions of the leader
	// backedUp is set once a backup was written: layers may be migrated.
	backedUp bool
}

// WriteResult is the result of a write.
type WriteResult struct {
	Outcome ops.WriteOutcome
	Record  history.RevisionRecord
	Err     error
}

// writeDone reports that the leaf of a write has ended.
type writeDone struct{}

// storeActor is /store. It runs this replica's writes one at a time, so that they don't conflict with each other.
// Conflicts with writes of other replicas show in the head.
type storeActor struct {
	d     *Writer
	queue []Question
	last  string // whose write ran last: others come first
	busy  bool
}

// Receive queues writes and starts the next one.
func (s *storeActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case Question:
		if len(s.queue) >= maxWrites {
			m.Reply(WriteResult{Err: fmt.Errorf("write: %w: %d writes are already pending: try again", fleetapi.ErrBusy,
				maxWrites)})
			return
		}
		if by := questionCaller(m); countOfCaller(s.queue, by) >= MaxOfCaller {
			m.Reply(WriteResult{Err: fmt.Errorf("write: %w: %d writes of %s are already pending: try again", fleetapi.ErrBusy,
				MaxOfCaller,
				m.Question.(WriteRequest).Request.Caller.Name)})
			return
		}
		s.queue = append(s.queue, m)
	case writeDone:
		s.busy = false
	}
	if s.busy || len(s.queue) == 0 {
		return
	}
	next, self := s.next(), c.Self()
	s.busy = true
	s.d.Leaf("write", func() {
		defer s.d.Send(self, writeDone{})
		w := next.Question.(WriteRequest)
		next.Reply(s.d.writeTraced(w))
	})
}

// next removes the longest waiting write of another caller than the last one, if there is one.
func (s *storeActor) next() Question {
	i := max(slices.IndexFunc(s.queue, func(m Question) bool { return questionCaller(m) != s.last }), 0)
	m := s.queue[i]
	s.queue, s.last = slices.Delete(s.queue, i, i+1), questionCaller(m)
	return m
}

// questionCaller returns whose turn a write takes. No operator's name collides with the controller's own writes.
func questionCaller(m Question) string { return m.Question.(WriteRequest).Request.Caller.ShareKey() }

func countOfCaller(queue []Question, caller string) int {
	n := 0
	for _, m := range queue {
		if questionCaller(m) == caller {
			n++
		}
	}
	return n
}

// DryRun validates a write without storing it.
func (wr *Writer) DryRun(ctx context.Context, r fleetapi.WriteRequest, world *ops.Snapshot) (WriteResult, error) {
	w := WriteRequest{ctx: ctx, Request: r}
	note, err := wr.migrations(w, world)
	if err != nil {
		return WriteResult{}, err
	}
	outcome, _, err := wr.plan(world, w, note)
	if err != nil {
		return WriteResult{}, wr.refuse(w, world.State.Number, err)
	}
	return WriteResult{Outcome: outcome, Record: history.RevisionRecord{Number: world.State.Number}}, nil
}

// writeTraced runs a write in a span of its caller's trace. The revision keeps the trace, for the pushes that follow.
func (wr *Writer) writeTraced(w WriteRequest) WriteResult {
	span := wr.Tracer.Below(trace.From(w.ctx), "store.commit", trace.Internal)
	defer span.End()
	w.trace = span.Context().String()
	r := wr.writeRetrying(w)
	span.FailIf(r.Err)
	if span.On() && r.Record.Tree != "" {
		span.Set("edgespan.revision", strconv.FormatUint(r.Record.Number, 10))
	}
	return r
}

// writeRetrying validates a write on the newest layers and stores it. After a concurrent write it starts over, on the
// head that its transaction found: it then reaches the store before the next write of the replica that was faster,
// which has to read the head first. Otherwise a write could lose to the same replica again and again.
func (wr *Writer) writeRetrying(w WriteRequest) WriteResult {
	var moved *kv.Entry // the head that a transaction found
	for {
		if err := w.ctx.Err(); err != nil {
			return WriteResult{Err: fmt.Errorf("write: %w", err)}
		}
		if err := wr.checkPending(w.ctx, w); err != nil {
			return WriteResult{Err: err}
		}
		world, err := wr.snapshotAt(w.ctx, moved)
		if err != nil {
			return WriteResult{Err: err}
		}
		note, err := wr.migrations(w, world)
		if err != nil {
			return WriteResult{Err: err}
		}
		outcome, plan, err := wr.plan(world, w, note)
		if err != nil {
			return WriteResult{Err: wr.refuse(w, world.State.Number, err)}
		}
		if len(plan.Txns) == 0 {
			if err := wr.note(w, world, note); err != nil {
				return WriteResult{Err: err}
			}
		}
		if len(plan.Txns) == 0 && w.pending != nil {
			return WriteResult{Outcome: outcome, Record: plan.Record, Err: wr.reply(w.ctx, w.pending, world.State.Number, "")}
		}
		if len(outcome.Migrated) > 0 && !w.backedUp {
			return WriteResult{Err: errBackupFirst}
		}
		release, err := wr.Reserve(w.Request.Caller, planSize(plan))
		if err != nil {
			return WriteResult{Err: wr.refuse(w, world.State.Number, err)}
		}
		var done bool
		done, moved, err = wr.runPlan(w.ctx, plan)
		if errors.Is(err, kv.ErrUnwritten) || err == nil && !done && len(plan.Txns) == 1 {
			release() // with several transactions, the first ones are stored
		}
		if err != nil {
			return WriteResult{Err: err}
		}
		if done {
			return WriteResult{Outcome: outcome, Record: plan.Record}
		}
	}
}

// plan validates a write on a state of the layers and plans its transactions.
func (wr *Writer) plan(world *ops.Snapshot, w WriteRequest, note migrationNote) (ops.WriteOutcome, history.CommitPlan,
	error) {
	outcome, err := world.Validate(w.Request.Write)
	if err != nil {
		return ops.WriteOutcome{}, history.CommitPlan{}, err
	}
	c := outcome.Change
	if err := w.Request.CheckPermitted(c); err != nil {
		return ops.WriteOutcome{}, history.CommitPlan{}, err
	}
	c.Author, c.Time, c.IfMatch, c.Trace = Author(w.Request.Caller), wr.Now(), w.Request.IfMatch, w.trace
	if w.Request.Message != "" {
		c.Message = w.Request.Message
	}
	if moved := outcome.MigratedText(); moved != "" {
		c.Message += "; " + moved
	}
	c.Compares = append(c.Compares, w.fence...)
	w.pending.bind(&c, world.State)
	note.bind(&c)
	plan, err := world.State.Plan(c)
	return outcome, plan, err
}

// Author returns a caller's name in the history.
func Author(c fleetapi.Caller) string {
	if c.Name == "" {
		return "unknown"
	}
	return c.Name
}

// runPlan runs a plan. If the head had moved, it returns false and the head, nil if that is unknown. If the outcome of
// a transaction is unknown, it is run again: each one compares the head, so none can take effect twice.
func (wr *Writer) runPlan(ctx context.Context, plan history.CommitPlan) (done bool, moved *kv.Entry, err error) {
	for _, txn := range plan.Txns {
		o, unsure, err := wr.commitWithRetry(ctx, txn)
		if err != nil {
			if unsure {
				if own, unread := wr.isOwn(ctx, plan.Record); own && unread == nil {
					return true, nil, nil
				}
				err = fmt.Errorf("write outcome unknown: %w", err)
			}
			return false, nil, fmt.Errorf("store revision %d: %w", plan.Record.Number, BusyError(err))
		}
		if !o.Succeeded && unsure {
			own, err := wr.isOwn(ctx, plan.Record)
			return own, nil, err
		}
		if !o.Succeeded {
			return false, &o.Results[0].Entry, nil
		}
	}
	return true, nil, nil
}

// commitWithRetry runs a transaction until its outcome is known, as kv.CommitWithRetry does.
func (wr *Writer) commitWithRetry(ctx context.Context, txn kv.Txn) (o kv.TxnResult, unsure bool, err error) {
	return kv.CommitWithRetry(func() (kv.TxnResult, error) { return wr.Commit(ctx, txn) }, func(lost error) bool {
		supervise.Traced(wr.Log, trace.From(ctx)).Warn("outcome of a write unknown: retrying", zap.Error(lost))
		return supervise.Pause(ctx, writeAgain)
	})
}

// BusyError marks errors of a full store, so that the caller tries again later.
func BusyError(err error) error {
	if errors.Is(err, kv.ErrUnwritten) || errors.Is(err, kv.ErrFull) {
		return fmt.Errorf("%w: the store: %w", fleetapi.ErrBusy, err)
	}
	return err
}

// writeAgain is the pause before a retry.
const writeAgain = 50 * time.Millisecond

// isOwn reports whether a revision in the history is the planned one: then a transaction succeeded whose answer was
// lost.
func (wr *Writer) isOwn(ctx context.Context, planned history.RevisionRecord) (bool, error) {
	state, err := history.Head(wr.Reader(ctx))
	if err != nil || state.Number < planned.Number {
		return false, err
	}
	ok, err := history.ReadRecord(wr.Reader(ctx), planned.Number)
	if err != nil {
		return false, fmt.Errorf("read revision %d, which may be of this write: %w", planned.Number, err)
	}
	return bytes.Equal(Encode(ok), Encode(planned)), nil
}

// Snapshot returns the current Snapshot, in which operations are validated.
func (wr *Writer) Snapshot(ctx context.Context) (*ops.Snapshot, error) {
	return wr.snapshotAt(ctx, nil)
}

// snapshotAt returns the Snapshot on a head, nil for the current one.
func (wr *Writer) snapshotAt(ctx context.Context, head *kv.Entry) (*ops.Snapshot, error) {
	if !wr.Ready() {
		return nil, fmt.Errorf("%w: still reading the store", fleetapi.ErrBusy)
	}
	var state history.State
	var err error
	if head == nil {
		state, err = history.Head(wr.Reader(ctx))
	} else {
		state, err = history.HeadAt(wr.Reader(ctx), *head)
	}
	if err != nil {
		return nil, err
	}
	return wr.SnapshotAt(state), nil
}
