package configdbapi

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// computing is a backend whose reads release their turn while their answer is still being computed.
type computing struct {
	*fake
	now, limit *atomic.Int64
}

func (b computing) Components(ctx context.Context, _ bool) ([]model.Component, error) {
	done, err := rest.AcquireTurn(ctx)
	if err != nil {
		return nil, err
	}
	done()
	if n := b.now.Add(1); n > b.limit.Load() {
		b.limit.Store(n)
	}
	time.Sleep(time.Second)
	b.now.Add(-1)
	return nil, nil
}

// A read that acquires its turn keeps it until its answer has its room.
func TestAReadKeepsItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := computing{&fake{}, &atomic.Int64{}, &atomic.Int64{}}
		h := Handler(b, door{})
		codes := make(chan int)
		for _, method := range []string{"GET", "HEAD", "GET", "GET"} {
			go func() { codes <- ask(h, asked{method: method, target: "components", token: "viewer"}).Code }()
		}
		for range 4 {
			if code := <-codes; code != 200 {
				t.Error(code)
			}
		}
		if n := b.limit.Load(); n != 1 {
			t.Errorf("%d reads of one caller were computed at a time", n)
		}
		if done, err := h.(*api).Turns.Acquire(t.Context(), rest.HolderOf("viewer", Viewer, "")); err != nil {
			t.Error(err)
		} else {
			done()
		}
	})
}
