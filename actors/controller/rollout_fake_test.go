package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/history"
	"edgespan/config/revision"
)

// severed is a replica's way to the store that can be cut: what a dead replica does.
type severed struct {
	*memory
	cut atomic.Bool
	// A deaf one hears nothing of what others write.
	deaf atomic.Bool
	// A stubborn one believes that its lease holds, as a process does that slept.
	stubborn atomic.Bool
	refused  atomic.Int64 // writes of the leader that its fence kept from being done
	done     atomic.Int64 // and those that were done
}

var errSevered = errors.New("the store is out of reach")

func (s *severed) Get(ctx context.Context, k revision.Key) (revision.Entry, revision.Revision, error) {
	if s.cut.Load() {
		return revision.Entry{}, 0, errSevered
	}
	return s.memory.Get(ctx, k)
}

func (s *severed) List(ctx context.Context, p revision.Prefix, o revision.ListOptions) (revision.Page, error) {
	if s.cut.Load() {
		return revision.Page{}, errSevered
	}
	return s.memory.List(ctx, p, o)
}

func (s *severed) Commit(ctx context.Context, t revision.Txn) (revision.Outcome, error) {
	if s.cut.Load() {
		return revision.Outcome{}, errSevered
	}
	o, err := s.memory.Commit(ctx, t)
	for _, op := range t.Then {
		if s.stubborn.Load() && (op.Kind == revision.OpPut && (history.InRollouts.Has(op.Key) || history.InGates.Has(op.Key)) || isSweep(op)) {
			if o.Succeeded {
				s.done.Add(1)
			} else {
				s.refused.Add(1)
			}
		}
	}
	return o, err
}

// isSweep says whether an operation is that of a sweep: no other takes a part alone away.
func isSweep(op revision.Op) bool {
	return op.Kind == revision.OpDelete && strings.HasPrefix(string(op.Key), "sets/")
}

func (s *severed) Watch(ctx context.Context, p revision.Prefix, after revision.Revision, deliver func(revision.Batch) error) error {
	return s.memory.Watch(ctx, p, after, func(b revision.Batch) error {
		if s.cut.Load() {
			return errSevered
		}
		if s.deaf.Load() {
			return nil
		}
		return deliver(b)
	})
}

func (s *severed) Compact(ctx context.Context, at revision.Revision) error {
	if s.cut.Load() {
		return errSevered
	}
	return s.memory.Compact(ctx, at)
}

func (s *severed) Grant(ctx context.Context, ttl time.Duration) (revision.LeaseID, error) {
	if s.cut.Load() {
		return 0, errSevered
	}
	return s.memory.Grant(ctx, ttl)
}

func (s *severed) KeepAlive(ctx context.Context, id revision.LeaseID) (time.Duration, error) {
	if s.cut.Load() {
		return 0, errSevered
	}
	if s.stubborn.Load() {
		return storage.LeaderTTL, nil
	}
	return s.memory.KeepAlive(ctx, id)
}

func (s *severed) Revoke(ctx context.Context, id revision.LeaseID) error {
	if s.cut.Load() {
		return errSevered
	}
	return s.memory.Revoke(ctx, id)
}
