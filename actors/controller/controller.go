package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/keep"
	"edgespan/config/e2e"
	"edgespan/config/fleet"
)

// Controller is a running controller: one replica.
type Controller struct {
	d      *deps
	top    *actor.PID
	cancel context.CancelFunc
	ended  chan error
	stop   sync.Once
}

// deps is what the actors of a controller share.
type deps struct {
	Options
	ctx      context.Context
	system   *actor.ActorSystem
	strategy *keep.Backoff
	fail     func(error)
}

// registryBuckets is how many buckets find the actors of a controller: of ten thousand nodes
// each has 160, in 32 maps.
const registryBuckets = 64

// Start makes the actor tree and starts it. It serves once it has read the store (Ready);
// Done tells when it can't go on.
func Start(o Options) (*Controller, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Controller{cancel: cancel, ended: make(chan error, 1)}
	c.d = &deps{
		Options: o, ctx: ctx, system: keep.System(o.Log, registryBuckets), strategy: &keep.Backoff{Log: o.Log},
		fail: func(err error) {
			select {
			case c.ended <- err:
			default: // the first reason counts
			}
		},
	}
	var err error
	c.top, err = c.d.system.Root.SpawnNamed(c.d.vital(func() actor.Actor { return &top{d: c.d} }), "controller")
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	return c, nil
}

// complete fills in defaults and says what is missing, all of it.
func (o *Options) complete() error {
	var faults []error
	for what, missing := range map[string]bool{
		"store": o.Store == nil, "replica": o.Replica == "", "base": o.Base == nil, "metadata": o.Metadata == nil, "issuer": o.Issuer == nil,
	} {
		if missing {
			faults = append(faults, fmt.Errorf("start the controller: %s is missing", what))
		}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Do == nil {
		o.Do = func(e2e.Change) {}
	}
	d := fleet.Defaults(o.Replica)
	if o.Settings == (fleet.Settings{}) {
		o.Settings = d
	}
	o.Settings.Replica = o.Replica
	if o.Settings.Interval <= 0 {
		o.Settings.Interval = d.Interval
	}
	if o.Settings.Confirm <= 0 {
		o.Settings.Confirm = d.Confirm
	}
	if o.Settings.Resend <= 0 {
		o.Settings.Resend = d.Resend
	}
	return errors.Join(faults...)
}

// Done gives the reason why the controller can't go on: the process has to end then.
func (c *Controller) Done() <-chan error { return c.ended }

// Stop ends the tree; no node notices. It waits until ctx ends; a second call does nothing.
func (c *Controller) Stop(ctx context.Context) error {
	var err error
	c.stop.Do(func() {
		c.cancel() // what blocks ends now
		stopped := make(chan error, 1)
		go func() { stopped <- c.d.system.Root.StopFuture(c.top).Wait() }()
		select {
		case err = <-stopped:
		case <-ctx.Done():
			err = fmt.Errorf("stop the actors: %w", ctx.Err())
		}
		c.d.system.Shutdown()
	})
	return err
}

// vital makes the Props of an actor whose crash ends the process: a fresh one for each spawn.
func (d *deps) vital(make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make, actor.WithSupervisor(d.strategy), actor.WithReceiverMiddleware(keep.Lifecycle(d.Log), keep.Vital(d.fail)))
}

// top is /controller.
type top struct{ d *deps }

// Receive starts the tree.
func (t *top) Receive(actor.Context) {}
