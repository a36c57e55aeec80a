package nodes

import (
	"bytes"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/kv"
	"edgespan/config/stateloop"
)

// Gated tells the actor of a node to look at its gate.
type Gated struct{}

// standings is what the rollout is told of it.
type standings struct {
	earlier *nodeproto.Report // the last one before its batch
	stood   []byte            // what it said last of how it stands
	stoodOn string            // on this stream
}

// stand says how the node stands to what it wants, for the rollout, where that is another
// than it said on this stream.
func (n *node) stand(now time.Time) {
	g := n.seat.gate.Load()
	if g == nil || !g.Staged || n.stream == nil || n.report == nil || n.want.Digest == (fleet.Digest{}) {
		return
	}
	s := fleet.Standing{Digest: n.want.Digest, Why: config.Cut(n.status, longestText)}
	switch is := n.machine.State(now); {
	case is == fleet.Staged && n.machine.Undid(): // its gate was closed, as it had gone offline
		s.State, s.Why = fleet.StandsFailed, "nobody confirmed it, and the node went back to what it had"
	case is == fleet.Staged:
		s.State, s.Why, n.earlier = fleet.StandsStaged, "", n.report
	case is == fleet.InSync:
		if n.worse() != "" {
			return
		}
		s.State, s.Why = fleet.StandsConfirmed, ""
	case is == fleet.Failed:
		s.State = fleet.StandsFailed
	case is == fleet.Waiting && n.machine.Undid():
		s.State = fleet.StandsFailed
	case is.Stuck() && is != fleet.Faulty:
		s.State = fleet.StandsStuck
	default:
		return
	}
	text := storage.Encode(s)
	if n.stoodOn == n.on && bytes.Equal(text, n.stood) {
		return
	}
	n.stood, n.stoodOn = text, n.on
	n.d.Saver.Add(storage.Save{Op: kv.Put(history.StandingKey(n.id), text), To: n.self, What: savedStanding,
		Of: &n.seat.spends})
}

// vanished says for the rollout that the node's stream ends, where it has the config and has not done
// with it.
func (n *node) vanished() {
	if g := n.seat.gate.Load(); g == nil || !g.Staged || !n.machine.AtWork(n.d.Now()) {
		return
	}
	n.stood = storage.Encode(fleet.Standing{Digest: n.want.Digest, State: fleet.StandsTook})
	n.d.Saver.Add(storage.Save{Op: kv.Put(history.StandingKey(n.id), n.stood), To: n.self, What: savedStanding})
}

// standingSaved is the answer of the store: what was not stored is with the next report.
func (n *node) standingSaved(m storage.Saved) {
	if m.Err != nil {
		n.d.Log.Warn("say how a node stands", zap.String("node", n.id), zap.Error(m.Err))
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

func ready(p nodeproto.Parameter) bool { return stateloop.State(p.State).Class() == stateloop.Final }
