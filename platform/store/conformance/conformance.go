// Package conformance is the test suite for every backend of the controller's store (docs/adr/0016): the contract of
// platform/store/backend, sentence by sentence, and random histories that it compares with the model of config/kv.
//
// It never knows which backend it tests; no program links it.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/config/kv"
	"edgespan/platform/store/backend"
)

// Fixture is an empty store with the clock of its leases.
type Fixture struct {
	backend.Store
	Clock backend.Clock
	// Advance advances the clock: a fake one at once, a real one by waiting.
	Advance func(time.Duration)
}

// Open creates an empty store. The suite closes it.
type Open func(t *testing.T) Fixture

// timeout bounds every wait of the suite. A passing test never waits for it to end.
const timeout = 30 * time.Second

// Run runs all tests on a backend, with this number of random histories.
func Run(t *testing.T, open Open, histories int) {
	tests := []struct {
		name string
		run  func(*rig)
	}{
		{"transactions", transactions},
		{"a transaction is whole or not at all", txnIsAtomic},
		{"a transaction without operations sees what was written before it", emptySees},
		{"limits", limits},
		{"keys of any language", unicodeKeys},
		{"lists are pages of one revision", lists},
		{"compaction", compaction},
		{"a watch gets every event once and in order", watchOrder},
		{"a watch resumes where it ended", watchResumes},
		{"a watch from the future is refused", watchFuture},
		{"a slow watcher holds up no writer", watchSlow},
		{"a watch ends with its context, its reader or its store", watchEnds},
		{"leases", leases},
		{"a lease ends by its time", leaseEnds},
		{"elections", elections},
		{"a leader that lost its lease writes nothing", leaseFences},
		{"an election passes on", electionPassesOn},
		{"a leader that cannot reach its store stops", unreachable},
		{"writers at once", concurrentWriters},
		{"its size", weighs},
		{"a store that is closed", closed},
	}
	for _, c := range tests {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) { c.run(begin(t, open)) })
	}
	t.Run("random-histories-agree-with-the-model", func(t *testing.T) { randomHistories(t, open, histories) })
}

// rig is a store in a test: every call has a deadline, and an unexpected error ends the test.
type rig struct {
	*testing.T
	Fixture
}

func begin(t *testing.T, open Open) *rig {
	r := &rig{T: t, Fixture: open(t)}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return r
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.T.Context(), timeout)
	r.T.Cleanup(cancel)
	return ctx
}

func (r *rig) commit(txn kv.Txn) kv.TxnResult {
	r.T.Helper()
	out, err := r.Commit(r.ctx(), txn)
	if err != nil {
		r.T.Fatalf("%s: %v", txn, err)
	}
	return out
}

func (r *rig) then(ops ...kv.Op) kv.Revision {
	r.T.Helper()
	return r.commit(kv.Txn{Then: ops}).Revision
}

func (r *rig) put(k kv.Key, v string) kv.Revision {
	r.T.Helper()
	return r.then(kv.Put(k, []byte(v)))
}

func (r *rig) get(k kv.Key) kv.Entry {
	r.T.Helper()
	e, _, err := r.Get(r.ctx(), k)
	if err != nil {
		r.T.Fatal(err)
	}
	return e
}

func (r *rig) list(p kv.Prefix, o kv.ListOptions) kv.Page {
	r.T.Helper()
	page, err := r.List(r.ctx(), p, o)
	if err != nil {
		r.T.Fatal(err)
	}
	return page
}

// now returns the current revision of the store.
func (r *rig) now() kv.Revision {
	r.T.Helper()
	return r.list("", kv.ListOptions{Limit: 1}).Revision
}

func (r *rig) mustGrant(ttl time.Duration) kv.LeaseID {
	r.T.Helper()
	id, err := r.Grant(r.ctx(), ttl)
	if err != nil {
		r.T.Fatal(err)
	}
	return id
}

// is compares two values by their printed form.
func (r *rig) is(what string, got, want any) {
	r.T.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		r.T.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// fails requires a certain error.
func (r *rig) fails(what string, err, want error) {
	r.T.Helper()
	if !errors.Is(err, want) {
		r.T.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// words formats entries as key=value.
func words(es []kv.Entry) string {
	var out []string
	for _, e := range es {
		out = append(out, fmt.Sprintf("%s=%s", e.Key, e.Value))
	}
	return strings.Join(out, " ")
}

// report formats a batch without its revision.
func report(b kv.Batch) string {
	var out []string
	for _, ev := range b.Events {
		word := fmt.Sprintf("%s %s", ev.Kind, ev.Entry.Key)
		if ev.Kind == kv.EventPut {
			word += "=" + string(ev.Entry.Value)
		}
		if ev.Entry.ModRevision != b.Revision {
			word += fmt.Sprintf(" of revision %d in the batch of %d", ev.Entry.ModRevision, b.Revision)
		}
		out = append(out, word)
	}
	return strings.Join(out, ", ")
}

// watched is a watch that runs concurrently with the test.
type watched struct {
	batches chan kv.Batch
	err     chan error
	cancel  context.CancelFunc
}

func (r *rig) watch(p kv.Prefix, after kv.Revision) *watched {
	ctx, cancel := context.WithCancel(r.T.Context())
	w := &watched{batches: make(chan kv.Batch, 10_000), err: make(chan error, 1), cancel: cancel}
	r.T.Cleanup(cancel)
	go func() {
		w.err <- r.Watch(ctx, p, after, func(b kv.Batch) error { w.batches <- b; return nil })
	}()
	return w
}

func (r *rig) next(w *watched) kv.Batch {
	r.T.Helper()
	select {
	case b := <-w.batches:
		return b
	case err := <-w.err:
		r.T.Fatal("the watch ended:", err)
	case <-time.After(timeout):
		r.T.Fatal("the watch delivers nothing")
	}
	return kv.Batch{}
}

func (r *rig) end(w *watched) error {
	r.T.Helper()
	select {
	case err := <-w.err:
		return err
	case <-time.After(timeout):
		r.T.Fatal("the watch does not end")
	}
	return nil
}
