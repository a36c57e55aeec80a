package nodelink

import (
	"math"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
)

// text makes any octets a valid string for the wire: command output need not be UTF-8, and one bad octet must not end a
// stream.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func texts(in []string) []string { return each(in, text) }

// each converts a list; nil stays nil.
func each[A, B any](in []A, f func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}

func generation(g nodeproto.Generation) *pb.Generation {
	if g == (nodeproto.Generation{}) {
		return nil
	}
	return &pb.Generation{Authority: text(g.Authority), Counter: g.Counter}
}

func generationOf(g *pb.Generation) nodeproto.Generation {
	return nodeproto.Generation{Authority: g.GetAuthority(), Counter: g.GetCounter()}
}

// up returns the wire form of a node's message.
func up(m nodeproto.FromNode) *pb.Up {
	switch m := m.(type) {
	case nodeproto.Hello:
		return &pb.Up{Kind: &pb.Up_Hello{Hello: &pb.Hello{
			Node: text(m.Node), Name: text(m.Name), Software: text(m.Software), Firmware: text(m.Firmware), Board: text(m.Board),
			Md5: text(m.MD5), Generation: generation(m.Generation), Capabilities: texts(m.Capabilities),
		}}}
	case nodeproto.Report:
		return &pb.Up{Kind: &pb.Up_Report{Report: report(m)}}
	case nodeproto.Result:
		return &pb.Up{Kind: &pb.Up_Result{Result: result(m)}}
	case nodeproto.Answer:
		return &pb.Up{Kind: &pb.Up_Answer{Answer: &pb.Answer{Id: m.ID, Data: m.Data, Error: text(m.Error)}}}
	case nodeproto.Probed:
		return &pb.Up{Kind: &pb.Up_Probed{Probed: &pb.Probed{
			Number: m.Number, Generation: generation(m.Generation), Md5: text(m.MD5), Worse: texts(m.Worse), Peer: text(m.Peer),
		}}}
	default:
		return nil
	}
}

func report(m nodeproto.Report) *pb.Report {
	out := &pb.Report{
		Md5: text(m.MD5), Generation: generation(m.Generation), Software: text(m.Software), Firmware: text(m.Firmware),
		Board: text(m.Board), Source: text(m.Source), Managed: m.Managed, Settled: m.Settled, Fallback: m.Fallback,
		Restores: generation(m.Restores), Actions: each(m.Actions, actionTo), Peer: text(m.Peer),
		Ports: each(m.Ports, func(p nodeproto.Port) *pb.Port {
			return &pb.Port{Label: text(p.Label), Addresses: texts(p.Addresses), Mtu: uint32(max(0, min(p.MTU, math.MaxInt32)))}
		}),
		Health: each(m.Health, func(h nodeproto.HealthReport) *pb.Health {
			return &pb.Health{Name: text(h.Name), Good: h.Good, Detail: text(h.Detail)}
		}),
		Parameters: each(m.Parameters, func(p nodeproto.ParameterReport) *pb.Parameter {
			return &pb.Parameter{
				Id: text(p.ID), Kind: text(p.Kind), State: text(p.State), Detail: text(p.Detail),
				Generation:  generation(p.Generation),
				SinceUnixMs: unixMilli(p.Since), Attempts: uint32(max(0, min(p.Attempts, math.MaxInt32))),
				NextTryUnixMs: unixMilli(p.NextTry),
			}
		}),
	}
	if m.Held != nil {
		out.Held = &pb.Held{By: text(m.Held.By), SinceUnixMs: m.Held.Since.UnixMilli()}
	}
	if m.Pending != nil {
		out.Pending = &pb.Pending{Generation: generation(m.Pending.Generation),
			RemainingMs: m.Pending.Remaining.Milliseconds(), Settled: m.Pending.Settled, Worse: texts(m.Pending.Worse)}
	}
	return out
}

func result(m nodeproto.Result) *pb.Result {
	return &pb.Result{
		Generation: generation(m.Generation), Md5: text(m.MD5), Outcome: pb.Outcome(m.Outcome),
		Restored: generation(m.Restored),
		Faults: each(m.Faults, func(f config.Fault) *pb.Fault {
			return &pb.Fault{Path: texts(f.Path), What: text(f.Problem), Allowed: text(f.Expectation)}
		}),
		Actions: each(m.Actions, actionTo), Attempt: m.Attempt,
	}
}

