package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/node/api"
	"edgespan/actors/supervise"
	"edgespan/config/httpapi/nodeapi"
)

// census counts the actors. The middleware writes it and the API reads it.
type census struct {
	mu     sync.Mutex
	actors map[string]*api.ActorState
}

func (s *census) with(id string, f func(*api.ActorState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actors[id]
	if a == nil {
		a = &api.ActorState{ID: id, State: "running"}
		s.actors[id] = a
	}
	f(a)
}

// List returns all actors.
func (s *census) List() []api.ActorState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]api.ActorState, 0, len(s.actors))
	for _, a := range s.actors {
		out = append(out, *a)
	}
	return out
}

// Down returns an actor that waits for its restart.
func (s *census) Down(id string) (api.ActorState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.actors[id]; a != nil && a.State == "restarting" {
		return *a, true
	}
	return api.ActorState{}, false
}

// crashed records and reports that an actor has crashed.
func (d *deps) crashed(id string, times int, why string, restarts time.Duration) {
	d.census.with(id, func(a *api.ActorState) {
		a.Crashes, a.State, a.Last, a.LastAt, a.Next = times, "restarting", why, time.Now(), restarts.String()
	})
	e := event(nodeapi.EventCrash, "actor/"+id, "", fmt.Sprintf("crashed, restarts in %v", restarts))
	e.Error = why
	d.recordEvent(e)
}

// props returns the Props of one actor: new ones for each spawn, with the middleware that every actor has.
func (d *deps) props(make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make,
		actor.WithSupervisor(d.strategy),
		actor.WithReceiverMiddleware(supervise.Lifecycle(d.log), d.countMessages))
}

// vital returns the Props of an actor that the node can't run without: its crash ends the process, systemd restarts it,
// and traffic continues unaffected.
func (d *deps) vital(make func() actor.Actor, more ...actor.ReceiverMiddleware) *actor.Props {
	return actor.PropsFromProducer(make,
		actor.WithSupervisor(d.strategy),
		actor.WithReceiverMiddleware(append([]actor.ReceiverMiddleware{supervise.Lifecycle(d.log), d.countMessages,
			supervise.Vital(d.fail)}, more...)...))
}

// countMessages maintains the census.
func (d *deps) countMessages(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(c actor.ReceiverContext, e *actor.MessageEnvelope) {
		id := c.Self().Id
		switch e.Message.(type) {
		case *actor.Started:
			d.census.with(id, func(a *api.ActorState) { a.State, a.Next = "running", "" })
		case *actor.Stopped:
			d.census.mu.Lock()
			delete(d.census.actors, id)
			d.census.mu.Unlock()
			d.strategy.Forget(id)
		default:
			d.census.with(id, func(a *api.ActorState) { a.Messages++ })
		}
		next(c, e)
	}
}
