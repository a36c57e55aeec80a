package rollouts

import (
	"slices"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/rollout"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/fleet/topology"
)

// resumeMachine creates the machine of a stored rollout, in the state that was stored.
func (a *rolloutActor) resumeMachine(record *staged.RolloutRecord) {
	t, groups := a.buildTopology()
	a.machine = rollout.FromMemory(record.Machine, t, groups)
	a.updateTopology()
	if timer, runs := a.machine.Timer(); runs {
		a.setTimer(timer)
	}
	for _, g := range record.Machine.Nodes {
		a.nodesToStep = append(a.nodesToStep, g.Names...)
	}
	a.scheduleSave(true)
}

// buildTopology returns the topology, with the connected nodes online, and the kind of each node, by name. A group of
// the machine is the nodes of one kind.
func (a *rolloutActor) buildTopology() (*topology.Topology, map[string]string) {
	groups := make(map[string]string, len(a.ids))
	for name, id := range a.ids {
		groups[name] = a.nodes[id].Kind
	}
	if a.topology == nil {
		return nil, groups
	}
	t := *a.topology
	t.Nodes = slices.Clone(t.Nodes)
	for i, n := range t.Nodes {
		node := a.nodes[a.ids[n.Name]]
		switch {
		case node == nil || !node.Online:
			t.Nodes[i].Status = topology.Offline
		case n.Status == topology.Offline:
			t.Nodes[i].Status = topology.Online
		}
	}
	return &t, groups
}

// updateTopology tells the machine the topology, the kinds of nodes, and which nodes are offline.
func (a *rolloutActor) updateTopology() {
	t, groups := a.buildTopology()
	a.step(rollout.Grouped{Groups: groups})
	a.step(rollout.TopologyChanged{Topology: t})
	for name, id := range a.ids {
		if !a.nodes[id].Online {
			a.step(rollout.NodeOffline{Node: name})
		}
	}
}

// setTimer sets the machine's timer; an earlier one is ignored from now on.
func (a *rolloutActor) setTimer(t rollout.SetTimer) {
	a.timerCount++
	m, self := machineTimerDue{t.Timer, a.timerCount}, a.self
	a.deps.After(t.After, func() { a.deps.Send(self, m) })
}

// step gives the machine an event, records its effects as decisions, and sets its timer. A Push only puts its nodes
// into nodesToStep, since their progress may answer it already; writeAdmissions carries it out, once the record is
// stored.
func (a *rolloutActor) step(e rollout.Event) {
	if a.machine == nil || a.leadership == nil {
		return
	}
	for _, effect := range a.machine.Step(e) {
		a.scheduleSave(true)
		a.current.RecordEffect(a.deps.Now(), e, effect)
		switch effect := effect.(type) {
		case rollout.Push:
			a.nodesToStep = append(a.nodesToStep, effect.Nodes...)
		case rollout.SetTimer:
			a.setTimer(effect)
		}
	}
}

// stepNode gives the machine what the store says about a node: whether it is online, and its progress.
func (a *rolloutActor) stepNode(n *staged.Node) {
	if n == nil || a.machine == nil || a.current.End != "" {
		return
	}
	state, _ := a.machine.Node(n.Name)
	if state == "" {
		return
	}
	a.step(n.PresenceEvent())
	e := n.AnswerEvent(state, a.machine)
	if e == nil {
		return
	}
	if failed, ok := e.(rollout.NodeFailed); ok {
		a.current.RecordDecision(a.deps.Now(), "", n.Name+" failed", failed.Why)
	}
	_, repeatable := e.(rollout.NodeConfirmed) // the node would report it again: its save may wait
	a.scheduleSave(!repeatable)
	a.step(e)
}

// startGathering makes the actor look for uncovered nodes once no more changes arrive.
func (a *rolloutActor) startGathering() {
	a.gatherExtended = true
	if a.gatherSince.IsZero() {
		a.gatherSince = time.Now()
		a.setGatherTimer()
	}
}

