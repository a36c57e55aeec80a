package supervise

import (
	"runtime"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Mailbox returns the option of an actor's Props for its mailbox, which has no bound.
//
// The library registers a new actor under its name before its mailbox works: a message that a goroutine of the former
// actor of that name sends at this moment would end the process. Here it waits these few instructions, also so that no
// actor gets a message before Started.
func Mailbox(more ...actor.MailboxMiddleware) actor.PropsOption {
	produce := actor.Unbounded(more...)
	return actor.WithMailbox(func() actor.Mailbox { return &startable{Mailbox: produce()} })
}

// startable is a mailbox that takes no message before it works.
type startable struct {
	actor.Mailbox
	state atomic.Int32 // what the library has called
}

// Its states, in order.
const (
	registered int32 = iota + 1
	started
)

func (s *startable) RegisterHandlers(i actor.MessageInvoker, d actor.Dispatcher) {
	s.Mailbox.RegisterHandlers(i, d)
	s.state.Store(registered)
}

// Start is called last, after the actor was told to start.
func (s *startable) Start() {
	s.Mailbox.Start()
	s.state.Store(started)
}

func (s *startable) PostUserMessage(message any) {
	s.wait(started)
	s.Mailbox.PostUserMessage(message)
}

func (s *startable) PostSystemMessage(message any) {
	s.wait(registered)
	s.Mailbox.PostSystemMessage(message)
}

func (s *startable) wait(state int32) {
	for s.state.Load() < state {
		runtime.Gosched()
	}
}
