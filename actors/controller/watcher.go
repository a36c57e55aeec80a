package controller

import (
	"errors"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config/history"
	"edgespan/config/revision"
)

// changes is what one transaction changed of what the fleet goes by.
type changes struct {
	at     revision.Revision
	events []revision.Event
}

// watch tells an actor all keys once and then each change, until the controller ends. Where
// the store has forgotten what changed, all is told again.
func (d *access) watch(to *actor.PID) {
	after, listed := revision.Revision(0), false
	for d.context.Err() == nil {
		err := error(nil)
		if !listed {
			var l listing
			if l, err = d.list(after > 0); err == nil {
				d.send(to, l)
				after, listed = l.at, true
			}
		}
		if err == nil {
			err = d.store.Watch(d.context, "", after, func(b revision.Batch) error {
				after = b.Revision
				if c := relevant(b); len(c.events) > 0 {
					d.send(to, c)
				}
				return nil
			})
		}
		if d.context.Err() != nil {
			return
		}
		if errors.Is(err, revision.ErrCompacted) || errors.Is(err, revision.ErrFuture) {
			listed = false
		}
		d.Log.Warn("watch the store", zap.Error(err))
		d.pause(storeBackoff)
	}
}

// relevant is what of a batch the fleet goes by: not the objects, which are most of it.
func relevant(b revision.Batch) changes {
	c := changes{at: b.Revision}
	for _, e := range b.Events {
		k := e.Entry.Key
		is := k == history.HeadKey() || history.InPushes.Has(k) || isPreview(k)
		for _, folder := range followed {
			is = is || folder.Has(k)
		}
		if is {
			c.events = append(c.events, e)
		}
	}
	return c
}

// previewPlan is the name of what is asked, among the answers of the nodes.
const previewPlan = "plan"

// isPreview says whether a key begins a preview; answers to one are no news.
func isPreview(k revision.Key) bool {
	return history.InPreviews.Has(k) && strings.HasSuffix(string(k), "/"+previewPlan)
}
