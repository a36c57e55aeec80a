package storage

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/kv"
)

// Leased reports that the replica has a new lease: the keys of the previous one are gone.
type Leased struct{ ID kv.LeaseID }

// KeepLease keeps a lease for this replica until the controller ends, then revokes it, so that the other replicas
// consider its nodes offline at once.
func (a *Access) KeepLease(tell *actor.PID) {
	for a.Context.Err() == nil {
		id, err := a.Grant(a.Context, LeaseTTL)
		if err != nil {
			a.Log.Warn("grant a lease", zap.Error(err))
			a.Pause(StoreBackoff)
			continue
		}
		a.Send(tell, Leased{id})
		a.holdLease(id)
		if a.Context.Err() != nil {
			a.revoke(id)
		}
	}
}

// holdLease keeps a lease alive until it expires or the controller ends.
func (a *Access) holdLease(id kv.LeaseID) {
	for {
		a.Pause(LeaseTTL / 4)
		if a.Context.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(a.Context, LeaseTTL/4)
		_, err := a.store.KeepAlive(ctx, id)
		cancel()
		if errors.Is(err, kv.ErrNoLease) {
			a.Log.Warn("lease expired", zap.Error(err))
			return
		}
		if err != nil && a.Context.Err() == nil {
			a.Log.Warn("renew the lease", zap.Error(err))
		}
	}
}

// revoke revokes a lease while the controller ends.
func (a *Access) revoke(id kv.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.store.Revoke(ctx, id); err != nil {
		a.Log.Warn("revoke the lease", zap.Error(err))
	}
}
