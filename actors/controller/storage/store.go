package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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
)

// What may wait for the write before it, in all and of one caller.
const (
	maxWrites   = 64
	MaxOfCaller = maxWrites / 4
)

// Writer is how this replica writes layers: one write after the other, and those that the leader does for all.
type Writer struct {
	*Access
	Offline bool                                  // nothing follows from layers
	Backup  func(context.Context) (string, error) // of all that the store has, into a file; nil: no layer is migrated
	WorldAt func(history.State) *ops.World        // what a write on a state of the layers is judged in
	Ready   func() bool                           // the store was read
	Stored  *ratelimit.Buckets                    // what callers who are no admins may have stored still
	Waits   func() bool                           // migrations wait for the end of a staged rollout
	pid     *actor.PID                            // of /store
	orders  sync.Map                              // of those who wait for the leader's answer: chan leaderRequest by key
}

// Start starts /store below c, and the saver beside it.
func (d *Writer) Start(c actor.Context) (err error) {
	if d.pid, err = c.SpawnNamed(d.Vital(func() actor.Actor { return &storeActor{d: d} }), "store"); err == nil {
		d.Leaf("saver", d.Saver.run)
	}
	return err
}

// Actor is /store.
func (d *Writer) Actor() *actor.PID { return d.pid }

// Do has /store do a write.
func (d *Writer) Do(ctx context.Context, w WriteRequest) WriteResult {
	w.ctx = ctx
	answer, err := d.Request(ctx, d.pid, w)
	if err != nil {
		return WriteResult{Err: err}
	}
	return answer.(WriteResult)
}

// WriteRequest is one write, for the store actor.
type WriteRequest struct {
	ctx     context.Context
	Request fleetapi.WriteRequest
	pending *pendingWrite // nil: for nobody but who asks
	fence   []kv.Compare  // that hold too: of the leader
	// backedUp: a backup was written, so layers may be migrated.
	backedUp bool
}

// WriteResult is its answer.
type WriteResult struct {
	Outcome ops.Outcome
	Record  history.Record
	Err     error
}

// writeDone ends the leaf that did it.
type writeDone struct{}

// storeActor is /store: it does this replica's writes one after the other, so that they don't
// lose against each other. Other replicas' are met at the head.
type storeActor struct {
	d     *Writer
	queue []Question
	last  string // who was served last: another who waits comes first
	busy  bool
}

// Receive queues writes and starts the next.
func (s *storeActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case Question:
		if len(s.queue) >= maxWrites {
			m.Reply(WriteResult{Err: fmt.Errorf("write: %w: %d writes are already pending: try again", fleetapi.ErrBusy,
				maxWrites)})
			return
		}
		if by := callerOf(m); count(s.queue, by) >= MaxOfCaller {
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
		next.Reply(s.d.write(w))
	})
}

// next takes the write that waits longest of a caller who was not served just now.
func (s *storeActor) next() Question {
	i := max(slices.IndexFunc(s.queue, func(m Question) bool { return callerOf(m) != s.last }), 0)
	m := s.queue[i]
	s.queue, s.last = slices.Delete(s.queue, i, i+1), callerOf(m)
	return m
}

// callerOf is in whose turn a write is done: the controller's own are in no operator's, whatever that one is called.
func callerOf(m Question) string { return m.Question.(WriteRequest).Request.Caller.Who() }

func count(queue []Question, caller string) int {
	n := 0
	for _, m := range queue {
		if callerOf(m) == caller {
			n++
		}
	}
	return n
}

// Try judges a write in a world and stores nothing.
func (d *Writer) Try(ctx context.Context, r fleetapi.WriteRequest, world *ops.World) (WriteResult, error) {
	w := WriteRequest{ctx: ctx, Request: r}
	note, err := d.migrations(w, world)
	if err != nil {
		return WriteResult{}, err
	}
	outcome, _, err := d.plan(world, w, note)
	if err != nil {
		return WriteResult{}, d.refuse(w, world.State.Number, err)
	}
	return WriteResult{Outcome: outcome, Record: history.Record{Number: world.State.Number}}, nil
}

