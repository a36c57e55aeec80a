package controller

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/revision"
)

// leased says that the replica has another lease: what hung on the one before is gone.
type leased struct{ id revision.LeaseID }

// keepLease holds the one lease of this replica until the controller ends, then lets go of
// it, so that its nodes are offline for the others at once.
func (d *access) keepLease(tell *actor.PID) {
	for d.context.Err() == nil {
		id, err := d.grant(d.context, leaseTTL)
		if err != nil {
			d.Log.Warn("grant a lease", zap.Error(err))
			d.pause(storeBackoff)
			continue
		}
		d.send(tell, leased{id})
		d.holdLease(id)
		if d.context.Err() != nil {
			d.revoke(id)
		}
	}
}

// holdLease keeps a lease alive for as long as it is.
func (d *access) holdLease(id revision.LeaseID) {
	for {
		d.pause(leaseTTL / 4)
		if d.context.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(d.context, leaseTTL/4)
		_, err := d.store.KeepAlive(ctx, id)
		cancel()
		if errors.Is(err, revision.ErrNoLease) {
			d.Log.Warn("the lease has ended", zap.Error(err))
			return
		}
		if err != nil && d.context.Err() == nil {
			d.Log.Warn("keep the lease", zap.Error(err))
		}
	}
}

// revoke lets go of a lease when the controller ends already.
func (d *access) revoke(id revision.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := d.store.Revoke(ctx, id); err != nil {
		d.Log.Warn("revoke the lease", zap.Error(err))
	}
}
