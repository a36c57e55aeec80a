package staged

import (
	"iter"
	"slices"

	"edgespan/config/fleet"
	"edgespan/config/fleet/rollout"
	"edgespan/config/kv"
)

// Node is one node as the leader of the rollouts knows it, read only from the store, so that any replica knows the
// same.
type Node struct {
	ID, Name  string
	Desired   fleet.Digest
	Since     kv.Revision // when Desired was set
	Online    bool
	Kind      string // board and software: nodes of one kind form a group of the stages
	Progress  fleet.RolloutProgress
	Admission Admission
}

// Admission is the config that a node may have.
type Admission struct {
	Open    fleet.Digest `json:"open"`
	Rollout uint64       `json:"rollout"`
	Batch   int          `json:"batch"`
}

// Staged reports whether the node waits for a batch.
func (n *Node) Staged() bool {
	return n.Progress.State == fleet.ProgressStaged && n.Progress.Digest == n.Desired && n.Admission.Open != n.Desired
}

// HasDesired reports whether the node has confirmed its desired config.
func (n *Node) HasDesired() bool {
	return n.Progress.State == fleet.ProgressConfirmed && n.Progress.Digest == n.Desired
}

// PresenceEvent returns the rollout's event for a node's connection.
func (n *Node) PresenceEvent() rollout.Event {
	if n.Online {
		return rollout.NodeOnline{Node: n.Name}
	}
	return rollout.NodeOffline{Node: n.Name}
}

// AnswerEvent returns the event that reports the node's progress towards its desired config, given its state in the
// rollout; nil if the rollout knows it already: each event is a record written.
func (n *Node) AnswerEvent(state rollout.State, m *rollout.Rollout) rollout.Event {
	if n.Progress.Digest != n.Desired {
		return nil
	}
	out := state == rollout.Pushed || m.Delayed(n.Name)
	switch s := n.Progress; {
	case s.State == fleet.ProgressConfirmed && state != rollout.Confirmed:
		return rollout.NodeConfirmed{Node: n.Name}
	case s.State == fleet.ProgressAcked && out && !m.HasAcked(n.Name):
		return rollout.NodeAcked{Node: n.Name}
	case s.State == fleet.ProgressFailed && out:
		return rollout.NodeFailed{Node: n.Name, Why: s.Why}
	case s.State == fleet.ProgressStuck && state == rollout.Pushed:
		return rollout.NodeStuck{Node: n.Name, Why: s.Why}
	}
	return nil
}

// Uncovered is the result of a search for nodes whose desired config no rollout has brought them.
type Uncovered struct {
	Nodes []string // to take into a rollout, in order
	Fresh bool     // of a later revision than the last rollout's, which it supersedes
	Held  bool     // the last rollout was aborted, and holds back the desired configs of its revision
}

// FindUncovered searches nodes, given the last revision that affected any, the last rollout (nil for none), its machine
// (nil if it has ended), and the names of the nodes whose desired config has changed since it began.
func FindUncovered(nodes iter.Seq[*Node], cause uint64, last *RolloutRecord, m *rollout.Rollout,
	touched map[string]bool) Uncovered {
	l := Uncovered{Fresh: last == nil || cause > last.Revision}
	var barrier kv.Revision
	if last != nil {
		if l.Held = last.End == EndAborted && !l.Fresh; l.Held {
			return l
		}
		barrier = last.Barrier
	}
	for n := range nodes {
		c := rollout.UncoveredNode{Wants: n.Since > 0, Held: n.Since <= barrier, Changed: touched[n.Name], Waits: n.Staged(),
			Has: n.HasDesired(), Online: n.Online}
		if m != nil && !m.Ended() {
			c.State, _ = m.Node(n.Name)
		}
		if c.BelongsToRollout(l.Fresh) {
			l.Nodes = append(l.Nodes, n.Name)
		}
	}
	slices.Sort(l.Nodes)
	return l
}

// AdmissionChanges returns the admissions to change, by node id and at most limit, so that they match a rollout that
// was stored at revision at of the store. Nodes of the current batch are admitted, unless the rollout has ended; the
// admission of nodes that wait again is revoked. A config desired after the rollout was stored is not part of it.
func (r *RolloutRecord) AdmissionChanges(node func(name string) *Node, at kv.Revision, ended bool,
	limit int) map[string]Admission {
	gates := map[string]Admission{}
	set := func(names []string, batch int, open bool) {
		for _, name := range names {
			n := node(name)
			if n == nil || (n.Admission.Open == n.Desired) == open || n.Since > at || len(gates) == limit {
				continue
			}
			g := Admission{Rollout: r.Revision, Batch: batch}
			if open {
				g.Open = n.Desired
			}
			gates[n.ID] = g
		}
	}
	if !ended {
		set(r.Machine.Out, r.Machine.Number, true)
	}
	for _, g := range r.Machine.Nodes {
		if g.Delayed && g.State == rollout.Waiting {
			set(g.Names, g.Batch, false)
		}
	}
	return gates
}
