package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// LeaderOutbox is the mailbox of the leader, whoever that is.
const LeaderOutbox = "leader"

// leaderRequest is an optimisation that the leader shall do, and what became of it. It is answered in
// the transaction that makes its revision: so it is done once or not at all, whoever dies, and
// whoever asked can find out which.
type leaderRequest struct {
	From      string                   `json:"from"` // replica
	By        fleetapi.Caller          `json:"by"`
	Optimize  ops.Optimize             `json:"optimize"`
	Message   string                   `json:"message,omitempty"`
	IfMatch   map[history.Layer]uint64 `json:"ifMatch,omitempty"`
	Lease     kv.LeaseID               `json:"lease"` // of the order
	Withdrawn bool                     `json:"withdrawn,omitempty"`
	Answered  bool                     `json:"answered,omitempty"`
	Leader    string                   `json:"leader,omitempty"`   // who answered
	Judged    uint64                   `json:"judged,omitempty"`   // the revision of the layers that it was judged on
	Revision  uint64                   `json:"revision,omitempty"` // that it made, 0 for none
	Refused   string                   `json:"refused,omitempty"`
}

const (
	// orderLease is how long an order lies in the mailbox at most: longer than anybody waits.
	orderLease = WriteTimeout + 3*StoreTimeout
	// Leaderless is how long a command waits while nobody leads: another one leads long before.
	Leaderless = 10 * time.Second
)

func (o leaderRequest) request() fleetapi.WriteRequest {
	return fleetapi.WriteRequest{Caller: o.By, Write: o.Optimize, Message: o.Message, IfMatch: o.IfMatch}
}

// Order has the leader do an optimisation, and waits for what becomes of it.
func (d *Writer) Order(ctx context.Context, r fleetapi.WriteRequest) WriteResult {
	o := leaderRequest{From: d.Replica, By: r.Caller, Optimize: r.Write.(ops.Optimize), Message: r.Message,
		IfMatch: r.IfMatch}
	key := history.OutboxKey(LeaderOutbox, uuid.NewString())
	answer := make(chan leaderRequest, 1)
	d.orders.Store(key, answer)
	defer d.orders.Delete(key)
	lease, err := d.Grant(ctx, orderLease)
	if err != nil {
		return WriteResult{Err: fmt.Errorf("optimize: %w: nothing changed: %w", fleetapi.ErrBusy, err)}
	}
	o.Lease = lease
	defer d.drop(lease)
	_, err = d.Commit(ctx,
		kv.Txn{Compares: []kv.Compare{kv.Absent(key)}, Then: []kv.Op{kv.PutLeased(key, Encode(o), lease)}})
	if err != nil { // it may lie there all the same
		return d.withdraw(r, key, o, fmt.Errorf("%w: %w", fleetapi.ErrBusy, err))
	}
	wait := time.NewTimer(Leaderless)
	defer wait.Stop()
	for {
		select {
		case got := <-answer:
			return d.answerWaiters(r, got)
		case <-wait.C:
			e, err := d.Reader(ctx).Get(history.ElectionKey(LeaderWord))
			if err == nil && !e[0].Exists() {
				return d.withdraw(r, key, o, fmt.Errorf("%w: no leader: try again in some seconds", fleetapi.ErrBusy))
			}
			wait.Reset(Leaderless / 10)
		case <-ctx.Done():
			return d.withdraw(r, key, o, fmt.Errorf("%w: the leader is too busy: try again", fleetapi.ErrBusy))
		case <-d.Context.Done():
			return d.withdraw(r, key, o, fmt.Errorf("%w: this replica is shutting down", fleetapi.ErrBusy))
		}
	}
}

// Answered hands the answer to an order on to who waits for it here.
func (d *Writer) Answered(e kv.Event) {
	if waits, is := d.orders.Load(e.Entry.Key); is {
		if o := ValueOf[leaderRequest](e); o.Answered {
			select {
			case waits.(chan leaderRequest) <- o:
			default:
			}
		}
	}
}

// withdraw takes an order back that nobody has answered. One that was answered meanwhile is
// done, and the store says how. What it leaves in the mailbox keeps an order away that is still
// on its way there.
func (d *Writer) withdraw(r fleetapi.WriteRequest, key kv.Key, o leaderRequest, why error) WriteResult {
	ctx, cancel := context.WithTimeout(context.Background(), StoreTimeout)
	defer cancel()
	gone := leaderRequest{From: o.From, Withdrawn: true}
	for still := kv.Holds(key, Encode(o)); ; {
		out, err := d.Commit(ctx, kv.Txn{
			Compares: []kv.Compare{still}, Then: []kv.Op{kv.PutLeased(key, Encode(gone), o.Lease)}, Else: []kv.Op{kv.Get(key)},
		})
		switch {
		case errors.Is(err, kv.ErrNoLease) || err != nil && ctx.Err() != nil:
			return WriteResult{Err: fmt.Errorf("optimize: %w: outcome unknown: see 'edgespan history': %w", why,
				err)}
		case err != nil:
			d.Pause(LeadAgain)
			if d.Context.Err() != nil {
				time.Sleep(LeadAgain)
			}
			continue
		case out.Succeeded:
			return WriteResult{Err: fmt.Errorf("optimize: %w: nothing changed: try again in some seconds", why)}
		}
		e := out.Results[0].Entry
		var got leaderRequest
		switch {
		case !e.Exists():
			still = kv.Absent(key)
		case json.Unmarshal(e.Value, &got) == nil && got.Answered:
			return d.answerWaiters(r, got)
		default: // ours, in the words of a text whose fate was not known
			still = kv.Holds(key, e.Value)
		}
	}
}

