package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/actors/controller/rollouts"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// belated delays a transaction that opens gates until its requester has given up, as a store does whose members cannot
// reach each other for a while.
type belated struct {
	*memory
	armed atomic.Bool
	kept  chan kv.Txn
}

func (s *belated) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	opens := slices.ContainsFunc(t.Then,
		func(op kv.Op) bool { return op.Kind == kv.OpPut && history.InAdmissions.Has(op.Key) })
	if opens && s.armed.CompareAndSwap(true, false) {
		s.kept <- t
		<-ctx.Done()
		return kv.TxnResult{}, ctx.Err()
	}
	return s.memory.Commit(ctx, t)
}

// A gate opens by what is decided in the store at that moment: a transaction that was under way when the rollout was
// aborted opens none.
func TestAGateIsNotOpenedAfterTheAbort(t *testing.T) {
	onStaged(t, func(r *rig) {
		s := &belated{memory: newMemory(), kept: make(chan kv.Txn, 1)}
		r.store = s.memory
		inner := r.change
		r.change = func(o *Options) { inner(o); o.Store = s }
		c := r.start("a")
		r.fleetOf(c, 3)
		s.armed.Store(true)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		late := <-s.kept
		r.rollout(c, r.is(c, "running", "one", "").Revision, fleetapi.AbortRollout)
		if _, err := s.memory.Commit(r.Context(), late); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Minute)
		r.is(c, "aborted", "one", "")
	})
}

// A gate whose transaction conflicted with what the leader stored meanwhile is opened after all.
func TestAGateIsOpenedAgainAfterASave(t *testing.T) {
	onStaged(t, func(r *rig) {
		s := &overtaken{memory: newMemory()}
		r.store = s.memory
		inner := r.change
		r.change = func(o *Options) { inner(o); o.Store = s }
		c := r.start("a")
		r.fleetOf(c, 3)
		s.armed.Store(true)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Minute)
		r.is(c, "done", "one", "n0 n1 n2")
		if s.armed.Load() {
			t.Error("no gate was opened")
		}
	})
}

// A leader that was elected before it had received all that its predecessor stored continues from that once it arrives:
// here a rollout that it knows as done runs again.
func TestALeaderGoesOnWithWhatItHeardLate(t *testing.T) {
	onStaged(t, func(r *rig) {
		r.store = newMemory()
		c := r.start("a")
		r.fleetOf(c, 3)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Minute)
		k := staged.RolloutKey(r.is(c, "done", "one", "n0 n1 n2").Revision)
		e, _, err := r.store.Get(r.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		for at := e.ModRevision - 1; ; at-- {
			page, err := r.store.List(r.Context(), history.InRollouts, kv.ListOptions{At: at})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(page.Entries, func(e kv.Entry) bool { return e.Key == k })
			if i < 0 {
				t.Fatalf("as of %d there is no such rollout", at)
			}
			var s staged.RolloutRecord
			if err := json.Unmarshal(page.Entries[i].Value, &s); err != nil {
				t.Fatal(err)
			}
			if s.End == "" && len(s.Machine.Out) > 0 {
				e = page.Entries[i]
				break
			}
		}
		if _, err := r.store.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put(k, e.Value)}}); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Minute)
		if run := r.is(c, "done", "one", "n0 n1 n2"); !strings.Contains(fmt.Sprint(run.Decisions), "replica a leads") {
			t.Errorf("it did not begin anew: %v", run.Decisions)
		}
	})
}

// overtaken inserts another write of the rollout before a gate is opened.
type overtaken struct {
	*memory
	armed atomic.Bool
}

func (s *overtaken) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	for _, op := range t.Then {
		if op.Kind == kv.OpPut && history.InAdmissions.Has(op.Key) && s.armed.CompareAndSwap(true, false) {
			page, err := s.List(ctx, history.InRollouts, kv.ListOptions{})
			if err != nil {
				return kv.TxnResult{}, err
			}
			last := page.Entries[len(page.Entries)-1]
			if _, err := s.memory.Commit(ctx, kv.Txn{Then: []kv.Op{kv.Put(last.Key, last.Value)}}); err != nil {
				return kv.TxnResult{}, err
			}
		}
	}
	return s.memory.Commit(ctx, t)
}

