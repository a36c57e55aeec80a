package httpapi

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// Turns let callers take the processor one after the other: each has one turn at a time, and all together have
// twice as many as there are processors, since some wait for the store. Who waits longer than its request, or behind too many of its own, is busy.
type Turns struct {
	all chan struct{}

	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	one  chan struct{}
	wait int // who has it or waits
}

// ErrCrowded is a caller of whom too many requests wait for their turn: busy, for a second.
var ErrCrowded = errors.New("too many requests of the same caller wait to be computed")

// mostWaiting is how many requests of one caller wait for their turn.
const mostWaiting = 256

// NewTurns are turns of which none is taken.
func NewTurns() *Turns {
	return &Turns{all: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), of: map[string]*turn{}}
}

// Take waits for a turn of a caller; done gives it back.
func (t *Turns) Take(ctx context.Context, caller string) (done func(), err error) {
	mine, err := t.join(caller)
	if err != nil {
		return nil, err
	}
	select {
	case mine.one <- struct{}{}:
	case <-ctx.Done():
		t.leave(caller, mine)
		return nil, ctx.Err()
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		<-mine.one
		t.leave(caller, mine)
		return nil, ctx.Err()
	}
	return func() {
		<-t.all
		<-mine.one
		t.leave(caller, mine)
	}, nil
}

func (t *Turns) join(caller string) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.of[caller]
	if mine == nil {
		mine = &turn{one: make(chan struct{}, 1)}
		t.of[caller] = mine
	}
	if mine.wait >= mostWaiting {
		return nil, ErrCrowded
	}
	mine.wait++
	return mine, nil
}

func (t *Turns) leave(caller string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.wait--; mine.wait == 0 {
		delete(t.of, caller)
	}
}

// turnKey is where a context has the turns of its caller.
type turnKey struct{}

type turnOf struct {
	turns  *Turns
	caller string
}

// Of gives the context of a request the turns of its caller.
func (t *Turns) Of(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, turnKey{}, turnOf{t, caller})
}

// Turn waits until the caller of a request may have something computed: one thing at a time. A backend takes it for what is
// not at hand, and gives it back by done; it asks nothing of the other API meanwhile, which would wait for the same turn. A context
// of no request has no turns to wait for.
func Turn(ctx context.Context) (done func(), err error) {
	of, is := ctx.Value(turnKey{}).(turnOf)
	if !is {
		return func() {}, nil
	}
	return of.turns.Take(ctx, of.caller)
}
