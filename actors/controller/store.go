package controller

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

	"edgespan/actors/keep"
	"edgespan/config/history"
	"edgespan/config/httpapi"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/operate"
	"edgespan/config/revision"
)

// What may wait for the write before it, in all and of one caller.
const (
	mostWrites   = 64
	mostOfCaller = mostWrites / 4
)

// writing is how this replica writes layers: one write after the other, and those that the leader does for all.
type writing struct {
	*access
	Offline bool                                  // nothing follows from layers
	Backup  func(context.Context) (string, error) // of all that the store has, into a file; nil: no layer is migrated
	WorldAt func(history.State) *operate.World    // what a write on a state of the layers is judged in
	Ready   func() bool                           // the store was read
	Stored  *httpapi.Buckets                      // what callers who are no admins may have stored still
	Waits   func() bool                           // migrations wait for the end of a staged rollout
	pid     *actor.PID                            // of /store
	orders  sync.Map                              // of those who wait for the leader's answer: chan order by key
}

// start starts /store below c, and the saver beside it.
func (d *writing) start(c actor.Context) (err error) {
	if d.pid, err = c.SpawnNamed(d.vital(func() actor.Actor { return &storeActor{d: d} }), "store"); err == nil {
		d.leaf("saver", d.saver.run)
	}
	return err
}

// actor is /store.
func (d *writing) actor() *actor.PID { return d.pid }

// do has /store do a write.
func (d *writing) do(ctx context.Context, w write) wrote {
	w.ctx = ctx
	answer, err := d.ask(ctx, d.pid, w)
	if err != nil {
		return wrote{err: err}
	}
	return answer.(wrote)
}

// write is one write, for the store actor.
type write struct {
	ctx     context.Context
	request fleetapi.WriteRequest
	errand  *errand            // nil: for nobody but who asks
	fence   []revision.Compare // that hold too: of the leader
	// backedUp: a backup was written, so layers may be migrated.
	backedUp bool
}

// wrote is its answer.
type wrote struct {
	outcome operate.Outcome
	record  history.Record
	err     error
}

// written ends the leaf that did it.
type written struct{}

// storeActor is /store: it does this replica's writes one after the other, so that they don't
// lose against each other. Other replicas' are met at the head.
type storeActor struct {
	d     *writing
	queue []asking
	last  string // who was served last: another who waits comes first
	busy  bool
}

// Receive queues writes and starts the next.
func (s *storeActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case asking:
		if len(s.queue) >= mostWrites {
			m.reply(wrote{err: fmt.Errorf("write: %w: %d writes wait already", fleetapi.ErrBusy, mostWrites)})
			return
		}
		if by := callerOf(m); count(s.queue, by) >= mostOfCaller {
			m.reply(wrote{err: fmt.Errorf("write: %w: %d writes of %s wait already", fleetapi.ErrBusy, mostOfCaller, m.question.(write).request.Caller.Name)})
			return
		}
		s.queue = append(s.queue, m)
	case written:
		s.busy = false
	}
	if s.busy || len(s.queue) == 0 {
		return
	}
	next, self := s.next(), c.Self()
	s.busy = true
	s.d.leaf("write", func() {
		defer s.d.send(self, written{})
		w := next.question.(write)
		next.reply(s.d.write(w))
	})
}

// next takes the write that waits longest of a caller who was not served just now.
func (s *storeActor) next() asking {
	i := max(slices.IndexFunc(s.queue, func(m asking) bool { return callerOf(m) != s.last }), 0)
	m := s.queue[i]
	s.queue, s.last = slices.Delete(s.queue, i, i+1), callerOf(m)
	return m
}

// callerOf is in whose turn a write is done: the controller's own are in no operator's, whatever that one is called.
func callerOf(m asking) string { return m.question.(write).request.Caller.Who() }

func count(queue []asking, caller string) int {
	n := 0
	for _, m := range queue {
		if callerOf(m) == caller {
			n++
		}
	}
	return n
}

// try judges a write in a world and stores nothing.
func (d *writing) try(ctx context.Context, r fleetapi.WriteRequest, world *operate.World) (wrote, error) {
	w := write{ctx: ctx, request: r}
	note, err := d.migrations(w, world)
	if err != nil {
		return wrote{}, err
	}
	outcome, _, err := d.plan(world, w, note)
	if err != nil {
		return wrote{}, d.refuse(w, world.State.Number, err)
	}
	return wrote{outcome: outcome, record: history.Record{Number: world.State.Number}}, nil
}

