package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/kv"
)

// oneByOne lets writes of layers pass one by one.
type oneByOne struct {
	*memory
	shut atomic.Bool
	pass chan struct{}
}

func (g *oneByOne) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	if g.shut.Load() && slices.ContainsFunc(t.Then,
		func(o kv.Op) bool { return o.Kind == kv.OpPut && o.Key == history.HeadKey() }) {
		select {
		case <-g.pass:
		case <-ctx.Done():
			return kv.TxnResult{}, ctx.Err()
		}
	}
	return g.memory.Commit(ctx, t)
}

// A caller with many costly writes blocks no other: others' writes come in between, and their dry runs wait for none.
// An operator may have the name that the controller gives itself.
func TestWritesAreServedInTheTurnOfTheirCallers(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		g := &oneByOne{memory: r.store, pass: make(chan struct{})}
		r.change = func(o *Options) { o.Store = g }
		c := r.start("a")
		r.fleetOf(c, 2)
		g.shut.Store(true)
		bob := fleetapi.Caller{Name: storage.LeaderAuthor.Name, Role: fleetapi.Operator, Via: rest.ViaToken}
		set := func(by fleetapi.Caller, n int, dry bool) error {
			_, err := c.Write(r.Context(), fleetapi.WriteRequest{
				Caller: by, DryRun: dry,
				Write: ops.SetNetwork{Overrides: r.doc(fmt.Sprintf(`{"envParams":{"%s":"%d"}}`, by.Role, n)), Modify: true},
			})
			return err
		}
		const flood = storage.MaxOfCaller + 5
		answers := make(chan error, flood)
		for i := range flood {
			go func() { answers <- set(bob, i, false) }()
		}
		synctest.Wait()
		refused := len(answers)
		for range refused {
			if err := <-answers; !errors.Is(err, fleetapi.ErrBusy) {
				t.Errorf("beyond his share: %v", err)
			}
		}
		if refused != flood-storage.MaxOfCaller-1 { // one is on its way
			t.Errorf("%d are refused", refused)
		}
		if err := set(storage.LeaderAuthor, 0, true); err != nil {
			t.Errorf("a dry run: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- set(storage.LeaderAuthor, 1, false) }()
		synctest.Wait()
		for range 2 { // the operator's, which was under way, and its own
			g.pass <- struct{}{}
			synctest.Wait()
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the controller waits behind what the operator has asked for before it")
		}
		g.shut.Store(false)
		close(g.pass)
		for range flood - refused {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
	})
}

// outrun is a store in which another replica writes just before each of the next few writes of layers.
type outrun struct {
	*memory
	times atomic.Int64
	other func(n int)
	reads atomic.Int64 // of the head
}

func (o *outrun) Get(ctx context.Context, key kv.Key) (kv.Entry, kv.Revision, error) {
	if key == history.HeadKey() {
		o.reads.Add(1)
	}
	return o.memory.Get(ctx, key)
}

func (o *outrun) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	if o.times.Load() > 0 && slices.ContainsFunc(t.Then,
		func(op kv.Op) bool { return op.Kind == kv.OpPut && op.Key == history.HeadKey() }) {
		o.other(int(o.times.Add(-1)))
	}
	return o.memory.Commit(ctx, t)
}

// A write that another replica overtakes is planned again on the head that its own transaction found. Reading the head
// first would give the other replica, which reads it too, the same chance for its next write.
func TestAnOvertakenWriteGoesFirst(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		other := r.start("b")
		o := &outrun{memory: r.store}
		r.change = func(opts *Options) { opts.Store = o }
		c := r.start("a")
		r.fleetOf(c, 1)
		set := func(c *Controller, name string, n int) {
			if _, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice,
				Write: ops.SetNetwork{Overrides: r.doc(fmt.Sprintf(`{"envParams":{"%s":"%d"}}`, name, n)), Modify: true}}); err != nil {
				t.Error(err)
			}
		}
		o.other = func(n int) { set(other, "b", n) }
		synctest.Wait()
		o.reads.Store(0)
		set(c, "a", 0)
		plain := o.reads.Load()
		synctest.Wait()
		o.reads.Store(0)
		o.times.Store(3)
		set(c, "a", 1)
		if n := o.reads.Load(); n > plain || o.times.Load() != 0 {
			t.Errorf("overtaken three times, %d to come, it read the head %d times: must be %d as without", o.times.Load(), n, plain)
		}
		if all, err := c.History(r.Context(), fleetapi.HistoryQuery{}); err != nil || len(all) != 5 {
			t.Errorf("%d revisions, %v: must be the five that were written", len(all), err)
		}
	})
}
