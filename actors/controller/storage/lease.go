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
func (d *Access) KeepLease(tell *actor.PID) {
	for d.Context.Err() == nil {
		id, err := d.Grant(d.Context, LeaseTTL)
		if err != nil {
			d.Log.Warn("grant a lease", zap.Error(err))
			d.Pause(StoreBackoff)
			continue
		}
		d.Send(tell, Leased{id})
		d.holdLease(id)
		if d.Context.Err() != nil {
			d.revoke(id)
		}
	}
}

// holdLease keeps a lease alive until it expires or the controller ends.
func (d *Access) holdLease(id kv.LeaseID) {
	for {
		d.Pause(LeaseTTL / 4)
		if d.Context.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(d.Context, LeaseTTL/4)
		_, err := d.store.KeepAlive(ctx, id)
		cancel()
		if errors.Is(err, kv.ErrNoLease) {
			d.Log.Warn("lease expired", zap.Error(err))
			return
		}
		if err != nil && d.Context.Err() == nil {
			d.Log.Warn("renew the lease", zap.Error(err))
		}
	}
}

// revoke revokes a lease while the controller ends.
func (d *Access) revoke(id kv.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := d.store.Revoke(ctx, id); err != nil {
		d.Log.Warn("revoke the lease", zap.Error(err))
	}
}
