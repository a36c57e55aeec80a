package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/actors/controller/rollouts"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// leaderIs returns the leader according to the store, "" for none.
func (r *rig) leaderIs() string {
	e, _, err := r.store.Get(r.Context(), history.ElectionKey(storage.LeaderKeyName))
	if err != nil {
		r.Fatal(err)
	}
	return string(e.Value)
}

// bulk advances the store by many revisions that concern no replica.
func (r *rig) bulk(n int) {
	for range n {
		if _, err := r.store.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put("bulk", nil)}}); err != nil {
			r.Fatal(err)
		}
	}
	synctest.Wait()
}

// oldest returns the oldest revision that can be read.
func (r *rig) oldest() kv.Revision {
	_, at, _ := r.store.Get(r.Context(), "bulk")
	low, high := kv.Revision(1), at
	for low < high {
		middle := (low + high) / 2
		if _, err := r.store.List(r.Context(), "none/", kv.ListOptions{At: middle}); errors.Is(err, kv.ErrCompacted) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

func TestThereIsAlwaysALeader(t *testing.T) {
	onRig(t, func(r *rig) {
		a := &severed{memory: newMemory()}
		r.store = a.memory
		r.change = func(o *Options) {
			if o.Replica == "a" {
				o.Store = a
			}
		}
		r.start("a")
		r.pass(100 * time.Millisecond)
		if got := r.leaderIs(); got != "a" {
			t.Fatalf("%q leads", got)
		}
		r.start("b")
		r.start("c")
		r.pass(time.Minute)
		if got := r.leaderIs(); got != "a" {
			t.Fatalf("%q leads, a was well", got)
		}
		a.cut.Store(true)
		r.pass(storage.LeaderTTL + storage.LeaderTTL/4)
		next := r.leaderIs()
		if next != "b" && next != "c" {
			t.Fatalf("%q leads after a's death", next)
		}
		a.cut.Store(false)
		r.pass(time.Minute)
		if got := r.leaderIs(); got != next {
			t.Errorf("%q leads, %q was well", got, next)
		}
		r.stop(next)
		r.pass(storage.LeaderTTL / 4)
		if got := r.leaderIs(); got == next || got == "" {
			t.Errorf("%q leads after an orderly stop of %q", got, next)
		}
	})
}

func TestTheLeaderCompacts(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.start("b")
		r.network(c, `{"envParams":{"A":"one"}}`)
		r.bulk(12_000)
		r.pass(9 * time.Minute)
		if got := r.oldest(); got != 1 {
			t.Errorf("compacted to %d, everything is young", got)
		}
		_, before, _ := r.store.Get(r.Context(), "bulk")
		r.pass(3 * time.Minute)
		// Nearly all is old. The last revisions are kept; marks are a minute apart.
		_, at, _ := r.store.Get(r.Context(), "bulk")
		if got := r.oldest(); got < before-10_000 || got > at-10_000 {
			t.Errorf("compacted to %d of %d", got, at)
		}
		_, before, _ = r.store.Get(r.Context(), "bulk")
		r.bulk(30_000)
		r.pass(9 * time.Minute)
		if got := r.oldest(); got > before+1 {
			t.Errorf("compacted to %d, what came after %d is young", got, before)
		}
		r.pass(3 * time.Minute)
		if _, at, _ = r.store.Get(r.Context(), "bulk"); r.oldest() < before+20_000 {
			t.Errorf("compacted to %d of %d", r.oldest(), at)
		}
		if d, err := c.Diff(r.Context(), 0, 1); err != nil || len(d) == 0 {
			t.Errorf("the history of the layers has gone: %v, %v", d, err)
		}
	})
}

// slow is a store whose watch can be blocked.
type slow struct {
	*memory
	held atomic.Bool
	lost atomic.Int64 // watches that ended because the store had compacted what comes next
}

