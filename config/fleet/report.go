package fleet

import (
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// ReportOf converts a node's report on a stream to the event Report.
func ReportOf(r *nodeproto.Report, on string) ReportReceived {
	out := ReportReceived{
		Stream: on, Digest: Digest{Config: r.MD5, Peer: r.Peer},
		Settled: r.Settled, Generation: r.Generation, Restores: r.Restores,
		Managed: r.Managed,
	}
	out.Software, out.Firmware, out.Board = r.Software, r.Firmware, r.Board
	if r.Held != nil {
		out.Held = &Held{By: r.Held.By, Since: r.Held.Since}
	}
	if p := r.Pending; p != nil {
		out.Pending = &PendingConfig{Generation: p.Generation, Settled: p.Settled, Remaining: p.Remaining, Worse: p.Worse}
	}
	for _, h := range r.Health {
		if !h.Good {
			out.Bad = append(out.Bad, h.Name)
		}
	}
	for _, p := range r.Parameters {
		if stateloop.State(p.State).Class() == stateloop.Failed {
			out.Bad = append(out.Bad, p.ID)
		}
	}
	for _, a := range r.Actions {
		out.Results = append(out.Results, Result{Action: a.Name, Result: a.State, Why: a.Detail})
	}
	return out
}

// NewlyBad names an item that is bad on the node and was not bad before its batch, or a parameter that is not ready and
// was ready or missing; "" for none. Without an earlier report, all parameters must be ready. Parameters that wait for
// other nodes do not count, as for the node itself (nodestate.ParameterStatus.Healthy): those may wait for its batch.
func NewlyBad(earlier, now *nodeproto.Report) string {
	before := map[string]bool{}
	if earlier != nil {
		for _, h := range earlier.Health {
			before[h.Name] = !h.Good
		}
		for _, p := range earlier.Parameters {
			before[p.ID] = !isReady(p)
		}
	}
	for _, h := range now.Health {
		if !h.Good && earlier != nil && !before[h.Name] {
			return h.Name
		}
	}
	for _, p := range now.Parameters {
		if !isReady(p) && !before[p.ID] && !waitsForOthers(p) {
			return p.ID
		}
	}
	return ""
}

// waitsForOthers reports whether a parameter may become ready only once other nodes have their part of the config: a
// connection check, and a tunnel whose other end has not reported its address or its key.
func waitsForOthers(p nodeproto.ParameterReport) bool {
	switch p.Kind {
	case peer.KindCheck:
		return true
	case peer.KindTunnel, peer.KindJoined:
		return p.State == string(stateloop.WaitingForDependencies)
	}
	return false
}

func isReady(p nodeproto.ParameterReport) bool {
	return stateloop.State(p.State).Class() == stateloop.Final
}
