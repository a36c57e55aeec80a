package rollout

import (
	"maps"
	"slices"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

// Rollout rolls out one change to its nodes, batch by batch. It is a state machine: Step takes an event and returns the
// effects.
//
//	event            | reaction
//	-----------------+-----------------------------------------------------------------------
//	Start            | the first batch is pushed
//	NodeConfirmed    | the node has the new config and counts as online, whatever came before
//	NodeReverted     | the node has the old config again: a failure while the change goes out
//	NodeFailed       | the node refused; more failures than the budget halt the rollout
//	NodeAcked        | the node has received the new config and has not answered yet
//	NodeOffline      | the node counts as offline in plans until NodeOnline or TopologyChanged
//	NodeOnline       | the node counts as online in plans
//	Deadline         | of a batch: nodes without an answer have failed and count as offline; but
//	                 | a few that are offline and never took the config wait for a later batch
//	                 | (Delayed); of the pause between batches: the next batch
//	Pause            | no new batch; the current one continues
//	Resume           | after Pause or a halt: the next batch, with a new budget of failures
//	Abort            | no new batch; the rollout ends
//	Abort and Revert | all pushed nodes are reverted in batches, the current batch first
//	TopologyChanged  | plans use it; the rollout stops waiting for nodes that it lacks
//	Changed          | the desired config of nodes has changed: they are pushed (again), those of
//	                 | the current batch at once, since they are down already. Fresh is another
//	                 | change: it begins with a canary and a new budget, and forgets which nodes
//	                 | have the previous one
//	NodeStuck        | the node needs another action first: the rollout stops waiting for it
//	NodeForgotten    | the node is no longer part of the rollout
//
// One batch is out at a time: until each of its nodes has answered or its deadline has passed. Each batch is planned
// from the present state, so that a node that returned goes with a later batch, and no plan counts on a path over a
// node that failed silently. A node is pushed once, twice if it was delayed, and reverted once. The first batch never
// exceeds its limit (First): where a plan would take more nodes together, nodes of the least important site go alone.
// Unreachable nodes block nothing: Done names them. After Done the rollout is idle until another change; it still
// tracks the state of nodes.
//
// With Stages, nodes that the topology can't place, because it lacks them or has no path to them, follow after all
// others: by their groups, a percentage at a time.
type Rollout struct {
	o        Settings
	topology *topology.Topology
	phase    phase
	held     bool              // by Pause
	halted   bool              // by failures
	canary   bool              // the next batch is the first one
	trial    bool              // the current batch is the first one of its change
	online   map[string]bool   // by NodeOffline and NodeOnline since the last topology
	groups   map[string]string // by node

	nodes      map[string]*node
	unanswered map[string]bool // the nodes of the current batch that have not answered yet
	batch      []string        // all of it
	number     int             // of batches so far
	failures   map[string]bool // since the last Resume
	timer      int             // the last one that was set; older ones are void
	resting    bool            // in the pause between two batches

	other config.Unknown // of the memory that it was made from
}

// Settings configure how cautious a rollout is. Those of a plan are in Options.
type Settings struct {
	Options
	Confirm  time.Duration `json:"confirm"`        // time limit for the answers of a batch
	Rest     time.Duration `json:"rest,omitempty"` // pause between two batches, for links to return and for observation
	Failures int           `json:"failures"`       // budget of failed nodes; one more halts the rollout
	// FailuresPercent of the nodes that were tried so far may fail, if that is more than Failures.
	FailuresPercent int `json:"failuresPercent,omitempty"`
	// OfflinePercent of a batch, and of the nodes tried so far, may go offline before they take the change, and then
	// wait for a later batch; one of each always may. 0: each of them has failed.
	OfflinePercent int `json:"offlinePercent,omitempty"`
	// percentages of each group's nodes that have been tried after each stage; rising, 100 follows
	Stages []int `json:"stages,omitempty"`
}

type phase int

const (
	created phase = iota
	forward
	backward
	done
)

// State is the state of one node in a rollout.
type State string

// A node that undid the change by itself is Failed; a node that was reverted on request is Reverted.
const (
	Waiting      State = "waiting"
	Pushed       State = "pushed"
	Confirmed    State = "confirmed"
	Failed       State = "failed"
	Reverting    State = "reverting"
	Reverted     State = "reverted"
	RevertFailed State = "revert failed"
	Stuck        State = "stuck"
)

type node struct {
	state   State
	why     string
	pushed  bool
	acked   bool // it received the last push
	delayed bool // it went offline in a batch before it took the change
	waiting bool // it waits for a batch
	batch   int  // its last batch
}

// Event is an input of the machine.
type Event interface{ event() }

type (
	// Start begins the rollout.
	Start struct{}
	// NodeConfirmed reports that a node has the new config and works.
	NodeConfirmed struct{ Node string }
	// NodeReverted reports that a node has the old config again.
	NodeReverted struct{ Node string }
	// NodeFailed reports that a node can't take the pushed config.
	NodeFailed struct{ Node, Why string }
	// NodeAcked reports that a node has received the pushed config.
	NodeAcked struct{ Node string }
	// NodeOffline reports that a node is no longer reachable.
	NodeOffline struct{ Node string }
	// NodeOnline reports that a node is reachable again.
	NodeOnline struct{ Node string }
	// Deadline is the end of the timer with this number.
	Deadline struct{ Timer int }
	// Pause holds the rollout after the current batch.
	Pause struct{}
	// Resume continues after Pause or a halt.
	Resume struct{}
	// Abort ends the rollout, or reverts it.
	Abort struct{ Revert bool }
	// TopologyChanged brings the present topology.
	TopologyChanged struct{ Topology *topology.Topology }
	// Grouped brings the groups of nodes; nodes that it does not name form one group.
	Grouped struct{ Groups map[string]string }
	// Changed reports that the desired config of nodes has changed.
	Changed struct {
		Nodes []string
		Fresh bool // by another change than before
	}
	// NodeStuck reports that waiting for a node is useless, and why.
	NodeStuck struct{ Node, Why string }
	// NodeForgotten reports that a node no longer exists.
	NodeForgotten struct{ Node string }
)

func (Start) event()           {}
func (NodeConfirmed) event()   {}
func (NodeReverted) event()    {}
func (NodeFailed) event()      {}
func (NodeAcked) event()       {}
func (NodeOffline) event()     {}
func (NodeOnline) event()      {}
func (Deadline) event()        {}
func (Pause) event()           {}
func (Resume) event()          {}
func (Abort) event()           {}
func (TopologyChanged) event() {}
func (Grouped) event()         {}
func (Changed) event()         {}
func (NodeStuck) event()       {}
func (NodeForgotten) event()   {}

// Effect is an output of the machine.
type Effect interface{ effect() }

type (
	// Push sends the change to the nodes of one batch.
	Push struct {
		Batch int
		Nodes []string
	}
	// Revert sends nodes their previous config. A node that has it answers NodeReverted.
	Revert struct {
		Batch int
		Nodes []string
	}
	// SetTimer starts a timer that ends with Deadline. It replaces the previous timer.
	SetTimer struct {
		Timer int
		After time.Duration
	}
	// Delayed names the nodes of a batch that wait for a later one: they went offline before they took the change. They
	// get nothing until then.
	Delayed struct {
		Batch int
		Nodes []string
	}
	// Halted reports that too many nodes failed: Resume or Abort follows.
	Halted struct{ Why string }
	// Done ends the rollout and names every node that does not have its desired config.
	Done struct {
		Failed      []Unreachable // and why
		Unreachable []Unreachable // never pushed, or never reverted, and why
	}
)

func (Push) effect()     {}
func (Revert) effect()   {}
func (SetTimer) effect() {}
func (Delayed) effect()  {}
func (Halted) effect()   {}
func (Done) effect()     {}

// New returns a rollout to the pending nodes that waits for Start.
func New(t *topology.Topology, pending []string, s Settings) *Rollout {
	r := &Rollout{o: s, topology: emptyTopology(t), canary: true, online: map[string]bool{}, nodes: map[string]*node{},
		unanswered: map[string]bool{}, failures: map[string]bool{}}
	for _, name := range pending {
		r.nodes[name] = &node{state: Waiting, waiting: true}
	}
	return r
}

// Node returns the state of a node, and the reason; "" for a node that is not part of the rollout.
func (r *Rollout) Node(name string) (State, string) {
	if n := r.nodes[name]; n != nil {
		return n.state, n.why
	}
	return "", ""
}

// names returns the nodes that satisfy a predicate, sorted.
func (r *Rollout) names(match func(*node) bool) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		if match(r.nodes[name]) {
			out = append(out, name)
		}
	}
	return out
}
