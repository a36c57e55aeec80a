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
)

// Gated tells the actor of a node to look at its gate.
type Gated struct{}

// standings is what the rollout is told of it.
type standings struct {
	earlier        *nodeproto.Report // the last one before its batch
	standingSent   []byte            // what it said last of how it stands
	standingSentOn string            // on this stream
}

// publishStanding says how the node stands to what it wants, for the rollout, where that is another
// than it said on this stream.
func (n *node) publishStanding(now time.Time) {
	g := n.handle.admission.Load()
	if g == nil || !g.Staged || n.stream == nil || n.report == nil || n.want.Digest == (fleet.Digest{}) {
		return
	}
	s, says := n.machine.Standing(now, n.want.Digest, config.Cut(n.status, nodeproto.MaxText),
		func() string { return fleet.Worse(n.earlier, n.report) })
	if !says {
		return
	}
	if s.State == fleet.StandsStaged {
		n.earlier = n.report
	}
	text := storage.Encode(s)
	if n.standingSentOn == n.on && bytes.Equal(text, n.standingSent) {
		return
	}
	n.standingSent, n.standingSentOn = text, n.on
	n.d.Saver.Add(storage.Save{Op: kv.Put(history.StandingKey(n.id), text), To: n.self, What: savedStanding,
		Of: &n.handle.spends})
}

// vanished says for the rollout that the node's stream ends, where it has the config and has not done
// with it.
func (n *node) vanished() {
	if g := n.handle.admission.Load(); g == nil || !g.Staged || !n.machine.AtWork(n.d.Now()) {
		return
	}
	n.standingSent = storage.Encode(fleet.Standing{Digest: n.want.Digest, State: fleet.StandsTook})
	n.d.Saver.Add(storage.Save{Op: kv.Put(history.StandingKey(n.id), n.standingSent), To: n.self, What: savedStanding})
}

// standingSaved is the answer of the store: what was not stored is with the next report.
func (n *node) standingSaved(m storage.Saved) {
	if m.Err != nil {
		n.d.Log.Warn("publish the state of a node", zap.String("node", n.id), zap.Error(m.Err))
		n.standingSent = nil
	}
}
