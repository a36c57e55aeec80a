package storage

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// The leader of all that one replica does for all. When it dies another one leads after
// leaderTTL and a quarter of it, which is how often all others try.
const (
	LeaderTTL  = 2 * time.Second
	LeaderWord = "leader" // the name of the election
)

// LeadAgain is how long a leader waits with what the store did not take.
const LeadAgain = 200 * time.Millisecond

// campaign leads whenever nobody else does: it drives kv.Candidate, and tells an actor
// when this replica leads (elected) and when it may not any more (deposed).
func (d *Access) campaign(tell *actor.PID) {
	machine := kv.NewCandidate(history.ElectionKey(LeaderWord), LeaderTTL)
	answers := make(chan kv.Answer)
	ended, failing := d.Context.Done(), false
	turn := machine.Advance(time.Now())
	for {
		if turn.Failed != nil && !failing && ended != nil { // once, not four times in each lease
			d.Log.Warn("campaign for the lead", zap.Error(turn.Failed))
		}
		if turn.Lost != nil {
			d.Log.Warn("the lead is lost", zap.Error(turn.Lost))
			d.Send(tell, Deposed{})
		}
		if turn.Won != nil {
			d.Send(tell, Elected{*turn.Won})
		}
		if turn.Call != nil {
			call := *turn.Call
			d.Leaf("election", func() { d.electionCall(call, answers) })
		}
		if turn.Over {
			return
		}
		select {
		case a := <-answers:
			failing = a.Err != nil
			turn = machine.Answered(time.Now(), a)
		case <-time.After(time.Until(turn.Wake)):
			turn = machine.Advance(time.Now())
		case <-ended:
			ended = nil
			d.Send(tell, Deposed{})
			turn = machine.Resign(time.Now()) // so that nobody waits for the end of the lease
		}
	}
}

// electionCall asks the store. The last call, which lets go of the lease, is made when the
// controller ends already. An answer that comes too late goes nowhere.
func (d *Access) electionCall(c kv.Call, answers chan<- kv.Answer) {
	ctx, cancel := context.WithDeadline(context.Background(), c.Until)
	defer cancel()
	a := kv.Answer{Call: c.Number}
	switch c.Kind {
	case kv.CallGrant:
		a.Lease, a.Err = d.store.Grant(ctx, LeaderTTL)
	case kv.CallKeepAlive:
		_, a.Err = d.store.KeepAlive(ctx, c.Lease)
	case kv.CallCampaign:
		a.Outcome, a.Err = d.store.Commit(ctx, kv.Campaign(history.ElectionKey(LeaderWord), []byte(d.Replica), c.Lease))
	case kv.CallRevoke:
		a.Err = d.store.Revoke(ctx, c.Lease)
	}
	select {
	case answers <- a:
	case <-ctx.Done():
	}
}
