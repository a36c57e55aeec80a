package controller

import (
	"context"
	"fmt"
	"io"
	"time"

	"edgespan/actors/controller/rollouts"
	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/history"
	"edgespan/config/httpapi/fleetapi"
)

// pruneTries is how often a prune starts over because of concurrent writes.
const pruneTries = 20

// PruneHistory deletes the revisions before a time. It keeps the newest, those of staged rollouts that are under way or
// ended since then, those of searches that test, and the last author of each layer.
func (c *Controller) PruneHistory(ctx context.Context, by fleetapi.Caller, before time.Time,
	dryRun bool) (fleetapi.PrunedHistory, error) {
	if err := c.d.checkUpToDate(ctx); err != nil {
		return fleetapi.PrunedHistory{}, err
	}
	limit, err := c.d.firstNeededByRollouts(ctx, before)
	if err != nil {
		return fleetapi.PrunedHistory{}, err
	}
	searches, err := c.Bisects(ctx)
	if err != nil {
		return fleetapi.PrunedHistory{}, err
	}
	for _, b := range searches {
		if b.State == bisect.Testing && b.Good > 0 && (limit == 0 || b.Good < limit) {
			limit = b.Good
		}
	}
	out := fleetapi.PrunedHistory{DryRun: dryRun}
	for range pruneTries {
		p, err := history.NewPrune(c.d.Reader(ctx), before, limit, storage.Author(by), c.d.Now())
		if err != nil {
			return out, fmt.Errorf("prune the history: %w", err)
		}
		out.From = p.Edge.From
		if dryRun {
			out.Revisions, out.Objects = p.Records, p.Objects
			return out, nil
		}
		done, err := c.d.Prune(ctx, p)
		if err != nil {
			return out, fmt.Errorf("prune the history: interrupted, run it again to delete the rest: %w",
				storage.BusyError(err))
		}
		if done {
			out.Revisions, out.Objects = out.Revisions+p.Records, out.Objects+p.Objects
			return out, nil
		}
	}
	return out, errMoved
}

// firstNeededByRollouts returns the oldest revision that a revert of a staged rollout needs; 0 for none.
func (d *deps) firstNeededByRollouts(ctx context.Context, before time.Time) (first uint64, err error) {
	a, err := d.Request(ctx, d.rollout, rollouts.List{All: true})
	if err != nil {
		return 0, err
	}
	for _, s := range a.([]rollouts.Listed) {
		if s.End != "" && s.Ended.Before(before) {
			continue
		}
		for _, n := range append(s.Revisions[:len(s.Revisions):len(s.Revisions)], s.Revision) {
			if n = n - min(n, 1); n > 0 && (first == 0 || n < first) { // and the revision before it
				first = n
			}
		}
	}
	return first, nil
}

// Backup returns a function that streams the current content of the store.
func (c *Controller) Backup(ctx context.Context, version string) (func(context.Context, io.Writer) error, error) {
	return c.d.BackUp(ctx, version)
}
