package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// lossy is a store whose answers to commits that write a revision get lost, a given number of times. The commit itself
// may have been done.
type lossy struct {
	*memory
	lose  int
	done  bool   // before the answer is lost
	after func() // another writer comes in between
}

var errUnanswered = errors.New("the connection broke")

func (l *lossy) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	writes := false
	for _, op := range t.Then {
		writes = writes || op.Kind == kv.OpPut && op.Key == history.HeadKey()
	}
	if !writes || l.lose == 0 {
		return l.memory.Commit(ctx, t)
	}
	l.lose--
	if l.done {
		if _, err := l.memory.Commit(ctx, t); err != nil {
			return kv.TxnResult{}, err
		}
	}
	if f := l.after; f != nil {
		l.after = nil
		f()
	}
	return kv.TxnResult{}, errUnanswered
}

// A write whose answer the store lost is in the history once, whether or not it was done, and whether or not another
// write came in before the retry.
func TestAWriteWhoseAnswerIsLostIsDoneOnce(t *testing.T) {
	for _, one := range []struct {
		done, other bool
		lose        int
	}{{true, false, 1}, {false, false, 1}, {true, true, 1}, {false, true, 1}, {true, false, 3}, {false, false, 3}} {
		t.Run(fmt.Sprintf("%+v", one), func(t *testing.T) {
			onRig(t, func(r *rig) {
				other := r.start("b")
				l := &lossy{memory: r.store, done: one.done}
				r.change = func(o *Options) { o.Store = l }
				c := r.start("a")
				r.synced(other, "n1")
				want := []string{"mine"}
				if one.other {
					l.after = func() {
						if _, err := other.Write(r.Context(), fleetapi.WriteRequest{Caller: alice,
							Write: ops.SetNetwork{Overrides: r.doc(`{"x":{"b":1}}`), Modify: true}, Message: "other"}); err != nil {
							t.Error(err)
						}
					}
					want = append(want, "other")
				}
				l.lose = one.lose
				out, err := c.Write(r.Context(), fleetapi.WriteRequest{
					Caller: alice, Write: ops.SetNetwork{Modify: true, Overrides: config.Object{"x": config.Object{"a": int64(1)}}},
					Message: "mine",
				})
				if err != nil {
					t.Fatal(err)
				}
				all, err := c.History(r.Context(), fleetapi.HistoryQuery{})
				if err != nil {
					t.Fatal(err)
				}
				times := map[string]int{}
				for _, e := range all {
					times[e.Message]++
					if e.Message == "mine" && e.Number != out.Revision {
						t.Errorf("acknowledged was revision %d, it is %d", out.Revision, e.Number)
					}
				}
				for _, message := range want {
					if times[message] != 1 {
						t.Errorf("%s is %d times in the history", message, times[message])
					}
				}
			})
		})
	}
}
