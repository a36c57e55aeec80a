package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/node/api"
	"edgespan/actors/supervise"
	"edgespan/config/httpapi/nodeapi"
)

// census counts the actors. The middleware writes it and the API reads it.
type census struct {
	mu        sync.Mutex
	actors    map[string]*api.ActorState
	mailboxes map[string]*mailbox
}

// mailbox counts the messages that wait for one actor.
type mailbox struct{ messages atomic.Int64 }

func (m *mailbox) MailboxStarted()     {}
func (m *mailbox) MailboxEmpty()       {}
func (m *mailbox) MessagePosted(any)   { m.messages.Add(1) }
func (m *mailbox) MessageReceived(any) { m.messages.Add(-1) }

// waiting returns how many messages wait for an actor.
func (s *census) waiting(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.mailboxes[id]; m != nil {
		return int(max(0, m.messages.Load()))
	}
	return 0
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
	d.work.Crashed(id)
	d.census.with(id, func(a *api.ActorState) {
		if m := d.census.mailboxes[id]; m != nil {
			m.MessageReceived(nil) // the message that crashed it, which the library does not report as received
		}
		a.Crashes, a.State, a.Last, a.LastAt, a.Next = times, "restarting", why, time.Now(), restarts.String()
	})
	e := event(nodeapi.EventCrash, "actor/"+id, "", fmt.Sprintf("crashed, restarts in %v", restarts))
	e.Error = why
	d.recordEvent(e)
}

// props returns the Props of one actor: new ones for each spawn, with the middleware that every actor has.
func (d *deps) props(make func() actor.Actor) *actor.Props {
	box := &mailbox{}
	return actor.PropsFromProducer(make,
		actor.WithSupervisor(d.strategy), actor.WithMailbox(actor.Unbounded(box)),
		actor.WithReceiverMiddleware(supervise.Lifecycle(d.of(logActors)), d.countMessages(box)))
}

// vital returns the Props of an actor that the node can't run without: its crash ends the process, systemd restarts it,
// and traffic continues unaffected.
func (d *deps) vital(make func() actor.Actor, more ...actor.ReceiverMiddleware) *actor.Props {
	box := &mailbox{}
	return actor.PropsFromProducer(make,
		actor.WithSupervisor(d.strategy), actor.WithMailbox(actor.Unbounded(box)),
		actor.WithReceiverMiddleware(append([]actor.ReceiverMiddleware{supervise.Lifecycle(d.of(logActors)),
			d.countMessages(box), supervise.Vital(d.fail)}, more...)...))
}

// countMessages maintains the census, with the mailbox of the actor.
func (d *deps) countMessages(box *mailbox) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, e *actor.MessageEnvelope) {
			id := c.Self().Id
			switch e.Message.(type) {
			case *actor.Started:
				d.census.with(id, func(a *api.ActorState) {
					a.State, a.Next = "running", ""
					if d.census.mailboxes == nil {
						d.census.mailboxes = map[string]*mailbox{}
					}
					d.census.mailboxes[id] = box
				})
			case *actor.Stopped:
				d.census.mu.Lock()
				delete(d.census.actors, id)
				delete(d.census.mailboxes, id)
				d.census.mu.Unlock()
				d.strategy.Forget(id)
			default:
				d.census.with(id, func(a *api.ActorState) { a.Messages++ })
			}
			next(c, e)
		}
	}
}
