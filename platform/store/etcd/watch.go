package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"edgespan/config/kv"
)

// leaderless is how long a watch waits before it asks again in a part of the
// cluster that has no leader: an election takes a second.
const leaderless = time.Second

// Watch resumes by itself where a connection broke, and where its member of the
// cluster lost the leader, so that it does not fall silent in a cut-off part.
func (s *Store) Watch(ctx context.Context, p kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error {
	if err := p.Check(); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	now, err := s.client.Get(ctx, s.root+"id", clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("watch below %q: %w", p, s.meaning(ctx, err))
	}
	if at := kv.Revision(now.Header.Revision); after > at {
		return fmt.Errorf("watch below %q: %w: %d, the store is at %d", p, kv.ErrFuture, after, at)
	}
	for {
		var reader error
		err := s.follow(ctx, p, &after, func(b kv.Batch) error {
			reader = deliver(b)
			return reader
		})
		switch {
		case reader != nil:
			return reader
		case errors.Is(err, rpctypes.ErrNoLeader):
		default:
			return fmt.Errorf("watch below %q: %w", p, s.meaning(ctx, err))
		}
		select {
		case <-time.After(leaderless):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errEnded is a watch that etcd's client ended without saying why: it was closed.
var errEnded = errors.New("watch ended")

// follow delivers until an error, and moves after along.
func (s *Store) follow(ctx context.Context, p kv.Prefix, after *kv.Revision, deliver func(kv.Batch) error) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel() // frees what the client holds for it
	from := clientv3.WithRev(int64(*after) + 1)
	for answer := range s.client.Watch(ctx, s.keys()+string(p), clientv3.WithPrefix(), from) {
		if err := answer.Err(); err != nil {
			return err
		}
		// etcd sends the events of a revision in one answer, and may send several
		// revisions in one.
		for _, b := range s.batches(answer.Events) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := deliver(b); err != nil {
				return err
			}
			*after = b.Revision
		}
	}
	return errors.Join(errEnded, ctx.Err())
}

func (s *Store) batches(events []*clientv3.Event) []kv.Batch {
	var out []kv.Batch
	for _, ev := range events {
		at := kv.Revision(ev.Kv.ModRevision)
		if len(out) == 0 || out[len(out)-1].Revision != at {
			out = append(out, kv.Batch{Revision: at})
		}
		e := kv.Event{Kind: kv.EventPut, Entry: s.entry(ev.Kv)}
		if ev.Type == mvccpb.Event_DELETE {
			e = kv.Event{Kind: kv.EventDelete, Entry: kv.Entry{Key: e.Entry.Key, ModRevision: at}}
		}
		last := &out[len(out)-1]
		last.Events = append(last.Events, e)
	}
	return out
}