// setGatherTimer sends gatherDue after gatherDelay.
func (a *rolloutActor) setGatherTimer() {
	a.gatherExtended = false
	self := a.self
	a.deps.After(gatherDelay, func() { a.deps.Send(self, gatherDue{}) })
}

// handleGatherDue looks for uncovered nodes, or waits longer if changes still arrive.
func (a *rolloutActor) handleGatherDue() {
	if a.leadership == nil || a.gatherSince.IsZero() {
		return
	}
	if passed := time.Since(a.gatherSince); a.gatherExtended && passed >= 0 && passed < maxGather {
		a.setGatherTimer()
		return
	}
	a.gatherSince = time.Time{}
	if a.staging.On {
		a.coverNodes()
	}
}

// coverNodes starts a rollout for nodes whose desired config no rollout has brought them, or adds them to the current
// one. A later revision (Fresh) supersedes the running rollout. If the last rollout was aborted and no later revision
// touched nodes (Held), nothing starts: configs that its revision still sets are held back too.
func (a *rolloutActor) coverNodes() {
	uncovered := staged.FindUncovered(a.joinedNodes, a.cause.Number, a.current, a.machine, a.touched)
	switch {
	case uncovered.Held:
		a.extendBarrier()
	case len(uncovered.Nodes) > 0:
		a.touchedInSave, a.touched = a.touched, map[string]bool{}
		a.startOrExtend(uncovered.Nodes, uncovered.Fresh)
	}
}

// startOrExtend starts a new rollout if fresh is set, and otherwise adds nodes to the current one. A fresh rollout that
// supersedes a running one continues its machine, so that nodes that are under way are not forgotten.
func (a *rolloutActor) startOrExtend(names []string, fresh bool) {
	now := a.deps.Now()
	running := a.current != nil && a.current.End == "" && a.machine != nil
	if fresh {
		a.supersede(now)
	} else if !running {
		a.current.Extend(now, names)
	}
	a.scheduleSave(true)
	switch {
	case fresh && !running:
		t, groups := a.buildTopology()
		a.machine = rollout.New(t, names, a.staging.Set)
		a.step(rollout.Grouped{Groups: groups})
		a.updateTopology()
		a.step(rollout.Start{})
	default:
		memory := a.current.Machine
		if a.machine != nil {
			memory = a.machine.Memory()
		}
		memory.Settings = a.staging.Set
		t, groups := a.buildTopology()
		a.machine = rollout.FromMemory(memory, t, groups)
		a.updateTopology()
		// A halted rollout waits for an operator, even if the controller itself writes.
		staysHalted := fresh && storage.IsAutomatic(a.cause.Author) && a.machine.IsHalted()
		a.step(rollout.Changed{Nodes: names, Fresh: fresh && !staysHalted})
	}
}

// supersede starts the record of a new rollout, and ends the previous one.
func (a *rolloutActor) supersede(now time.Time) {
	next, ended := staged.Supersede(now, a.current, a.cause, a.causes, a.machine)
	if ended {
		a.ended = append(a.ended, a.current)
	}
	a.current, a.causes = next, nil
}

// extendBarrier also holds back the configs that the revision of an aborted rollout set after the abort. The barrier is
// a store revision: no rollout brings a node a config that became desired up to it. It is raised to the newest of these
// configs.
func (a *rolloutActor) extendBarrier() {
	for name := range a.touched {
		if node := a.nodes[a.ids[name]]; node != nil && node.Since > a.current.Barrier {
			a.current.Barrier = node.Since
			a.scheduleSave(true)
		}
	}
	clear(a.touched)
}

// endAtOnce ends the rollout because staged rollouts were switched off: all nodes get the change at once.
func (a *rolloutActor) endAtOnce() {
	if a.current == nil || a.current.End != "" || a.machine == nil {
		return
	}
	a.current.Release(a.deps.Now())
	a.step(rollout.Abort{})
}
