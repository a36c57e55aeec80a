package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// ailing is a store that hangs, as an etcd without most of its members does, or has no space.
type ailing struct {
	*memory
	hangs, full, broken, late atomic.Bool
	tries                     atomic.Int64 // writes attempted while it ails
}

func (a *ailing) hung(ctx context.Context) error {
	if !a.hangs.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (a *ailing) Get(ctx context.Context, k kv.Key) (kv.Entry, kv.Revision, error) {
	if err := a.hung(ctx); err != nil {
		return kv.Entry{}, 0, err
	}
	return a.memory.Get(ctx, k)
}

func (a *ailing) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	if err := a.hung(ctx); err != nil {
		return kv.TxnResult{}, err
	}
	if err := a.CheckWritable(); err != nil && t.Writes() {
		a.tries.Add(1)
		return kv.TxnResult{}, err
	}
	o, err := a.memory.Commit(ctx, t)
	if a.late.Load() && t.Writes() && err == nil {
		return kv.TxnResult{}, kv.ErrFull // as etcd does where this write took it beyond its quota
	}
	return o, err
}

func (a *ailing) CheckWritable() error {
	switch {
	case a.full.Load():
		return kv.ErrUnwritten
	case a.broken.Load():
		return kv.ErrBroken
	}
	return nil
}

func onAiling(t *testing.T, f func(*rig, *Controller, *ailing, *observer.ObservedLogs)) {
	onRig(t, func(r *rig) {
		a := &ailing{memory: r.store}
		core, logs := observer.New(zap.InfoLevel)
		r.change = func(o *Options) { o.Store, o.Log = a, zap.New(core) }
		c := r.start("a")
		r.synced(c, "n1")
		f(r, c, a, logs)
	})
}

// The watchdog of a controller depends on this: while the store hangs no restart helps.
func TestTheActorsAnswerWhileTheStoreHangs(t *testing.T) {
	onAiling(t, func(r *rig, c *Controller, a *ailing, _ *observer.ObservedLogs) {
		a.hangs.Store(true)
		defer func() { a.hangs.Store(false) }()
		for range 60 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			err := c.Alive(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			r.pass(time.Minute)
		}
	})
}

// A replica's memory looks current while others may have changed what counts.
func TestNoOldDataIsServedWhileTheStoreIsAway(t *testing.T) {
	onAiling(t, func(r *rig, c *Controller, a *ailing, _ *observer.ObservedLogs) {
		reads := map[string]func(context.Context) error{
			"nodes":    func(ctx context.Context) error { _, err := c.Nodes(ctx); return err },
			"a node":   func(ctx context.Context) error { _, err := c.Node(ctx, "n1"); return err },
			"rollouts": func(ctx context.Context) error { _, err := c.Rollouts(ctx); return err },
			"explain rollout": func(ctx context.Context) error {
				_, err := c.ExplainRollout(ctx, 1)
				if errors.As(err, new(*ops.NotFoundError)) {
					return nil // not a staged rollout
				}
				return err
			},
			"peers": func(ctx context.Context) error { _, err := c.Peers(ctx); return err },
			"a peer": func(ctx context.Context) error {
				_, err := c.Peer(ctx, "n1")
				if errors.As(err, new(*ops.NotFoundError)) {
					return nil // no descriptor
				}
				return err
			},
		}
		for what, read := range reads {
			if err := read(r.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			a.hangs.Store(true)
			if err := read(r.Context()); !errors.Is(err, fleetapi.ErrBusy) {
				t.Errorf("%s is told while the store is away: %v", what, err)
			}
			a.hangs.Store(false)
		}
	})
}

// A full disk is reported at once and once, and reads still work.
func TestAWriteWithoutRoomIsRefusedAtOnce(t *testing.T) {
	onAiling(t, func(r *rig, c *Controller, a *ailing, logs *observer.ObservedLogs) {
		a.full.Store(true)
		logs.TakeAll()
		before := time.Now()
		_, err := c.Write(r.Context(),
			fleetapi.WriteRequest{Caller: alice, Write: ops.SetNetwork{Overrides: r.doc(`{"envParams":{"B":"x"}}`)}})
		if took := time.Since(before); !errors.Is(err, fleetapi.ErrBusy) || !errors.Is(err, kv.ErrUnwritten) || took > 0 {
			t.Errorf("after %s: %v", took, err)
		}
		if a.tries.Load() != 1 || logs.Len() > 0 {
			t.Errorf("tried %d times, %d lines: %v", a.tries.Load(), logs.Len(), logs.All())
		}
		if err := c.Ready(r.Context()); !errors.Is(err, fleetapi.ErrBusy) {
			t.Errorf("ready: %v", err)
		}
		if _, err := c.Nodes(r.Context()); err != nil {
			t.Errorf("reads: %v", err)
		}
		a.full.Store(false)
		r.network(c, `{"envParams":{"B":"x"}}`)
		synctest.Wait()
		if err := c.Ready(r.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A cluster may do a write and refuse it: the author is answered that it was done.
func TestAWriteThatFillsTheStoreIsToldAsDone(t *testing.T) {
	onAiling(t, func(r *rig, c *Controller, a *ailing, _ *observer.ObservedLogs) {
		a.late.Store(true)
		did, err := c.Write(r.Context(),
			fleetapi.WriteRequest{Caller: alice, Write: ops.SetNetwork{Overrides: r.doc(`{"envParams":{"B":"x"}}`)}})
		a.late.Store(false)
		if err != nil || did.Revision == 0 {
			t.Errorf("%+v, %v", did, err)
		}
	})
}

// A store that has to be reopened ends the write.
func TestAWriteToABrokenStoreIsNotTriedAgain(t *testing.T) {
	onAiling(t, func(r *rig, c *Controller, a *ailing, _ *observer.ObservedLogs) {
		a.broken.Store(true)
		before := time.Now()
		_, err := c.Write(r.Context(),
			fleetapi.WriteRequest{Caller: alice, Write: ops.SetNetwork{Overrides: r.doc(`{"envParams":{"B":"x"}}`)}})
		if took := time.Since(before); !errors.Is(err, kv.ErrBroken) || took > 0 || a.tries.Load() != 1 {
			t.Errorf("after %s, %d tries: %v", took, a.tries.Load(), err)
		}
		a.broken.Store(false)
	})
}
