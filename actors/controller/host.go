package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/keep"
	"edgespan/config/httpapi/fleetapi"
)

// host is what the actors of a controller run on: their system, the clock, the log, and the leaves beside them.
type host struct {
	Log     *zap.Logger
	Now     func() time.Time // the wall clock
	Replica string           // the name of this replica, which no other has

	context  context.Context // ends with the controller
	system   *actor.ActorSystem
	strategy *keep.Backoff
	fail     func(error) // ends the controller
	leaves   sync.WaitGroup
}

// registryBuckets is how many buckets find the actors of a controller: of ten thousand nodes
// each has 160, in 32 maps.
const registryBuckets = 64

// newHost makes one that ends with ctx. Fail is told why the controller can't go on.
func newHost(ctx context.Context, replica string, log *zap.Logger, now func() time.Time, fail func(error)) *host {
	return &host{Replica: replica, Log: log, Now: now, context: ctx, system: keep.System(log, registryBuckets), strategy: &keep.Backoff{Log: log}, fail: fail}
}

// asking is a question to an actor. It replies once; nobody waits for a second answer.
type asking struct {
	question any
	reply    func(any)
}

// ask asks an actor and waits for its answer until ctx or writeTimeout ends.
func (h *host) ask(ctx context.Context, who *actor.PID, question any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	answer := make(chan any, 1)
	h.send(who, asking{question, func(a any) {
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
	case <-h.context.Done():
		return nil, fmt.Errorf("ask %s: %w: it is ending", who.Id, fleetapi.ErrBusy)
	}
}

// send sends an actor a message.
func (h *host) send(who *actor.PID, message any) { h.system.Root.Send(who, message) }

// leaf runs what blocks beside the actors. Its panic ends the process.
func (h *host) leaf(name string, f func()) {
	keep.Leaf(h.Log, &h.leaves, name, f, func(reason any) { h.fail(fmt.Errorf("leaf %s: %v", name, reason)) })
}

// after does something after a while, unless the controller has ended.
func (h *host) after(t time.Duration, f func()) {
	time.AfterFunc(t, func() {
		if h.context.Err() == nil {
			f()
		}
	})
}

// pause waits, unless the controller ends.
func (h *host) pause(t time.Duration) {
	select {
	case <-time.After(t):
	case <-h.context.Done():
	}
}

// stop ends the actors below top, and waits for them and the leaves until ctx ends.
func (h *host) stop(ctx context.Context, top *actor.PID) error {
	return keep.Stop(ctx, h.system, top, &h.leaves, "actors")
}

// spawn starts the top of the actors.
func (h *host) spawn(make func() actor.Actor, name string) (*actor.PID, error) {
	return h.system.Root.SpawnNamed(h.vital(make), name)
}

// vital makes the Props of an actor whose crash ends the process: a fresh one for each spawn.
func (h *host) vital(make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make, actor.WithSupervisor(h.strategy), actor.WithReceiverMiddleware(keep.Lifecycle(h.Log), keep.Vital(h.fail), answering))
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
