package rollout

import (
	"maps"
	"slices"
)

// handleChanged handles nodes whose desired config has changed. It pushes those of the current batch at once: they are
// down already, and they would undo a config that they have not confirmed.
func (r *Rollout) handleChanged(e Changed) []Effect {
	if r.phase == backward {
		return nil
	}
	named := make(map[string]bool, len(e.Nodes))
	for _, name := range e.Nodes {
		named[name] = true
	}
	if e.Fresh {
		r.resetResults(named)
	}
	var again []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		delete(r.failures, name)
		switch {
		case r.unanswered[name]:
			again = append(again, name)
			r.nodes[name].acked = false
		default:
			r.nodes[name] = &node{state: Waiting, waiting: true}
		}
	}
	switch {
	case r.phase == created:
		return nil
	case r.phase == done:
		r.phase, r.held, r.halted, r.resting, r.canary = forward, false, false, false, true
		clear(r.failures)
		return r.startNextBatch()
	case len(r.unanswered) > 0:
		return r.pushAgain(again, e.Fresh)
	case r.resting:
		return nil
	}
	return r.startNextBatch()
}

// resetResults forgets the results of the previous change, except for pushes in progress.
func (r *Rollout) resetResults(named map[string]bool) {
	maps.DeleteFunc(r.nodes, func(name string, n *node) bool { return !named[name] && !r.unanswered[name] && !n.waiting })
	clear(r.failures)
	r.halted, r.canary, r.trial = false, true, true
	r.number = 0
	// a node that has answered waits for another batch
	r.batch = slices.DeleteFunc(slices.Clone(r.batch), func(name string) bool { return !r.unanswered[name] })
	if len(r.unanswered) > 0 {
		r.number = 1
		for name := range r.unanswered {
			r.nodes[name].batch = 1
		}
	}
}

// pushAgain pushes nodes of the current batch; a fresh change restarts their deadline.
func (r *Rollout) pushAgain(names []string, fresh bool) []Effect {
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

// Unanswered returns the nodes of the current batch that have not answered, sorted.
func (r *Rollout) Unanswered() []string { return slices.Sorted(maps.Keys(r.unanswered)) }

// Timer returns the running timer, if any: a restored Rollout waits for it. It restarts with its full time, since
// clocks differ and its elapsed time is unknown.
func (r *Rollout) Timer() (SetTimer, bool) {
	switch {
	case r.phase != forward && r.phase != backward:
		return SetTimer{}, false
	case r.resting:
		return SetTimer{r.timer, r.o.Rest}, true
	}
	return SetTimer{r.timer, r.o.Confirm}, len(r.unanswered) > 0
}

// Paused reports whether an operator holds the next batch.
func (r *Rollout) Paused() bool { return r.held }

// IsHalted reports whether too many nodes have failed.
func (r *Rollout) IsHalted() bool { return r.halted }

// Ended reports whether there is nothing left to do.
func (r *Rollout) Ended() bool { return r.phase == done }
