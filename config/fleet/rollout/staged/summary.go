package staged

import (
	"time"

	"edgespan/config/fleet/rollout"
)

// Summary is the progress of a rollout in numbers.
type Summary struct {
	State   string                // as State
	Nodes   map[rollout.State]int // also states of no node, without those of a revert
	Batches map[string]int        // those that were pushed, by what became of them
	Decided time.Time             // the last decision
}

// What became of batches.
const (
	BatchOut    = "out"    // nodes of it have not answered
	BatchDone   = "done"   // every node of it has answered
	BatchFailed = "failed" // the same, and a node failed
)

// States are the states of a rollout, as State returns them.
var States = [...]string{"running", "paused", "halted", EndDone, EndFailed, EndAborted, EndSuperseded, EndReleased}

// Summary counts the nodes and batches of a rollout.
func (r *RolloutRecord) Summary() Summary {
	t := Summary{State: r.State(), Batches: map[string]int{BatchOut: 0, BatchDone: 0, BatchFailed: 0},
		Nodes: map[rollout.State]int{rollout.Waiting: 0, rollout.Pushed: 0, rollout.Confirmed: 0, rollout.Failed: 0,
			rollout.Stuck: 0}}
	for _, g := range r.Machine.Nodes {
		t.Nodes[g.State] += len(g.Names)
	}
	for _, p := range r.Machine.Progress() {
		switch {
		case p.Out > 0:
			t.Batches[BatchOut]++
		case p.Failed > 0:
			t.Batches[BatchFailed]++
		default:
			t.Batches[BatchDone]++
		}
	}
	if n := len(r.Decisions); n > 0 {
		t.Decided = r.Decisions[n-1].At
	}
	return t
}
