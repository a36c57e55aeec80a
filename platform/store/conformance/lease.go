package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edgespan/config/kv"
	"edgespan/platform/store/backend"
)

func leases(r *rig) {
	id, other := r.grant(time.Hour), r.grant(time.Hour)
	if id == other || id == 0 {
		r.Fatalf("leases %d and %d", id, other)
	}
	r.then(kv.PutLeased("l/b", nil, id), kv.PutLeased("l/a", nil, id), kv.PutLeased("l/c", nil, id),
		kv.PutLeased("l/d", nil, id))
	r.is("an entry names it", r.get("l/a").Lease, id)
	r.put("l/c", "no longer")
	r.then(kv.PutLeased("l/b", nil, other))
	r.then(kv.Delete("l/d"))
	keys, err := r.Keys(r.ctx(), id)
	r.is("what hangs on it", fmt.Sprint(keys, err), "[l/a] <nil>")
	ttl, err := r.KeepAlive(r.ctx(), id)
	r.is("kept alive", fmt.Sprint(ttl, err), "1h0m0s <nil>")
	r.then(kv.PutLeased("l/z", nil, id))
	w := r.watch("l/", r.now())
	if err := r.Revoke(r.ctx(), id); err != nil {
		r.Fatal(err)
	}
	r.is("they go together", told(r.next(w)), "delete l/a, delete l/z")
	r.is("the rest stays", words(r.list("l/", kv.ListOptions{}).Entries), "l/b= l/c=no longer")
	r.fails("revoke it again", r.Revoke(r.ctx(), id), kv.ErrNoLease)
	_, err = r.KeepAlive(r.ctx(), id)
	r.fails("keep it alive", err, kv.ErrNoLease)
	_, err = r.Keys(r.ctx(), id)
	r.fails("look at it", err, kv.ErrNoLease)
	_, err = r.Commit(r.ctx(), kv.Txn{Then: []kv.Op{kv.PutLeased("l/q", nil, id)}})
	r.fails("hang on it", err, kv.ErrNoLease)
	at := r.now()
	empty := r.grant(time.Hour)
	if err := r.Revoke(r.ctx(), empty); err != nil {
		r.Fatal(err)
	}
	r.is("a lease without keys is no revision", r.now(), at)
}

func leaseEnds(r *rig) {
	short, long := r.grant(kv.MinTTL), r.grant(4*kv.MinTTL)
	r.then(kv.PutLeased("l/short", nil, short), kv.PutLeased("l/long", nil, long), kv.Put("l/lasts", nil))
	w := r.watch("l/", r.now())
	for range 4 { // longer than its time in all
		r.Advance(kv.MinTTL / 3)
		if _, err := r.KeepAlive(r.ctx(), short); err != nil {
			r.Fatal(err)
		}
	}
	r.is("kept alive it stays", len(r.list("l/", kv.ListOptions{}).Entries), 3)
	r.Advance(kv.MinTTL)
	r.is("then its keys go", told(r.next(w)), "delete l/short")
	_, err := r.KeepAlive(r.ctx(), short)
	r.fails("and it", err, kv.ErrNoLease)
	r.Advance(2 * kv.MinTTL)
	r.is("each in its time", told(r.next(w)), "delete l/long")
	r.is("what hangs on none stays", words(r.list("l/", kv.ListOptions{}).Entries), "l/lasts=")
}

func (r *rig) election() backend.Election {
	return backend.Election{Store: r.Store, Key: "elect/leader", TTL: kv.MinTTL, Clock: r.Clock}
}

// led is a candidate that runs beside the test.
type led struct {
	won  chan kv.Leadership
	lost chan struct{} // its context ended
	err  chan error
	quit chan error // ends its work
}

func (r *rig) lead(ctx context.Context, e backend.Election, name string) *led {
	l := &led{won: make(chan kv.Leadership, 1), lost: make(chan struct{}), err: make(chan error, 1),
		quit: make(chan error, 1)}
	go func() {
		l.err <- e.Lead(ctx, []byte(name), func(ctx context.Context, lead kv.Leadership) error {
			l.won <- lead
			select {
			case <-ctx.Done():
				close(l.lost)
				return ctx.Err()
			case err := <-l.quit:
				return err
			}
		})
	}()
	return l
}

func wait[T any](r *rig, what string, c <-chan T) (v T) {
	r.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		r.Fatal("waited in vain for", what)
	}
	return v
}