func (s *slow) Watch(ctx context.Context, p kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error {
	err := s.memory.Watch(ctx, p, after, func(b kv.Batch) error {
		for s.held.Load() && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		return deliver(b)
	})
	if errors.Is(err, kv.ErrCompacted) {
		s.lost.Add(1)
	}
	return err
}

// views returns all that a replica shows of the fleet.
func (r *rig) views(c *Controller) map[string]any {
	r.Helper()
	out := map[string]any{}
	nodes, err := c.Nodes(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, n := range nodes {
		d, err := c.Node(r.Context(), n.Name)
		if err != nil {
			r.Fatal(err)
		}
		n.LastReport = nil // known only to the replica with the stream
		if !n.Online {
			n.Why, d.Why = "", "" // each replica has its own start time
		}
		out["node "+n.Name], out["detail "+n.Name], out["failures "+n.Name] = n, d.State+" "+d.Why, d.Failures
	}
	all, err := c.Rollouts(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, one := range all {
		if one.Staged {
			d, err := c.ExplainRollout(r.Context(), one.Revision)
			if err != nil {
				r.Fatal(err)
			}
			out[fmt.Sprint("rollout ", one.Revision)] = d
		}
	}
	operators, err := c.Operators(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	out["operators"] = operators
	return out
}

// A store that grows is compacted to what is young, however few revisions that is.
func TestTheLeaderCompactsByBytes(t *testing.T) {
	for name, writes := range map[string]int{"few revisions": 10, "more than are kept": int(storage.Retention.Revisions) +
		100} {
		t.Run(name, func(t *testing.T) { compactsByBytes(t, writes) })
	}
}

func compactsByBytes(t *testing.T, writes int) {
	onRig(t, func(r *rig) {
		r.start("a")
		grow := func(bytes int64) {
			r.store.Grow(bytes)
		}
		grow(1 << 30) // the initial content is no growth
		r.pass(2 * time.Minute)
		r.bulk(writes)
		r.pass(storage.Retention.Least + 5*time.Minute)
		if old := r.oldest(); int(old) > max(1, writes-int(storage.Retention.Revisions)+50) {
			t.Fatalf("a store that does not grow is compacted to %d", old)
		}
		grow(storage.Retention.Bytes)
		r.pass(storage.Retention.Least + storage.CompactEvery)
		_, at, _ := r.store.Get(r.Context(), "bulk")
		if old := r.oldest(); int(old) < writes {
			t.Errorf("of %d revisions %d is the oldest", at, old)
		}
	})
}

// TestASlowWatcherMissesNothing: a replica whose watch falls behind the compaction reads everything again, and knows
// what a replica knows that starts then.
func TestASlowWatcherMissesNothing(t *testing.T) {
	onStaged(t, func(r *rig) {
		inner := r.change
		late := &slow{memory: r.store}
		r.change = func(o *Options) {
			inner(o)
			o.Shared = true
			if o.Replica == "b" {
				o.Store = late
			}
		}
		a := r.start("a")
		r.fleetOf(a, 6)
		b := r.start("b")
		for _, name := range []string{"boss", "old"} {
			if _, err := a.AddOperator(r.Context(), alice,
				fleetapi.OperatorToken{Name: name, Role: fleetapi.Admin}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Invite(r.Context(), alice, "invited", time.Hour, false); err != nil {
			t.Fatal(err)
		}
		r.pass(10 * time.Second)

		late.held.Store(true)
		r.network(a, `{"envParams":{"B":"one"}}`)
		r.nodes["n5"].reject = "own" // that state is in no key that every replica follows
		r.write(a, ops.SetNodes{Overrides: r.doc(`{"n1":{"envParams":{"C":"own"}},"n5":{"envParams":{"B":"own"}}}`)})
		if err := a.Command(r.Context(), alice, "n2", fleetapi.Forget); err != nil {
			t.Fatal(err)
		}
		if err := a.RemoveOperator(r.Context(), alice, "old"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Invite(r.Context(), alice, "invited too", 24*time.Hour, false); err != nil {
			t.Fatal(err)
		}
		r.node(a, "n9")
		r.nodes["n3"].cut()
		r.bulk(12_000)
		r.pass(15 * time.Minute)
		r.network(a, `{"envParams":{"B":"two"}}`)
		r.pass(2 * time.Minute)
		late.held.Store(false)
		r.pass(10 * time.Second)
		if n := late.lost.Load(); n == 0 {
			t.Fatal("the watch did not fall behind the compaction")
		}

		fresh := r.views(r.start("c"))
		got := r.views(b)
		for what, want := range fresh {
			if !reflect.DeepEqual(got[what], want) {
				t.Errorf("%s:\n b has %+v\n want %+v", what, got[what], want)
			}
		}
		for what := range got {
			if _, ok := fresh[what]; !ok {
				t.Errorf("%s is there no more", what)
			}
		}
		// It acts on it, too.
		r.stop("a")
		for _, name := range []string{"n0", "n1", "n3", "n4", "n9"} {
			r.nodes[name].connect(b)
		}
		r.network(b, `{"envParams":{"B":"three"}}`)
		r.pass(3 * time.Minute)
		for _, name := range []string{"n0", "n1", "n3", "n4", "n9"} {
			r.wants(b, name, "InSync")
			if n := r.nodes[name]; !contains(n.doc, "three") {
				t.Errorf("%s runs %s", name, n.doc)
			}
		}
	})
}

// TestALetterThatWasTakenBackMeanwhileIsNotObeyed: a replica that begins to lead does not carry out a command that was
// withdrawn while it received nothing.
func TestALetterThatWasTakenBackMeanwhileIsNotObeyed(t *testing.T) {
	d := &deps{}
	d.set.Store(&fleet.Settings{})
	a := newFleetActor(d)
	key := history.OutboxKey(rollouts.Outbox, "1")
	a.storeRolloutKey(nil, kv.Event{Kind: kv.EventPut, Entry: kv.Entry{Key: key,
		ModRevision: 3, Value: storage.Encode(storage.RemoteCommand{What: "pause"})}}, rollouts.Outbox)
	a.queueListing(storage.Listing{At: 9, Has: map[kv.Key]bool{}})
	var gone []string
	for _, e := range a.queue[0].Events {
		gone = append(gone, fmt.Sprint(e.Kind, " ", e.Entry.Key))
	}
	if len(gone) != 1 || gone[0] != "delete "+string(key) {
		t.Errorf("%q", gone)
	}
}

// leaves begins a large write with this many of its transactions, and abandons it.
func (r *rig) leaves(author string, transactions int) history.CommitPlan {
	r.Helper()
	state, err := history.Head(storage.NewReader(r.Context(), r.store))
	if err != nil {
		r.Fatal(err)
	}
	c := history.Change{Author: author, Time: time.Now(), Layers: map[history.Layer]config.Object{}}
	for i := range 400 {
		name := fmt.Sprintf("%s-%d", author, i)
		env := config.Object{"A": name, "pad": strings.Repeat("x", 40)}
		if i%2 == 1 {
			env["B"] = time.Now().String() // the others are unchanged
		}
		c.Layers[history.Layer{Kind: history.Node, Name: name}] = config.Object{"envParams": env}
	}
	plan, err := state.Plan(c)
	if err != nil {
		r.Fatal(err)
	}
	if len(plan.Txns) < transactions+1 {
		r.Fatalf("%d transactions", len(plan.Txns))
	}
	for _, txn := range plan.Txns[:transactions] {
		if o, err := r.store.Commit(r.Context(), txn); err != nil || !o.Succeeded {
			r.Fatal(o, err)
		}
	}
	return plan
}

// left counts the objects and parts of large writes.
func (r *rig) left() (objects, parts int) {
	r.Helper()
	for prefix, n := range map[kv.Prefix]*int{"objects/": &objects, "sets/": &parts} {
		page, err := r.store.List(r.Context(), prefix, kv.ListOptions{})
		if err != nil {
			r.Fatal(err)
		}
		*n = len(page.Entries)
	}
	return objects, parts
}

func TestTheLeaderSweeps(t *testing.T) {
	onRig(t, func(r *rig) {
		r.leaves("ann", 3)
		r.pass(storage.SweepAge + time.Minute)
		c := r.start("a")
		r.pass(time.Second)
		if objects, parts := r.left(); objects != 0 || parts != 0 {
			t.Errorf("at the begin: %d objects and %d parts are left", objects, parts)
		}
		r.network(c, `{"envParams":{"A":"one"}}`)
		clean, _ := r.left()
		r.leaves("bob", 2)
		r.pass(50 * time.Minute)
		if _, parts := r.left(); parts != 2 {
			t.Errorf("%d parts before the hour", parts)
		}
		r.pass(11 * time.Minute)
		if objects, parts := r.left(); objects != clean || parts != 0 {
			t.Errorf("after the hour: %d objects and %d parts are left, want %d and none", objects, parts, clean)
		}
		r.leaves("eve", 2) // it may continue: it is young at the next sweep
		r.pass(time.Minute)
		r.stop("a")
		r.start("b")
		r.pass(time.Minute)
		if _, parts := r.left(); parts != 2 {
			t.Errorf("%d parts of a write that may be under way", parts)
		}
	})
}

func TestTwoLeadersNeverSweep(t *testing.T) {
	onRig(t, func(r *rig) {
		led := &severed{memory: r.store}
		r.change = func(o *Options) {
			if o.Replica == "a" {
				o.Store = led
			}
		}
		r.start("a")
		r.pass(time.Second)
		r.start("b")
		led.stubborn.Store(true) // it believes that it still leads
		r.pass(3 * time.Second)
		if got := r.leaderIs(); got != "b" {
			t.Fatalf("%q leads", got)
		}
		r.leaves("ann", 3)
		r.pass(time.Hour - 4*time.Second) // the first of them sweeps, the other does not yet
		if done, refused := led.done.Load(), led.refused.Load(); done != 0 || refused != 1 {
			t.Errorf("the one before swept %d parts, and was kept from it %d times", done, refused)
		}
		if _, parts := r.left(); parts != 3 {
			t.Errorf("%d parts are left", parts)
		}
		r.pass(10 * time.Second)
		if _, parts := r.left(); parts != 0 {
			t.Errorf("the leader has left %d parts", parts)
		}
		led.stubborn.Store(false)
	})
}

// TestASweepTakesNothingFromAWriteUnderWay runs extremely slow writers, and fast ones, beside leaders that sweep. What
// a revision names is there.
func TestASweepTakesNothingFromAWriteUnderWay(t *testing.T) {
	swept, seeds := 0, uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		onRig(t, func(r *rig) {
			random := rand.New(rand.NewPCG(seed, 5))
			c := r.start("a")
			r.pass(time.Second)
			for i := range 12 {
				author := fmt.Sprint("w", i%4) // writes the same objects again, in part
				plan := r.leaves(author, 0)
				done := 0
				for _, txn := range plan.Txns {
					if random.IntN(6) == 0 {
						_, before := r.left()
						r.pass(time.Duration(random.IntN(3)) * 40 * time.Minute)
						if _, after := r.left(); after < before {
							swept++
						}
					}
					if random.IntN(15) == 0 {
						r.network(c, fmt.Sprintf(`{"envParams":{"A":"%d %d"}}`, i, done))
					}
					o, err := r.store.Commit(r.Context(), txn)
					if err != nil {
						t.Fatal(err)
					}
					if !o.Succeeded {
						break // and abandons it
					}
					done++
				}
				state, err := history.Head(storage.NewReader(r.Context(), r.store))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := state.AllLayers(); err != nil {
					t.Fatalf("seed %d, write %d, %d of %d transactions done: %v", seed, i, done, len(plan.Txns), err)
				}
			}
			r.pass(2 * time.Hour)
			if _, parts := r.left(); parts != 0 {
				t.Errorf("%d parts are left in the end", parts)
			}
		})
	}
	if swept < 2 {
		t.Errorf("%d sweeps came between: the test is dull", swept)
	}
}

// What a backup reads is kept for as long as its reader takes, and deleted afterwards.
func TestWhatABackupReadsIsNotCompacted(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		a := r.start("a")
		b := r.start("b") // which may lead or not
		r.network(a, `{"envParams":{"A":"one"}}`)
		r.bulk(12_000)
		write, err := b.Backup(r.Context(), "v")
		if err != nil {
			t.Fatal(err)
		}
		_, at, _ := r.store.Get(r.Context(), "bulk")
		r.bulk(12_000)
		r.pass(40 * time.Minute)
		if got := r.oldest(); got == 1 || got > at {
			t.Errorf("compacted to %d, the backup reads %d", got, at)
		}
		var text bytes.Buffer
		if err := write(r.Context(), &text); err != nil {
			t.Errorf("the backup: %v", err)
		}
		r.pass(15 * time.Minute)
		if got := r.oldest(); got <= at {
			t.Errorf("compacted to %d, the backup has ended", got)
		}
		if _, err := a.Backup(r.Context(), "v"); err != nil { // its reader has gone
			t.Fatal(err)
		}
		_, at, _ = r.store.Get(r.Context(), "bulk")
		r.bulk(12_000)
		r.pass(storage.BackupHold + 15*time.Minute)
		if got := r.oldest(); got <= at {
			t.Errorf("compacted to %d an hour after %d", got, at)
		}
	})
}
