package storage

import (
	"errors"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// Watch sends an actor a listing of all keys and then each change, until the controller ends. If the store has
// compacted the changes since, it sends a new listing.
func (a *Access) Watch(to *actor.PID) {
	after, listed := kv.Revision(0), false
	for a.Context.Err() == nil {
		err := error(nil)
		if !listed {
			var l Listing
			if l, err = a.list(after > 0); err == nil {
				a.Send(to, l)
				after, listed = l.At, true
			}
		}
		if err == nil {
			err = a.store.Watch(a.Context, "", after, func(b kv.Batch) error {
				after = b.Revision
				if c := relevant(b); len(c.Events) > 0 {
					a.Send(to, c)
				}
				return nil
			})
		}
		if a.Context.Err() != nil {
			return
		}
		if errors.Is(err, kv.ErrCompacted) || errors.Is(err, kv.ErrFuture) {
			listed = false
		}
		a.Log.Warn("watch the store", zap.Error(err))
		a.Pause(StoreBackoff)
	}
}

// relevant drops the events that the fleet does not use, above all objects.
func relevant(b kv.Batch) kv.Batch {
	c := kv.Batch{Revision: b.Revision}
	for _, e := range b.Events {
		k := e.Entry.Key
		ok := k == history.HeadKey() || history.InPushes.Has(k) || IsPreview(k)
		for _, folder := range followedFolders {
			ok = ok || folder.Has(k)
		}
		if ok {
			c.Events = append(c.Events, e)
		}
	}
	return c
}

// PreviewPlan names a preview's plan, among the nodes' answers.
const PreviewPlan = "plan"

// IsPreview reports whether a key is the plan of a preview; answers are read on request.
func IsPreview(k kv.Key) bool {
	return history.InPreviews.Has(k) && strings.HasSuffix(string(k), "/"+PreviewPlan)
}
