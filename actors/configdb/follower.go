package configdb

import (
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/configdb/model"
	"edgespan/config/kv"
)

// followerActor is /follower: it runs its leaf.
type followerActor struct{ d *deps }

// Receive starts the leaf, and crashes if the leaf does.
func (a *followerActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.d.runLeaf(c.Self(), a.d.follow)
	case leafCrashed:
		panic(m.reason)
	}
}

// errBroken reports content of the store that can't be followed: the state is read again.
var errBroken = errors.New("cannot follow the store")

// follow follows the store until the end. If the store has compacted the changes since, it reads the state again.
func (d *deps) follow() {
	var state *model.State // nil: it has to be read
	for d.ctx.Err() == nil {
		err := error(nil)
		if state == nil {
			if state, err = model.Load(source{ctx: d.ctx, d: d}); err == nil {
				state = state.WithKey(d.Key)
				d.recent.skip(state.Revision())
				d.shown.show(state)
			}
		}
		if err == nil {
			err = d.Store.Watch(d.ctx, model.Below, state.LastRevision(), func(b kv.Batch) error {
				next, err := state.Follow(b)
				if err == nil {
					err = d.recent.add(b)
				}
				if err != nil {
					return fmt.Errorf("%w: %w", errBroken, err)
				}
				state = next
				d.shown.show(state)
				return nil
			})
		}
		if d.ctx.Err() != nil {
			return
		}
		if errors.Is(err, kv.ErrCompacted) || errors.Is(err, kv.ErrFuture) || errors.Is(err, errBroken) {
			state = nil
		}
		if errors.Is(err, kv.ErrFuture) { // a backup was restored: revisions start over
			d.answers.clear()
		}
		d.Log.Warn("follow the facts", zap.Error(err))
		select {
		case <-time.After(storeBackoff):
		case <-d.ctx.Done():
		}
	}
}
