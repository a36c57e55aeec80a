package configdb

import (
	"context"
	"sync/atomic"

	"edgespan/config/configdb/model"
	"edgespan/config/kv"
)

// view is the newest known state.
type view struct {
	*model.State               // nil: not read yet
	next         chan struct{} // closed when there is a newer view
}

// has reports whether the state includes the head as of a revision of the store.
func (v *view) has(head kv.Revision) bool { return v.State != nil && v.Head() >= head }

// shown holds the newest view. Only the follower sets it; this replica's own writes come back through the store's watch
// too, so that states arrive on one path, without races.
type shown struct{ now atomic.Pointer[view] }

func (s *shown) init() { s.now.Store(&view{next: make(chan struct{})}) }

// show replaces the state.
func (s *shown) show(state *model.State) {
	old := s.now.Swap(&view{state, make(chan struct{})})
	close(old.next)
}

// wait returns the newest state once it includes the head as of a revision of the store.
func (s *shown) wait(ctx context.Context, head kv.Revision) (*model.State, error) {
	for {
		v := s.now.Load()
		if v.has(head) {
			return v.State, nil
		}
		select {
		case <-v.next:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
