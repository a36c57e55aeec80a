package controller

import (
	"context"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// Write validates, plans and stores one write. The leader runs optimizations.
func (c *Controller) Write(asked context.Context, r fleetapi.WriteRequest) (fleetapi.Written, error) {
	ctx, cancel := context.WithTimeout(asked, storage.WriteTimeout)
	defer cancel()
	var a storage.WriteResult
	_, optimizes := r.Write.(ops.Optimize)
	switch {
	case r.DryRun:
		a = c.dryRun(ctx, r)
	case optimizes && !c.d.Offline:
		a = c.d.writes.SubmitToLeader(ctx, r)
	default:
		a = c.d.writes.WriteBackedUp(asked, storage.WriteRequest{Request: r})
	}
	if a.Err != nil {
		return fleetapi.Written{}, a.Err
	}
	if !r.DryRun {
		c.d.waitReadable(ctx, a.Record.Number)
	}
	return writtenOf(a, r.DryRun), nil
}

func writtenOf(a storage.WriteResult, dry bool) fleetapi.Written {
	out := fleetapi.Written{
		Revision: a.Record.Number, Changed: a.Record.Tree != "" || dry && len(a.Outcome.Change.Layers) > 0, DryRun: dry,
		Message:  a.Outcome.Message,
		Warnings: a.Outcome.Warnings, Unknown: []string{}, Effects: []fleetapi.Effect{},
		Actions: actionsOf(a.Outcome.Actions), Peers: a.Outcome.Peers,
	}
	if out.Warnings == nil {
		out.Warnings = []string{}
	}
	for _, path := range a.Outcome.Unknown {
		out.Unknown = append(out.Unknown, config.FormatPath(path))
	}
	for _, e := range a.Outcome.Effects {
		effect := fleetapi.Effect{Nodes: e.Nodes, Values: []fleetapi.Value{}, Actions: actionsOf(e.Actions)}
		for _, v := range e.Values {
			one := fleetapi.Value{Path: config.FormatPath(v.Path), Old: v.Old, New: v.New, HadOld: v.HadOld, HasNew: v.HasNew}
			if v.HasNew {
				one.Origin = v.Origin.String()
			}
			effect.Values = append(effect.Values, one)
		}
		out.Effects = append(out.Effects, effect)
	}
	return out
}

// dryRun validates a write without storing it. It delays no write.
func (c *Controller) dryRun(ctx context.Context, r fleetapi.WriteRequest) storage.WriteResult {
	w, err := read(ctx, c, func(w *ops.Snapshot) (storage.WriteResult, error) { return c.d.writes.DryRun(ctx, r, w) })
	w.Err = err
	return w
}

// snapshot returns the current Snapshot, in which operations are validated.
func (d *deps) snapshot(ctx context.Context) (*ops.Snapshot, error) { return d.writes.Snapshot(ctx) }

// snapshotAt returns a Snapshot on a state of the layers.
func (d *deps) snapshotAt(state history.State) *ops.Snapshot {
	w := d.dir.snapshot()
	w.State, w.E2E, w.MaskKey, w.Replica, w.Own = state, d.E2E, d.MaskKey, d.Replica, d.Own
	w.Layers, w.Base = d.kindLayers, d.Metadata
	return w
}