// answerWaiters is the answer to an order in the words of a write: what the leader judged is judged
// once more, on the same layers, for whoever asked.
func (d *Writer) answerWaiters(r fleetapi.WriteRequest, o leaderRequest) WriteResult {
	ctx, cancel := context.WithTimeout(context.Background(), WriteTimeout)
	defer cancel()
	back := d.Reader(ctx)
	w := WriteResult{Record: history.Record{Number: o.Judged}, Outcome: ops.Outcome{Message: "Success."}}
	if o.Revision > 0 {
		w.Record.Number, w.Record.Tree = o.Revision, "a new one"
	}
	state, err := history.At(back, o.Judged)
	if err != nil && o.Refused == "" { // that it is done is what counts
		return w
	} else if err != nil {
		return WriteResult{Err: fmt.Errorf("optimize: %w: %s", fleetapi.ErrRefused, o.Refused)}
	}
	outcome, judged := d.WorldAt(state).Validate(r.Write)
	if o.Refused != "" {
		if judged == nil {
			judged = state.Bound(r.IfMatch)
		}
		if judged == nil {
			judged = fmt.Errorf("%w: %s", fleetapi.ErrRefused, o.Refused)
		}
		return WriteResult{Err: judged}
	}
	if judged == nil { // or this replica knows other boards than the leader: what is stored counts
		w.Outcome = outcome
	}
	return w
}

// pendingWrite is an order on its way through a write of the leader.
type pendingWrite struct {
	leaderRequest
	key     kv.Key
	at      kv.Revision // as which it lies in the mailbox
	by      kv.Leadership
	replica string // that leads
}

// errOvertaken ends an errand that is not ours any more: another leads, or nobody waits.
var errOvertaken = errors.New("another replica leads, or the command was cancelled")

// bind makes a change hang on the errand: it is done while the order lies there as it was and
// this replica leads, together with its answer.
func (e *pendingWrite) bind(c *history.Change, s history.State) {
	if e == nil {
		return
	}
	c.Compares = append(c.Compares, e.by.Fence(), kv.At(e.key, e.at))
	c.Then = append(c.Then, e.answer(s.Number, s.Number+1, ""))
}

// answer is what puts the answer into the mailbox.
func (e *pendingWrite) answer(judged, made uint64, refused string) kv.Op {
	o := e.leaderRequest
	o.Answered, o.Leader, o.Judged, o.Revision, o.Refused = true, e.replica, judged, made, refused
	return kv.PutLeased(e.key, Encode(o), o.Lease)
}

// reply stores an answer without a revision of the layers.
func (d *Writer) reply(ctx context.Context, e *pendingWrite, judged uint64, refused string) error {
	o, err := d.Commit(ctx,
		kv.Txn{Compares: []kv.Compare{e.by.Fence(), kv.At(e.key, e.at)}, Then: []kv.Op{e.answer(judged, 0, refused)}})
	if err == nil && !o.Succeeded {
		err = errOvertaken
	}
	return err
}

// checkPending says whether a write of the leader's is still to be done.
func (d *Writer) checkPending(ctx context.Context, w WriteRequest) error {
	same := w.fence
	if e := w.pending; e != nil {
		same = []kv.Compare{e.by.Fence(), kv.At(e.key, e.at)}
	}
	if len(same) == 0 {
		return nil
	}
	o, err := d.Commit(ctx, kv.Txn{Compares: same, Then: []kv.Op{kv.Get(same[0].Key)}})
	if err == nil && !o.Succeeded {
		err = errOvertaken
	}
	return err
}

// refuse answers an errand that can't be done on the layers as they are, and says why. What the
// store could not do is no such answer: it is tried again.
func (d *Writer) refuse(w WriteRequest, judged uint64, why error) error {
	if w.pending == nil || !isRefusal(why) {
		return why
	}
	if err := d.reply(w.ctx, w.pending, judged, why.Error()); err != nil {
		return err
	}
	return why
}

// isRefusal says whether a write is refused by the layers as they are.
func isRefusal(err error) bool {
	var conflicts history.Conflicts
	return errors.As(err, new(*ops.Refused)) || errors.As(err, new(*ops.NotFoundError)) || errors.As(err, &conflicts) ||
		errors.As(err, new(*fleetapi.TooManyError))
}
