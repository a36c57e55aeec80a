package rollout

// failureBudget returns how many nodes may fail. The percentage is of the nodes that were tried, not of all: a canary
// that fails is 1 of 1, and a change that breaks each fifth node ends in an early batch.
func (r *Rollout) failureBudget() int {
	return max(r.o.Failures, r.countPushed()*r.o.FailuresPercent/100)
}

// countPushed counts the nodes that were pushed, including those of the current batch.
func (r *Rollout) countPushed() int { return r.count(func(n *node) bool { return n.pushed }) }

func (r *Rollout) count(match func(*node) bool) (sum int) {
	for _, n := range r.nodes {
		if match(n) {
			sum++
		}
	}
	return sum
}

// delayOffline removes nodes from the batch, at its deadline, that are probably offline for a reason other than the
// change: they wait for a later batch. A node that the change cuts off must not be among them. These nodes are
// therefore not delayed, but failed:
//
//   - nodes that have taken the change (NodeAcked): a node that it cuts off undoes it and returns within the time of a
//     batch;
//   - nodes of the first batch, whose purpose is to find out;
//   - nodes that were delayed before: they went offline twice with the same change;
//   - all of them, if they are more than a few, of the batch or of all that were tried.
//
// A delayed node that reports later that it undid the change has failed, too (failed).
func (r *Rollout) delayOffline() []Effect {
	if r.phase != forward || r.trial || r.o.OfflinePercent == 0 {
		return nil
	}
	var gone []string
	for _, name := range r.batch {
		if n := r.nodes[name]; r.unanswered[name] && r.isGone(name) && !n.acked && !n.delayed {
			gone = append(gone, name)
		}
	}
	waiting := r.count(func(n *node) bool { return n.delayed && n.state == Waiting })
	if len(gone) == 0 || len(gone) > r.maxOffline(len(r.batch)) || waiting+len(gone) > r.maxOffline(r.countPushed()) {
		return nil
	}
	for _, name := range gone {
		n := r.nodes[name]
		n.state, n.why, n.delayed, n.waiting = Waiting, reasonDelayed, true, true
		delete(r.unanswered, name)
	}
	return []Effect{Delayed{r.number, gone}}
}

// maxOffline returns how many of a number of nodes may be offline; one always may.
func (r *Rollout) maxOffline(of int) int { return max(1, of*r.o.OfflinePercent/100) }

// isGone reports whether a node is known to be offline.
func (r *Rollout) isGone(name string) bool {
	up, said := r.online[name]
	return said && !up
}

// Delayed reports whether a node waits again because it went offline in its batch.
func (r *Rollout) Delayed(name string) bool {
	n := r.nodes[name]
	return n != nil && n.delayed && n.state == Waiting
}

// HasAcked reports whether a node is known to have received the change.
func (r *Rollout) HasAcked(name string) bool {
	n := r.nodes[name]
	return n != nil && n.acked
}

// recordAck records that a node has received the change. A node that was delayed before has then failed.
func (r *Rollout) recordAck(name string) []Effect {
	if r.phase == forward && r.Delayed(name) {
		return r.handleFailed(name, reasonVanished)
	}
	if n := r.nodes[name]; n != nil && n.state == Pushed {
		n.acked = true
	}
	return nil
}
