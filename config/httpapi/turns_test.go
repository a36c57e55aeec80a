package httpapi

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// One caller has one turn at a time, whatever it asks at once; others do not wait for it.
func TestOneTurnOfEachCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		done, err := turns.Take(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.Take(ctx, "ann"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second one: %v", err)
		}
		other, err := turns.Take(t.Context(), "bob")
		if err != nil {
			t.Fatal(err)
		}
		other()
		waited := make(chan error)
		for range mostWaiting {
			go func() {
				done, err := turns.Take(t.Context(), "ann")
				if err == nil {
					done()
				}
				waited <- err
			}()
		}
		synctest.Wait()
		refused := 0
		done()
		for range mostWaiting {
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
			done, err := turns.Take(t.Context(), strings.Repeat("x", i+1))
			if err != nil {
				t.Fatal(err)
			}
			dones = append(dones, done)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.Take(ctx, "late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one more: %v", err)
		}
		for _, done := range dones {
			done()
		}
		if done, err := turns.Take(t.Context(), "late"); err != nil {
			t.Error(err)
		} else {
			done()
		}
	})
}
