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

// Gated makes a node's actor read its admission again.
type Gated struct{}

// standings is what the node has published for the staged rollout.
type standings struct {
	earlier        *nodeproto.Report // the last report before its batch
	standingSent   []byte            // the last published standing
	standingSentOn string            // the stream on which it was published
}

// publishStanding publishes how far the node is on the way to its desired config, for the rollout, if it differs from
// the last standing on this stream.
func (n *node) publishStanding(now time.Time) {
	g := n.handle.admission.Load()
	if g == nil || !g.Staged || n.stream == nil || n.report == nil || n.want.Digest == (fleet.Digest{}) {
		return
	}
	s, says := n.machine.Standing(now, n.want.Digest, config.Truncate(n.status, nodeproto.MaxText),
		func() string { return fleet.NewlyBad(n.earlier, n.report) })
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

// vanished publishes that the node's stream ended after it got its desired config, before it confirmed or undid it.
func (n *node) vanished() {
	if g := n.handle.admission.Load(); g == nil || !g.Staged || !n.machine.IsTrying(n.d.Now()) {
		return
	}
	n.standingSent = storage.Encode(fleet.Standing{Digest: n.want.Digest, State: fleet.StandsTook})
	n.d.Saver.Add(storage.Save{Op: kv.Put(history.StandingKey(n.id), n.standingSent), To: n.self, What: savedStanding})
}

// handleStandingSaved handles the result of the write: the next report repeats a failed one.
func (n *node) handleStandingSaved(m storage.Saved) {
	if m.Err != nil {
		n.d.Log.Warn("publish the state of a node", zap.String("node", n.id), zap.Error(m.Err))
		n.standingSent = nil
	}
}
