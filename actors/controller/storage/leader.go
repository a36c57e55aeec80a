package storage

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// The leader does the work that one replica does for all. If it dies, another one leads after LeaderTTL and a quarter
// of it, the interval at which the others try.
const (
	LeaderTTL     = 2 * time.Second
	LeaderKeyName = "leader" // the name of the election
)

// CampaignRetry is how long a leader waits before it retries after an error of the store.
const CampaignRetry = 200 * time.Millisecond

// Elector creates an Elect on a store: platform/store/backend.Elector.
type Elector func(Store) Elect

// Elect campaigns for a key until ctx ends, and reports each turn that it wins, loses or fails.
type Elect func(ctx context.Context, key kv.Key, ttl time.Duration, candidate []byte, tell func(kv.ElectionUpdate))

// campaign leads whenever no other replica does. It sends an actor Elected when this replica leads, and Deposed when it
// must not lead any more.
func (a *Access) campaign(tell *actor.PID) {
	elect := a.elector(a.store)
	elect(a.Context, history.ElectionKey(LeaderKeyName), LeaderTTL, []byte(a.Replica), func(turn kv.ElectionUpdate) {
		if turn.Failed != nil {
			a.Log.Warn("campaign for leadership", zap.Error(turn.Failed))
		}
		if turn.Lost != nil {
			if a.Context.Err() == nil {
				a.Log.Warn("leadership lost", zap.Error(turn.Lost))
			}
			a.Send(tell, Deposed{})
		}
		if turn.Won != nil {
			a.Send(tell, Elected{*turn.Won})
		}
	})
}
