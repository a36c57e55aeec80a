package rollout

import (
	"fmt"
	"slices"

	"edgespan/config/fleet/topology"
)

// Step handles one event. It ignores events that fit no current or future batch: late answers, replaced timers,
// unrelated nodes.
func (r *Rollout) Step(e Event) []Effect {
	if e, is := e.(Changed); is {
		return r.desiredAll(e)
	}
	if r.phase == done {
		_ = r.known(e) // after Done events have no effect
		return nil
	}
	switch e := e.(type) {
	case Start:
		if r.phase == created {
			r.phase = forward
			return r.next()
		}
	case NodeConfirmed:
		return r.confirmed(e.Node)
	case NodeReverted:
		return r.reverted(e.Node)
	case NodeFailed:
		return r.failed(e.Node, e.Why)
	case Deadline:
		if e.Timer == r.timer {
			return r.deadline()
		}
	case Pause:
		r.held = true
	case Resume:
		return r.resume()
	case Abort:
		return r.abort(e.Revert)
	default:
		return r.known(e)
	}
	return nil
}

// known handles the events about the state of nodes and of the network.
func (r *Rollout) known(e Event) []Effect {
	switch e := e.(type) {
	case NodeTook:
		return r.recordTaken(e.Node)
	case NodeGone:
		r.up[e.Node] = false
	case NodeBack:
		r.up[e.Node] = true
	case TopologyChanged:
		return r.changed(e.Topology)
	case Grouped:
		r.groups = e.Groups
	case NodeStuck:
		if n := r.nodes[e.Node]; n != nil && r.out[e.Node] && r.phase == forward {
			n.state, n.why = Stuck, e.Why
			return r.answered(e.Node)
		}
	case NodeForgotten:
		delete(r.nodes, e.Node)
		delete(r.failures, e.Node)
		return r.answered(e.Node)
	}
	return nil
}

func (r *Rollout) confirmed(name string) []Effect {
	n := r.nodes[name]
	if n == nil || r.phase != forward {
		return nil
	}
	r.up[name] = true
	delete(r.failures, name) // a late answer
	n.state, n.why, n.todo = Confirmed, "", false
	return r.answered(name)
}

func (r *Rollout) reverted(name string) []Effect {
	n := r.nodes[name]
	if n == nil {
		return nil
	}
	if r.phase != backward {
		return r.failed(name, reasonReversal)
	}
	r.up[name] = true
	n.state, n.why, n.todo = Reverted, "", false
	return r.answered(name)
}

// failed records a failure of a pushed node; one above the budget halts the rollout.
func (r *Rollout) failed(name, why string) []Effect {
	n := r.nodes[name]
	switch {
	case n == nil || !n.pushed:
		return nil
	case r.phase == backward:
		if r.out[name] {
			n.state, n.why = RevertFailed, why
		}
		return r.answered(name)
	case n.state == Failed:
		return nil
	}
	n.state, n.why, n.todo = Failed, why, false
	r.failures[name] = true
	var halt []Effect
	if count, budget := len(r.failures), r.budget(); count > budget && !r.halted {
		r.halted = true
		halt = []Effect{Halted{fmt.Sprintf("%d nodes failed, %s the last of them: %s: %d may", count, name, why, budget)}}
	}
	return append(halt, r.answered(name)...)
}

// answered removes a node from the current batch; the last one ends the batch.
func (r *Rollout) answered(name string) []Effect {
	if !r.out[name] {
		return nil
	}
	delete(r.out, name)
	if len(r.out) > 0 {
		return nil
	}
	return r.ended()
}

// ended handles the end of a batch.
func (r *Rollout) ended() []Effect {
	r.batch = nil
	r.timer++ // the batch's own timer is void
	if r.o.Rest > 0 && len(r.names(func(n *node) bool { return n.todo })) > 0 {
		r.resting = true
		return []Effect{SetTimer{r.timer, r.o.Rest}}
	}
	return r.next()
}

