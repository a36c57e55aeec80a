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

// leaderless is the pause of a watch in a part of the cluster without a leader: an election takes a second.
const leaderless = time.Second

// Watch resumes by itself after a broken connection, and after its member has lost the leader, so that it does not
// fall silent in a part that is cut off.
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

// errEnded reports that etcd's client ended a watch without a reason: it was closed.
var errEnded = errors.New("watch ended")

// follow delivers events until an error, and advances after.
func (s *Store) follow(ctx context.Context, p kv.Prefix, after *kv.Revision, deliver func(kv.Batch) error) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel() // frees the client's resources
	from := clientv3.WithRev(int64(*after) + 1)
	for answer := range s.client.Watch(ctx, s.keys()+string(p), clientv3.WithPrefix(), from) {
		if err := answer.Err(); err != nil {
			return err
		}
		// etcd sends the events of a revision in one answer, possibly several revisions in one.
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
