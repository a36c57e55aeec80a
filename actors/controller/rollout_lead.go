package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/history"
	"edgespan/config/revision"
)

// The leader of rollouts. When it dies another one leads after leaderTTL and campaignEvery.
const (
	leaderTTL     = 2 * time.Second
	campaignEvery = 500 * time.Millisecond
	rolloutWord   = "rollout" // the name of the election
)

// campaign leads the rollouts whenever nobody else does, as long as there is something to
// lead: without staged rollouts the store hears nothing of it.
func (d *deps) campaign(tell *actor.PID) {
	for d.ctx.Err() == nil {
		if !d.leading.Load() {
			d.pause(campaignEvery)
			continue
		}
		if err := d.candidate(tell); err != nil && d.ctx.Err() == nil {
			d.Log.Warn("lead the rollouts", zap.Error(err))
			d.pause(campaignEvery)
		}
	}
}

// candidate campaigns under one lease until that ends.
func (d *deps) candidate(tell *actor.PID) error {
	granted := time.Now()
	ctx, cancel := context.WithTimeout(d.ctx, leaderTTL)
	lease, err := d.Store.Grant(ctx, leaderTTL)
	cancel()
	if err != nil {
		return fmt.Errorf("grant a lease: %w", err)
	}
	defer d.revoke(lease) // so that nobody waits for its end
	leads := false
	defer func() {
		if leads {
			d.system.Root.Send(tell, deposed{})
		}
	}()
	for kept := granted; d.ctx.Err() == nil && (leads || d.leading.Load()); d.pause(campaignEvery) {
		asked := time.Now()
		ctx, cancel := context.WithTimeout(d.ctx, leaderTTL/2)
		_, err := d.Store.KeepAlive(ctx, lease)
		cancel()
		switch {
		case err == nil:
			kept = asked
		case errors.Is(err, revision.ErrNoLease) || time.Since(kept) > leaderTTL-campaignEvery:
			return fmt.Errorf("keep the lease: %w", err)
		}
		if leads && !d.leading.Load() {
			return nil // there is nothing left
		}
		if leads {
			continue
		}
		l, won, err := d.win(lease)
		if err != nil {
			return err
		}
		if won {
			leads = true
			d.system.Root.Send(tell, elected{l})
		}
	}
	return nil
}

// win tries to be the leader.
func (d *deps) win(lease revision.LeaseID) (revision.Leadership, bool, error) {
	key := history.ElectionKey(rolloutWord)
	ctx, cancel := context.WithTimeout(d.ctx, leaderTTL)
	defer cancel()
	o, err := d.Store.Commit(ctx, revision.Campaign(key, []byte(d.Replica), lease))
	if err != nil {
		return revision.Leadership{}, false, fmt.Errorf("campaign: %w", err)
	}
	l, _, won := revision.Won(key, o)
	return l, won, nil
}
