package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"edgespan/config/kv"
	"edgespan/platform/fake"
)

var errAway = errors.New("the store is away")

// way is the way of one replica to the store that all of them share.
type way struct {
	*fake.Store
	mu    sync.Mutex
	state wayState
	ended chan struct{} // closed when the state changes: watches end
}

type wayState int

const (
	open   wayState = iota
	cut             // nothing passes
	oneWay          // what is asked for happens, and no answer comes back
)

func newWay(s *fake.Store) *way { return &way{Store: s, ended: make(chan struct{})} }

func (w *way) set(s wayState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = s
	close(w.ended)
	w.ended = make(chan struct{})
}

func (w *way) now() (wayState, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.ended
}

// over carries a call over the way.
func over[T any](w *way, f func() (T, error)) (T, error) {
	var none T
	if s, _ := w.now(); s == cut {
		return none, errAway
	}
	out, err := f()
	if s, _ := w.now(); s == oneWay {
		return none, errAway
	}
	return out, err
}

func (w *way) Get(ctx context.Context, k kv.Key) (kv.Entry, kv.Revision, error) {
	var r kv.Revision
	e, err := over(w, func() (e kv.Entry, err error) {
		e, r, err = w.Store.Get(ctx, k)
		return e, err
	})
	return e, r, err
}

func (w *way) List(ctx context.Context, p kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	return over(w, func() (kv.Page, error) { return w.Store.List(ctx, p, o) })
}

func (w *way) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	return over(w, func() (kv.TxnResult, error) { return w.Store.Commit(ctx, t) })
}

func (w *way) Compact(ctx context.Context, at kv.Revision) error {
	_, err := over(w, func() (struct{}, error) { return struct{}{}, w.Store.Compact(ctx, at) })
	return err
}

func (w *way) Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error) {
	return over(w, func() (kv.LeaseID, error) { return w.Store.Grant(ctx, ttl) })
}

func (w *way) KeepAlive(ctx context.Context, id kv.LeaseID) (time.Duration, error) {
	return over(w, func() (time.Duration, error) { return w.Store.KeepAlive(ctx, id) })
}

func (w *way) Revoke(ctx context.Context, id kv.LeaseID) error {
	_, err := over(w, func() (struct{}, error) { return struct{}{}, w.Store.Revoke(ctx, id) })
	return err
}

// Watch ends when the way changes, as a connection does.
func (w *way) Watch(ctx context.Context, p kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error {
	s, ended := w.now()
	if s != open {
		return errAway
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ended:
			cancel(errAway)
		case <-ctx.Done():
		}
	}()
	err := w.Store.Watch(ctx, p, after, deliver)
	if cause := context.Cause(ctx); errors.Is(cause, errAway) {
		return cause
	}
	return err
}

// setStore lets the store be away, for all replicas or for one, which may only not get its answers.
func (f *crowd) setStore(rng *rand.Rand) {
	switch rng.IntN(4) {
	case 0:
		f.store.Fail(errAway)
	case 1:
		f.mendStore()
	default:
		f.ways[rng.IntN(len(f.ways))].set(wayState(rng.IntN(3)))
	}
}

func (f *crowd) mendStore() {
	f.store.Fail(nil)
	for _, w := range f.ways {
		if s, _ := w.now(); s != open {
			w.set(open)
		}
	}
}
