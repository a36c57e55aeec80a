package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/rollouts"
	"edgespan/actors/controller/storage"
	"edgespan/actors/relay"
	"edgespan/config/fleet"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/httpapi/rest"
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
	*storage.Access
	*rollouts.UnderwayCache
	dir        *directory
	nodes      *nodes.Deps
	operators  operators
	joinTokens joinTokens
	previews   previews
	outbox     sync.Map // chan storage.RemoteCommand by key, of callers that wait for another replica
	streams    sync.Map // *nodes.Handle by stream id
	relays     relay.Hub
	asking     chan struct{} // has room for the questions to other replicas for events that may be open
	set        atomic.Pointer[fleet.Settings]
	writes     *storage.Writer
	fleet      *actor.PID
	rollout    *actor.PID
	leader     *actor.PID

	waitFacts, waitTunnels rollouts.Wait // the waits of facts and tunnels for the end of a staged rollout
}

// Start creates and starts the actor tree. The controller serves once it has read the store (Ready); Done reports why
// it can't continue.
func Start(o Options) (*Controller, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Controller{cancel: cancel, ended: make(chan error, 1)}
	h := storage.NewHost(ctx, o.Replica, o.Log, o.Now, o.Work.Load(), func(err error) {
		select {
		case c.ended <- err:
		default: // the first reason counts
		}
	})
	h.Tracer = o.Tracer
	c.d = newDeps(o, storage.NewAccess(h, o.Store, o.Elector))
	started := make(chan error, 1)
	var err error
	c.top, err = h.Spawn(func() actor.Actor { return &top{d: c.d, started: started} }, "controller")
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	if err := <-started; err != nil {
		cancel()
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	return c, nil
}

// newDeps creates the dependencies of the actors and passes each package its own.
func newDeps(o Options, a *storage.Access) *deps {
	d := &deps{Options: o, Access: a, UnderwayCache: rollouts.NewUnderwayCache(o.Now), dir: newDirectory(o.Metadata),
		asking: make(chan struct{}, eventQuestions)}
	d.set.Store(&o.Settings)
	var waitKeys rollouts.Wait
	d.writes = &storage.Writer{
		Access: a, Offline: o.Offline, Backup: o.Backup, Stored: o.Stored, SnapshotAt: d.snapshotAt, Ready: d.dir.ready.Load,
		Waits: func() bool { return d.MustWait(&waitKeys) },
	}
	d.nodes = &nodes.Deps{Access: a, Shared: o.Shared, Settings: d.settings,
		Work: o.Work, Notify: func(m any) { d.Send(d.fleet, m) }}
	return d
}

// complete fills in defaults and reports every required option that is missing.
func (o *Options) complete() error {
	var faults []error
	for what, missing := range map[string]bool{
		"store": o.Store == nil, "replica": o.Replica == "", "base": o.Base == nil, "metadata": o.Metadata == nil,
		"issuer": o.Issuer == nil,
	} {
		if missing {
			faults = append(faults, fmt.Errorf("start the controller: %s: required", what))
		}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Do == nil {
		o.Do = func(controllerconf.Change) {}
	}
	if o.Stored == nil {
		o.Stored = rest.NewStored()
	}
	o.Settings = o.Settings.WithDefaults(o.Replica)
	return errors.Join(faults...)
}

// Done reports why the controller can't continue: the process must then end.
func (c *Controller) Done() <-chan error { return c.ended }

// Stop ends the tree; nodes keep what they run. It waits until ctx ends; a second call does nothing.
func (c *Controller) Stop(ctx context.Context) error {
	var err error
	c.stop.Do(func() {
		c.cancel() // ends blocking calls
		err = c.d.Stop(ctx, c.top)
	})
	return err
}

// top is /controller.
type top struct {
	d       *deps
	started chan error
}

func (t *top) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Started); !ok {
		return
	}
	d := t.d
	err := d.writes.Start(c)
	if err == nil {
		d.rollout, err = c.SpawnNamed(d.Vital("rollout", func() actor.Actor {
			return rollouts.New(&rollouts.Deps{Access: d.Access,
				Underway: d.UnderwayCache})
		}), "rollout")
	}
	if err == nil {
		d.leader, err = c.SpawnNamed(d.Vital("leader", func() actor.Actor {
			return storage.NewLeader(d.writes,
				func(m any) { d.Send(d.rollout, m) })
		}), "leader")
	}
	if err == nil {
		d.fleet, err = c.SpawnNamed(d.Vital("fleet", func() actor.Actor { return newFleetActor(d) }), "fleet")
	}
	if err == nil {
		c.Send(d.fleet, begin{})
	}
	t.started <- err
}
