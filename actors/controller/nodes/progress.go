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

// AdmissionChanged makes a node's actor read its admission again.
type AdmissionChanged struct{}

// progress is what the node has published for the staged rollout.
type progressState struct {
	earlier        *nodeproto.Report // the last report before its batch
	progressSent   []byte            // the last published progress
	progressSentOn string            // the stream on which it was published
}

// publishProgress publishes how far the node is on the way to its desired config, for the rollout, if it differs from
// the last progress on this stream.
func (n *node) publishProgress(now time.Time) {
	g := n.handle.admission.Load()
	if g == nil || !g.Staged || n.stream == nil || n.report == nil || n.desired.Digest == (fleet.Digest{}) ||
		n.desired.Trial > 0 { // a test is of no rollout
		return
	}
	s, says := n.machine.RolloutProgress(now, n.desired.Digest, config.Truncate(n.status, nodeproto.MaxText),
		func() string { return fleet.NewlyBad(n.earlier, n.report) })
	if !says {
		return
	}
	if s.State == fleet.ProgressStaged {
		n.earlier = n.report
	}
	text := storage.Encode(s)
	if n.progressSentOn == n.on && bytes.Equal(text, n.progressSent) {
		return
	}
	n.progressSent, n.progressSentOn = text, n.on
	n.d.Saver.Add(storage.Save{Op: kv.Put(history.ProgressKey(n.id), text), To: n.self, What: savedProgress,
		Of: &n.handle.spends})
}

// publishDisconnected publishes that the node's stream ended after it got its desired config, before it confirmed or
// undid it.
func (n *node) publishDisconnected() {
	if g := n.handle.admission.Load(); g == nil || !g.Staged || n.desired.Trial > 0 || !n.machine.IsTrying(n.d.Now()) {
		return
	}
	n.progressSent = storage.Encode(fleet.RolloutProgress{Digest: n.desired.Digest, State: fleet.ProgressAcked})
	n.d.Saver.Add(storage.Save{Op: kv.Put(history.ProgressKey(n.id), n.progressSent), To: n.self, What: savedProgress})
}

// handleProgressSaved handles the result of the write: the next report repeats a failed one.
func (n *node) handleProgressSaved(m storage.Saved) {
	if m.Err != nil {
		n.d.Log.Warn("publish the state of a node", zap.String("node", n.id), zap.Error(m.Err))
		n.progressSent = nil
	}
}
