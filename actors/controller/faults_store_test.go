package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/kv"
)

// common is the store that the replicas of a history share, behind their connections to it. It records what must be
// known at the moment of a write.
type common struct {
	storage.Store
	compact func(context.Context, kv.Revision) error
	// an exact store does one transaction at a time and returns its outcome; of another one a gate counts as open once a
	// replica has tried to open it
	exact bool

	mu     sync.Mutex
	open   map[string]map[string]bool // configs for which a node's gate was opened, by id
	fenced []fenced
	wrong  []string
	head   uint64 // number of the newest revision
	late   sync.WaitGroup
}

// fenced is a write of the leader that was done.
type fenced struct {
	replica string
	by      kv.Leadership
}

func isElection(k kv.Key) bool { return strings.HasPrefix(string(k), "elections/") }

// commit does a transaction of a replica.
func (s *common) commit(ctx context.Context, by storage.Store, replica string, t kv.Txn) (kv.TxnResult, error) {
	if !s.exact {
		s.mu.Lock()
		s.opens(t)
		s.mu.Unlock()
		o, err := by.Commit(ctx, t)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note(replica, t, o, err)
		return o, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := by.Commit(ctx, t)
	s.note(replica, t, o, err)
	return o, err
}

func (s *common) opens(t kv.Txn) {
	for _, op := range t.Then {
		if op.Kind != kv.OpPut || !history.InAdmissions.Has(op.Key) {
			continue
		}
		var g staged.Admission
		if err := json.Unmarshal(op.Value, &g); err != nil {
			s.wrong = append(s.wrong, fmt.Sprintf("%s: %v", op.Key, err))
			continue
		}
		id := history.KeyTexts(op.Key)[0]
		if s.open[id] == nil {
			s.open[id] = map[string]bool{}
		}
		s.open[id][g.Open.Config] = true
	}
}

// note records what a transaction has done. Every writer of a rollout or a gate compares the election.
func (s *common) note(replica string, t kv.Txn, o kv.TxnResult, err error) {
	leads := false
	for _, op := range t.Then {
		leads = leads || op.Kind != kv.OpGet && (history.InAdmissions.Has(op.Key) || history.InRollouts.Has(op.Key))
	}
	by := kv.Leadership{}
	for _, c := range t.Compares {
		if c.Kind == kv.CompareRevision && isElection(c.Key) {
			by = kv.Leadership{Key: c.Key, Revision: c.Revision}
		}
	}
	if leads && by.Revision == 0 {
		s.wrong = append(s.wrong, fmt.Sprintf("%s writes as a leader, without a fence: %v", replica, t))
	}
	if err != nil || !o.Succeeded {
		return
	}
	if s.opens(t); leads {
		s.fenced = append(s.fenced, fenced{replica, by})
	}
	for _, op := range t.Then {
		var head struct{ Revision uint64 }
		if op.Kind == kv.OpPut && op.Key == history.HeadKey() && json.Unmarshal(op.Value, &head) == nil {
			s.head = max(s.head, head.Revision)
		}
	}
}

func (s *common) newest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head
}

func (s *common) isOpen(id, md5 string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id][md5]
}

// way is the connection of one run of a replica to the store. Its quality may change at any time.
type way struct {
	s       *common
	store   storage.Store // the replica's client
	replica string

	mu   sync.Mutex
	rand *rand.Rand
	is   string // one of ways
	bad  []span // periods when it was not good, or had only just become good
}

// span is a period; it has not ended if to is zero.
type span struct{ from, to time.Time }

// The kinds of connection to the store.
const (
	wayGood    = "good"
	waySlow    = "slow"    // a call takes up to some seconds
	wayLossy   = "lossy"   // the answer to what was done is lost, or it is done when no caller waits any more
	wayRefused = "refused" // each call fails at once
	waySilent  = "silent"  // each call waits for its deadline
	wayLate    = "late"    // only the watch is slow
)

// ways is what become draws from.
var ways = []string{wayGood, waySlow, wayLossy, wayLossy, wayLossy, wayRefused, waySilent, wayLate}

var errLost = errors.New("the store does not answer")

// become changes the kind of the connection.
func (w *way) become(now string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.bad); w.is != wayGood && n > 0 {
		w.bad[n-1].to = time.Now()
	}
	if w.is = now; now != wayGood {
		w.bad = append(w.bad, span{from: time.Now()})
	}
}

func (w *way) how() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.is
}

// ignorance returns the earliest time from which on the replica may not know the store's content at a time.
func (w *way) ignorance(at time.Time, usual time.Duration) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := at.Add(-usual)
	for i := len(w.bad) - 1; i >= 0; i-- {
		if b := w.bad[i]; b.to.IsZero() || b.to.After(since) {
			since = b.from.Add(-usual)
		}
	}
	return since
}

