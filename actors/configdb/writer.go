package configdb

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
)

// pendingWrite is a write with a waiting caller.
type pendingWrite struct {
	ctx      context.Context
	request  configdbapi.WriteRequest
	size     int // estimated, in bytes
	answer   chan writeResult
	uploaded int64 // bytes that a node uploaded about itself; set by the leaf, read after it has ended
}

// writeResult is its result.
type writeResult struct {
	written model.Written
	err     error
}

// reply answers once; later answers are dropped.
func (w *pendingWrite) reply(a writeResult) {
	select {
	case w.answer <- a:
	default:
	}
}

// Messages to the writer.
type (
	workDone struct{ done []*pendingWrite } // the leaf has ended and answered these
	swept    struct{ to uint64 }            // the sweep has ended and seen all revisions up to this one; 0: interrupted
	sweepDue struct{}
)

// sweepEvery is how often each replica sweeps unreferenced objects. Two concurrent sweeps disturb only each other.
const sweepEvery = time.Hour

// sweepAfter is after how many bytes that nodes uploaded about themselves a sweep starts early, if that is more than
// all that they have stored.
const sweepAfter = 256 << 20

// writerActor is /writer. Writes that arrive during a transaction share the next one, round-robin by caller. Conflicts
// with writes of other replicas show in the head.
type writerActor struct {
	d         *deps
	queue     queue
	batch     []*pendingWrite // the part of the queue that the leaf has
	busy      bool
	sweep     *model.Sweeper // nil: none is running
	sweepTurn bool           // alternates between steps of the sweep and batches
	sweptTo   uint64         // revision up to which sweeps have seen all
	uploaded  int64          // bytes that nodes uploaded about themselves since the last sweep began
}

// Receive queues writes and starts the leaf.
func (w *writerActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case sweepDue:
		w.beginSweep()
	case swept:
		w.sweep, w.sweptTo = nil, max(w.sweptTo, m.to)
	case *pendingWrite:
		if err := w.queue.add(m); err != nil {
			m.reply(writeResult{err: busyError("write: %v", err)})
			return
		}
	case workDone:
		for _, one := range m.done {
			w.queue.remove(one)
			w.uploaded += one.uploaded
		}
		if s := w.d.shown.now.Load(); s.State != nil && w.uploaded > max(w.d.sweepAfter, s.UploadedBytes()) {
			w.beginSweep()
		}
		w.busy, w.batch = false, nil
	case leafCrashed:
		panic(m.reason)
	case *actor.Restarting, *actor.Stopping:
		_, again := c.Message().(*actor.Restarting)
		for _, m := range w.batch {
			if again { // the caller can write to the next incarnation; at the end the leaf answers
				m.reply(writeResult{err: outcomeUnknownError("writer of this replica crashed")})
			}
			w.queue.remove(m)
		}
		for _, m := range w.queue.takeAll() {
			m.reply(writeResult{err: busyError("write: this replica is shutting down")})
		}
		w.queue = queue{}
		return
	}
	w.startLeaf(c.Self())
}

// beginSweep starts a sweep unless one is running.
func (w *writerActor) beginSweep() {
	if s := w.d.shown.now.Load(); s.State != nil && w.sweep == nil {
		w.sweep, w.uploaded = s.Sweep(model.Keep{Versions: w.d.Keep, Own: w.d.KeepOwn, Seen: w.sweptTo}), 0
	}
}

// scheduleSweeps sends sweepDue at intervals, until the end.
func (d *deps) scheduleSweeps(writer *actor.PID) {
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

// startLeaf starts the leaf if there is work.
func (w *writerActor) startLeaf(self *actor.PID) {
	d := w.d
	if w.busy {
		return
	}
	for _, m := range w.queue.takeExpired() {
		m.reply(writeResult{err: m.ctx.Err()})
	}
	if w.queue.count == 0 && w.sweep == nil {
		return
	}
	w.busy, w.sweepTurn = true, !w.sweepTurn
	if sweep := w.sweep; sweep != nil && (w.sweepTurn || w.queue.count == 0) {
		d.runLeaf(self, func() {
			if more, ended := d.sweepStep(sweep); ended {
				d.system.Root.Send(self, swept{sweep.Revision()})
			} else if !more {
				d.system.Root.Send(self, swept{})
			}
			d.system.Root.Send(self, workDone{})
		})
		return
	}
	batch := w.queue.next()
	w.batch = batch
	d.runLeaf(self, func() { d.system.Root.Send(self, workDone{d.writeSome(batch)}) })
}

// Write validates one write and stores it.
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
		return model.Written{}, outcomeUnknownError("no answer in %v", writeTimeout)
	case <-k.d.ctx.Done():
		return model.Written{}, outcomeUnknownError("this replica is shutting down")
	}
}

// sizeOf estimates the bytes of a waiting write.
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
