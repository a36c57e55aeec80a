package controller

import (
	"bytes"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/history"
	"edgespan/config/link"
	"edgespan/config/revision"
	"edgespan/config/state"
	"edgespan/config/topology"
)

// gated tells the actor of a node to look at its gate.
type gated struct{}

// gates is the part of the fleet that lets nodes have configs. While staged rollouts are on,
// the gate of a node lets the config through that the store names, and no other: a node that no
// rollout has come to gets nothing, whoever dies when.
type gates struct {
	staging
	open     map[string]gate // by id
	rollouts map[revision.Key]bool
	stands   map[string]bool
	letters  map[revision.Key]bool // in the mailboxes of the rollouts and of the leader
	cause    rolloutHead           // the last revision that touched nodes
	topology *topology.Topology
	events   []revision.Event // for /rollout
}

func newGates() gates {
	return gates{open: map[string]gate{}, rollouts: map[revision.Key]bool{}, stands: map[string]bool{}, letters: map[revision.Key]bool{}}
}

// flagsAre takes over the flags of the controller's config. It is before any node hears what
// it wants of the same revision.
func (a *fleetActor) flagsAre(c actor.Context, doc config.Object) {
	was := a.gates.on
	a.gates.staging = stagingOf(doc, a.d.Flags)
	if a.gates.on == was {
		return
	}
	for id, r := range a.nodes {
		a.gate(c, id, r)
	}
}

// gate brings the gate of a node in line with the store.
func (a *fleetActor) gate(c actor.Context, id string, r *record) {
	g := fleet.Gate{Staged: a.gates.on, Open: a.gates.open[id].Open}
	if old := r.seat.gate.Swap(&g); old == nil || *old != g {
		c.Send(r.pid, gated{})
	}
}

// ofRollouts takes over keys that rollouts go by, and gathers them for the leader.
func (a *fleetActor) ofRollouts(c actor.Context, e revision.Event, id string) {
	k := e.Entry.Key
	put := e.Kind == revision.EventPut
	switch {
	case history.InGates.Has(k):
		if put {
			a.gates.open[id] = valueOf[gate](e)
		} else {
			delete(a.gates.open, id)
		}
		if r := a.nodes[id]; r != nil {
			a.gate(c, id, r)
		}
	case history.InStandings.Has(k):
		keepKey(a.gates.stands, id, put)
	case history.InRollouts.Has(k):
		keepKey(a.gates.rollouts, k, put)
	case history.InMailboxes.Has(k) && id == rolloutMailbox:
		keepKey(a.gates.letters, k, put)
	case history.InMailboxes.Has(k) && id == leaderMailbox:
		keepKey(a.gates.letters, k, put)
		return // they are /leader's
	case history.InNodes.Has(k), history.InGenerations.Has(k), history.InOwners.Has(k):
	default:
		return
	}
	a.gates.events = append(a.gates.events, e)
}

func keepKey[K comparable](in map[K]bool, k K, put bool) {
	if put {
		in[k] = true
	} else {
		delete(in, k)
	}
}

// goneOfRollouts are the keys that a listing may lack.
func (a *fleetActor) goneOfRollouts(gone func(revision.Key)) {
	for id := range a.gates.open {
		gone(history.GateKey(id))
	}
	for id := range a.gates.stands {
		gone(history.StandingKey(id))
	}
	for k := range a.gates.rollouts {
		gone(k)
	}
	for k := range a.gates.letters { // or the next leader would do what nobody waits for any more
		gone(k)
	}
}

// tellRollout hands the news on, once the nodes have theirs.
func (a *fleetActor) tellRollout(c actor.Context, m headRead, first bool) {
	touches := first || slices.ContainsFunc(m.diffs, func(d history.LayerDiff) bool {
		return d.Layer.Kind == history.Network || d.Layer.Kind == history.Node || d.Layer.Kind == history.Auto
	})
	if touches && m.record.Number > 0 {
		a.gates.cause = rolloutHead{m.record.Number, m.record.Author, m.record.Message}
	}
	c.Send(a.d.rollout, rolloutNews{a.gates.cause, a.gates.topology, a.gates.staging, a.gates.events})
	a.gates.events = nil
}

// stand says how the node stands to what it wants, for the rollout, where that is another
// than it said on this stream.
func (n *node) stand(now time.Time) {
	g := n.seat.gate.Load()
	if g == nil || !g.Staged || n.stream == nil || n.report == nil || n.want.Digest == (fleet.Digest{}) {
		return
	}
	s := standing{Digest: n.want.Digest, Why: config.Cut(n.status, longestText)}
	switch is := n.machine.State(now); {
	case is == fleet.Staged && n.machine.Undid(): // its gate was closed, as it had gone offline
		s.State, s.Why = standsFailed, "nobody confirmed it, and the node went back to what it had"
	case is == fleet.Staged:
		s.State, s.Why, n.earlier = standsStaged, "", n.report
	case is == fleet.InSync:
		if n.worse() != "" {
			return
		}
		s.State, s.Why = standsConfirmed, ""
	case is == fleet.Failed:
		s.State = standsFailed
	case is == fleet.Waiting && n.machine.Undid():
		s.State = standsFailed
	case is.Stuck() && is != fleet.Faulty:
		s.State = standsStuck
	default:
		return
	}
	text := encode(s)
	if n.stoodOn == n.on && bytes.Equal(text, n.stood) {
		return
	}
	n.stood, n.stoodOn = text, n.on
	n.d.saver.add(entry{op: revision.Put(history.StandingKey(n.id), text), to: n.self, what: savedStanding, of: &n.seat.spends})
}

// vanished says for the rollout that the node's stream ends, where it has the config and has not done
// with it.
func (n *node) vanished() {
	if g := n.seat.gate.Load(); g == nil || !g.Staged || !n.machine.AtWork(n.d.Now()) {
		return
	}
	n.stood = encode(standing{Digest: n.want.Digest, State: standsTook})
	n.d.saver.add(entry{op: revision.Put(history.StandingKey(n.id), n.stood), to: n.self, what: savedStanding})
}

// standingSaved is the answer of the store: what was not stored is with the next report.
func (n *node) standingSaved(m saved) {
	if m.err != nil {
		n.d.Log.Warn("say how a node stands", zap.String("node", n.id), zap.Error(m.err))
		n.stood = nil
	}
}

// worse is what is bad on the node and was good before its batch, and a parameter that is not
// ready and was; "" for nothing. Where nobody here saw it before, all parameters must be ready.
func (n *node) worse() string {
	before := map[string]bool{}
	if n.earlier != nil {
		for _, h := range n.earlier.Health {
			before[h.Name] = !h.Good
		}
		for _, p := range n.earlier.Parameters {
			before[p.ID] = !ready(p)
		}
	}
	for _, h := range n.report.Health {
		if !h.Good && n.earlier != nil && !before[h.Name] {
			return h.Name
		}
	}
	for _, p := range n.report.Parameters {
		if !ready(p) && !before[p.ID] {
			return p.ID
		}
	}
	return ""
}

func ready(p link.Parameter) bool { return state.State(p.State).Class() == state.Final }
