package factsapi

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// turns let callers take the processor one after the other: each has one turn at a time, and all together have
// twice as many as there are processors, since some wait for the store. Who waits longer than its request, or behind too many of its own, is busy.
type turns struct {
	all chan struct{}

	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	one  chan struct{}
	wait int // who has it or waits
}

// mostWaiting is how many requests of one caller wait for their turn.
const mostWaiting = 256

func newTurns() *turns {
	return &turns{all: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), of: map[string]*turn{}}
}

// take waits for a turn of a caller; done gives it back.
func (t *turns) take(ctx context.Context, caller string) (done func(), err error) {
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

func (t *turns) join(caller string) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.of[caller]
	if mine == nil {
		mine = &turn{one: make(chan struct{}, 1)}
		t.of[caller] = mine
	}
	if mine.wait >= mostWaiting {
		return nil, &refusal{status: http.StatusServiceUnavailable, retry: time.Second, text: "too many requests of the same caller wait to be computed"}
	}
	mine.wait++
	return mine, nil
}

func (t *turns) leave(caller string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.wait--; mine.wait == 0 {
		delete(t.of, caller)
	}
}

// turnKey is where a context has the turns of its caller.
type turnKey struct{}

type turnOf struct {
	turns  *turns
	caller string
}

// Turn waits until the caller of a request may have something computed: one thing at a time. A Backend takes it for what is
// not at hand, and gives it back by done. A context of no request has no turns to wait for.
func Turn(ctx context.Context) (done func(), err error) {
	of, is := ctx.Value(turnKey{}).(turnOf)
	if !is {
		return func() {}, nil
	}
	return of.turns.take(ctx, of.caller)
}