func actionTo(a nodeproto.Action) *pb.Action {
	return &pb.Action{Name: text(a.Name), State: text(a.State), Detail: text(a.Detail)}
}

func actionOf(a *pb.Action) nodeproto.Action {
	return nodeproto.Action{Name: a.GetName(), State: a.GetState(), Detail: a.GetDetail()}
}

// upOf returns a node's message, or nil for a kind that this version does not know. Kinds that nodelink handles itself
// are not part of config/fleet/nodeproto and are nil as well.
func upOf(m *pb.Up) nodeproto.FromNode {
	switch k := m.GetKind().(type) {
	case *pb.Up_Hello:
		h := k.Hello
		return nodeproto.Hello{
			Node: h.GetNode(), Name: h.GetName(), Software: h.GetSoftware(), Firmware: h.GetFirmware(), Board: h.GetBoard(),
			MD5: h.GetMd5(), Generation: generationOf(h.GetGeneration()), Capabilities: h.GetCapabilities(),
		}
	case *pb.Up_Report:
		return reportOf(k.Report)
	case *pb.Up_Result:
		return resultOf(k.Result)
	case *pb.Up_Answer:
		return nodeproto.Answer{ID: k.Answer.GetId(), Data: k.Answer.GetData(), Error: k.Answer.GetError()}
	case *pb.Up_Probed:
		p := k.Probed
		return nodeproto.Probed{Number: p.GetNumber(), Generation: generationOf(p.GetGeneration()), MD5: p.GetMd5(),
			Worse: p.GetWorse(), Peer: p.GetPeer()}
	default:
		return nil
	}
}

func reportOf(m *pb.Report) nodeproto.Report {
	out := nodeproto.Report{
		MD5: m.GetMd5(), Generation: generationOf(m.GetGeneration()), Software: m.GetSoftware(), Firmware: m.GetFirmware(),
		Board: m.GetBoard(), Source: m.GetSource(), Managed: m.Managed, Settled: m.GetSettled(), Fallback: m.GetFallback(),
		Restores: generationOf(m.GetRestores()), Actions: each(m.GetActions(), actionOf), Peer: m.GetPeer(),
		Ports: each(m.GetPorts(), func(p *pb.Port) nodeproto.Port {
			return nodeproto.Port{Label: p.GetLabel(), Addresses: p.GetAddresses(), MTU: int(min(p.GetMtu(), math.MaxInt32))}
		}),
		Health: each(m.GetHealth(), func(h *pb.Health) nodeproto.HealthReport {
			return nodeproto.HealthReport{Name: h.GetName(), Good: h.GetGood(), Detail: h.GetDetail()}
		}),
		Parameters: each(m.GetParameters(), func(p *pb.Parameter) nodeproto.ParameterReport {
			return nodeproto.ParameterReport{
				ID: p.GetId(), Kind: p.GetKind(), State: p.GetState(), Detail: p.GetDetail(),
				Generation: generationOf(p.GetGeneration()),
				Since:      unixMilliOf(p.GetSinceUnixMs()), Attempts: int(min(p.GetAttempts(), math.MaxInt32)),
				NextTry: unixMilliOf(p.GetNextTryUnixMs()),
			}
		}),
	}
	if h := m.GetHeld(); h != nil {
		out.Held = &nodeproto.Held{By: h.GetBy(), Since: boundTime(h.GetSinceUnixMs())}
	}
	if p := m.GetPending(); p != nil {
		out.Pending = &nodeproto.PendingReport{Generation: generationOf(p.GetGeneration()),
			Remaining: millis(p.GetRemainingMs()),
			Settled:   p.GetSettled(), Worse: p.GetWorse()}
	}
	return out
}

func resultOf(m *pb.Result) nodeproto.Result {
	out := nodeproto.Result{
		Generation: generationOf(m.GetGeneration()), MD5: m.GetMd5(), Outcome: nodeproto.PushOutcome(m.GetOutcome()),
		Restored: generationOf(m.GetRestored()),
		Faults: each(m.GetFaults(), func(f *pb.Fault) config.Fault {
			return config.Fault{Path: f.GetPath(), Problem: f.GetWhat(), Expectation: f.GetAllowed()}
		}),
		Actions: each(m.GetActions(), actionOf), Attempt: m.GetAttempt(),
	}
	if out.Outcome < nodeproto.Unknown || out.Outcome > nodeproto.NotStored {
		out.Outcome = nodeproto.Unknown
	}
	return out
}

