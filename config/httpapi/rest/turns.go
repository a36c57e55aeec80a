package rest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
)

// Turns let callers take the processor one after the other: each has one turn at a time, and all together have
// twice as many as there are processors, since some wait for the store, and staff has two beside them. Who waits longer
// than its request, or behind too many of its own, is busy.
type Turns struct {
	all, others chan struct{} // others: of callers that are no staff, each of which is one of all too

	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	one  chan struct{}
	wait int // who has it or waits
}

// ErrCrowded is a caller of whom too many requests wait for their turn: busy, for a second.
var ErrCrowded = errors.New("too many requests of the same caller wait to be computed")

// staffTurns are turns that staff alone takes, however many others compute long.
const staffTurns = 2

// maxWaiting is how many requests of one caller wait for their turn.
const maxWaiting = 256

// NewTurns are turns of which none is taken.
func NewTurns() *Turns {
	n := 2 * runtime.GOMAXPROCS(0)
	return &Turns{all: make(chan struct{}, n+staffTurns), others: make(chan struct{}, n), of: map[string]*turn{}}
}

// Acquire waits for a turn of a caller; done gives it back.
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

// turnKey is where a context has the turn of its request.
type turnKey struct{}

// Hold is the turn of one request, which has it once however often it is asked for on the way.
type Hold struct {
	turns  *Turns
	holder Holder
	taking sync.Mutex // who asks while it is waited for has it with who waits

	mu   sync.Mutex
	done func() // gives it back; nil: it is not taken
	by   int    // who have it now
	kept bool
}

// Of gives the context of a request its turn, which is not taken yet.
func (t *Turns) Of(ctx context.Context, h Holder) (context.Context, *Hold) {
	hold := &Hold{turns: t, holder: h}
	return context.WithValue(ctx, turnKey{}, hold), hold
}

// Hold keeps the turn once it is taken until End, whoever gives it back before: what is computed for an answer is held
// by it until the answer is encoded and has its room.
func (h *Hold) Hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = true
}

// End keeps the turn no longer. A request that waits for its reader, or for a body, has none.
func (h *Hold) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = false
	h.release()
}

// release gives the turn back that nobody has.
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

// again says whether the request has its turn, and takes part in it.
func (h *Hold) again() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done == nil {
		return false
	}
	h.by++
	return true
}

// Turn waits until the caller of a request may have something computed: one thing at a time. A backend takes it for
// what is not at hand, and gives it back by done; a request that has its turn already goes on in it, also where it
// asks the other API. A context of no request has no turns to wait for.
func Turn(ctx context.Context) (done func(), err error) {
	hold, is := ctx.Value(turnKey{}).(*Hold)
	if !is {
		return func() {}, nil
	}
	return hold.acquire(ctx)
}