// deaf does a write of a rollout and loses the answer.
type deaf struct {
	*memory
	armed atomic.Bool
}

func (s *deaf) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	o, err := s.memory.Commit(ctx, t)
	saves := slices.ContainsFunc(t.Then,
		func(op kv.Op) bool { return op.Kind == kv.OpPut && history.InRollouts.Has(op.Key) })
	if saves && s.armed.CompareAndSwap(true, false) {
		return kv.TxnResult{}, errors.New("the answer is lost")
	}
	return o, err
}

// A command that is stored, though the leader does not learn of it, is done once and acknowledged.
func TestACommandIsDoneOnce(t *testing.T) {
	onStaged(t, func(r *rig) {
		s := &deaf{memory: newMemory()}
		r.store = s.memory
		inner := r.change
		r.change = func(o *Options) { inner(o); o.Store = s }
		c := r.start("a")
		r.fleetOf(c, 3)
		r.behave("n0", silent)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		number := r.is(c, "running", "one", "n0").Revision
		for _, one := range []struct {
			command fleetapi.RolloutCommand
			said    string
		}{{fleetapi.PauseRollout, "paused"}, {fleetapi.ResumeRollout, "resumed"}, {fleetapi.AbortRollout, "aborted"}} {
			s.armed.Store(true)
			if err := c.CommandRollout(r.Context(), alice, number, one.command); err != nil {
				t.Errorf("%s: %v", one.command, err)
			}
			d, err := c.ExplainRollout(r.Context(), number)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, v := range d.Decisions {
				if v.What == one.said {
					n++
				}
			}
			if n != 1 || s.armed.Load() {
				t.Errorf("%s %d times\n%s", one.said, n, decisions(d))
			}
		}
	})
}

// A base file that changes before any layer is written goes out as revision 0, which can be explained and commanded
// like any other.
func TestARolloutOfTheBaseAloneIsCommanded(t *testing.T) {
	onStaged(t, func(r *rig) {
		r.base.docs["RELEASE_M20"] = `{"sysParams":{"managedConfig":true}}`
		c := r.start("a")
		r.fleetOf(c, 3)
		for name := range r.nodes {
			r.behave(name, silent)
		}
		r.base.mu.Lock()
		r.base.docs["RELEASE_M20"] = `{"sysParams":{"managedConfig":true},"envParams":{"B":"base"}}`
		r.base.mu.Unlock()
		c.Reload()
		r.pass(20 * time.Second)
		d := r.is(c, "running", "base", "n0")
		if d.Revision != 0 {
			t.Fatalf("it is of revision %d", d.Revision)
		}
		if err := c.CommandRollout(r.Context(), alice, 0, fleetapi.RevertRollout); !errors.Is(err, fleetapi.ErrRefused) ||
			!strings.Contains(err.Error(), "not made by a write") {
			t.Errorf("revert: %v", err)
		}
		r.rollout(c, 0, fleetapi.PauseRollout)
		r.is(c, "paused", "base", "n0")
		r.rollout(c, 0, fleetapi.AbortRollout)
		r.is(c, "aborted", "base", "n0")
		var unknown *ops.NotFoundError
		if _, err := c.ExplainRollout(r.Context(), 1); !errors.As(err, &unknown) {
			t.Errorf("rollout 1: %v", err)
		}
	})
}

// A waiting rollout is listed, however many small changes came after it.
func TestARolloutThatHasNotEndedIsListed(t *testing.T) {
	all := make([]fleetapi.Rollout, 0, 12)
	for n := range uint64(12) {
		all = append(all, fleetapi.Rollout{Revision: n + 2})
	}
	listed := func(n uint64, end string) rollouts.Listed {
		out := rollouts.Listed{RolloutRecord: &staged.RolloutRecord{Revision: n, End: end},
			Shown: fleetapi.Rollout{Revision: n, Staged: true}}
		if end != "" {
			out.Shown.Ended = new(time.Time)
		}
		return out
	}
	var got []uint64
	for _, one := range lastRollouts(all,
		[]rollouts.Listed{listed(3, staged.EndAborted), listed(2, ""), listed(13, "")}) {
		got = append(got, one.Revision)
	}
	if want := []uint64{13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 2}; !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}
