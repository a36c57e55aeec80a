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

// ownFile is the file of the controller's own config.
const ownFile = "controller"

// topologyFacts is where the auto layer of a node has what the topology says of it.
const topologyFacts = "topologyInfo"

// settings are those that count now.
func (d *deps) settings() fleet.Settings { return *d.set.Load() }

// Set changes the settings, for all nodes and from now on.
func (c *Controller) Set(s fleet.Settings) {
	s = s.Whole(c.d.Replica)
	c.d.set.Store(&s)
	c.d.Send(c.d.fleet, fleet.Changed{Settings: s})
}

// ownChange is what a revision changes of the controller's config, as this replica has it.
// Another replica may have written it.
func (d *deps) ownChange(before history.State, m headRead) (controllerconf.Change, error) {
	layers := []history.Layer{{Kind: history.E2E, Name: ownFile}, {Kind: history.E2E, Name: ownFile + "/" + d.Replica}}
	if d.Offline || d.E2E[ownFile] == nil || !slices.ContainsFunc(m.diffs,
		func(diff history.LayerDiff) bool { return slices.Contains(layers, diff.Layer) }) {
		return controllerconf.Change{}, nil
	}
	return d.worldAt(m.state).FileChange(ownFile, d.Replica, before)
}

// follow does what follows from the layers of a revision beside the nodes' configs.
func (a *fleetActor) follow(m headRead, first bool) {
	if a.d.Offline {
		return
	}
	if len(m.own.Actions)+len(m.own.NextStart) > 0 {
		a.d.Do(m.own)
	}
	if first || slices.ContainsFunc(m.diffs, movesFacts) {
		a.factsMove()
	}
	a.tunnelsMove(m.diffs)
}

// factsDue is to look again whether the facts of the topology can be written.
type factsDue struct{}

// factsMove has the facts of the topology brought up to date, once no rollout is in the way.
func (a *fleetActor) factsMove() {
	switch {
	case a.factsWait:
	case a.d.Waits(&a.d.waitFacts):
		a.factsWait = true
		a.d.After(rollouts.WaitCheck, func() { a.d.Send(a.self, factsDue{}) })
	default:
		a.d.Leaf("facts", a.d.facts)
	}
}

// movesFacts says whether a layer that changed may leave the facts of the topology behind.
func movesFacts(d history.LayerDiff) bool {
	return d.Layer.Kind == history.Topology || d.Layer.Kind == history.Auto &&
		slices.ContainsFunc(d.Values, func(v history.ValueDiff) bool {
			return len(v.Path) == 0 || v.Path[0] == topologyFacts
		})
}

// facts brings what the auto layer says of the topology up to date, and writes only if
// something differs: writes of topologies bring it along, imports and restores don't.
func (d *deps) facts() { d.setAuto("facts of the topology", (*ops.World).Facts) }

// setAuto writes what a judgement over the layers of now finds to differ in the auto layer.
func (d *deps) setAuto(message string, find func(*ops.World) (ops.SetAuto, bool, error)) {
	w, err := d.world(d.Context)
	if err == nil {
		var facts ops.SetAuto
		var differ bool
		if facts, differ, err = find(w); differ && err == nil {
			err = d.writes.Do(d.Context,
				storage.WriteRequest{Request: fleetapi.WriteRequest{Caller: storage.Itself, Write: facts, Message: message}}).Err
		}
	}
	if err != nil && d.Context.Err() == nil {
		d.Log.Warn("update the auto layer", zap.String("what", message), zap.Error(err))
	}
}