// write judges a write on the newest layers and stores it; where somebody else was faster, it
// is judged anew.
func (d *writing) write(w write) wrote {
	for {
		if err := w.ctx.Err(); err != nil {
			return wrote{err: fmt.Errorf("write: %w", err)}
		}
		if err := d.stands(w.ctx, w); err != nil {
			return wrote{err: err}
		}
		world, err := d.world(w.ctx)
		if err != nil {
			return wrote{err: err}
		}
		note, err := d.migrations(w, world)
		if err != nil {
			return wrote{err: err}
		}
		outcome, plan, err := d.plan(world, w, note)
		if err != nil {
			return wrote{err: d.refuse(w, world.State.Number, err)}
		}
		if len(plan.Txns) == 0 {
			if err := d.note(w, world, note); err != nil {
				return wrote{err: err}
			}
		}
		if len(plan.Txns) == 0 && w.errand != nil {
			return wrote{outcome: outcome, record: plan.Record, err: d.reply(w.ctx, w.errand, world.State.Number, "")}
		}
		if len(outcome.Migrated) > 0 && !w.backedUp {
			return wrote{err: errBackupFirst}
		}
		give, err := d.spend(w.request.Caller, sizeOf(plan))
		if err != nil {
			return wrote{err: d.refuse(w, world.State.Number, err)}
		}
		done, err := d.carryOut(w.ctx, plan)
		if errors.Is(err, revision.ErrUnwritten) || err == nil && !done && len(plan.Txns) == 1 {
			give() // of several the first are stored
		}
		if err != nil {
			return wrote{err: err}
		}
		if done {
			return wrote{outcome: outcome, record: plan.Record}
		}
	}
}

// plan judges a write on a state of the layers.
func (d *writing) plan(world *operate.World, w write, note migrationNote) (operate.Outcome, history.Plan, error) {
	outcome, err := world.Judge(w.request.Write)
	if err != nil {
		return operate.Outcome{}, history.Plan{}, err
	}
	c := outcome.Change
	if err := w.request.Permits(c); err != nil {
		return operate.Outcome{}, history.Plan{}, err
	}
	c.Author, c.Time, c.IfMatch = author(w.request.Caller), d.Now(), w.request.IfMatch
	if w.request.Message != "" {
		c.Message = w.request.Message
	}
	if moved := outcome.MigratedText(); moved != "" {
		c.Message += "; " + moved
	}
	c.Compares = append(c.Compares, w.fence...)
	w.errand.bind(&c, world.State)
	note.bind(&c)
	plan, err := world.State.Plan(c)
	return outcome, plan, err
}

// author is a caller as the history names it.
func author(c fleetapi.Caller) string {
	if c.Name == "" {
		return "unknown"
	}
	return c.Name
}

// carryOut does a plan, and says whether the head had not moved. Where the store does not say
// whether it did a transaction, it is asked once more: each compares the head, so that none
// can be done twice.
func (d *writing) carryOut(ctx context.Context, plan history.Plan) (bool, error) {
	for _, txn := range plan.Txns {
		o, unsure, err := d.commitSurely(ctx, txn)
		if err != nil {
			if unsure {
				if ours, unread := d.isOurs(ctx, plan.Record); ours && unread == nil {
					return true, nil
				}
				err = fmt.Errorf("it may have been written or not: %w", err)
			}
			return false, fmt.Errorf("store revision %d: %w", plan.Record.Number, refusedNow(err))
		}
		if !o.Succeeded && unsure {
			return d.isOurs(ctx, plan.Record)
		}
		if !o.Succeeded {
			return false, nil
		}
	}
	return true, nil
}

// commitSurely does a transaction until the store has said what became of it, as revision.CommitSurely has it.
func (d *writing) commitSurely(ctx context.Context, txn revision.Txn) (o revision.Outcome, unsure bool, err error) {
	return revision.CommitSurely(func() (revision.Outcome, error) { return d.commit(ctx, txn) }, func(lost error) bool {
		d.Log.Warn("a write's answer is lost: ask once more", zap.Error(lost))
		return keep.Pause(ctx, writeAgain)
	})
}

// refusedNow tells whoever asks that a store without room is to be asked again later.
func refusedNow(err error) error {
	if errors.Is(err, revision.ErrUnwritten) || errors.Is(err, revision.ErrFull) {
		return fmt.Errorf("%w: the store: %w", fleetapi.ErrBusy, err)
	}
	return err
}

// writeAgain is the pause before that.
const writeAgain = 50 * time.Millisecond

// isOurs says whether the history has a revision as it was planned here: then a transaction
// was done whose answer was lost.
func (d *writing) isOurs(ctx context.Context, planned history.Record) (bool, error) {
	state, err := history.Head(d.reader(ctx))
	if err != nil || state.Number < planned.Number {
		return false, err
	}
	is, err := history.ReadRecord(d.reader(ctx), planned.Number)
	if err != nil {
		return false, fmt.Errorf("read revision %d, which may be ours: %w", planned.Number, err)
	}
	return bytes.Equal(encode(is), encode(planned)), nil
}

// world is what an operation is judged in now.
func (d *writing) world(ctx context.Context) (*operate.World, error) {
	if !d.Ready() {
		return nil, fmt.Errorf("%w: the store is being read", fleetapi.ErrBusy)
	}
	state, err := history.Head(d.reader(ctx))
	if err != nil {
		return nil, err
	}
	return d.WorldAt(state), nil
}
