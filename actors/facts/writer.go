package facts

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/facts/ledger"
	"edgespan/config/httpapi/factsapi"
)

// What may wait for the writes before it.
const (
	mostWrites     = 1024
	mostWriteBytes = 64 << 20
)

// wish is one write that somebody waits for.
type wish struct {
	ctx     context.Context
	request factsapi.WriteRequest
	size    int // bytes, about
	answer  chan wrote
}

// wrote is its answer.
type wrote struct {
	written ledger.Written
	err     error
}

// reply answers once; nobody waits for a second answer.
func (w *wish) reply(a wrote) {
	select {
	case w.answer <- a:
	default:
	}
}

// Words to the writer.
type (
	worked   struct{} // the leaf has ended
	swept    struct{} // the sweep has
	sweepDue struct{}
)

// How often each replica sweeps what nothing refers to. Two that do it at once are in each other's way
// and nobody else's.
const sweepEvery = time.Hour

// writerActor is /writer: what waits while a transaction is on its way goes together into the
// next. Other replicas' writes are met at the head.
type writerActor struct {
	d     *deps
	queue []*wish
	size  int     // bytes of the queue
	batch []*wish // that the leaf has
	busy  bool
	sweep *ledger.Sweeper // nil: none is under way
	turn  bool            // of the sweep, which goes on step by step between batches
}

// Receive queues writes and starts the leaf.
func (w *writerActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case sweepDue:
		if s := w.d.shown.now.Load(); s.State != nil && w.sweep == nil {
			w.sweep = s.Sweep(w.d.Keep)
		}
	case swept:
		w.sweep = nil
	case *wish:
		if len(w.queue) >= mostWrites || w.size+m.size > mostWriteBytes && len(w.queue) > 0 {
			m.reply(wrote{err: busy("write: %d writes of %d bytes wait already", len(w.queue), w.size)})
			return
		}
		w.queue, w.size = append(w.queue, m), w.size+m.size
	case worked:
		w.busy, w.batch = false, nil
	case crashed:
		panic(m.reason)
	case *actor.Restarting, *actor.Stopping:
		if _, again := c.Message().(*actor.Restarting); again { // who hears of it writes to the next one
			for _, m := range w.batch {
				m.reply(wrote{err: busy("write: it may have taken place or not: the writer of this replica crashed")})
			}
		}
		for _, m := range w.queue {
			m.reply(wrote{err: busy("write: the writer of this replica ends")})
		}
		w.queue, w.size = nil, 0
		return
	}
	w.work(c.Self())
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
	if w.busy || len(w.queue) == 0 && w.sweep == nil {
		return
	}
	w.busy, w.turn = true, !w.turn
	if sweep := w.sweep; sweep != nil && (w.turn || len(w.queue) == 0) {
		d.leaf(self, func() {
			if !d.sweepStep(sweep) {
				d.system.Root.Send(self, swept{})
			}
			d.system.Root.Send(self, worked{})
		})
		return
	}
	batch := w.queue
	w.batch, w.queue, w.size = batch, nil, 0
	d.leaf(self, func() {
		d.writeAll(batch)
		d.system.Root.Send(self, worked{})
	})
}

// Write judges one write and stores it.
func (k *Keeper) Write(ctx context.Context, r factsapi.WriteRequest) (ledger.Written, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if r.DryRun {
		return k.d.judge(ctx, r)
	}
	w := &wish{ctx: ctx, request: r, size: sizeOf(r.Write), answer: make(chan wrote, 1)}
	k.d.system.Root.Send(k.d.writer.Load(), w)
	select {
	case a := <-w.answer:
		return a.written, a.err
	case <-ctx.Done():
		return ledger.Written{}, busy("write: it may have taken place or not: no answer in %v", writeTimeout)
	case <-k.d.ctx.Done():
		return ledger.Written{}, busy("write: it may have taken place or not: this replica ends")
	}
}

// sizeOf is about how many bytes wait with a write.
func sizeOf(w ledger.Write) int {
	const least = 512
	switch w := w.(type) {
	case ledger.Put:
		return least + len(w.Value)
	case ledger.Bulk:
		n := least
		for _, one := range w.Writes {
			n += sizeOf(one)
		}
		return n
	case ledger.EditKeys:
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
