package configdb

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/kv"
)

// TestQuestionsAreShared asks while a question is under way: all who do share the next one,
// and none gets the answer of the first, which may be older than what they know.
func TestQuestionsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, asked := make(chan kv.Revision), 0
		f := newFreshness(t.Context().Done(), func() (kv.Revision, error) { asked++; return <-answers, nil })
		go f.run()
		var all sync.WaitGroup
		ask := func(want kv.Revision) {
			all.Go(func() {
				if got, err := f.newest(context.Background()); got != want || err != nil {
					t.Errorf("%d, %v, want %d", got, err, want)
				}
			})
			synctest.Wait()
		}
		ask(7)
		for range 100 {
			ask(8)
		}
		answers <- 7
		synctest.Wait()
		answers <- 8
		all.Wait()
		if asked != 2 {
			t.Errorf("the store was asked %d times, want 2", asked)
		}
		synctest.Wait()
		ask(9)
		answers <- 9
		all.Wait()
	})
}

func TestAQuestionIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan kv.Revision)
		f := newFreshness(t.Context().Done(), func() (kv.Revision, error) { return <-answers, nil })
		go f.run()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.newest(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		answers <- 1
	})
}

func TestNobodyIsAskedAfterTheEnd(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	f := newFreshness(ended, nil)
	f.run()
	if _, err := f.newest(t.Context()); !isFault(err, model.Busy) {
		t.Error(err)
	}
}

func TestAPanicOfTheStoreIsAnAnswer(t *testing.T) {
	sick := true
	f := newFreshness(t.Context().Done(), func() (kv.Revision, error) {
		if sick {
			panic("disk")
		}
		return 3, nil
	})
	go f.run()
	if _, err := f.newest(t.Context()); err == nil || !strings.Contains(err.Error(), "disk") {
		t.Errorf("the error is %v", err)
	}
	sick = false
	if got, err := f.newest(t.Context()); got != 3 || err != nil {
		t.Error(got, err)
	}
}
