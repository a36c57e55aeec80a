package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// A change of the controller's config may require all replicas to restart. They restart one at a time: a replica
// restarts while it holds turnKeyName, and releases it once it serves again. A replica that does not come back delays
// the others by turnTTL.
const (
	turnKeyName = "restart"
	turnTTL     = 2 * time.Minute
	turnPoll    = time.Second
)

// WaitRestartTurn waits until this replica may restart. A replica that is alone may restart at once.
func (c *Controller) WaitRestartTurn(ctx context.Context) error {
	if !c.d.Shared {
		return nil
	}
	key := history.ElectionKey(turnKeyName)
	for {
		owned, err := c.d.acquireTurn(ctx, key)
		if owned {
			return nil
		}
		if err != nil {
			c.d.Log.Warn("wait for the restart turn", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the restart turn: %w", ctx.Err())
		case <-time.After(turnPoll):
		}
	}
}

// acquireTurn takes the turn unless another replica has it.
func (d *deps) acquireTurn(ctx context.Context, key kv.Key) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storage.StoreTimeout)
	defer cancel()
	e, err := d.Reader(ctx).Get(key)
	if err != nil || e[0].Exists() {
		return err == nil && string(e[0].Value) == d.Replica, err
	}
	lease, err := d.Grant(ctx, turnTTL)
	if err != nil {
		return false, err
	}
	o, err := d.Commit(ctx, kv.Campaign(key, []byte(d.Replica), lease))
	if err == nil && o.Succeeded {
		return true, nil // not kept alive: it expires after turnTTL
	}
	return false, errors.Join(err, d.Store.Revoke(ctx, lease))
}

// ReleaseRestartTurn releases the turn, once this replica serves again.
func (c *Controller) ReleaseRestartTurn(ctx context.Context) {
	if !c.d.Shared {
		return
	}
	key := history.ElectionKey(turnKeyName)
	_, err := c.d.Commit(ctx,
		kv.Txn{Compares: []kv.Compare{kv.HasValue(key, []byte(c.d.Replica))}, Then: []kv.Op{kv.Delete(key)}})
	if err != nil && ctx.Err() == nil {
		c.d.Log.Warn("release the restart turn: the next replica waits for it", zap.Error(err))
	}
}
