package rollout

import (
	"maps"
	"slices"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

// Rollout brings one change to its nodes, batch by batch. It is a machine: Step takes what
// happened and answers with what to do.
//
//	event            | what it does
//	-----------------+-----------------------------------------------------------------------
//	Start            | the first batch is pushed
//	NodeConfirmed    | the node has the new config; it is up, whatever was said before
//	NodeReverted     | the node has the old config again: a failure while the change goes out
//	NodeFailed       | the node said no; more failures than allowed halt the rollout
//	NodeTook         | the node has received the new config, and not answered yet
//	NodeGone         | the node counts as offline in plans until NodeBack or TopologyChanged
//	NodeBack         | the node counts as online in plans
//	Deadline         | of a batch: who did not answer has failed, and counts as gone; but a few
//	                 | that are gone and never took the config wait for a later batch (Delayed);
//	                 | of the pause between batches: the next batch
//	Pause            | no new batch; the one that is out goes on
//	Resume           | after Pause or a halt: on with the next batch, with a new budget of failures
//	Abort            | no new batch, the end
//	Abort and Revert | all that was pushed is reverted in batches, the one that is out first
//	TopologyChanged  | plans are made from it; nodes that are no longer in it are not waited for
//	Changed          | nodes want something else than before: they are to be pushed (again). Of
//	                 | a batch that is out they are pushed at once: they are down already.
//	                 | Fresh is another change: it begins with a canary and a new budget, and
//	                 | forgets who has the one before
//	NodeStuck        | somebody else must act before the node takes anything: it is not waited for
//	NodeForgotten    | the node is no part of the rollout any more
//
// One batch is out at a time: until each of its nodes has answered or the deadline came.
// Each batch is planned anew from what is known then, so that a node that came back goes
// with a later batch, and no path over one that failed silently is counted on. A node is
// pushed once, twice if it was delayed, and reverted once. The first batch never has more nodes than it may (First):
// where a plan would take more together, nodes of the least important site go alone. What no
// batch can reach blocks nothing: it is named in Done. After Done nothing happens any more,
// until there is another change; what is known of nodes is kept up with.
//
// With Stages, nodes that no topology can place, as it doesn't have them or has no path to
// them, follow when all others had their turn: by their groups, so many of a hundred at a time.
type Rollout struct {
	o      Settings
	t      *topology.Topology
	phase  phase
	held   bool              // by Pause
	halted bool              // by failures
	canary bool              // the next batch is the first one
	trial  bool              // the batch that is out is the first one of its change
	up     map[string]bool   // what NodeGone and NodeBack said since the topology came
	groups map[string]string // by node

	nodes    map[string]*node
	out      map[string]bool // the nodes of the batch that is out and did not answer yet
	batch    []string        // all of it
	number   int             // of batches so far
	failures map[string]bool // since the last Resume
	timer    int             // the last one that was set; older ones are void
	resting  bool            // it is the pause between two batches

	other config.Unknown // of the memory that it was made from
}

// Settings are how careful a rollout is. Those of a plan are in Options.
type Settings struct {
	Options
	Confirm  time.Duration `json:"confirm"`        // how long a batch may take to answer
	Rest     time.Duration `json:"rest,omitempty"` // between two batches, for links to come back and for looking
	Failures int           `json:"failures"`       // so many nodes may fail; one more halts the rollout
	// FailuresPercent of the nodes that were tried so far may fail, where that is more than Failures.
	FailuresPercent int `json:"failuresPercent,omitempty"`
	// OfflinePercent of a batch, and of the nodes tried so far, may go offline before they take the
	// change and wait for a later batch; one of each always may. 0: each of them has failed.
	OfflinePercent int `json:"offlinePercent,omitempty"`
	// of a hundred nodes of each group, how many have been tried after each; rising, 100 follows
	Stages []int `json:"stages,omitempty"`
}

type phase int

const (
	created phase = iota
	forward
	backward
	done
)

// State is where one node stands in a rollout.
type State string

// A node that undid the change by itself is Failed; one that was asked to is Reverted.
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
	took    bool // it received what was pushed to it last
	delayed bool // it went offline in a batch before it took the change
	todo    bool // it is to be in a batch
	batch   int  // that it was in last
}

