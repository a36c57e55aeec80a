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

// changed has a report sent soon.
func (s *shell) changed() {
	s.dirty = true
	if s.stream != nil && !s.runs(reportTimer) {
		s.timer(reportTimer, 0, gather)
	}
}

// state is where the machine stands; it is asked only after something happened, since it
// spells the digests of its documents.
func (s *shell) state() commitconfirm.State {
	if s.dirty || s.pending() {
		s.known, s.dirty = s.m.State(), false
	}
	return s.known
}

// settled says that what is pending was applied to the end of its actions: the machine asks
// for a round trip then, and not before.
func (s *shell) settled() bool { return s.asked != commitconfirm.Nonce{} }

func (s *shell) status() Status {
	return Status{
		State: s.state(), Settled: s.settled(), Managed: s.notes.Managed, Held: s.notes.Held,
		Controller: s.o.Facts.Controller, Linked: s.stream != nil,
	}
}

// report says how the node is now, to its controller.
func (s *shell) report() {
	if s.stream == nil {
		return
	}
	s.cancel(reportTimer)
	s.reported = time.Now()
	f, st := s.o.Facts, s.state()
	r := nodeproto.Report{
		MD5: st.Echo.MD5, Generation: st.Echo.Generation, Restores: st.Restores,
		Software: f.Software, Firmware: f.Firmware, Board: f.Board, Source: string(st.Source),
		Managed: s.notes.Managed, Held: s.notes.Held, Settled: s.look.Settled && !st.Pending, Fallback: st.Fallback,
		Health: s.look.Health, Actions: nodeside.Actions(st.Results), Parameters: s.parameters(), Ports: s.look.Ports,
		Peer: s.peer(st.Echo),
	}
	switch {
	case st.Undoing: // what is given up is in force to the end of the undo: it must not look as if it was confirmed
		r.Pending = &nodeproto.Pending{Generation: st.Undone.Generation}
	case st.Pending:
		r.Settled = s.settled()
		r.Pending = &nodeproto.Pending{Generation: st.Desired.Generation, Remaining: st.Remaining, Settled: s.settled(),
			Worse: st.Bad}
	}
	s.send(r)
}

// peer is the digest of the PeerConfiguration that goes with what is said to be in force. While
// that is the config before the one of now it is not said: what is in force is another then.
func (s *shell) peer(e commitconfirm.Echo) string {
	live := s.m.Live()
	if live.Peer == "" || live.Echo() != e {
		return ""
	}
	return peer.DigestOf(live.Peer)
}

// parameters are those of the host. What answers the config that was published answers the
// number that it has been given since.
func (s *shell) parameters() []nodeproto.Parameter {
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

// send says something to the controller, if there is one. What got lost is said again on
// the next stream, where it matters.
func (s *shell) send(m nodeproto.FromNode) {
	if s.stream == nil {
		return
	}
	if err := s.stream.Send(m); err != nil {
		s.log.Info("report to the controller", zap.Error(err))
	}
}
