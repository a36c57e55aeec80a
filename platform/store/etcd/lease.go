package etcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"edgespan/config/kv"
)

func (s *Store) Grant(ctx context.Context, ttl time.Duration) (kv.LeaseID, error) {
	if err := kv.CheckTTL(ttl); err != nil {
		return 0, fmt.Errorf("grant lease: %w", err)
	}
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	var out *clientv3.LeaseGrantResponse
	err := s.led(ctx, false, func(ctx context.Context) (err error) {
		out, err = s.client.Grant(ctx, int64(ttl/time.Second))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("grant lease: %w", s.meaning(ctx, err))
	}
	return kv.LeaseID(out.ID), nil
}

func (s *Store) KeepAlive(ctx context.Context, id kv.LeaseID) (time.Duration, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	out, err := s.client.KeepAliveOnce(ctx, clientv3.LeaseID(id))
	if err != nil {
		return 0, fmt.Errorf("keep lease %d alive: %w", id, s.meaning(ctx, err))
	}
	return time.Duration(out.TTL) * time.Second, nil
}

func (s *Store) Revoke(ctx context.Context, id kv.LeaseID) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if _, err := s.client.Revoke(ctx, clientv3.LeaseID(id)); err != nil {
		return fmt.Errorf("revoke lease %d: %w", id, s.meaning(ctx, err))
	}
	return nil
}

func (s *Store) Keys(ctx context.Context, id kv.LeaseID) ([]kv.Key, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	out, err := s.client.TimeToLive(ctx, clientv3.LeaseID(id), clientv3.WithAttachedKeys())
	if err != nil {
		return nil, fmt.Errorf("look at lease %d: %w", id, s.meaning(ctx, err))
	}
	if out.TTL < 0 { // etcd's form of a missing lease
		return nil, fmt.Errorf("look at lease %d: %w", id, kv.ErrNoLease)
	}
	var keys []kv.Key
	for _, path := range out.Keys {
		keys = append(keys, s.key(path))
	}
	slices.Sort(keys)
	return keys, nil
}