func (r *Rollout) deadline() []Effect {
	if r.resting {
		r.resting = false
		return r.next()
	}
	out := r.delay()
	if len(r.out) == 0 {
		return append(out, r.ended()...)
	}
	for _, name := range slices.Clone(r.batch) {
		if r.out[name] {
			why := fmt.Sprintf("it did not answer within %v", r.o.Confirm)
			if r.nodes[name].took && r.isGone(name) {
				why = fmt.Sprintf("it took the change, went offline and did not return within %v", r.o.Confirm)
			}
			r.up[name] = false
			out = append(out, r.failed(name, why)...)
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
	if r.phase == created || len(r.out) > 0 || r.resting {
		return nil
	}
	return r.next()
}

// abort ends the rollout, or reverts it: the current batch is reverted at once and as a whole, since it is down
// already; then all other pushed nodes.
func (r *Rollout) abort(revert bool) []Effect {
	if !revert {
		return r.done(nil)
	}
	if r.phase == backward {
		return nil
	}
	first := slices.DeleteFunc(r.batch, func(name string) bool { return r.nodes[name] == nil }) // forgotten meanwhile
	r.phase, r.held, r.halted, r.resting, r.canary, r.batch = backward, false, false, false, false, nil
	clear(r.out)
	r.timer++
	for _, n := range r.nodes {
		n.todo = n.pushed
	}
	if len(first) > 0 {
		return r.send(first)
	}
	return r.next()
}

func (r *Rollout) changed(t *topology.Topology) []Effect {
	r.t = empty(t)
	clear(r.up)
	present := r.present()
	var out []Effect
	for _, name := range slices.Clone(r.batch) {
		if r.out[name] && !present[name] && len(r.o.Stages) == 0 {
			r.nodes[name].why = reasonUnknown
			out = append(out, r.answered(name)...)
		}
	}
	return out
}

// present returns the nodes that the topology has.
func (r *Rollout) present() map[string]bool {
	out := make(map[string]bool, len(r.t.Nodes))
	for _, n := range r.t.Nodes {
		out[n.Name] = true
	}
	return out
}

// next sends the next batch, or ends the rollout if there is none.
func (r *Rollout) next() []Effect {
	if r.held || r.halted {
		return nil
	}
	present := r.present()
	var pending []string
	var absent []Unreachable
	for _, name := range r.names(func(n *node) bool { return n.todo }) {
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
	plan, _ := firstOf(1, r.view(), pending, o) // all of them are in the topology
	if len(plan.Batches) > 0 {
		batch := plan.Batches[0]
		if o.First > 0 && len(batch) > o.First {
			batch = first(o.First, r.view(), pending, o.AssumeAlive)
		}
		return r.send(batch)
	}
	left := append(absent, plan.Unreachable...)
	if len(r.o.Stages) == 0 {
		return r.done(left)
	}
	batch, left := r.staged(left)
	if len(batch) > 0 {
		return r.send(batch)
	}
	return r.done(left)
}

// view returns the topology, updated with the nodes' events since it came.
func (r *Rollout) view() *topology.Topology {
	t := *r.t
	t.Nodes = slices.Clone(t.Nodes)
	for i, n := range t.Nodes {
		up, said := r.up[n.Name]
		switch {
		case said && !up:
			t.Nodes[i].Status = topology.Offline
		case said && n.Status == topology.Offline:
			t.Nodes[i].Status = topology.Online
		}
	}
	return &t
}

func (r *Rollout) send(names []string) []Effect {
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
		n.state, n.why, n.pushed, n.todo, n.batch = state, "", true, false, r.number
		r.out[name] = true
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

// done ends the rollout; unreachable are the nodes that no batch could reach.
func (r *Rollout) done(unreachable []Unreachable) []Effect {
	why := map[string]string{}
	for _, u := range unreachable {
		why[u.Node] = u.Reason
	}
	desired := Confirmed
	if r.phase == backward {
		desired = Reverted
	}
	r.phase, r.batch, r.resting = done, nil, false
	clear(r.out)
	var d Done
	for _, name := range r.names(func(n *node) bool { return n.state != desired && (desired == Confirmed || n.pushed) }) {
		n := r.nodes[name]
		switch reason, cutOff := why[name]; {
		case cutOff:
			d.Unreachable = append(d.Unreachable, Unreachable{name, reason})
		case n.state == RevertFailed, n.state == Failed && desired == Confirmed:
			d.Failed = append(d.Failed, Unreachable{name, n.why})
		case n.todo:
			d.Unreachable = append(d.Unreachable, Unreachable{name, reasonAborted})
		case n.why != "":
			d.Unreachable = append(d.Unreachable, Unreachable{name, n.why})
		default:
			d.Unreachable = append(d.Unreachable, Unreachable{name, reasonUnasked})
		}
	}
	return []Effect{d}
}