// unixMilli returns a time on the wire; the zero time is 0.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func unixMilliOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return boundTime(ms)
}

// The times that can be encoded in JSON.
const (
	firstMilli = -62135596800000 // the year 1
	lastMilli  = 253402300799999 // the end of the year 9999
)

// boundTime bounds a peer's times: they are formatted as text, which is impossible beyond the year 9999.
func boundTime(ms int64) time.Time { return time.UnixMilli(min(max(ms, firstMilli), lastMilli)).UTC() }

// millis bounds a peer's durations: Go's type overflows after 292 years.
func millis(ms int64) time.Duration {
	const limit = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(max(-limit, min(limit, ms))) * time.Millisecond
}

// down returns the wire form of a controller's message.
func down(m nodeproto.FromController) *pb.Down {
	switch m := m.(type) {
	case nodeproto.Push:
		return &pb.Down{Kind: &pb.Down_Push{Push: &pb.Push{
			Generation: generation(m.Generation), Md5: text(m.MD5), Document: m.Document, PeerConfiguration: m.PeerConfiguration,
			ConfirmMs: m.Confirm.Milliseconds(), Managed: m.Managed, Attempt: m.Attempt,
		}}}
	case nodeproto.Number:
		return &pb.Down{Kind: &pb.Down_Number{Number: &pb.Number{Generation: generation(m.Generation)}}}
	case nodeproto.Confirm:
		return &pb.Down{Kind: &pb.Down_Confirm{Confirm: &pb.Confirm{Generation: generation(m.Generation)}}}
	case nodeproto.Request:
		return &pb.Down{Kind: &pb.Down_Ask{Ask: &pb.Ask{Id: m.ID, Kind: text(m.Kind), Data: m.Data}}}
	case nodeproto.Release:
		return &pb.Down{Kind: &pb.Down_Release{Release: &pb.Release{}}}
	case nodeproto.Managed:
		return &pb.Down{Kind: &pb.Down_Managed{Managed: &pb.Managed{On: m.On}}}
	case nodeproto.Renew:
		return &pb.Down{Kind: &pb.Down_Renew{Renew: &pb.Renew{}}}
	case nodeproto.Probe:
		return &pb.Down{Kind: &pb.Down_Probe{Probe: &pb.Probe{Number: m.Number}}}
	case nodeproto.Ack:
		return &pb.Down{Kind: &pb.Down_Ack{Ack: &pb.Ack{Attempt: m.Attempt}}}
	default:
		return nil
	}
}

// downOf returns a controller's message, or nil as in upOf.
func downOf(m *pb.Down) nodeproto.FromController {
	switch k := m.GetKind().(type) {
	case *pb.Down_Push:
		p := k.Push
		return nodeproto.Push{
			Generation: generationOf(p.GetGeneration()), MD5: p.GetMd5(), Document: p.GetDocument(),
			PeerConfiguration: p.GetPeerConfiguration(), Confirm: millis(p.GetConfirmMs()), Managed: p.GetManaged(),
			Attempt: p.GetAttempt(),
		}
	case *pb.Down_Number:
		return nodeproto.Number{Generation: generationOf(k.Number.GetGeneration())}
	case *pb.Down_Confirm:
		return nodeproto.Confirm{Generation: generationOf(k.Confirm.GetGeneration())}
	case *pb.Down_Ask:
		return nodeproto.Request{ID: k.Ask.GetId(), Kind: k.Ask.GetKind(), Data: k.Ask.GetData()}
	case *pb.Down_Release:
		return nodeproto.Release{}
	case *pb.Down_Managed:
		return nodeproto.Managed{On: k.Managed.GetOn()}
	case *pb.Down_Renew:
		return nodeproto.Renew{}
	case *pb.Down_Probe:
		return nodeproto.Probe{Number: k.Probe.GetNumber()}
	case *pb.Down_Ack:
		return nodeproto.Ack{Attempt: k.Ack.GetAttempt()}
	default:
		return nil
	}
}
