package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"edgespan/config/kv"
)

// flightStore is a store whose commits take a while, each a different time, and which records what is in flight at the
// same time.
type flightStore struct {
	Store   // the saver only commits
	model   *kv.Model
	see     sync.Mutex
	draw    *rand.Rand // draws the time of each commit
	keys    map[kv.Key]bool
	flying  int
	limit   int
	partial int // transactions sent beside others that were not full
	clashes []kv.Key
	wrote   map[kv.Key][]string
	commits int
}

func newFlightStore() *flightStore {
	return &flightStore{model: kv.NewModel(), draw: rand.New(rand.NewPCG(1, 2)), keys: map[kv.Key]bool{},
		wrote: map[kv.Key][]string{}}
}

// get returns the entry of a key.
func (s *flightStore) get(k kv.Key) kv.Entry {
	s.see.Lock()
	defer s.see.Unlock()
	e, _, _ := s.model.Get(k)
	return e
}

func (s *flightStore) Commit(_ context.Context, t kv.Txn) (kv.TxnResult, error) {
	s.see.Lock()
	if s.commits++; s.flying > 0 && len(t.Then) < kv.MaxOps {
		s.partial++
	}
	s.flying++
	s.limit = max(s.limit, s.flying)
	for _, op := range t.Then {
		if s.keys[op.Key] {
			s.clashes = append(s.clashes, op.Key)
		}
		s.keys[op.Key] = true
	}
	takes := time.Duration(1+s.draw.IntN(50)) * time.Millisecond
	s.see.Unlock()
	time.Sleep(takes)
	s.see.Lock()
	defer s.see.Unlock()
	o, err := s.model.Commit(t)
	s.flying--
	for _, op := range t.Then {
		delete(s.keys, op.Key)
		s.wrote[op.Key] = append(s.wrote[op.Key], string(op.Value))
	}
	return o, err
}

// burst adds entries for keys and returns the values that each key is to have, in order.
func (s *flightStore) burst(draw *rand.Rand, keys, entries int) map[kv.Key][]string {
	want := map[kv.Key][]string{}
	ctx, cancel := context.WithCancel(context.Background())
	d := NewAccess(NewHost(ctx, "a", zap.NewNop(), time.Now, nil, func(error) {}), s, nil)
	d.Leaf("saver", d.Saver.run)
	for i := range entries {
		k := kv.Key(fmt.Sprintf("k/%d", draw.IntN(keys)))
		want[k] = append(want[k], fmt.Sprint(i))
		d.Saver.Add(Save{Op: kv.Put(k, []byte(fmt.Sprint(i)))})
		if draw.IntN(100) == 0 {
			time.Sleep(time.Duration(draw.IntN(20)) * time.Millisecond)
		}
	}
	time.Sleep(time.Minute)
	cancel()
	d.leaves.Wait()
	return want
}

// A full transaction does not wait for those before it: the disk syncs them together. Each key ends with its last
// value, and no key is in flight twice.
func TestFullTransactionsGoTogetherAndKeysInTheirOrder(t *testing.T) {
	for _, one := range []struct {
		keys, entries, least, limit int
	}{{1, 300, 1, 1}, {40, 3000, 1, 1}, {2000, 20_000, 2, maxFlying}, {1_000_000, 20_000, maxFlying, maxFlying}} {
		t.Run(fmt.Sprint(one.keys, " keys"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFlightStore()
				want := s.burst(rand.New(rand.NewPCG(3, 4)), one.keys, one.entries)
				if len(s.clashes) > 0 || s.limit < one.least || s.limit > one.limit {
					t.Errorf("%d clashes, %d at once, want %d to %d, %d commits", len(s.clashes), s.limit, one.least, one.limit,
						s.commits)
				}
				for k, values := range want {
					if fmt.Sprint(s.wrote[k]) != fmt.Sprint(values) {
						t.Fatalf("%s became %v, want %v", k, s.wrote[k], values)
					}
				}
			})
		})
	}
}

// A single node waits for no other, and entries that arrive while its entry is in flight go together.
func TestWhatComesMeanwhileGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFlightStore()
		if s.burst(rand.New(rand.NewPCG(3, 4)), 1_000_000, kv.MaxOps); s.commits > 20 || s.limit != 1 || s.partial != 0 {
			t.Errorf("%d commits, %d at once, %d not full", s.commits, s.limit, s.partial)
		}
	})
}
