package agent

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/nodeside"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/config/stateloop/peer"
)

// scheduleReport schedules a report.
func (s *shell) scheduleReport() {
	s.dirty = true
	if s.stream != nil && !s.isRunning(reportTimer) {
		s.setTimer(reportTimer, 0, reportDelay)
	}
}

// machineState returns the machine's state. It is cached until something happens, because it computes digests of
// documents.
func (s *shell) machineState() commitconfirm.State {
	if s.dirty || s.hasPending() {
		s.known, s.dirty = s.m.State(), false
	}
	return s.known
}

// isSettled reports whether the pending config is applied and its actions have run: only then the machine asks for a
// round trip.
func (s *shell) isSettled() bool { return s.asked != commitconfirm.Nonce{} }

func (s *shell) status() Status {
	return Status{
		State: s.machineState(), Settled: s.isSettled(), Managed: s.notes.Managed, Held: s.notes.Held,
		Controller: s.o.Facts.Controller, Linked: s.stream != nil,
		Document: s.m.Live().Document, FileDigest: s.m.Live().FileDigest, Name: s.o.Facts.Name,
	}
}

// report sends the node's state to its controller.
func (s *shell) report() {
	s.owesReport = false
	if s.stream == nil {
		return
	}
	s.cancel(reportTimer)
	s.reported = time.Now()
	f, st := s.o.Facts, s.machineState()
	r := nodeproto.Report{
		MD5: st.Echo.MD5, Generation: st.Echo.Generation, Restores: st.Restores,
		Software: f.Software, Firmware: f.Firmware, Board: f.Board, Source: string(st.Source),
		Managed: s.notes.Managed, Held: s.notes.Held, Settled: s.look.Settled && !st.Pending, Fallback: st.Fallback,
		Health: s.look.Health, Actions: nodeside.Actions(st.Results), Parameters: s.parameters(), Ports: s.look.Ports,
		Peer: s.peerDigest(st.Echo),
	}
	if s.o.LastEvent != nil {
		r.Events = s.o.LastEvent()
	}
	switch {
	case st.Undoing: // the abandoned config runs until the undo ends; it must not look confirmed
		r.Pending = &nodeproto.PendingReport{Generation: st.Undone.Generation}
	case st.Pending:
		r.Settled = s.isSettled()
		r.Pending = &nodeproto.PendingReport{Generation: st.Desired.Generation, Remaining: st.Remaining,
			Settled: s.isSettled(),
			Worse:   st.Bad}
	}
	s.send(r)
}

// peerDigest returns the digest of the PeerConfiguration of a reported config. While that is the previous config it is
// omitted: the host has the one of the new config by then.
func (s *shell) peerDigest(e commitconfirm.Echo) string {
	live := s.m.Live()
	if live.Peer == "" || live.Echo() != e {
		return ""
	}
	return peer.DigestOf(live.Peer)
}

// parameters returns the parameters of the host. If the published config has got a new generation since, they are
// reported with that one.
func (s *shell) parameters() []nodeproto.ParameterReport {
	live := s.m.Live()
	if live.Seq != s.live.Seq || live.Generation == s.live.Generation {
		return s.look.Parameters
	}
	out := slices.Clone(s.look.Parameters)
	for i, p := range out {
		if p.Generation == s.live.Generation {
			out[i].Generation = live.Generation
		}
	}
	return out
}

// send sends a message to the controller, if it is connected. What matters is sent again on the next stream.
func (s *shell) send(m nodeproto.FromNode) {
	if s.stream == nil {
		return
	}
	if err := s.stream.Send(m); err != nil {
		s.log.Info("report to the controller", zap.Error(err))
	}
}
