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
	id, other := r.mustGrant(time.Hour), r.mustGrant(time.Hour)
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
	r.is("they go together", report(r.next(w)), "delete l/a, delete l/z")
	r.is("the rest stays", words(r.list("l/", kv.ListOptions{}).Entries), "l/b= l/c=no longer")
	r.fails("revoke it again", r.Revoke(r.ctx(), id), kv.ErrNoLease)
	_, err = r.KeepAlive(r.ctx(), id)
	r.fails("keep it alive", err, kv.ErrNoLease)
	_, err = r.Keys(r.ctx(), id)
	r.fails("look at it", err, kv.ErrNoLease)
	_, err = r.Commit(r.ctx(), kv.Txn{Then: []kv.Op{kv.PutLeased("l/q", nil, id)}})
	r.fails("hang on it", err, kv.ErrNoLease)
	at := r.now()
	empty := r.mustGrant(time.Hour)
	if err := r.Revoke(r.ctx(), empty); err != nil {
		r.Fatal(err)
	}
	r.is("a lease without keys is no revision", r.now(), at)
}

func leaseEnds(r *rig) {
	short, long := r.mustGrant(kv.MinTTL), r.mustGrant(4*kv.MinTTL)
	r.then(kv.PutLeased("l/short", nil, short), kv.PutLeased("l/long", nil, long), kv.Put("l/lasts", nil))
	w := r.watch("l/", r.now())
	for range 4 { // longer than its time to live in total
		r.Advance(kv.MinTTL / 3)
		if _, err := r.KeepAlive(r.ctx(), short); err != nil {
			r.Fatal(err)
		}
	}
	r.is("kept alive it stays", len(r.list("l/", kv.ListOptions{}).Entries), 3)
	r.Advance(kv.MinTTL)
	r.is("then its keys go", report(r.next(w)), "delete l/short")
	_, err := r.KeepAlive(r.ctx(), short)
	r.fails("and it", err, kv.ErrNoLease)
	r.Advance(2 * kv.MinTTL)
	r.is("each in its time", report(r.next(w)), "delete l/long")
	r.is("what hangs on none stays", words(r.list("l/", kv.ListOptions{}).Entries), "l/lasts=")
}

func (r *rig) election() backend.Election {
	return backend.Election{Store: r.Store, Key: "elect/leader", TTL: kv.MinTTL, Clock: r.Clock}
}

// led is a candidate that runs concurrently with the test until it loses or resigns.
type led struct {
	won  chan kv.Leadership
	lost chan error // why it lost, nil once its lease is revoked
	quit context.CancelFunc
}

func (r *rig) lead(e backend.Election, name string) *led {
	ctx, quit := context.WithCancel(r.Context())
	l := &led{won: make(chan kv.Leadership, 1), lost: make(chan error, 2), quit: quit}
	go func() {
		defer close(l.lost)
		e.Run(ctx, []byte(name), func(turn kv.ElectionUpdate) {
			if turn.Won != nil {
				l.won <- *turn.Won
			}
			if turn.Lost != nil {
				l.lost <- turn.Lost
				quit()
			}
		})
	}()
	return l
}

// ended waits until a candidate has revoked its lease, and returns why it lost.
func (r *rig) ended(l *led) error {
	r.Helper()
	why := wait(r, "it to lose", l.lost)
	for wait(r, "its end", l.lost) != nil {
	}
	return why
}

func wait[T any](r *rig, what string, c <-chan T) (v T) {
	r.Helper()
	select {
	case v = <-c:
	case <-time.After(timeout):
		r.Fatal("waited in vain for", what)
	}
	return v
}

func elections(r *rig) {
	seen := r.watch("elect/", r.now())
	one := r.lead(r.election(), "one")
	lead := wait(r, "one", one.won)
	r.is("who leads", report(r.next(seen)), "put elect/leader=one")
	two := r.lead(r.election(), "two")
	r.is("the leader writes",
		r.commit(kv.Txn{Compares: []kv.Compare{lead.Fence()}, Then: []kv.Op{kv.Put("x", nil)}}).Succeeded, true)
	select {
	case <-two.won:
		r.Fatal("two leaders")
	default:
	}
	one.quit()
	r.fails("why it ends", r.ended(one), context.Canceled)
	r.is("nobody", report(r.next(seen)), "delete elect/leader")
	r.Advance(kv.MinTTL / 4) // the other candidate tries again
	next := wait(r, "two", two.won)
	r.is("then two", report(r.next(seen)), "put elect/leader=two")
	r.is("the fence of one holds no more", r.commit(kv.Txn{Compares: []kv.Compare{lead.Fence()}}).Succeeded, false)
	r.is("two leads on", r.commit(kv.Txn{Compares: []kv.Compare{next.Fence()}}).Succeeded, true)
	two.quit()
	r.fails("the end of two", r.ended(two), context.Canceled)
	r.is("its key went with it", r.get("elect/leader").Exists(), false)
}

func leaseFences(r *rig) {
	// A leader that is stopped, like a suspended machine, learns nothing; its fence works.
	id := r.mustGrant(kv.MinTTL)
	out := r.commit(kv.Campaign("elect/leader", []byte("asleep"), id))
	lead, _, _ := kv.ReadCampaign("elect/leader", out)
	w := r.watch("elect/", r.now())
	r.Advance(kv.MinTTL)
	r.is("its lease ends", report(r.next(w)), "delete elect/leader")
	stale := kv.Txn{Compares: []kv.Compare{lead.Fence()}, Then: []kv.Op{kv.Put("x", nil)}}
	r.is("it writes nothing", r.commit(stale).Succeeded, false)
	next := r.lead(r.election(), "awake")
	wait(r, "the next", next.won)
	r.is("nor while another leads", r.commit(stale).Succeeded, false)
	next.quit()
	r.fails("its end", r.ended(next), context.Canceled)
}

func electionPassesOn(r *rig) {
	one := r.lead(r.election(), "one")
	wait(r, "one", one.won)
	// Another client deletes the key, as when the store considers the lease ended.
	id := r.get("elect/leader").Lease
	if err := r.Revoke(r.ctx(), id); err != nil {
		r.Fatal(err)
	}
	r.Advance(kv.MinTTL)
	if err := r.ended(one); errors.Is(err, context.Canceled) {
		r.Errorf("it does not say that it lost: %v", err)
	}
	two := r.lead(r.election(), "two")
	wait(r, "two", two.won)
	two.quit()
	r.fails("its end", r.ended(two), context.Canceled)
}

// deaf is a store that a leader can't reach any more.
type deaf struct{ backend.Store }

func (deaf) KeepAlive(context.Context, kv.LeaseID) (time.Duration, error) {
	return 0, context.DeadlineExceeded
}

func unreachable(r *rig) {
	e := r.election()
	e.Store = deaf{r.Store}
	one := r.lead(e, "one")
	wait(r, "one", one.won)
	for n := 0; ; n++ { // only its clock shows the end
		r.Advance(kv.MinTTL / 4)
		select {
		case err := <-one.lost:
			if err == nil {
				r.Error("it does not say that it lost")
			}
		case <-time.After(10 * time.Millisecond):
			if n < 1000 {
				continue
			}
			r.Fatal("it leads on without its store")
		}
		return
	}
}
