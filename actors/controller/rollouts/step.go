package rollouts

import (
	"slices"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/rollout"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/fleet/topology"
)

// loadRecord creates the machine of a stored rollout.
func (a *rolloutActor) loadRecord(s *staged.RolloutRecord) {
	t, groups := a.network()
	a.machine = rollout.FromMemory(s.Machine, t, groups)
	a.chart()
	if timer, runs := a.machine.Timer(); runs {
		a.arm(timer)
	}
	for _, g := range s.Machine.Nodes {
		a.recheck = append(a.recheck, g.Names...)
	}
	a.scheduleSave(true)
}

// network returns the topology, with the connected nodes online, and the kinds of nodes.
func (a *rolloutActor) network() (*topology.Topology, map[string]string) {
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
		w := a.nodes[a.ids[n.Name]]
		switch {
		case w == nil || !w.Online:
			t.Nodes[i].Status = topology.Offline
		case n.Status == topology.Offline:
			t.Nodes[i].Status = topology.Online
		}
	}
	return &t, groups
}

// chart updates the machine's view of the network.
func (a *rolloutActor) chart() {
	t, groups := a.network()
	a.step(rollout.Grouped{Groups: groups})
	a.step(rollout.TopologyChanged{Topology: t})
	for name, id := range a.ids {
		if !a.nodes[id].Online {
			a.step(rollout.NodeGone{Node: name})
		}
	}
}

// arm sets the machine's timer.
func (a *rolloutActor) arm(t rollout.SetTimer) {
	a.timers++
	m, self := due{t.Timer, a.timers}, a.self
	a.d.After(t.After, func() { a.d.Send(self, m) })
}

// step steps the machine, and records its decisions.
func (a *rolloutActor) step(e rollout.Event) {
	if a.machine == nil || a.leads == nil {
		return
	}
	for _, effect := range a.machine.Step(e) {
		a.scheduleSave(true)
		a.now.Effect(a.d.Now(), e, effect)
		switch effect := effect.(type) {
		case rollout.Push:
			a.recheck = append(a.recheck, effect.Nodes...)
		case rollout.SetTimer:
			a.arm(effect)
		}
	}
}

// observe steps the machine with a node's state.
func (a *rolloutActor) observe(n *staged.Node) {
	if n == nil || a.machine == nil || a.now.End != "" {
		return
	}
	state, _ := a.machine.Node(n.Name)
	if state == "" {
		return
	}
	a.step(n.Presence())
	e := n.Answer(state, a.machine)
	if e == nil {
		return
	}
	if failed, is := e.(rollout.NodeFailed); is {
		a.now.Decide(a.d.Now(), "", n.Name+" failed", failed.Why)
	}
	_, again := e.(rollout.NodeConfirmed) // the node would report it again
	a.scheduleSave(!again)
	a.step(e)
}

// scheduleRecheck looks for uncovered nodes once changes have settled.
func (a *rolloutActor) scheduleRecheck() {
	a.stirred = true
	if a.gathers.IsZero() {
		a.gathers = time.Now()
		a.scheduleRecheckSoon()
	}
}

func (a *rolloutActor) scheduleRecheckSoon() {
	a.stirred = false
	self := a.self
	a.d.After(gather, func() { a.d.Send(self, recheckNow{}) })
}

func (a *rolloutActor) lookedAt() {
	if a.leads == nil || a.gathers.IsZero() {
		return
	}
	if passed := time.Since(a.gathers); a.stirred && passed >= 0 && passed < maxGather {
		a.scheduleRecheckSoon()
		return
	}
	a.gathers = time.Time{}
	if a.staging.On {
		a.findUncovered()
	}
}

// findUncovered starts a rollout for nodes whose desired config no rollout has brought them, or adds them to the
// running one. A later revision supersedes the running rollout.
func (a *rolloutActor) findUncovered() {
	l := staged.FindUncovered(a.joined, a.cause.Number, a.now, a.machine, a.touched)
	switch {
	case l.Held:
		a.hold()
	case len(l.Nodes) > 0:
		a.taken, a.touched = a.touched, map[string]bool{}
		a.roll(l.Nodes, l.Fresh)
	}
}

// roll adds nodes to the running rollout, or starts a new one.
func (a *rolloutActor) roll(names []string, fresh bool) {
	now := a.d.Now()
	running := a.now != nil && a.now.End == "" && a.machine != nil
	if fresh {
		a.supersede(now)
	} else if !running {
		a.now.Extend(now, names)
	}
	a.scheduleSave(true)
	switch {
	case fresh && !running:
		t, groups := a.network()
		a.machine = rollout.New(t, names, a.staging.Set)
		a.step(rollout.Grouped{Groups: groups})
		a.chart()
		a.step(rollout.Start{})
	default:
		memory := a.now.Machine
		if a.machine != nil {
			memory = a.machine.Memory()
		}
		memory.Settings = a.staging.Set
		t, groups := a.network()
		a.machine = rollout.FromMemory(memory, t, groups)
		a.chart()
		// A halted rollout waits for an operator, even if the controller itself writes.
		kept := fresh && storage.IsAutomatic(a.cause.Author) && a.machine.IsHalted()
		a.step(rollout.Changed{Nodes: names, Fresh: fresh && !kept})
	}
}

// supersede starts the record of a new rollout, and ends the previous one.
func (a *rolloutActor) supersede(now time.Time) {
	next, ended := staged.Supersede(now, a.now, a.cause, a.causes, a.machine)
	if ended {
		a.ended = append(a.ended, a.now)
	}
	a.now, a.causes = next, nil
}

// hold extends the barrier of an aborted rollout to what its revision gives to nodes.
func (a *rolloutActor) hold() {
	for name := range a.touched {
		if w := a.nodes[a.ids[name]]; w != nil && w.Since > a.now.Barrier {
			a.now.Barrier = w.Since
			a.scheduleSave(true)
		}
	}
	clear(a.touched)
}

// release ends the rollout because staged rollouts are off: all nodes get the change at once.
func (a *rolloutActor) release() {
	if a.now == nil || a.now.End != "" || a.machine == nil {
		return
	}
	a.now.Release(a.d.Now())
	a.step(rollout.Abort{})
}
