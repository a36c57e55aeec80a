package rollout

import (
	"maps"
	"slices"
)

// desiredAll takes nodes that want something else. Those of the batch that is out are pushed at
// once: they are down already, and what they have not confirmed they would undo.
func (r *Rollout) desiredAll(e Changed) []Effect {
	if r.phase == backward {
		return nil
	}
	named := make(map[string]bool, len(e.Nodes))
	for _, name := range e.Nodes {
		named[name] = true
	}
	if e.Fresh {
		r.fresh(named)
	}
	var again []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		delete(r.failures, name)
		switch {
		case r.out[name]:
			again = append(again, name)
			r.nodes[name].took = false
		default:
			r.nodes[name] = &node{state: Waiting, todo: true}
		}
	}
	switch {
	case r.phase == created:
		return nil
	case r.phase == done:
		r.phase, r.held, r.halted, r.resting, r.canary = forward, false, false, false, true
		clear(r.failures)
		return r.next()
	case len(r.out) > 0:
		return r.again(again, e.Fresh)
	case r.resting:
		return nil
	}
	return r.next()
}

// fresh forgets what the change before came to, but for what is on its way.
func (r *Rollout) fresh(named map[string]bool) {
	maps.DeleteFunc(r.nodes, func(name string, n *node) bool { return !named[name] && !r.out[name] && !n.todo })
	clear(r.failures)
	r.halted, r.canary, r.trial = false, true, true
	r.number = 0
	// who has answered waits for a batch of its own
	r.batch = slices.DeleteFunc(slices.Clone(r.batch), func(name string) bool { return !r.out[name] })
	if len(r.out) > 0 {
		r.number = 1
		for name := range r.out {
			r.nodes[name].batch = 1
		}
	}
}

// again pushes nodes of the batch that is out; the time of a fresh change begins anew.
func (r *Rollout) again(names []string, fresh bool) []Effect {
	var out []Effect
	if len(names) > 0 {
		out = append(out, Push{r.number, names})
	}
	if fresh {
		r.timer++
		out = append(out, SetTimer{r.timer, r.o.Confirm})
	}
	return out
}

// Out are the nodes of the batch that is out which have not answered, sorted.
func (r *Rollout) Out() []string { return slices.Sorted(maps.Keys(r.out)) }

// Timer is the one that runs, if any: what a Rollout that was kept waits for. Nobody knows
// how much of it has passed, as clocks differ: it begins anew.
func (r *Rollout) Timer() (SetTimer, bool) {
	switch {
	case r.phase != forward && r.phase != backward:
		return SetTimer{}, false
	case r.resting:
		return SetTimer{r.timer, r.o.Rest}, true
	}
	return SetTimer{r.timer, r.o.Confirm}, len(r.out) > 0
}

// Paused says whether an operator holds the next batch back.
func (r *Rollout) Paused() bool { return r.held }

// IsHalted says whether too many nodes have failed.
func (r *Rollout) IsHalted() bool { return r.halted }

// Ended says whether there is nothing left to do.
func (r *Rollout) Ended() bool { return r.phase == done }