// Event is what happened.
type Event interface{ event() }

type (
	// Start begins.
	Start struct{}
	// NodeConfirmed comes from a node that has the new config, and works.
	NodeConfirmed struct{ Node string }
	// NodeReverted comes from a node that has the old config again.
	NodeReverted struct{ Node string }
	// NodeFailed comes from or for a node that can't take what was sent.
	NodeFailed struct{ Node, Why string }
	// NodeTook says that a node has received what was pushed to it.
	NodeTook struct{ Node string }
	// NodeGone says that a node is no longer reachable.
	NodeGone struct{ Node string }
	// NodeBack says that it is again.
	NodeBack struct{ Node string }
	// Deadline is the end of the timer that was set with this number.
	Deadline struct{ Timer int }
	// Pause holds the rollout after the batch that is out.
	Pause struct{}
	// Resume goes on after Pause or a halt.
	Resume struct{}
	// Abort gives up, or goes back.
	Abort struct{ Revert bool }
	// TopologyChanged brings what is known of the network now.
	TopologyChanged struct{ Topology *topology.Topology }
	// Grouped brings the groups of nodes; those that it does not name are of one group.
	Grouped struct{ Groups map[string]string }
	// Changed says that nodes want something else now.
	Changed struct {
		Nodes []string
		Fresh bool // by another change than before
	}
	// NodeStuck says that nobody can wait for a node, and why.
	NodeStuck struct{ Node, Why string }
	// NodeForgotten says that there is no such node any more.
	NodeForgotten struct{ Node string }
)

func (Start) event()           {}
func (NodeConfirmed) event()   {}
func (NodeReverted) event()    {}
func (NodeFailed) event()      {}
func (NodeTook) event()        {}
func (NodeGone) event()        {}
func (NodeBack) event()        {}
func (Deadline) event()        {}
func (Pause) event()           {}
func (Resume) event()          {}
func (Abort) event()           {}
func (TopologyChanged) event() {}
func (Grouped) event()         {}
func (Changed) event()         {}
func (NodeStuck) event()       {}
func (NodeForgotten) event()   {}

// Effect is what to do now.
type Effect interface{ effect() }

type (
	// Push sends the change to the nodes of one batch.
	Push struct {
		Batch int
		Nodes []string
	}
	// Revert sends them what they had before. A node that has it answers NodeReverted.
	Revert struct {
		Batch int
		Nodes []string
	}
	// SetTimer asks for Deadline after a while. It replaces the timer before.
	SetTimer struct {
		Timer int
		After time.Duration
	}
	// Delayed names the nodes of a batch that wait for a later one: they went offline before they
	// took the change. Nothing is to be sent to them until then.
	Delayed struct {
		Batch int
		Nodes []string
	}
	// Halted says that too many nodes failed: Resume, or Abort.
	Halted struct{ Why string }
	// Done ends the rollout and names every node that does not have what was wanted.
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

// New is a rollout to the pending nodes that waits for Start.
func New(t *topology.Topology, pending []string, s Settings) *Rollout {
	r := &Rollout{o: s, t: empty(t), canary: true, up: map[string]bool{}, nodes: map[string]*node{},
		out: map[string]bool{}, failures: map[string]bool{}}
	for _, name := range pending {
		r.nodes[name] = &node{state: Waiting, todo: true}
	}
	return r
}

// Node is where a node stands, and why; "" for one that is not part of the rollout.
func (r *Rollout) Node(name string) (State, string) {
	if n := r.nodes[name]; n != nil {
		return n.state, n.why
	}
	return "", ""
}

// names are the nodes that a test holds for, sorted.
func (r *Rollout) names(is func(*node) bool) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		if is(r.nodes[name]) {
			out = append(out, name)
		}
	}
	return out
}
