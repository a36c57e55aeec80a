package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// severed is a replica's connection to the store that can be cut, as when the replica dies.
type severed struct {
	*memory
	cut atomic.Bool
	// A deaf replica receives nothing of what others write.
	deaf atomic.Bool
	// A stubborn replica believes that its lease holds, as a process that slept does.
	stubborn atomic.Bool
	refused  atomic.Int64 // writes of the leader that its fence refused
	done     atomic.Int64 // and those that were done
}

var errSevered = errors.New("the store is out of reach")

func (s *severed) Get(ctx context.Context, k kv.Key) (kv.Entry, kv.Revision, error) {
	if s.cut.Load() {
		return kv.Entry{}, 0, errSevered
	}
	return s.memory.Get(ctx, k)
}

func (s *severed) List(ctx context.Context, p kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	if s.cut.Load() {
		return kv.Page{}, errSevered
	}
	return s.memory.List(ctx, p, o)
}

func (s *severed) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	if s.cut.Load() {
		return kv.TxnResult{}, errSevered
	}
	o, err := s.memory.Commit(ctx, t)
	for _, op := range t.Then {
		if s.stubborn.Load() &&
			(op.Kind == kv.OpPut && (history.InRollouts.Has(op.Key) || history.InAdmissions.Has(op.Key)) || isSweep(op)) {
			if o.Succeeded {
				s.done.Add(1)
			} else {
				s.refused.Add(1)
			}
		}
	}
	return o, err
}

// isSweep reports whether an operation belongs to a sweep: only a sweep deletes a part alone.
func isSweep(op kv.Op) bool {
	return op.Kind == kv.OpDelete && strings.HasPrefix(string(op.Key), "sets/")
}

func (s *severed) Watch(ctx context.Context, p kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error {
	return s.memory.Watch(ctx, p, after, func(b kv.Batch) error {
		if s.cut.Load() {
			return errSevered
		}
		if s.deaf.Load() {
			return nil
		}
		return deliver(b)
	})
}

func (s *severed) Compact(ctx context.Context, at kv.Revision) error {
	if s.cut.Load() {
		return errSevered
	}
	return s.memory.Compact(ctx, at)
}

func (s *severed) Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error) {
	if s.cut.Load() {
		return 0, errSevered
	}
	return s.memory.Grant(ctx, ttl)
}

func (s *severed) KeepAlive(ctx context.Context, id kv.LeaseID) (time.Duration, error) {
	if s.cut.Load() {
		return 0, errSevered
	}
	if s.stubborn.Load() {
		return storage.LeaderTTL, nil
	}
	return s.memory.KeepAlive(ctx, id)
}

func (s *severed) Revoke(ctx context.Context, id kv.LeaseID) error {
	if s.cut.Load() {
		return errSevered
	}
	return s.memory.Revoke(ctx, id)
}
