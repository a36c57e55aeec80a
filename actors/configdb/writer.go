package configdb

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
)

// pendingWrite is one write that somebody waits for.
type pendingWrite struct {
	ctx     context.Context
	request configdbapi.WriteRequest
	size    int // bytes, about
	answer  chan writeResult
	grown   int64 // bytes that it stored of a node itself; the leaf's, until it has ended
}

// writeResult is its answer.
type writeResult struct {
	written model.Written
	err     error
}

// reply answers once; nobody waits for a second answer.
func (w *pendingWrite) reply(a writeResult) {
	select {
	case w.answer <- a:
	default:
	}
}

// Words to the writer.
type (
	worked   struct{ done []*pendingWrite } // the leaf has ended, and has answered these
	swept    struct{ to uint64 }            // the sweep has, and has seen all revisions up to there; 0: it was broken off
	sweepDue struct{}
)

// How often each replica sweeps what nothing refers to. Two that do it at once are in each other's way
// and nobody else's.
const sweepEvery = time.Hour

// sweepAfter is after how many bytes that nodes uploaded of themselves a sweep begins before its time, if these are
// more than all that they have.
const sweepAfter = 256 << 20

// writerActor is /writer: what waits while a transaction is on its way goes together into the
// next, in the turn of the callers. Other replicas' writes are met at the head.
type writerActor struct {
	d     *deps
	queue queue
	batch []*pendingWrite // of the queue, that the leaf has
	busy  bool
	sweep *model.Sweeper // nil: none is under way
	turn  bool           // of the sweep, which goes on step by step between batches
	seen  uint64         // by the sweeps so far
	grown int64          // bytes that nodes uploaded of themselves since the last sweep began
}

// Receive queues writes and starts the leaf.
func (w *writerActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case sweepDue:
		w.beginSweep()
	case swept:
		w.sweep, w.seen = nil, max(w.seen, m.to)
	case *pendingWrite:
		if err := w.queue.add(m); err != nil {
			m.reply(writeResult{err: busy("write: %v", err)})
			return
		}
	case worked:
		for _, one := range m.done {
			w.queue.remove(one)
			w.grown += one.grown
		}
		if s := w.d.shown.now.Load(); s.State != nil && w.grown > max(w.d.sweepAfter, s.OfNodes()) {
			w.beginSweep()
		}
		w.busy, w.batch = false, nil
	case crashed:
		panic(m.reason)
	case *actor.Restarting, *actor.Stopping:
		_, again := c.Message().(*actor.Restarting)
		for _, m := range w.batch {
			if again { // who hears of it writes to the next one; at the end the leaf answers
				m.reply(writeResult{err: maybeDone("writer of this replica crashed")})
			}
			w.queue.remove(m)
		}
		for _, m := range w.queue.all() {
			m.reply(writeResult{err: busy("write: this replica is shutting down")})
		}
		w.queue = queue{}
		return
	}
	w.work(c.Self())
}

// beginSweep begins a sweep, unless one is under way.
func (w *writerActor) beginSweep() {
	if s := w.d.shown.now.Load(); s.State != nil && w.sweep == nil {
		w.sweep, w.grown = s.Sweep(model.Keep{Versions: w.d.Keep, Own: w.d.KeepOwn, Seen: w.seen}), 0
	}
}

// clock says when it is time to sweep, until the end.
func (d *deps) clock(writer *actor.PID) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.system.Root.Send(writer, sweepDue{})
		case <-d.ctx.Done():
			return
		}
	}
}

// work starts the leaf if there is something to do.
func (w *writerActor) work(self *actor.PID) {
	d := w.d
	if w.busy {
		return
	}
	for _, m := range w.queue.expired() {
		m.reply(writeResult{err: m.ctx.Err()})
	}
	if w.queue.count == 0 && w.sweep == nil {
		return
	}
	w.busy, w.turn = true, !w.turn
	if sweep := w.sweep; sweep != nil && (w.turn || w.queue.count == 0) {
		d.leaf(self, func() {
			if more, ended := d.sweepStep(sweep); ended {
				d.system.Root.Send(self, swept{sweep.Revision()})
			} else if !more {
				d.system.Root.Send(self, swept{})
			}
			d.system.Root.Send(self, worked{})
		})
		return
	}
	batch := w.queue.next()
	w.batch = batch
	d.leaf(self, func() { d.system.Root.Send(self, worked{d.writeSome(batch)}) })
}

// Write judges one write and stores it.
func (k *Keeper) Write(ctx context.Context, r configdbapi.WriteRequest) (model.Written, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if r.DryRun {
		return k.d.validate(ctx, r)
	}
	w := &pendingWrite{ctx: ctx, request: r, size: sizeOf(r.Write), answer: make(chan writeResult, 1)}
	k.d.system.Root.Send(k.d.writer.Load(), w)
	select {
	case a := <-w.answer:
		return a.written, a.err
	case <-ctx.Done():
		return model.Written{}, maybeDone("no answer in %v", writeTimeout)
	case <-k.d.ctx.Done():
		return model.Written{}, maybeDone("this replica is shutting down")
	}
}

// sizeOf is about how many bytes wait with a write.
func sizeOf(w model.Write) int {
	const least = 512
	switch w := w.(type) {
	case model.Put:
		return least + len(w.Value)
	case model.Bulk:
		n := least
		for _, one := range w.Writes {
			n += sizeOf(one)
		}
		return n
	case model.EditKeys:
		n := least
		for _, item := range w.Edit.Items {
			for _, part := range item {
				n += len(part)
			}
		}
		return n
	}
	return least
}
