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

// writeAgain is the pause before the store is asked once more whose answer was lost.
const writeAgain = 50 * time.Millisecond

// errOvertaken is a transaction that was not done, since somebody else was faster.
var errOvertaken = errors.New("lost the race to another replica")

// validate says what would come of a write.
func (d *deps) validate(ctx context.Context, r configdbapi.WriteRequest) (model.Written, error) {
	state, err := d.now(ctx)
	if err != nil {
		return model.Written{}, err
	}
	done, err := rest.Turn(ctx)
	if err != nil {
		return model.Written{}, err
	}
	defer done()
	tried := d.pending(ctx, r)
	tried.Blind = !r.Reveal
	plan, err := state.Plan([]model.Pending{tried}, d.of(ctx))
	if err != nil {
		return model.Written{}, err
	}
	if len(plan.Results) == 0 {
		return model.Written{}, busy("write: another one is in progress")
	}
	a := d.came(plan.Results[0])
	return a.written, a.err
}

// pending is a write as the ledger judges it, while somebody waits for it.
func (d *deps) pending(ctx context.Context, r configdbapi.WriteRequest) model.Pending {
	return model.Pending{Write: r.Write, Author: r.Author, Message: r.Message, Time: d.Now().UTC(), Own: r.Own,
		Quota: d.Quota, Stop: ctx.Err}
}

// came is what came of a write.
func (d *deps) came(r model.Result) writeResult {
	if r.Fault != nil {
		return writeResult{err: r.Fault}
	}
	r.Written.Changes = d.Key.Changes(r.Written.Changes)
	return writeResult{written: r.Written}
}

// writeSome does the first writes of a batch, as many at once as one transaction takes, and answers with those that
// have their answer: one at least.
func (d *deps) writeSome(batch []*pendingWrite) []*pendingWrite {
	ctx, cancel := context.WithTimeout(d.ctx, writeTimeout)
	defer cancel()
	for {
		n, err := d.tryToWrite(ctx, batch)
		if err == nil && n == 0 && ctx.Err() == nil {
			continue // somebody else was faster, or a large write had to be finished first
		}
		if n == 0 { // the first one can't be judged; those behind it are in no other's way
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

// tryToWrite does the first writes of a batch, n of them. 0 without an error is to try again. An error with n 0 is of
// the judgement of the first, and nothing was tried; with another n it is not known what became of any.
func (d *deps) tryToWrite(ctx context.Context, batch []*pendingWrite) (n int, err error) {
	state, err := d.now(ctx)
	if err != nil {
		return len(batch), err
	}
	entries := make([]model.Pending, len(batch))
	for i, w := range batch {
		entries[i] = d.pending(w.ctx, w.request)
	}
	plan, err := state.Plan(entries, d.of(ctx))
	if err != nil {
		return 0, err
	}
	switch err = d.carryOut(ctx, plan.Txns, plan.Records); {
	case errors.Is(err, errOvertaken):
		return 0, nil
	case err != nil:
		return max(len(plan.Results), 1), err
	}
	for i, r := range plan.Results {
		if batch[i].request.Own {
			batch[i].grown = int64(r.Written.Stored)
		}
		batch[i].reply(d.came(r))
	}
	if len(plan.Txns) > 1 {
		d.finish(ctx)
	}
	return len(plan.Results), nil
}

// finish brings a write into its place that was too large for one transaction. It is
// done and acknowledged already; where this fails the next write's plan begins with it.
func (d *deps) finish(ctx context.Context) {
	state, err := d.now(ctx)
	if err == nil && state.Unfinished() {
		err = d.carryOut(ctx, state.Forward(), nil)
	}
	if err != nil && !errors.Is(err, errOvertaken) {
		d.Log.Warn("publish a large write", zap.Error(err))
	}
}

// carryOut does the transactions of a plan. Where the store does not say whether it did one, it is
// asked once more: each compares the head, so that none can be done twice, and one that was done before is
// known by the records of its revisions.
func (d *deps) carryOut(ctx context.Context, txns []kv.Txn, records []model.Record) error {
	for _, txn := range txns {
		o, unsure, err := d.commitSurely(ctx, txn)
		if err != nil {
			if unsure && len(records) > 0 {
				if own, unread := d.areOwn(ctx, records); own && unread == nil {
					return nil
				}
			}
			return maybeDone("%v", err)
		}
		if o.Succeeded {
			continue
		}
		if unsure {
			own, err := d.areOwn(ctx, records)
			if err != nil {
				return maybeDone("%v", err)
			}
			if own {
				return nil
			}
		}
		return errOvertaken
	}
	return nil
}

// commitSurely does a transaction until the store has said what became of it, as kv.CommitSurely has it.
func (d *deps) commitSurely(ctx context.Context, txn kv.Txn) (o kv.Outcome, unsure bool, err error) {
	return kv.CommitSurely(func() (kv.Outcome, error) { return d.commit(ctx, txn) }, func(lost error) bool {
		d.Log.Warn("outcome of a write unknown: retrying", zap.Error(lost))
		return supervise.Pause(ctx, writeAgain)
	})
}

// commit does one transaction with a deadline.
func (d *deps) commit(ctx context.Context, txn kv.Txn) (kv.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return d.Store.Commit(ctx, txn)
}

// areOwn says whether the history has the revisions that were planned here: then the transaction
// was done whose answer was lost. A record that is equal to ours in all, its time among it, has the effect of ours.
func (d *deps) areOwn(ctx context.Context, planned []model.Record) (bool, error) {
	for _, own := range planned {
		entries, err := source{ctx: ctx, d: d}.Get(recordKey(own.Revision))
		if err != nil || !entries[0].Exists() {
			return false, err
		}
		has, is, err := model.RecordOf(kv.Event{Kind: kv.EventPut, Entry: entries[0]})
		if err != nil {
			return false, err
		}
		if !is || !same(has, own) {
			return false, nil
		}
	}
	return len(planned) > 0, nil
}

// same says whether two records are one in the store.
func same(a, b model.Record) bool {
	one, err1 := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(one) == string(other)
}

// sweepStep does one step of a sweep, and says whether there are more, or it has come to its end; neither: it is broken
// off.
func (d *deps) sweepStep(sweep *model.Sweeper) (more, ended bool) {
	ctx, cancel := context.WithTimeout(d.ctx, writeTimeout)
	defer cancel()
	state, err := d.now(ctx)
	var txn *kv.Txn
	if err == nil {
		txn, err = sweep.Next(state, source{ctx: ctx, d: d})
	}
	done := kv.Outcome{Succeeded: true}
	if err == nil && txn != nil && len(txn.Then) > 0 {
		done, err = d.commit(ctx, *txn)
	}
	if err != nil && d.ctx.Err() == nil {
		d.Log.Warn("sweep the facts", zap.Error(err))
	}
	return err == nil && txn != nil && done.Succeeded, err == nil && txn == nil
}
