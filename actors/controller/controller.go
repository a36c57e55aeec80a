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

	"edgespan/actors/keep"
	"edgespan/config/e2e"
	"edgespan/config/fleet"
	"edgespan/config/httpapi"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/revision"
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
	ctx          context.Context
	began        time.Time
	system       *actor.ActorSystem
	strategy     *keep.Backoff
	fail         func(error)
	leaves       sync.WaitGroup
	dir          *directory
	saver        *saver
	documents    documents
	declarations declarations
	operators    operators
	joinTokens   joinTokens
	previews     previews
	letters      sync.Map // of those who wait for an answer in a mailbox: chan letter by key
	orders       sync.Map // of those who wait for the leader's answer: chan order by key
	streams      sync.Map // *seat by the id of its stream
	lease        atomic.Int64
	set          atomic.Pointer[fleet.Settings]
	store        *actor.PID
	fleet        *actor.PID
	rollout      *actor.PID
	leader       *actor.PID

	rolls                            atomic.Bool // a staged rollout is under way
	waitFacts, waitTunnels, waitKeys rolloutWait // for its end
}

// asking is a question to an actor. It replies once; nobody waits for a second answer.
type asking struct {
	question any
	reply    func(any)
}

// ask asks an actor and waits for its answer until ctx or writeTimeout ends.
func (d *deps) ask(ctx context.Context, who *actor.PID, question any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	answer := make(chan any, 1)
	d.system.Root.Send(who, asking{question, func(a any) {
		select {
		case answer <- a:
		default:
		}
	}})
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("ask %s: %w", who.Id, ctx.Err())
	case <-d.ctx.Done():
		return nil, fmt.Errorf("ask %s: %w: it is ending", who.Id, fleetapi.ErrBusy)
	}
}

// leaf runs what blocks beside the actors. Its panic ends the process.
func (d *deps) leaf(name string, f func()) {
	keep.Leaf(d.Log, &d.leaves, name, f, func(reason any) { d.fail(fmt.Errorf("leaf %s: %v", name, reason)) })
}

// after does something after a while, unless the controller has ended.
func (d *deps) after(t time.Duration, f func()) {
	time.AfterFunc(t, func() {
		if d.ctx.Err() == nil {
			f()
		}
	})
}

// leaseID is the lease of this replica, 0 while it has none.
func (d *deps) leaseID() revision.LeaseID { return revision.LeaseID(d.lease.Load()) }

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
		Options: o, ctx: ctx, began: o.Now(), system: keep.System(o.Log, registryBuckets), strategy: &keep.Backoff{Log: o.Log},
		dir: newDirectory(o.Metadata),
		fail: func(err error) {
			select {
			case c.ended <- err:
			default: // the first reason counts
			}
		},
	}
	c.d.set.Store(&o.Settings)
	c.d.saver = newSaver(c.d)
	started := make(chan error, 1)
	var err error
	c.top, err = c.d.system.Root.SpawnNamed(c.d.vital(func() actor.Actor { return &top{d: c.d, started: started} }), "controller")
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
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Do == nil {
		o.Do = func(e2e.Change) {}
	}
	if o.Stored == nil {
		o.Stored = httpapi.NewStored()
	}
	o.Settings = whole(o.Settings, o.Replica)
	return errors.Join(faults...)
}

// Done gives the reason why the controller can't go on: the process has to end then.
func (c *Controller) Done() <-chan error { return c.ended }

// Stop ends the tree; no node notices. It waits until ctx ends; a second call does nothing.
func (c *Controller) Stop(ctx context.Context) error {
	var err error
	c.stop.Do(func() {
		c.cancel() // what blocks ends now
		err = keep.Stop(ctx, c.d.system, c.top, &c.d.leaves, "actors")
	})
	return err
}

// vital makes the Props of an actor whose crash ends the process: a fresh one for each spawn.
func (d *deps) vital(make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make, actor.WithSupervisor(d.strategy), actor.WithReceiverMiddleware(keep.Lifecycle(d.Log), keep.Vital(d.fail), answering))
}

// there is a question to which every vital actor answers that it works off what it is sent.
type there struct{}

// answering is the middleware that does so.
func answering(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(c actor.ReceiverContext, e *actor.MessageEnvelope) {
		if a, is := e.Message.(asking); is && a.question == (there{}) {
			a.reply(there{})
			return
		}
		next(c, e)
	}
}

// top is /controller.
type top struct {
	d       *deps
	started chan error
}

// Receive starts the tree.
func (t *top) Receive(c actor.Context) {
	if _, is := c.Message().(*actor.Started); !is {
		return
	}
	var err error
	t.d.store, err = c.SpawnNamed(t.d.vital(func() actor.Actor { return &storeActor{d: t.d} }), "store")
	if err == nil {
		t.d.leaf("saver", t.d.saver.run)
		t.d.rollout, err = c.SpawnNamed(t.d.vital(func() actor.Actor { return newRolloutActor(t.d) }), "rollout")
	}
	if err == nil {
		t.d.leader, err = c.SpawnNamed(t.d.vital(func() actor.Actor { return newLeaderActor(t.d) }), "leader")
	}
	if err == nil {
		t.d.fleet, err = c.SpawnNamed(t.d.vital(func() actor.Actor { return newFleetActor(t.d) }), "fleet")
	}
	if err == nil {
		c.Send(t.d.fleet, begin{})
	}
	t.started <- err
}