// WriteRequest judges a write on the newest layers and stores it; where somebody else was faster, it
// is judged anew.
func (d *Writer) write(w WriteRequest) WriteResult {
	for {
		if err := w.ctx.Err(); err != nil {
			return WriteResult{Err: fmt.Errorf("write: %w", err)}
		}
		if err := d.checkPending(w.ctx, w); err != nil {
			return WriteResult{Err: err}
		}
		world, err := d.World(w.ctx)
		if err != nil {
			return WriteResult{Err: err}
		}
		note, err := d.migrations(w, world)
		if err != nil {
			return WriteResult{Err: err}
		}
		outcome, plan, err := d.plan(world, w, note)
		if err != nil {
			return WriteResult{Err: d.refuse(w, world.State.Number, err)}
		}
		if len(plan.Txns) == 0 {
			if err := d.note(w, world, note); err != nil {
				return WriteResult{Err: err}
			}
		}
		if len(plan.Txns) == 0 && w.pending != nil {
			return WriteResult{Outcome: outcome, Record: plan.Record, Err: d.reply(w.ctx, w.pending, world.State.Number, "")}
		}
		if len(outcome.Migrated) > 0 && !w.backedUp {
			return WriteResult{Err: errBackupFirst}
		}
		give, err := d.Spend(w.Request.Caller, sizeOf(plan))
		if err != nil {
			return WriteResult{Err: d.refuse(w, world.State.Number, err)}
		}
		done, err := d.carryOut(w.ctx, plan)
		if errors.Is(err, kv.ErrUnwritten) || err == nil && !done && len(plan.Txns) == 1 {
			give() // of several the first are stored
		}
		if err != nil {
			return WriteResult{Err: err}
		}
		if done {
			return WriteResult{Outcome: outcome, Record: plan.Record}
		}
	}
}

// plan judges a write on a state of the layers.
func (d *Writer) plan(world *ops.World, w WriteRequest, note migrationNote) (ops.Outcome, history.Plan, error) {
	outcome, err := world.Validate(w.Request.Write)
	if err != nil {
		return ops.Outcome{}, history.Plan{}, err
	}
	c := outcome.Change
	if err := w.Request.Permits(c); err != nil {
		return ops.Outcome{}, history.Plan{}, err
	}
	c.Author, c.Time, c.IfMatch = Author(w.Request.Caller), d.Now(), w.Request.IfMatch
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

// Author is a caller as the history names it.
func Author(c fleetapi.Caller) string {
	if c.Name == "" {
		return "unknown"
	}
	return c.Name
}

// carryOut does a plan, and says whether the head had not moved. Where the store does not say
// whether it did a transaction, it is asked once more: each compares the head, so that none
// can be done twice.
func (d *Writer) carryOut(ctx context.Context, plan history.Plan) (bool, error) {
	for _, txn := range plan.Txns {
		o, unsure, err := d.commitSurely(ctx, txn)
		if err != nil {
			if unsure {
				if own, unread := d.isOwn(ctx, plan.Record); own && unread == nil {
					return true, nil
				}
				err = fmt.Errorf("write outcome unknown: %w", err)
			}
			return false, fmt.Errorf("store revision %d: %w", plan.Record.Number, BusyError(err))
		}
		if !o.Succeeded && unsure {
			return d.isOwn(ctx, plan.Record)
		}
		if !o.Succeeded {
			return false, nil
		}
	}
	return true, nil
}

// commitSurely does a transaction until the store has said what became of it, as kv.CommitSurely has it.
func (d *Writer) commitSurely(ctx context.Context, txn kv.Txn) (o kv.Outcome, unsure bool, err error) {
	return kv.CommitSurely(func() (kv.Outcome, error) { return d.Commit(ctx, txn) }, func(lost error) bool {
		d.Log.Warn("outcome of a write unknown: retrying", zap.Error(lost))
		return supervise.Pause(ctx, writeAgain)
	})
}

// BusyError tells whoever asks that a store without room is to be asked again later.
func BusyError(err error) error {
	if errors.Is(err, kv.ErrUnwritten) || errors.Is(err, kv.ErrFull) {
		return fmt.Errorf("%w: the store: %w", fleetapi.ErrBusy, err)
	}
	return err
}

// writeAgain is the pause before that.
const writeAgain = 50 * time.Millisecond

// isOwn says whether the history has a revision as it was planned here: then a transaction
// was done whose answer was lost.
func (d *Writer) isOwn(ctx context.Context, planned history.Record) (bool, error) {
	state, err := history.Head(d.Reader(ctx))
	if err != nil || state.Number < planned.Number {
		return false, err
	}
	is, err := history.ReadRecord(d.Reader(ctx), planned.Number)
	if err != nil {
		return false, fmt.Errorf("read revision %d, which may be of this write: %w", planned.Number, err)
	}
	return bytes.Equal(Encode(is), Encode(planned)), nil
}

// World is what an operation is judged in now.
func (d *Writer) World(ctx context.Context) (*ops.World, error) {
	if !d.Ready() {
		return nil, fmt.Errorf("%w: still reading the store", fleetapi.ErrBusy)
	}
	state, err := history.Head(d.Reader(ctx))
	if err != nil {
		return nil, err
	}
	return d.WorldAt(state), nil
}
