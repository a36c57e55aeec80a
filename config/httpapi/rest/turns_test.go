package rest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A caller has one turn at a time, however many requests it sends at once; others do not wait for it.
func TestOneTurnOfEachCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		done, err := turns.Acquire(t.Context(), Holder{Who: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.Acquire(ctx, Holder{Who: "ann"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second one: %v", err)
		}
		other, err := turns.Acquire(t.Context(), Holder{Who: "bob"})
		if err != nil {
			t.Fatal(err)
		}
		other()
		waited := make(chan error)
		for range maxWaiting {
			go func() {
				done, err := turns.Acquire(t.Context(), Holder{Who: "ann"})
				if err == nil {
					done()
				}
				waited <- err
			}()
		}
		synctest.Wait()
		refused := 0
		done()
		for range maxWaiting {
			if err := <-waited; errors.Is(err, ErrCrowded) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused != 1 || len(turns.of) != 0 {
			t.Errorf("%d are refused, %d callers are known", refused, len(turns.of))
		}
	})
}

// All callers together have a few turns.
func TestTurnsOfAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		var dones []func()
		for i := range 2 * runtime.GOMAXPROCS(0) {
			done, err := turns.Acquire(t.Context(), Holder{Who: strings.Repeat("x", i+1)})
			if err != nil {
				t.Fatal(err)
			}
			dones = append(dones, done)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.Acquire(ctx, Holder{Who: "late"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one more: %v", err)
		}
		staff, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		for _, who := range []string{"boss", "her deputy"} {
			if done, err := turns.Acquire(staff, Holder{Who: who, Staff: true}); err != nil {
				t.Errorf("%s beside them: %v", who, err)
			} else {
				dones = append(dones, done)
			}
		}
		for _, done := range dones {
			done()
		}
		if done, err := turns.Acquire(t.Context(), Holder{Who: "late"}); err != nil {
			t.Error(err)
		} else {
			done()
		}
	})
}

// A request takes its turn once, however often it is acquired on the way, and keeps it until the end where that is
// requested.
func TestATurnIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		free := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			done, err := turns.Acquire(ctx, Holder{Who: "ann"})
			if err == nil {
				done()
			}
			return err == nil
		}
		take := func(ctx context.Context) func() {
			done, err := AcquireTurn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return done
		}
		ctx, hold := turns.Of(t.Context(), Holder{Who: "ann"})
		outer, inner := take(ctx), take(ctx)
		outer()
		outer()
		if free() {
			t.Error("given back while the inner one has it")
		}
		inner()
		if !free() {
			t.Error("not given back")
		}
		hold.Hold()
		if !free() {
			t.Error("kept before it is taken")
		}
		take(ctx)()
		if free() {
			t.Error("given back though it is kept")
		}
		take(ctx)()
		hold.End()
		hold.End()
		if !free() || len(turns.of) != 0 {
			t.Errorf("kept after its end: %v", turns.of)
		}
	})
}