// chance draws a number below n.
func (w *way) chance(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

// nap waits a random time below limit.
func (w *way) nap(ctx context.Context, limit time.Duration) error {
	select {
	case <-time.After(time.Duration(w.chance(int(limit/time.Microsecond))) * time.Microsecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const slowest = 3 * time.Second // half of a slow call

// there carries a call to the store.
func (w *way) there(ctx context.Context) error {
	switch w.how() {
	case wayRefused:
		return errSevered
	case waySilent:
		<-ctx.Done()
		return ctx.Err()
	case waySlow:
		return w.nap(ctx, slowest)
	case wayLossy:
		return w.nap(ctx, slowest/10)
	}
	return nil
}

// back carries an answer back.
func (w *way) back(ctx context.Context) error {
	switch w.how() {
	case wayRefused:
		return errSevered
	case waySilent:
		<-ctx.Done()
		return ctx.Err()
	case waySlow:
		return w.nap(ctx, slowest)
	case wayLossy:
		switch w.chance(20) {
		case 0:
			<-ctx.Done()
			return ctx.Err()
		case 1:
			return errLost
		}
	}
	return nil
}

func (w *way) call(ctx context.Context, f func() error) error {
	if err := w.there(ctx); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return w.back(ctx)
}

func (w *way) ID() string { return w.s.ID() }

func (w *way) CheckWritable() error { return nil }
func (w *way) CheckSpace() error    { return nil }

func (w *way) Size(ctx context.Context) (int64, error) { return w.s.Size(ctx) }

func (w *way) Get(ctx context.Context, k kv.Key) (e kv.Entry, r kv.Revision, err error) {
	err = w.call(ctx, func() error { e, r, err = w.store.Get(ctx, k); return err })
	return e, r, err
}

func (w *way) List(ctx context.Context, p kv.Prefix, o kv.ListOptions) (page kv.Page, err error) {
	err = w.call(ctx, func() error { page, err = w.store.List(ctx, p, o); return err })
	return page, err
}

// Commit may do the transaction though no caller learns of it, now or later, or not do it at all.
func (w *way) Commit(ctx context.Context, t kv.Txn) (o kv.TxnResult, err error) {
	if w.how() == wayLossy && t.Writes() {
		switch w.chance(6) {
		case 0:
			after := time.Duration(w.chance(20_000)) * time.Millisecond
			w.s.late.Go(func() {
				time.Sleep(after)
				_, _ = w.s.commit(context.WithoutCancel(ctx), w.store, w.replica, t)
			})
			<-ctx.Done()
			return kv.TxnResult{}, ctx.Err()
		case 1:
			if _, err := w.s.commit(ctx, w.store, w.replica, t); err != nil {
				return kv.TxnResult{}, err
			}
			return kv.TxnResult{}, errLost
		case 2:
			return kv.TxnResult{}, errLost
		}
	}
	err = w.call(ctx, func() error { o, err = w.s.commit(ctx, w.store, w.replica, t); return err })
	if err != nil {
		return kv.TxnResult{}, err
	}
	return o, nil
}

// Watch delivers late, but in order.
func (w *way) Watch(ctx context.Context, p kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error {
	if w.how() == wayRefused {
		return errSevered
	}
	return w.store.Watch(ctx, p, after, func(b kv.Batch) error {
		for w.how() == waySilent && ctx.Err() == nil {
			_ = w.nap(ctx, time.Second)
		}
		switch w.how() {
		case wayRefused:
			return errSevered
		case waySlow, wayLate:
			if err := w.nap(ctx, slowest); err != nil {
				return err
			}
		}
		return deliver(b)
	})
}

func (w *way) Grant(ctx context.Context, ttl time.Duration) (id kv.LeaseID, err error) {
	err = w.call(ctx, func() error { id, err = w.store.Grant(ctx, ttl); return err })
	return id, err
}

func (w *way) KeepAlive(ctx context.Context, id kv.LeaseID) (ttl time.Duration, err error) {
	err = w.call(ctx, func() error { ttl, err = w.store.KeepAlive(ctx, id); return err })
	return ttl, err
}

func (w *way) Revoke(ctx context.Context, id kv.LeaseID) error {
	return w.call(ctx, func() error { return w.store.Revoke(ctx, id) })
}

// Compact is used by the leader only.
func (w *way) Compact(ctx context.Context, r kv.Revision) error {
	return w.call(ctx, func() error { return w.s.compact(ctx, r) })
}
