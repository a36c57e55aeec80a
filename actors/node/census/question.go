package census

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/layers/redact/plain"
)

// question is a message that makes an actor show its state between two messages, where nothing else writes it.
type question struct {
	size  int
	mask  func(string) string
	reply chan any
}

func (q question) answer(a actor.Actor) { q.reply <- plain.Data(a, q.size, q.mask) }

// crash is a message that makes an actor crash.
type crash struct{ why string }

// What all shells together may ask in a second, and at once: an actor is held up by its answer for some milliseconds.
const (
	askRate  = 5
	askBurst = 20
)

// Errors of Ask and Crash.
var (
	ErrBusy    = errors.New("too many questions to actors: try again in a second")
	ErrUnknown = errors.New("no such actor")
	ErrVital   = errors.New("the daemon ends if it crashes")
)

// Ask returns the state of an actor as plain data of at most so many values: numbers, texts, lists and maps by name,
// with secrets masked. An actor that handles a message answers after it; the error of one that does not answer in time
// says what it does.
func (s *Census) Ask(ctx context.Context, system *actor.ActorSystem, id string, size int) (any, error) {
	e := s.find(id)
	switch {
	case e == nil:
		return nil, ErrUnknown
	case !s.asks.Allow(time.Now()):
		return nil, ErrBusy
	}
	q := question{size, s.Masked, make(chan any, 1)}
	system.Root.Send(actor.NewPID(system.Address(), id), q)
	select {
	case state := <-q.reply:
		return state, nil
	case <-ctx.Done():
	}
	switch a := e.activity(time.Now()); {
	case a.State != "running":
		return nil, fmt.Errorf("does not answer: it restarts in %s", a.Next)
	case a.Now != "":
		return nil, fmt.Errorf("does not answer: it has handled %s for %v", a.Now, a.For.Round(time.Millisecond))
	}
	return nil, errors.New("does not answer")
}

// Crash makes an actor crash, as if by a defect. One without which the process ends is left alone.
func (s *Census) Crash(system *actor.ActorSystem, id, why string) error {
	switch e := s.find(id); {
	case e == nil:
		return ErrUnknown
	case e.vital:
		return ErrVital
	}
	system.Root.Send(actor.NewPID(system.Address(), id), crash{why})
	return nil
}
