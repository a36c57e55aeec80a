package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/kv"
)

// slowStore is a store in memory whose writes take as long as a disk's.
type slowStore struct{ *memory }

// syncTakes is how long a sync of an average disk takes.
const syncTakes = 10 * time.Millisecond

func (s slowStore) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	if slices.ContainsFunc(t.Then, func(o kv.Op) bool { return o.Kind != kv.OpGet }) {
		time.Sleep(syncTakes)
	}
	return s.memory.Commit(ctx, t)
}

// onTown runs a test on a fake clock with a town of size nodes (400 at most with -short). Rollouts go out in about 50
// batches, the first of which has at most canary nodes.
func onTown(t *testing.T, size, canary int, f func(*townRun)) {
	t.Helper()
	if testing.Short() {
		size = min(size, 400)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newTownRun(t, newTown(size), slowStore{newMemory()}, townFlags(size/49, canary))
		defer func() {
			r.stop()
			time.Sleep(10 * time.Second) // the library's count of dead letters
			synctest.Wait()
		}()
		r.takes = 2 * time.Second
		f(r)
	})
}

// The target for a fleet: 10,000 nodes in 50 batches. A bad config stops at the canary. With the good one no node
// outside the current batch loses its last path at any moment, no batch is larger than allowed, and the time spent in
// addition to that of the nodes is at most a tenth of theirs, on a disk that syncs in 10 ms.
func TestARolloutOverATown(t *testing.T) {
	onTown(t, 10_000, siteNodes, func(r *townRun) {
		r.fails("bad", nodeproto.Unhealthy, nil)
		if d := r.ends(r.change("bad"), "halted"); len(r.had) == 0 || len(r.had) > siteNodes {
			t.Errorf("%d nodes got the bad one\n%s", len(r.had), decisions(d))
		}
		began, nodes := time.Now(), len(r.town.names)
		number := r.change("good")
		r.until("all have confirmed it", func() bool { return r.confirmed() >= nodes })
		d := r.ends(number, staged.EndDone)
		batches := time.Duration(len(d.Batches))
		overhead := time.Since(began) - batches*r.takes
		t.Logf("%d nodes, %d batches, %d looks at the paths, %v beside the nodes: %.1f %%", nodes, batches, r.checks,
			overhead, 100*float64(overhead)/float64(batches*r.takes))
		if r.cut != "" || r.checks < len(d.Batches) {
			t.Errorf("%s; %d looks", r.cut, r.checks)
		}
		if limit := nodes / 49; r.limit > limit || batches < 45 || batches > 55 || d.Batches[0].Nodes > siteNodes {
			t.Errorf("%d down at once of %d, %d batches, canary %+v", r.limit, limit, batches, d.Batches[0])
		}
		if d.Acked != nodes || r.pushes != nodes {
			t.Errorf("%d of %d have it by %d pushes", d.Acked, nodes, r.pushes)
		}
		if overhead*10 > batches*r.takes {
			t.Errorf("%v beside %v of the nodes", overhead, batches*r.takes)
		}
	})
}

// A config that is bad for all of a town, or for half of it, stops at the canary, whatever way the nodes fail. The good
// one after it reaches all.
func TestABadConfigStopsInItsFirstBatch(t *testing.T) {
	const canary = 20
	onTown(t, 2000, canary, func(r *townRun) {
		r.takes = 500 * time.Millisecond
		for i, bad := range []struct {
			what    string
			outcome nodeproto.PushOutcome
			spared  func(int) bool
		}{
			{"every node rejects it", nodeproto.Rejected, nil},
			{"every node undoes it", nodeproto.Unhealthy, nil},
			{"half of the nodes reject it", nodeproto.Rejected, func(n int) bool { return n%2 == 0 }},
			{"half of the nodes undo it", nodeproto.Unhealthy, func(n int) bool { return n%2 == 1 }},
		} {
			r.fails(fmt.Sprint("bad ", i), bad.outcome, bad.spared)
			d := r.ends(r.change(r.bad), "halted")
			time.Sleep(4 * time.Minute) // the time of a batch is over, too
			if d = r.rollout(d.Revision); len(d.Batches) != 1 || d.State != "halted" || len(r.had) == 0 || len(r.had) > canary {
				t.Errorf("%s: it is %s, %d nodes got it in %d batches\n%s", bad.what, d.State, len(r.had), len(d.Batches),
					decisions(d))
			}
			if r.cut != "" {
				t.Errorf("%s: %s", bad.what, r.cut)
			}
		}
		d := r.ends(r.change("good"), staged.EndDone)
		if d.Acked != len(r.town.names) || r.cut != "" {
			t.Errorf("%d have the good one; %s", d.Acked, r.cut)
		}
	})
}
