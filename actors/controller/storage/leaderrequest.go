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

// LeaderOutbox is the outbox of requests to the current leader.
const LeaderOutbox = "leader"

// leaderRequest is a request to the leader to optimize layers, and its result. The transaction that stores the revision
// also stores the answer: so the request runs once or not at all, whichever replica fails, and the caller can find out
// which.
type leaderRequest struct {
	From      string                   `json:"from"` // replica
	By        fleetapi.Caller          `json:"by"`
	Optimize  ops.Optimize             `json:"optimize"`
	Message   string                   `json:"message,omitempty"`
	IfMatch   map[history.Layer]uint64 `json:"ifMatch,omitempty"`
	Lease     kv.LeaseID               `json:"lease"` // of the request
	Withdrawn bool                     `json:"withdrawn,omitempty"`
	Answered  bool                     `json:"answered,omitempty"`
	Leader    string                   `json:"leader,omitempty"`   // the replica that answered
	Validated uint64                   `json:"judged,omitempty"`   // the revision of the layers that it was validated on
	Revision  uint64                   `json:"revision,omitempty"` // the revision that it created; 0 for none
	Refused   string                   `json:"refused,omitempty"`
}

const (
	// requestLease bounds how long a request lies in the outbox: longer than any caller waits.
	requestLease = WriteTimeout + 3*StoreTimeout
	// NoLeaderTimeout is how long a command waits without a leader: normally another one leads long before.
	NoLeaderTimeout = 10 * time.Second
)

func (o leaderRequest) request() fleetapi.WriteRequest {
	return fleetapi.WriteRequest{Caller: o.By, Write: o.Optimize, Message: o.Message, IfMatch: o.IfMatch}
}

// SubmitToLeader asks the leader to optimize layers, and waits for the result.
func (wr *Writer) SubmitToLeader(ctx context.Context, r fleetapi.WriteRequest) WriteResult {
	o := leaderRequest{From: wr.Replica, By: r.Caller, Optimize: r.Write.(ops.Optimize), Message: r.Message,
		IfMatch: r.IfMatch}
	key := history.OutboxKey(LeaderOutbox, uuid.NewString())
	answer := make(chan leaderRequest, 1)
	wr.requests.Store(key, answer)
	defer wr.requests.Delete(key)
	lease, err := wr.Grant(ctx, requestLease)
	if err != nil {
		return WriteResult{Err: fmt.Errorf("optimize: %w: nothing changed: %w", fleetapi.ErrBusy, err)}
	}
	o.Lease = lease
	defer wr.drop(lease)
	_, err = wr.Commit(ctx,
		kv.Txn{Compares: []kv.Compare{kv.Absent(key)}, Then: []kv.Op{kv.PutLeased(key, Encode(o), lease)}})
	if err != nil { // the request may be stored nevertheless
		return wr.withdraw(r, key, o, fmt.Errorf("%w: %w", fleetapi.ErrBusy, err))
	}
	wait := time.NewTimer(NoLeaderTimeout)
	defer wait.Stop()
	for {
		select {
		case got := <-answer:
			return wr.answerWaiters(r, got)
		case <-wait.C:
			e, err := wr.Reader(ctx).Get(history.ElectionKey(LeaderKeyName))
			if err == nil && !e[0].Exists() {
				return wr.withdraw(r, key, o, fmt.Errorf("%w: no leader: try again in some seconds", fleetapi.ErrBusy))
			}
			wait.Reset(NoLeaderTimeout / 10)
		case <-ctx.Done():
			return wr.withdraw(r, key, o, fmt.Errorf("%w: the leader is too busy: try again", fleetapi.ErrBusy))
		case <-wr.Context.Done():
			return wr.withdraw(r, key, o, fmt.Errorf("%w: this replica is shutting down", fleetapi.ErrBusy))
		}
	}
}

// DeliverAnswer passes an answer of the leader to the caller that waits for it here.
func (wr *Writer) DeliverAnswer(e kv.Event) {
	if waits, ok := wr.requests.Load(e.Entry.Key); ok {
		if o := ValueOf[leaderRequest](e); o.Answered {
			select {
			case waits.(chan leaderRequest) <- o:
			default:
			}
		}
	}
}

