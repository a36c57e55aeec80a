package controller

import (
	"slices"

	"go.uber.org/zap"

	"edgespan/actors/controller/rollouts"
	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// ownFile names the file of the controller's own config.
const ownFile = "controller"

// topologyFacts is where a node's auto layer has the facts of the topology.
const topologyFacts = "topologyInfo"

// settings returns the current settings.
func (d *deps) settings() fleet.Settings { return *d.set.Load() }

// Set replaces the settings for all nodes, effective immediately.
func (c *Controller) Set(s fleet.Settings) {
	s = s.WithDefaults(c.d.Replica)
	c.d.set.Store(&s)
	c.d.Send(c.d.fleet, fleet.Changed{Settings: s})
}

// ownChange returns what a revision, perhaps written by another replica, changes in this replica's controller config.
func (d *deps) ownChange(before history.State, m headRead) (controllerconf.Change, error) {
	layers := []history.Layer{{Kind: history.E2E, Name: ownFile}, {Kind: history.E2E, Name: ownFile + "/" + d.Replica}}
	if d.Offline || d.E2E[ownFile] == nil || !slices.ContainsFunc(m.diffs,
		func(diff history.LayerDiff) bool { return slices.Contains(layers, diff.Layer) }) {
		return controllerconf.Change{}, nil
	}
	return d.snapshotAt(m.state).FileChange(ownFile, d.Replica, before)
}

// follow does what a revision entails in addition to the nodes' configs.
func (a *fleetActor) follow(m headRead, first bool) {
	if a.d.Offline {
		return
	}
	if len(m.own.Actions)+len(m.own.NextStart) > 0 {
		a.d.Do(m.own)
	}
	if first || slices.ContainsFunc(m.diffs, changesFacts) {
		a.updateFacts()
	}
	a.queueTunnels(m.diffs)
}

// factsDue retries the update of the topology's facts.
type factsDue struct{}

// updateFacts updates the facts of the topology, or retries later while a rollout is under way.
func (a *fleetActor) updateFacts() {
	switch {
	case a.factsWait:
	case a.d.MustWait(&a.d.waitFacts):
		a.factsWait = true
		a.d.After(rollouts.WaitCheck, func() { a.d.Send(a.self, factsDue{}) })
	default:
		a.d.Leaf("facts", a.d.writeFacts)
	}
}

// changesFacts reports whether a changed layer may make the facts of the topology stale.
func changesFacts(d history.LayerDiff) bool {
	return d.Layer.Kind == history.Topology || d.Layer.Kind == history.Auto &&
		slices.ContainsFunc(d.Values, func(v history.ValueDiff) bool {
			return len(v.Path) == 0 || v.Path[0] == topologyFacts
		})
}

// writeFacts updates the facts of the topology in the auto layer if they differ. Writes of topologies include them;
// imports and restores don't.
func (d *deps) writeFacts() { d.setAuto("facts of the topology", (*ops.Snapshot).Facts) }

// setAuto writes what find computes from the current layers into the auto layer, if it differs.
func (d *deps) setAuto(message string, find func(*ops.Snapshot) (ops.SetAuto, bool, error)) {
	w, err := d.snapshot(d.Context)
	if err == nil {
		var facts ops.SetAuto
		var differ bool
		if facts, differ, err = find(w); differ && err == nil {
			err = d.writes.Write(d.Context,
				storage.WriteRequest{Request: fleetapi.WriteRequest{Caller: storage.LeaderAuthor, Write: facts,
					Message: message}}).Err
		}
	}
	if err != nil && d.Context.Err() == nil {
		d.Log.Warn("update the auto layer", zap.String("what", message), zap.Error(err))
	}
}