func elections(r *rig) {
	seen := make(chan string, 100)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	observed := make(chan error, 1)
	go func() {
		observed <- r.election().Observe(ctx, func(leader kv.Entry) error { seen <- string(leader.Value); return nil })
	}()
	r.is("at first", wait(r, "the observer", seen), "")
	one := r.lead(ctx, r.election(), "one")
	lead := wait(r, "one", one.won)
	r.is("who leads", wait(r, "the observer", seen), "one")
	two := r.lead(ctx, r.election(), "two")
	r.is("the leader writes",
		r.commit(kv.Txn{Compares: []kv.Compare{lead.Fence()}, Then: []kv.Op{kv.Put("x", nil)}}).Succeeded, true)
	select {
	case <-two.won:
		r.Fatal("two leaders")
	default:
	}
	one.quit <- errEnough
	r.fails("what its work said", wait(r, "the end of one", one.err), errEnough)
	next := wait(r, "two", two.won)
	r.is("nobody", wait(r, "the observer", seen), "")
	r.is("then two", wait(r, "the observer", seen), "two")
	r.is("the fence of one holds no more", r.commit(kv.Txn{Compares: []kv.Compare{lead.Fence()}}).Succeeded, false)
	r.is("one resigns too late", r.commit(kv.Resign(lead)).Succeeded, false)
	r.is("two leads on", r.commit(kv.Txn{Compares: []kv.Compare{next.Fence()}}).Succeeded, true)
	cancel()
	r.fails("the end of two", wait(r, "the end of two", two.err), context.Canceled)
	r.fails("the end of the observer", wait(r, "its end", observed), context.Canceled)
	r.is("its key went with it", r.get("elect/leader").Exists(), false)
}

func fencing(r *rig) {
	// A leader that holds still, as a suspended machine does, learns nothing; its
	// fence does.
	id := r.grant(kv.MinTTL)
	out := r.commit(kv.Campaign("elect/leader", []byte("asleep"), id))
	lead, _, _ := kv.Won("elect/leader", out)
	w := r.watch("elect/", r.now())
	r.Advance(kv.MinTTL)
	r.is("its lease ends", told(r.next(w)), "delete elect/leader")
	stale := kv.Txn{Compares: []kv.Compare{lead.Fence()}, Then: []kv.Op{kv.Put("x", nil)}}
	r.is("it writes nothing", r.commit(stale).Succeeded, false)
	next := r.lead(r.Context(), r.election(), "awake")
	wait(r, "the next", next.won)
	r.is("nor while another leads", r.commit(stale).Succeeded, false)
	next.quit <- nil
	if err := wait(r, "its end", next.err); err != nil {
		r.Error(err)
	}
}

func passesOn(r *rig) {
	one := r.lead(r.Context(), r.election(), "one")
	wait(r, "one", one.won)
	// Its key goes by another's hand, as when the store took its lease for over.
	id := r.get("elect/leader").Lease
	if err := r.Revoke(r.ctx(), id); err != nil {
		r.Fatal(err)
	}
	r.Advance(kv.MinTTL)
	wait(r, "it to see that", one.lost)
	if err := wait(r, "its end", one.err); err == nil || errors.Is(err, context.Canceled) {
		r.Errorf("it does not say that it lost: %v", err)
	}
	two := r.lead(r.Context(), r.election(), "two")
	wait(r, "two", two.won)
	two.quit <- nil
	if err := wait(r, "its end", two.err); err != nil {
		r.Error(err)
	}
}

// deaf is a store that a leader does not reach any more.
type deaf struct{ backend.Store }

func (deaf) KeepAlive(context.Context, kv.LeaseID) (time.Duration, error) {
	return 0, context.DeadlineExceeded
}

func unreachable(r *rig) {
	e := r.election()
	e.Store = deaf{r.Store}
	one := r.lead(r.Context(), e, "one")
	wait(r, "one", one.won)
	for n := 0; ; n++ { // its clock alone tells it
		r.Advance(kv.MinTTL / 4)
		select {
		case <-one.lost:
		case <-time.After(10 * time.Millisecond):
			if n < 1000 {
				continue
			}
			r.Fatal("it leads on without its store")
		}
		break
	}
	if err := wait(r, "its end", one.err); err == nil {
		r.Error("it does not say that it lost")
	}
}
