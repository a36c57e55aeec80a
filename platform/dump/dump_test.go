package dump

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCallersShareAListingThatBeganAfterTheyAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads, world atomic.Int64
		s := New(time.Minute, func(context.Context) (int64, error) {
			reads.Add(1)
			seen := world.Load() // what is on the host when the listing begins
			time.Sleep(time.Second)
			return seen, nil
		})
		got := make(chan int64, 11)
		ask := func() {
			v, err := s.Get(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- v
		}
		go ask()
		synctest.Wait() // the first listing runs
		world.Store(1)
		for range 10 {
			go ask()
		}
		if v := <-got; v != 0 {
			t.Errorf("first caller saw %d", v)
		}
		for range 10 {
			if v := <-got; v != 1 {
				t.Error("a caller got a listing that began before it asked")
			}
		}
		if n := reads.Load(); n != 2 {
			t.Errorf("%d listings for 11 callers, want 2", n)
		}
	})
}

// A listing that a crowd shared is followed by a rest, in which the next crowd gathers; who comes
// alone waits for nobody.
func TestACrowdIsGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 100 * time.Millisecond
		var reads atomic.Int64
		s := New(time.Minute, func(context.Context) (int, error) {
			reads.Add(1)
			time.Sleep(takes)
			return 0, nil
		})
		get := func() {
			if _, err := s.Get(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for range 5 {
			began := time.Now()
			get()
			if d := time.Since(began); d != takes {
				t.Errorf("who comes alone waits %v, want %v", d, takes)
			}
		}
		reads.Store(0)
		began := time.Now()
		var crowd sync.WaitGroup
		for range 20 {
			crowd.Go(func() {
				for range 10 { // each asks again when it was answered
					get()
				}
			})
		}
		crowd.Wait()
		if share := float64(reads.Load()) * takes.Seconds() / time.Since(began).Seconds(); share > 0.3 {
			t.Errorf("%d listings for a crowd took %.2f of the time, want a quarter", reads.Load(), share)
		}
		if n := reads.Load(); n > 12 {
			t.Errorf("%d listings for a crowd that asked ten times, want hardly more than ten", n)
		}
	})
}

func TestACallerLeavesAtItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(time.Minute, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("waited %v", d)
		}
		// A hung listing ends at its own deadline and the next one runs then.
		if _, err := s.Get(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		if d := time.Since(began); d != 2*time.Minute {
			t.Errorf("second caller was answered after %v", d)
		}
	})
}
