package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"edgespan/config/fleet/pace"
	"edgespan/config/kv"
)

// onSaver runs a test on a saver and a store whose commits take a while.
func onSaver(t *testing.T, f func(s *flightStore, saver *Saver)) {
	synctest.Test(t, func(t *testing.T) {
		s := newFlightStore()
		ctx, cancel := context.WithCancel(context.Background())
		d := NewAccess(NewHost(ctx, "a", zap.NewNop(), time.Now, nil, func(error) {}), s, nil)
		d.Leaf("saver", d.Saver.run)
		f(s, d.Saver)
		cancel()
		d.leaves.Wait()
		time.Sleep(time.Hour) // what a pace delayed finds that it has ended
	})
}

// One node has a thousand entries a second written for a minute: the others don't wait for it, only its newest entry
// counts, and the store gets no more than the pace allows.
func TestANodeThatHasMuchWrittenHoldsNobodyBack(t *testing.T) {
	onSaver(t, func(s *flightStore, saver *Saver) {
		var bad pace.Budget
		var late time.Duration
		for i := range 60_000 {
			saver.Add(Save{Op: kv.Put(kv.Key(fmt.Sprint("bad/", i%3)), []byte(fmt.Sprint(i))), Of: &bad})
			if i%1000 == 0 {
				begun, good := time.Now(), kv.Key(fmt.Sprint("good/", i))
				saver.Add(Save{Op: kv.Put(good, []byte("x")), Of: &pace.Budget{}})
				for {
					if e := s.get(good); e.Exists() {
						break
					}
					time.Sleep(time.Millisecond)
				}
				late = max(late, time.Since(begun))
			}
			time.Sleep(time.Millisecond)
		}
		if late > 150*time.Millisecond { // two transactions, and none after them
			t.Errorf("another node waits for %v", late)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		writes := 0
		for i := range 3 {
			k := kv.Key(fmt.Sprint("bad/", i))
			writes += len(s.wrote[k])
			if last := s.wrote[k][len(s.wrote[k])-1]; last != fmt.Sprint(59_997+i) {
				t.Errorf("%s is %s at the end", k, last)
			}
		}
		if limit := WritesAtOnce + 64*WritesPace; writes > limit || writes < WritesAtOnce {
			t.Errorf("%d writes in a minute, %d are within the pace", writes, limit)
		}
		if len(saver.lines) > 0 || len(saver.ready) > 0 {
			t.Errorf("%d lines are left", len(saver.lines))
		}
	})
}

// A large entry is written at once, and then at the rate that its size permits.
func TestWhatANodeHasWrittenIsBoundedInBytes(t *testing.T) {
	onSaver(t, func(s *flightStore, saver *Saver) {
		var bad pace.Budget
		large := make([]byte, 100<<10)
		for range 600 {
			saver.Add(Save{Op: kv.Put("k", large), Of: &bad})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if got, limit := len(s.wrote["k"])*len(large), BytesAtOnce+600*BytesPace+2*len(large); got > limit ||
			got < BytesAtOnce {
			t.Errorf("%d bytes in ten minutes, %d are within the pace", got, limit)
		}
	})
}

// A read is never delayed, nor is an entry that belongs to no node.
func TestWhatHasNoPace(t *testing.T) {
	onSaver(t, func(s *flightStore, saver *Saver) {
		var of pace.Budget
		for range 100 {
			of.Spend(time.Now(), nodePace, 1<<20)
		}
		saver.Add(Save{Op: kv.Get("read"), Of: &of})
		for range 100 {
			saver.Add(Save{Op: kv.Put("k", []byte("x"))})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(s.wrote["read"]) != 1 || len(s.wrote["k"]) != 100 {
			t.Errorf("%d reads and %d writes", len(s.wrote["read"]), len(s.wrote["k"]))
		}
	})
}

// One entry whose compare fails, among many, costs the others a few transactions, and not one each.
func TestABatchWithOneThatDoesNotHold(t *testing.T) {
	onSaver(t, func(s *flightStore, saver *Saver) {
		draw := rand.New(rand.NewPCG(1, 2))
		synctest.Wait()
		before, bad := s.commits, draw.IntN(kv.MaxOps)
		batch := make([]Save, kv.MaxOps)
		for i := range batch {
			k := kv.Key(fmt.Sprint("k/", i))
			batch[i] = Save{Op: kv.Put(k, []byte("x"))}
			if i == bad {
				c := kv.AtRevision(k, 99)
				batch[i].Compare = &c
			}
		}
		saver.store(batch)
		synctest.Wait()
		for i, e := range batch {
			if got := s.get(e.Op.Key); got.Exists() == (i == bad) {
				t.Errorf("entry %d: %v", i, got.Exists())
			}
		}
		if n := s.commits - before; n > 16 {
			t.Errorf("%d transactions", n)
		}
	})
}
