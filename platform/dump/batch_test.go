package dump

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestWhatComesDuringATurnGoesTogetherInTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns [][]int // written by one turn at a time, read between them
		var began, ended atomic.Int64
		first := make(chan struct{})
		b := NewBatch(func(items []int) {
			turns = append(turns, items)
			if began.Add(1) == 1 {
				<-first
			}
		})
		begin := func(i int) {
			go func() {
				if err := b.Do(t.Context(), i); err != nil {
					t.Error(err)
				}
				ended.Add(1)
			}()
			synctest.Wait()
		}
		begin(1)
		begin(2)
		begin(3)
		if n := ended.Load(); n != 0 {
			t.Errorf("%d ended before their turn", n)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Do(gone, 4); !errors.Is(err, context.Canceled) {
			t.Errorf("one that is given up: %v", err)
		}
		close(first)
		synctest.Wait()
		if want := [][]int{{1}, {2, 3, 4}}; !slices.EqualFunc(turns, want, slices.Equal) || ended.Load() != 3 {
			t.Errorf("turns %v, %d ended; want %v, 3", turns, ended.Load(), want)
		}
		begin(5) // after a rest
		if len(turns) != 3 || ended.Load() != 4 {
			t.Errorf("turns %v, %d ended", turns, ended.Load())
		}
	})
}