// withdraw cancels a request that has no answer. If it was answered meanwhile, withdraw returns that answer. The value
// that it stores rejects a copy of the request that is still on its way to the store.
func (wr *Writer) withdraw(r fleetapi.WriteRequest, key kv.Key, o leaderRequest, why error) WriteResult {
	ctx, cancel := context.WithTimeout(context.Background(), StoreTimeout)
	defer cancel()
	gone := leaderRequest{From: o.From, Withdrawn: true}
	for still := kv.HasValue(key, Encode(o)); ; {
		out, err := wr.Commit(ctx, kv.Txn{
			Compares: []kv.Compare{still}, Then: []kv.Op{kv.PutLeased(key, Encode(gone), o.Lease)}, Else: []kv.Op{kv.Get(key)},
		})
		switch {
		case errors.Is(err, kv.ErrNoLease) || err != nil && ctx.Err() != nil:
			return WriteResult{Err: fmt.Errorf("optimize: %w: outcome unknown: see 'edgespan history': %w", why,
				err)}
		case err != nil:
			wr.Pause(CampaignRetry)
			if wr.Context.Err() != nil {
				time.Sleep(CampaignRetry)
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
			return wr.answerWaiters(r, got)
		default: // this replica's request, from a write with unknown outcome
			still = kv.HasValue(key, e.Value)
		}
	}
}

// answerWaiters turns the leader's answer into the result of a write: it validates the write again for the caller, on
// the layers that the leader used.
func (wr *Writer) answerWaiters(r fleetapi.WriteRequest, o leaderRequest) WriteResult {
	ctx, cancel := context.WithTimeout(context.Background(), WriteTimeout)
	defer cancel()
	back := wr.Reader(ctx)
	w := WriteResult{Record: history.RevisionRecord{Number: o.Validated}, Outcome: ops.WriteOutcome{Message: "Success."}}
	if o.Revision > 0 {
		w.Record.Number, w.Record.Tree = o.Revision, "a new one"
	}
	state, err := history.At(back, o.Validated)
	if err != nil && o.Refused == "" { // what counts is that it is done
		return w
	} else if err != nil {
		return WriteResult{Err: fmt.Errorf("optimize: %w: %s", fleetapi.ErrRefused, o.Refused)}
	}
	outcome, fault := wr.SnapshotAt(state).Validate(r.Write)
	if o.Refused != "" {
		if fault == nil {
			fault = state.CheckBinding(r.IfMatch)
		}
		if fault == nil {
			fault = fmt.Errorf("%w: %s", fleetapi.ErrRefused, o.Refused)
		}
		return WriteResult{Err: fault}
	}
	if fault == nil { // on an error this replica knows other boards than the leader: what is stored counts
		w.Outcome = outcome
	}
	return w
}

// pendingWrite is a leader request on its way through a write of the leader.
type pendingWrite struct {
	leaderRequest
	key     kv.Key
	at      kv.Revision // the revision of the request's key
	by      kv.Leadership
	replica string // the leader
}

// errOvertaken ends a pending write because another replica leads or the caller withdrew it.
var errOvertaken = errors.New("another replica leads, or the command was cancelled")

// bind adds the request's conditions and its answer to a change: it commits only if the request is unchanged and this
// replica leads.
func (e *pendingWrite) bind(c *history.Change, s history.State) {
	if e == nil {
		return
	}
	c.Compares = append(c.Compares, e.by.Fence(), kv.AtRevision(e.key, e.at))
	c.Then = append(c.Then, e.answer(s.Number, s.Number+1, ""))
}

// answer returns the operation that stores the answer.
func (e *pendingWrite) answer(validated, made uint64, refused string) kv.Op {
	o := e.leaderRequest
	o.Answered, o.Leader, o.Validated, o.Revision, o.Refused = true, e.replica, validated, made, refused
	return kv.PutLeased(e.key, Encode(o), o.Lease)
}

// reply stores an answer to a request that creates no revision.
func (wr *Writer) reply(ctx context.Context, e *pendingWrite, validated uint64, refused string) error {
	o, err := wr.Commit(ctx, kv.Txn{Compares: []kv.Compare{e.by.Fence(), kv.AtRevision(e.key, e.at)},
		Then: []kv.Op{e.answer(validated, 0, refused)}})
	if err == nil && !o.Succeeded {
		err = errOvertaken
	}
	return err
}

// checkPending returns errOvertaken if a write of the leader must not run any more.
func (wr *Writer) checkPending(ctx context.Context, w WriteRequest) error {
	same := w.fence
	if e := w.pending; e != nil {
		same = []kv.Compare{e.by.Fence(), kv.AtRevision(e.key, e.at)}
	}
	if len(same) == 0 {
		return nil
	}
	o, err := wr.Commit(ctx, kv.Txn{Compares: same, Then: []kv.Op{kv.Get(same[0].Key)}})
	if err == nil && !o.Succeeded {
		err = errOvertaken
	}
	return err
}

// refuse stores a refusal as the answer to a request. Other errors, as those of the store, are no answer: the request
// is retried.
func (wr *Writer) refuse(w WriteRequest, validated uint64, why error) error {
	if w.pending == nil || !isRefusal(why) {
		return why
	}
	if err := wr.reply(w.ctx, w.pending, validated, why.Error()); err != nil {
		return err
	}
	return why
}

// isRefusal reports whether err refuses a write because of the current layers.
func isRefusal(err error) bool {
	var conflicts history.Conflicts
	return errors.As(err, new(*ops.Refused)) || errors.As(err, new(*ops.NotFoundError)) || errors.As(err, &conflicts) ||
		errors.As(err, new(*fleetapi.TooManyError))
}
