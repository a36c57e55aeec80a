package rollout

import (
	"fmt"
	"slices"

	"edgespan/config/fleet/topology"
)

// Step handles one event. It ignores events that fit no current or future batch: late answers, replaced timers,
// unrelated nodes.
func (r *Rollout) Step(e Event) []Effect {
	if e, ok := e.(Changed); ok {
		return r.handleChanged(e)
	}
	if r.phase == done {
		_ = r.handleNodeEvent(e) // after Done events have no effect
		return nil
	}
	switch e := e.(type) {
	case Start:
		if r.phase == created {
			r.phase = forward
			return r.startNextBatch()
		}
	case NodeConfirmed:
		return r.handleConfirmed(e.Node)
	case NodeReverted:
		return r.handleReverted(e.Node)
	case NodeFailed:
		return r.handleFailed(e.Node, e.Why)
	case Deadline:
		if e.Timer == r.timer {
			return r.handleDeadline()
		}
	case Pause:
		r.held = true
	case Resume:
		return r.resume()
	case Abort:
		return r.abort(e.Revert)
	default:
		return r.handleNodeEvent(e)
	}
	return nil
}

// handleNodeEvent handles the events about the state of nodes and of the network.
func (r *Rollout) handleNodeEvent(e Event) []Effect {
	switch e := e.(type) {
	case NodeAcked:
		return r.recordAck(e.Node)
	case NodeOffline:
		r.online[e.Node] = false
	case NodeOnline:
		r.online[e.Node] = true
	case TopologyChanged:
		return r.handleTopology(e.Topology)
	case Grouped:
		r.groups = e.Groups
	case NodeStuck:
		if n := r.nodes[e.Node]; n != nil && r.unanswered[e.Node] && r.phase == forward {
			n.state, n.why = Stuck, e.Why
			return r.removeFromBatch(e.Node)
		}
	case NodeForgotten:
		delete(r.nodes, e.Node)
		delete(r.failures, e.Node)
		return r.removeFromBatch(e.Node)
	}
	return nil
}

func (r *Rollout) handleConfirmed(name string) []Effect {
	n := r.nodes[name]
	if n == nil || r.phase != forward {
		return nil
	}
	r.online[name] = true
	delete(r.failures, name) // a late answer
	n.state, n.why, n.waiting = Confirmed, "", false
	return r.removeFromBatch(name)
}

func (r *Rollout) handleReverted(name string) []Effect {
	n := r.nodes[name]
	if n == nil {
		return nil
	}
	if r.phase != backward {
		return r.handleFailed(name, reasonReversal)
	}
	r.online[name] = true
	n.state, n.why, n.waiting = Reverted, "", false
	return r.removeFromBatch(name)
}

// handleFailed records a failure of a pushed node; one above the budget halts the rollout.
func (r *Rollout) handleFailed(name, why string) []Effect {
	n := r.nodes[name]
	switch {
	case n == nil || !n.pushed:
		return nil
	case r.phase == backward:
		if r.unanswered[name] {
			n.state, n.why = RevertFailed, why
		}
		return r.removeFromBatch(name)
	case n.state == Failed:
		return nil
	}
	n.state, n.why, n.waiting = Failed, why, false
	r.failures[name] = true
	var halt []Effect
	if count, budget := len(r.failures), r.failureBudget(); count > budget && !r.halted {
		r.halted = true
		halt = []Effect{Halted{fmt.Sprintf("%d nodes failed, %s the last of them: %s: %d may", count, name, why, budget)}}
	}
	return append(halt, r.removeFromBatch(name)...)
}

// removeFromBatch removes a node from the current batch; the last one ends the batch.
func (r *Rollout) removeFromBatch(name string) []Effect {
	if !r.unanswered[name] {
		return nil
	}
	delete(r.unanswered, name)
	if len(r.unanswered) > 0 {
		return nil
	}
	return r.handleBatchEnd()
}

// handleBatchEnd handles the end of a batch.
func (r *Rollout) handleBatchEnd() []Effect {
	r.batch = nil
	r.timer++ // the batch's own timer is void
	if r.o.Rest > 0 && len(r.names(func(n *node) bool { return n.waiting })) > 0 {
		r.resting = true
		return []Effect{SetTimer{r.timer, r.o.Rest}}
	}
	return r.startNextBatch()
}

func (r *Rollout) handleDeadline() []Effect {
	if r.resting {
		r.resting = false
		return r.startNextBatch()
	}
	out := r.delayOffline()
	if len(r.unanswered) == 0 {
		return append(out, r.handleBatchEnd()...)
	}
	for _, name := range slices.Clone(r.batch) {
		if r.unanswered[name] {
			why := fmt.Sprintf("it did not answer within %v", r.o.Confirm)
			if r.nodes[name].acked && r.isGone(name) {
				why = fmt.Sprintf("it took the change, went offline and did not return within %v", r.o.Confirm)
			}
			r.online[name] = false
			out = append(out, r.handleFailed(name, why)...)
		}
	}
	return out
}

func (r *Rollout) resume() []Effect {
	if !r.held && !r.halted {
		return nil
	}
	r.held, r.halted = false, false
	clear(r.failures)
	if r.phase == created || len(r.unanswered) > 0 || r.resting {
		return nil
	}
	return r.startNextBatch()
}

