package storage

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/supervise"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/pubsub/trace"
)

// Host is what the actors of a controller run on: the actor system, the clock, the log and the leaves.
type Host struct {
	Log     *zap.Logger
	Now     func() time.Time // the wall clock
	Replica string           // the name of this replica, unique among the replicas
	Tracer  *trace.Tracer    // nil: no traces

	Load *supervise.Load // counts the actors' messages and crashes; may be nil

	Context  context.Context // ends with the controller
	System   *actor.ActorSystem
	strategy *supervise.Backoff
	Fail     func(error) // ends the controller
	leaves   sync.WaitGroup
}

// registryBuckets is the number of buckets of the actor registry: with ten thousand nodes, each has 160 actors in 32
// maps.
const registryBuckets = 64

// NewHost creates a host that ends with ctx. Host calls fail with the reason why the controller can't continue.
func NewHost(ctx context.Context, replica string, log *zap.Logger, now func() time.Time, load *supervise.Load,
	fail func(error)) *Host {
	return &Host{Replica: replica, Log: log, Now: now, Load: load, Context: ctx,
		System: supervise.System(log, registryBuckets), Fail: fail, strategy: &supervise.Backoff{Log: log,
			Crashed: func(string, int, string, time.Duration) { load.Crashed(KindNode) }}}
}

// KindNode is the kind of the actors that restart after a crash. The crash of another one ends the process.
const KindNode = "node"

// Question is a request to an actor. Replies after the first are dropped.
type Question struct {
	Question any
	Reply    func(any)
}

// Request asks an actor and waits for its answer until ctx ends, at most WriteTimeout.
func (h *Host) Request(ctx context.Context, who *actor.PID, question any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	answer := make(chan any, 1)
	h.Send(who, Question{question, func(a any) {
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
	case <-h.Context.Done():
		return nil, fmt.Errorf("ask %s: %w: shutting down", who.Id, fleetapi.ErrBusy)
	}
}

// Send sends an actor a message.
func (h *Host) Send(who *actor.PID, message any) { h.System.Root.Send(who, message) }

// Leaf runs code that blocks outside of the actors. A panic in it ends the process.
func (h *Host) Leaf(name string, f func()) {
	supervise.Leaf(h.Log, &h.leaves, name, f, func(reason any) { h.Fail(fmt.Errorf("leaf %s: %v", name, reason)) })
}

// After calls f after t, unless the controller has ended.
func (h *Host) After(t time.Duration, f func()) {
	time.AfterFunc(t, func() {
		if h.Context.Err() == nil {
			f()
		}
	})
}

// Pause waits for t, or until the controller ends.
func (h *Host) Pause(t time.Duration) {
	select {
	case <-time.After(t):
	case <-h.Context.Done():
	}
}

// Stop stops the actors below top, and waits for them and the leaves until ctx ends.
func (h *Host) Stop(ctx context.Context, top *actor.PID) error {
	return supervise.Stop(ctx, h.System, top, &h.leaves, "actors")
}

// Spawn starts the top actor.
func (h *Host) Spawn(make func() actor.Actor, name string) (*actor.PID, error) {
	return h.System.Root.SpawnNamed(h.Vital(name, make), name)
}

// Vital returns new Props for an actor whose crash ends the process. Use them for one spawn.
func (h *Host) Vital(kind string, make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make, actor.WithSupervisor(h.strategy), h.Load.Mailbox(kind),
		actor.WithReceiverMiddleware(supervise.Lifecycle(h.Log), supervise.Vital(h.Fail), answerPings))
}

// Ping is a question that every vital actor answers, to show that it processes its messages.
type Ping struct{}

// answerPings is the middleware that answers Ping.
func answerPings(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(c actor.ReceiverContext, e *actor.MessageEnvelope) {
		if a, ok := e.Message.(Question); ok && a.Question == (Ping{}) {
			a.Reply(Ping{})
			return
		}
		next(c, e)
	}
}
