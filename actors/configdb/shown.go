package configdb

import (
	"context"
	"sync/atomic"

	"edgespan/config/configdb/model"
	"edgespan/config/kv"
)

// view is the newest state that is known here.
type view struct {
	*model.State               // nil: nothing is known yet
	next         chan struct{} // is closed when there is a newer view
}

// has says whether the state has seen what a revision of the store wrote to the head.
func (v *view) has(head kv.Revision) bool { return v.State != nil && v.Head() >= head }

// shown holds the newest view. The follower alone shows; also what this replica wrote comes back
// by the store's watch, so that there is one way to a state and no race between two.
type shown struct{ now atomic.Pointer[view] }

func (s *shown) init() { s.now.Store(&view{next: make(chan struct{})}) }

// show puts a state in the place of the one before.
func (s *shown) show(state *model.State) {
	old := s.now.Swap(&view{state, make(chan struct{})})
	close(old.next)
}

// wait is the newest state once it has seen what a revision of the store wrote to the head.
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
