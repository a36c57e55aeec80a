package rest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
)

// Turns lets callers compute one after the other: each has one turn at a time. All together have twice as many turns as
// there are processors, because some wait for the store, and staff have two more. A request whose deadline passes while
// it waits, or whose caller has too many waiting requests, is refused as busy.
type Turns struct {
	all, others chan struct{} // others: callers who are not staff; each of their turns also takes one of all

	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	one  chan struct{}
	wait int // requests that have or await the turn
}

// ErrCrowded: too many requests of the caller wait for their turn. It is answered as busy, with a retry after a second.
var ErrCrowded = errors.New("too many requests of the same caller wait to be computed")

// staffTurns is the number of turns reserved for staff, however long others compute.
const staffTurns = 2

// maxWaiting bounds the requests of one caller that wait for their turn.
const maxWaiting = 256

// NewTurns returns Turns that are all free.
func NewTurns() *Turns {
	n := 2 * runtime.GOMAXPROCS(0)
	return &Turns{all: make(chan struct{}, n+staffTurns), others: make(chan struct{}, n), of: map[string]*turn{}}
}

// Acquire waits for a turn of a caller; done releases it.
func (t *Turns) Acquire(ctx context.Context, h Holder) (done func(), err error) {
	owned, err := t.join(h.Who)
	if err != nil {
		return nil, err
	}
	places := []chan struct{}{owned.one, t.others, t.all}
	if h.Staff {
		places = []chan struct{}{owned.one, t.all}
	}
	leave := func(taken int) {
		for _, p := range slices.Backward(places[:taken]) {
			<-p
		}
		t.leave(h.Who, owned)
	}
	for i, p := range places {
		select {
		case p <- struct{}{}:
		case <-ctx.Done():
			leave(i)
			return nil, ctx.Err()
		}
	}
	return func() { leave(len(places)) }, nil
}

func (t *Turns) join(caller string) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	owned := t.of[caller]
	if owned == nil {
		owned = &turn{one: make(chan struct{}, 1)}
		t.of[caller] = owned
	}
	if owned.wait >= maxWaiting {
		return nil, ErrCrowded
	}
	owned.wait++
	return owned, nil
}

func (t *Turns) leave(caller string, owned *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if owned.wait--; owned.wait == 0 {
		delete(t.of, caller)
	}
}

// turnKey is the context key of a request's Hold.
type turnKey struct{}

// Hold is the turn of one request, taken once however often the request asks for it.
type Hold struct {
	turns  *Turns
	holder Holder
	taking sync.Mutex // serializes acquire: later callers share the turn that the first one gets

	mu   sync.Mutex
	done func() // releases the turn; nil if it is not taken
	by   int    // current users
	kept bool
}

// Of adds an untaken turn to the context of a request.
func (t *Turns) Of(ctx context.Context, h Holder) (context.Context, *Hold) {
	hold := &Hold{turns: t, holder: h}
	return context.WithValue(ctx, turnKey{}, hold), hold
}

// Hold keeps the turn, once taken, until End, even if all users release it: the result of a computation is covered by
// the turn until it is encoded and has its room.
func (h *Hold) Hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = true
}

// End stops keeping the turn. A request that waits for its reader, or for a body, has none.
func (h *Hold) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = false
	h.release()
}

// release releases the turn if it has no user and is not kept.
func (h *Hold) release() {
	if h.by == 0 && !h.kept && h.done != nil {
		h.done()
		h.done = nil
	}
}

func (h *Hold) acquire(ctx context.Context) (done func(), err error) {
	h.taking.Lock()
	defer h.taking.Unlock()
	if !h.again() {
		taken, err := h.turns.Acquire(ctx, h.holder)
		if err != nil {
			return nil, err
		}
		h.mu.Lock()
		h.done, h.by = taken, 1
		h.mu.Unlock()
	}
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.by--
		h.release()
	}), nil
}

// again joins the turn if the request has it already, and reports whether it does.
func (h *Hold) again() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done == nil {
		return false
	}
	h.by++
	return true
}

// AcquireTurn waits until the caller of a request may compute: one computation at a time for each caller. A backend
// takes the turn before it computes what is not cached, and calls done afterwards; a request that has its turn
// continues in it, also when it calls the other API. A context without a request needs no turn.
func AcquireTurn(ctx context.Context) (done func(), err error) {
	hold, ok := ctx.Value(turnKey{}).(*Hold)
	if !ok {
		return func() {}, nil
	}
	return hold.acquire(ctx)
}
