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

// Elector runs elections on a store: platform/store/backend.Elector.
type Elector func(Store) Elect

// Elect campaigns for a key until ctx ends, and tells each turn that was won, lost or failed.
type Elect func(ctx context.Context, key kv.Key, ttl time.Duration, candidate []byte, tell func(kv.Turn))

// campaign leads whenever nobody else does, and tells an actor when this replica leads (elected) and when it may not
// any more (deposed).
func (d *Access) campaign(tell *actor.PID) {
	elect := d.elector(d.store)
	elect(d.Context, history.ElectionKey(LeaderWord), LeaderTTL, []byte(d.Replica), func(turn kv.Turn) {
		if turn.Failed != nil {
			d.Log.Warn("campaign for leadership", zap.Error(turn.Failed))
		}
		if turn.Lost != nil {
			if d.Context.Err() == nil {
				d.Log.Warn("leadership lost", zap.Error(turn.Lost))
			}
			d.Send(tell, Deposed{})
		}
		if turn.Won != nil {
			d.Send(tell, Elected{*turn.Won})
		}
	})
}
