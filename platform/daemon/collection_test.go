package daemon

import (
	"context"
	"runtime"
	"testing"
	"time"
)

func TestSomethingRunsAfterEachCollection(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ran, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		onCollection(ctx, func() { ran <- struct{}{} })
	}()
	for i := range 3 {
		// A collection may begin before the object is armed: ask again until one was noticed.
		for end := time.Now().Add(10 * time.Second); ; {
			runtime.GC()
			select {
			case <-ran:
			case <-time.After(10 * time.Millisecond):
				if time.Now().After(end) {
					t.Fatalf("no call after collection %d", i)
				}
				continue
			}
			break
		}
	}
	cancel()
	for { // one more call may be under way
		select {
		case <-ran:
			continue
		case <-ended:
		}
		break
	}
}

func TestChecksEndWhenNothingIsLeftToDo(t *testing.T) {
	n := 0
	every(t.Context(), time.Millisecond, func() bool { n++; return n < 3 })
	if n != 3 {
		t.Errorf("%d checks", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	every(ctx, time.Hour, func() bool { t.Error("checked after the end"); return false })
}
