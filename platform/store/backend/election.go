package backend

import (
	"context"
	"sync"
	"time"

	"edgespan/config/kv"
)

// Voting are the methods of a store that an election uses.
type Voting interface {
	Commit(ctx context.Context, txn kv.Txn) (kv.TxnResult, error)
	Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error)
	KeepAlive(ctx context.Context, id kv.LeaseID) (time.Duration, error)
	Revoke(ctx context.Context, id kv.LeaseID) error
}

// Election is one key that its leader holds with a lease.
type Election struct {
	Store Voting
	Key   kv.Key
	TTL   time.Duration // of the leader's lease: the longest time until another candidate leads
	Clock Clock
}

// Run runs a candidate until ctx ends: the candidate leads whenever no other does. Then Run revokes the lease, so that
// no other candidate must wait for its end. It calls tell, which must not block, for each turn won or lost, for the
// end of ctx as a lost one, and for a failure of the store, once until the store answers again. A loss is reported
// before another candidate can win, as long as the clocks of this machine and of the store run alike; the leadership's
// fence holds even if they do not.
func (e Election) Run(ctx context.Context, candidate []byte, tell func(kv.ElectionUpdate)) {
	answers, over := make(chan kv.Answer), make(chan struct{})
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(over)
	machine, ended, failing := kv.NewCandidate(e.Key, e.TTL), ctx.Done(), false
	turn := machine.Advance(e.Clock.Now())
	for {
		failed := turn.Failed != nil
		if failing || ended == nil { // once, not four times per lease
			turn.Failed = nil
		}
		failing = failing || failed
		if turn.Failed != nil || turn.Lost != nil || turn.Won != nil {
			tell(turn)
		}
		if turn.Call != nil {
			call := *turn.Call
			calls.Go(func() { e.ask(context.WithoutCancel(ctx), call, candidate, answers, over) })
		}
		if turn.Over {
			return
		}
		select {
		case a := <-answers:
			failing = failing && a.Err != nil
			turn = machine.HandleAnswer(e.Clock.Now(), a)
		case <-At(e.Clock, turn.Wake):
			turn = machine.Advance(e.Clock.Now())
		case <-ended:
			ended = nil
			tell(kv.ElectionUpdate{Lost: ctx.Err()})
			turn = machine.Resign(e.Clock.Now())
		}
	}
}

// Elector runs elections on a store with the clock of the machine.
func Elector(s Voting) func(ctx context.Context, key kv.Key, ttl time.Duration, candidate []byte,
	tell func(kv.ElectionUpdate)) {
	return func(ctx context.Context, key kv.Key, ttl time.Duration, candidate []byte, tell func(kv.ElectionUpdate)) {
		Election{Store: s, Key: key, TTL: ttl, Clock: Wall{}}.Run(ctx, candidate, tell)
	}
}

// ask calls the store. It drops an answer that arrives after the end.
func (e Election) ask(ctx context.Context, c kv.Call, candidate []byte, answers chan<- kv.Answer,
	over <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-At(e.Clock, c.Until):
		case <-over:
		case <-ctx.Done():
		}
	}()
	a := kv.Answer{Call: c.Number}
	switch c.Kind {
	case kv.CallGrant:
		a.Lease, a.Err = e.Store.Grant(ctx, e.TTL)
	case kv.CallKeepAlive:
		_, a.Err = e.Store.KeepAlive(ctx, c.Lease)
	case kv.CallCampaign:
		a.Outcome, a.Err = e.Store.Commit(ctx, kv.Campaign(e.Key, candidate, c.Lease))
	case kv.CallRevoke:
		a.Err = e.Store.Revoke(ctx, c.Lease)
	}
	select {
	case answers <- a:
	case <-over:
	}
}