// abort ends the rollout, or reverts it: the current batch is reverted at once and as a whole, since it is down
// already; then all other pushed nodes.
func (r *Rollout) abort(revert bool) []Effect {
	if !revert {
		return r.finish(nil)
	}
	if r.phase == backward {
		return nil
	}
	first := slices.DeleteFunc(r.batch, func(name string) bool { return r.nodes[name] == nil }) // forgotten meanwhile
	r.phase, r.held, r.halted, r.resting, r.canary, r.batch = backward, false, false, false, false, nil
	clear(r.unanswered)
	r.timer++
	for _, n := range r.nodes {
		n.waiting = n.pushed
	}
	if len(first) > 0 {
		return r.sendBatch(first)
	}
	return r.startNextBatch()
}

func (r *Rollout) handleTopology(t *topology.Topology) []Effect {
	r.topology = emptyTopology(t)
	clear(r.online)
	present := r.presentNodes()
	var out []Effect
	for _, name := range slices.Clone(r.batch) {
		if r.unanswered[name] && !present[name] && len(r.o.Stages) == 0 {
			r.nodes[name].why = reasonUnknown
			out = append(out, r.removeFromBatch(name)...)
		}
	}
	return out
}

// presentNodes returns the nodes that the topology has.
func (r *Rollout) presentNodes() map[string]bool {
	out := make(map[string]bool, len(r.topology.Nodes))
	for _, n := range r.topology.Nodes {
		out[n.Name] = true
	}
	return out
}

// startNextBatch sends the next batch, or ends the rollout if there is none.
func (r *Rollout) startNextBatch() []Effect {
	if r.held || r.halted {
		return nil
	}
	present := r.presentNodes()
	var pending []string
	var absent []Unreachable
	for _, name := range r.names(func(n *node) bool { return n.waiting }) {
		if present[name] {
			pending = append(pending, name)
		} else {
			absent = append(absent, Unreachable{name, reasonUnknown})
		}
	}
	o := r.o.Options
	if !r.canary {
		o.First = 0
	}
	plan, _ := planCanary(1, r.currentTopology(), pending, o) // all of them are in the topology
	if len(plan.Batches) > 0 {
		batch := plan.Batches[0]
		if o.First > 0 && len(batch) > o.First {
			batch = chooseCanary(o.First, r.currentTopology(), pending, o.AssumeAlive)
		}
		return r.sendBatch(batch)
	}
	left := append(absent, plan.Unreachable...)
	if len(r.o.Stages) == 0 {
		return r.finish(left)
	}
	batch, left := r.nextStagedBatch(left)
	if len(batch) > 0 {
		return r.sendBatch(batch)
	}
	return r.finish(left)
}

// currentTopology returns the topology, updated with the nodes' events since it came.
func (r *Rollout) currentTopology() *topology.Topology {
	t := *r.topology
	t.Nodes = slices.Clone(t.Nodes)
	for i, n := range t.Nodes {
		up, said := r.online[n.Name]
		switch {
		case said && !up:
			t.Nodes[i].Status = topology.Offline
		case said && n.Status == topology.Offline:
			t.Nodes[i].Status = topology.Online
		}
	}
	return &t
}

func (r *Rollout) sendBatch(names []string) []Effect {
	r.number++
	r.timer++
	r.trial, r.canary = r.canary, false // only the first batch is one
	r.batch = names
	state := Pushed
	if r.phase == backward {
		state = Reverting
	}
	for _, name := range names {
		n := r.nodes[name]
		n.state, n.why, n.pushed, n.waiting, n.batch = state, "", true, false, r.number
		r.unanswered[name] = true
	}
	timer := SetTimer{r.timer, r.o.Confirm}
	if r.phase == backward {
		return []Effect{Revert{r.number, slices.Clone(names)}, timer}
	}
	return []Effect{Push{r.number, slices.Clone(names)}, timer}
}

const (
	reasonAborted  = "the rollout was aborted before"
	reasonUnasked  = "it did not answer before the rollout ended"
	reasonReversal = "it took the change back by itself"
	reasonVanished = "it went offline after it had taken the change"
	reasonDelayed  = "it went offline before it took the change"
)

// finish ends the rollout; unreachable are the nodes that no batch could reach.
func (r *Rollout) finish(unreachable []Unreachable) []Effect {
	why := map[string]string{}
	for _, u := range unreachable {
		why[u.Node] = u.Reason
	}
	desired := Confirmed
	if r.phase == backward {
		desired = Reverted
	}
	r.phase, r.batch, r.resting = done, nil, false
	clear(r.unanswered)
	var d Done
	for _, name := range r.names(func(n *node) bool { return n.state != desired && (desired == Confirmed || n.pushed) }) {
		n := r.nodes[name]
		switch reason, cutOff := why[name]; {
		case cutOff:
			d.Unreachable = append(d.Unreachable, Unreachable{name, reason})
		case n.state == RevertFailed, n.state == Failed && desired == Confirmed:
			d.Failed = append(d.Failed, Unreachable{name, n.why})
		case n.waiting:
			d.Unreachable = append(d.Unreachable, Unreachable{name, reasonAborted})
		case n.why != "":
			d.Unreachable = append(d.Unreachable, Unreachable{name, n.why})
		default:
			d.Unreachable = append(d.Unreachable, Unreachable{name, reasonUnasked})
		}
	}
	return []Effect{d}
}
