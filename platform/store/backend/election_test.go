package backend

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/kv"
)

// moody is a store that grants nothing until set to, and for which there is no other candidate.
type moody struct {
	mu            sync.Mutex // a lease is released while it is kept alive
	model         *kv.Model
	grants, fails int
}

func (s *moody) Grant(_ context.Context, ttl time.Duration) (kv.LeaseID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grants++; s.grants <= s.fails {
		return 0, errors.New("no")
	}
	return s.model.Grant(time.Now(), ttl)
}

func (s *moody) Commit(_ context.Context, t kv.Txn) (kv.TxnResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model.Commit(t)
}

func (s *moody) KeepAlive(_ context.Context, id kv.LeaseID) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model.KeepAlive(time.Now(), id)
}

func (s *moody) Revoke(_ context.Context, id kv.LeaseID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model.Revoke(id)
}

// What the store can't do is reported once, however often it is tried. The end of the context is reported before the
// lease is released, and the lease is released before Run returns.
func TestWhatAnElectionTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &moody{model: kv.NewModel(), fails: 8}
		ctx, cancel := context.WithCancel(t.Context())
		var reported []string
		leads := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			e, _, _ := s.model.Get("leader")
			return e.Exists()
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			Election{Store: s, Key: "leader", TTL: kv.MinTTL, Clock: Wall{}}.Run(ctx, nil, func(turn kv.ElectionUpdate) {
				switch {
				case turn.Failed != nil:
					reported = append(reported, turn.Failed.Error())
				case turn.Won != nil:
					reported = append(reported, "won")
				case turn.Lost != nil && leads():
					reported = append(reported, turn.Lost.Error())
				}
			})
		}()
		time.Sleep(time.Minute)
		cancel()
		<-over
		if got := strings.Join(reported, ", "); got != "grant a lease: no, won, context canceled" {
			t.Errorf("told: %s", got)
		}
		if leads() {
			t.Error("its key outlives it")
		}
	})
}
