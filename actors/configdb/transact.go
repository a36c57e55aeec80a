package configdb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/supervise"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/kv"
)

// writeAgain is the pause before a transaction whose answer was lost is retried.
const writeAgain = 50 * time.Millisecond

// errOvertaken reports that a transaction failed because of a concurrent write.
var errOvertaken = errors.New("lost the race to another replica")

// validate returns what a write would do.
func (d *deps) validate(ctx context.Context, r configdbapi.WriteRequest) (model.Written, error) {
	state, err := d.currentState(ctx)
	if err != nil {
		return model.Written{}, err
	}
	done, err := rest.AcquireTurn(ctx)
	if err != nil {
		return model.Written{}, err
	}
	defer done()
	tried := d.queuedWrite(ctx, r)
	tried.Blind = !r.Reveal
	plan, err := state.Plan([]model.QueuedWrite{tried}, d.newSource(ctx))
	if err != nil {
		return model.Written{}, err
	}
	if len(plan.Results) == 0 {
		return model.Written{}, busyError("write: another one is in progress")
	}
	a := d.resultOf(plan.Results[0])
	return a.written, a.err
}

// queuedWrite returns a write in the model's form, which ends when its caller stops waiting.
func (d *deps) queuedWrite(ctx context.Context, r configdbapi.WriteRequest) model.QueuedWrite {
	return model.QueuedWrite{Write: r.Write, Author: r.Author, Message: r.Message, Time: d.Now().UTC(), Own: r.Own,
		Quota: d.Quota, Stop: ctx.Err}
}

// resultOf converts the model's result of a write.
func (d *deps) resultOf(r model.Result) writeResult {
	if r.Fault != nil {
		return writeResult{err: r.Fault}
	}
	r.Written.Changes = d.Key.Changes(r.Written.Changes)
	return writeResult{written: r.Written}
}

// writeSome runs the first writes of a batch, as many as one transaction takes, and returns those that have an answer:
// at least one.
func (d *deps) writeSome(batch []*pendingWrite) []*pendingWrite {
	ctx, cancel := context.WithTimeout(d.ctx, writeTimeout)
	defer cancel()
	for {
		n, err := d.writeBatch(ctx, batch)
		if err == nil && n == 0 && ctx.Err() == nil {
			continue // a concurrent write, or a large write had to be finished first
		}
		if n == 0 { // the first one can't be validated; the writes behind it are not affected
			n, err = 1, cmp.Or(err, batch[0].ctx.Err(), ctx.Err())
		}
		if err != nil {
			for _, w := range batch[:n] {
				w.reply(writeResult{err: err})
			}
		}
		return batch[:n]
	}
}

// writeBatch runs the first n writes of a batch. 0 without an error means: try again. If n is 0, err is of the
// validation of the first one, and nothing was written; otherwise the outcome of the n writes is unknown.
func (d *deps) writeBatch(ctx context.Context, batch []*pendingWrite) (n int, err error) {
	state, err := d.currentState(ctx)
	if err != nil {
		return len(batch), err
	}
	entries := make([]model.QueuedWrite, len(batch))
	for i, w := range batch {
		entries[i] = d.queuedWrite(w.ctx, w.request)
	}
	plan, err := state.Plan(entries, d.newSource(ctx))
	if err != nil {
		return 0, err
	}
	switch err = d.runPlan(ctx, plan.Txns, plan.Records); {
	case errors.Is(err, errOvertaken):
		return 0, nil
	case err != nil:
		return max(len(plan.Results), 1), err
	}
	for i, r := range plan.Results {
		if batch[i].request.Own {
			batch[i].uploaded = int64(r.Written.Stored)
		}
		batch[i].reply(d.resultOf(r))
	}
	if len(plan.Txns) > 1 {
		d.finish(ctx)
	}
	return len(plan.Results), nil
}

// finish publishes a write that was too large for one transaction. The write is done and acknowledged already; if this
// fails, the next write's plan begins with it.
func (d *deps) finish(ctx context.Context) {
	state, err := d.currentState(ctx)
	if err == nil && state.Unfinished() {
		err = d.runPlan(ctx, state.Forward(), nil)
	}
	if err != nil && !errors.Is(err, errOvertaken) {
		d.Log.Warn("publish a large write", zap.Error(err))
	}
}

// runPlan runs the transactions of a plan. If the outcome of one is unknown, it is run again: each compares the head,
// so none can take effect twice, and the records of its revisions show whether it had succeeded before.
func (d *deps) runPlan(ctx context.Context, txns []kv.Txn, records []model.Record) error {
	for _, txn := range txns {
		o, unsure, err := d.commitWithRetry(ctx, txn)
		if err != nil {
			if unsure && len(records) > 0 {
				if own, unread := d.alreadyCommitted(ctx, records); own && unread == nil {
					return nil
				}
			}
			return outcomeUnknownError("%v", err)
		}
		if o.Succeeded {
			continue
		}
		if unsure {
			own, err := d.alreadyCommitted(ctx, records)
			if err != nil {
				return outcomeUnknownError("%v", err)
			}
			if own {
				return nil
			}
		}
		return errOvertaken
	}
	return nil
}

// commitWithRetry runs a transaction until its outcome is known, as kv.CommitWithRetry does.
func (d *deps) commitWithRetry(ctx context.Context, txn kv.Txn) (o kv.TxnResult, unsure bool, err error) {
	return kv.CommitWithRetry(func() (kv.TxnResult, error) { return d.commit(ctx, txn) }, func(lost error) bool {
		d.Log.Warn("outcome of a write unknown: retrying", zap.Error(lost))
		return supervise.Pause(ctx, writeAgain)
	})
}

// commit runs one transaction with a time limit.
func (d *deps) commit(ctx context.Context, txn kv.Txn) (kv.TxnResult, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return d.Store.Commit(ctx, txn)
}

// alreadyCommitted reports whether the history has the planned revisions: then a transaction succeeded whose answer
// was lost. A record that is equal in everything, including its time, has the same effect.
func (d *deps) alreadyCommitted(ctx context.Context, planned []model.Record) (bool, error) {
	for _, own := range planned {
		entries, err := source{ctx: ctx, d: d}.Get(recordKey(own.Revision))
		if err != nil || !entries[0].Exists() {
			return false, err
		}
		has, ok, err := model.RecordOf(kv.Event{Kind: kv.EventPut, Entry: entries[0]})
		if err != nil {
			return false, err
		}
		if !ok || !sameRecord(has, own) {
			return false, nil
		}
	}
	return len(planned) > 0, nil
}

// sameRecord reports whether two records are equal in the store.
func sameRecord(a, b model.Record) bool {
	one, err1 := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(one) == string(other)
}

// sweepStep runs one step of a sweep. It returns more if there are further steps, ended if it is complete, and neither
// if it was interrupted.
func (d *deps) sweepStep(sweep *model.Sweeper) (more, ended bool) {
	ctx, cancel := context.WithTimeout(d.ctx, writeTimeout)
	defer cancel()
	state, err := d.currentState(ctx)
	var txn *kv.Txn
	if err == nil {
		txn, err = sweep.Next(state, source{ctx: ctx, d: d})
	}
	done := kv.TxnResult{Succeeded: true}
	if err == nil && txn != nil && len(txn.Then) > 0 {
		done, err = d.commit(ctx, *txn)
	}
	if err != nil && d.ctx.Err() == nil {
		d.Log.Warn("sweep the facts", zap.Error(err))
	}
	return err == nil && txn != nil && done.Succeeded, err == nil && txn == nil
}
