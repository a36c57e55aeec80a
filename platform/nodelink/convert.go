package nodelink

import (
	"math"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
)

// validUTF8 makes any octets a valid string for the wire: command output need not be UTF-8, and one bad octet must not
// end a stream.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func validTexts(in []string) []string { return convertEach(in, validUTF8) }

// convertEach converts a list; nil stays nil.
func convertEach[A, B any](in []A, f func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}

func toWireGeneration(g nodeproto.Generation) *pb.Generation {
	if g == (nodeproto.Generation{}) {
		return nil
	}
	return &pb.Generation{Authority: validUTF8(g.Authority), Counter: g.Counter}
}

func fromWireGeneration(g *pb.Generation) nodeproto.Generation {
	return nodeproto.Generation{Authority: g.GetAuthority(), Counter: g.GetCounter()}
}

// toWireUp returns the wire form of a node's message.
func toWireUp(m nodeproto.FromNode) *pb.Up {
	switch m := m.(type) {
	case nodeproto.Hello:
		return &pb.Up{Kind: &pb.Up_Hello{Hello: &pb.Hello{
			Node: validUTF8(m.Node), Name: validUTF8(m.Name), Software: validUTF8(m.Software), Firmware: validUTF8(m.Firmware),
			Board: validUTF8(m.Board),
			Md5:   validUTF8(m.MD5), Generation: toWireGeneration(m.Generation), Capabilities: validTexts(m.Capabilities),
		}}}
	case nodeproto.Report:
		return &pb.Up{Kind: &pb.Up_Report{Report: toWireReport(m)}}
	case nodeproto.Result:
		return &pb.Up{Kind: &pb.Up_Result{Result: toWireResult(m)}}
	case nodeproto.Answer:
		return &pb.Up{Kind: &pb.Up_Answer{Answer: &pb.Answer{Id: m.ID, Data: m.Data, Error: validUTF8(m.Error)}}}
	case nodeproto.Probed:
		return &pb.Up{Kind: &pb.Up_Probed{Probed: &pb.Probed{
			Number: m.Number, Generation: toWireGeneration(m.Generation), Md5: validUTF8(m.MD5), Worse: validTexts(m.Worse),
			Peer: validUTF8(m.Peer),
		}}}
	case nodeproto.Relay:
		return &pb.Up{Kind: &pb.Up_Relay{Relay: toWireRelay(m)}}
	default:
		return nil
	}
}

func toWireReport(m nodeproto.Report) *pb.Report {
	out := &pb.Report{
		Md5: validUTF8(m.MD5), Generation: toWireGeneration(m.Generation), Software: validUTF8(m.Software),
		Firmware: validUTF8(m.Firmware),
		Board:    validUTF8(m.Board), Source: validUTF8(m.Source), Managed: m.Managed, Settled: m.Settled,
		Fallback: m.Fallback,
		Restores: toWireGeneration(m.Restores), Actions: convertEach(m.Actions, actionTo), Peer: validUTF8(m.Peer),
		Events: m.Events,
		Ports: convertEach(m.Ports, func(p nodeproto.Port) *pb.Port {
			return &pb.Port{Label: validUTF8(p.Label), Addresses: validTexts(p.Addresses),
				Mtu: uint32(max(0, min(p.MTU, math.MaxInt32))), PublicKey: validUTF8(p.PublicKey)}
		}),
		Health: convertEach(m.Health, func(h nodeproto.HealthReport) *pb.Health {
			return &pb.Health{Name: validUTF8(h.Name), Good: h.Good, Detail: validUTF8(h.Detail)}
		}),
		Parameters: convertEach(m.Parameters, func(p nodeproto.ParameterReport) *pb.Parameter {
			return &pb.Parameter{
				Id: validUTF8(p.ID), Kind: validUTF8(p.Kind), State: validUTF8(p.State), Detail: validUTF8(p.Detail),
				Generation:  toWireGeneration(p.Generation),
				SinceUnixMs: unixMilli(p.Since), Attempts: uint32(max(0, min(p.Attempts, math.MaxInt32))),
				NextTryUnixMs: unixMilli(p.NextTry),
			}
		}),
	}
	if m.Held != nil {
		out.Held = &pb.Held{By: validUTF8(m.Held.By), SinceUnixMs: m.Held.Since.UnixMilli()}
	}
	if m.Pending != nil {
		out.Pending = &pb.Pending{Generation: toWireGeneration(m.Pending.Generation),
			RemainingMs: m.Pending.Remaining.Milliseconds(), Settled: m.Pending.Settled, Worse: validTexts(m.Pending.Worse)}
	}
	return out
}

func toWireResult(m nodeproto.Result) *pb.Result {
	return &pb.Result{
		Generation: toWireGeneration(m.Generation), Md5: validUTF8(m.MD5), Outcome: pb.Outcome(m.Outcome),
		Restored: toWireGeneration(m.Restored),
		Faults: convertEach(m.Faults, func(f config.Fault) *pb.Fault {
			return &pb.Fault{Path: validTexts(f.Path), What: validUTF8(f.Problem), Allowed: validUTF8(f.Expectation)}
		}),
		Actions: convertEach(m.Actions, actionTo), Attempt: m.Attempt,
	}
}

func actionTo(a nodeproto.Action) *pb.Action {
	return &pb.Action{Name: validUTF8(a.Name), State: validUTF8(a.State), Detail: validUTF8(a.Detail)}
}

func actionOf(a *pb.Action) nodeproto.Action {
	return nodeproto.Action{Name: a.GetName(), State: a.GetState(), Detail: a.GetDetail()}
}

// fromWireUp returns a node's message, or nil for a kind that this version does not know. Kinds that nodelink handles
// itself are not part of config/fleet/nodeproto and are nil as well.
func fromWireUp(m *pb.Up) nodeproto.FromNode {
	switch k := m.GetKind().(type) {
	case *pb.Up_Hello:
		h := k.Hello
		return nodeproto.Hello{
			Node: h.GetNode(), Name: h.GetName(), Software: h.GetSoftware(), Firmware: h.GetFirmware(), Board: h.GetBoard(),
			MD5: h.GetMd5(), Generation: fromWireGeneration(h.GetGeneration()), Capabilities: h.GetCapabilities(),
		}
	case *pb.Up_Report:
		return fromWireReport(k.Report)
	case *pb.Up_Result:
		return fromWireResult(k.Result)
	case *pb.Up_Answer:
		return nodeproto.Answer{ID: k.Answer.GetId(), Data: k.Answer.GetData(), Error: k.Answer.GetError()}
	case *pb.Up_Probed:
		p := k.Probed
		return nodeproto.Probed{Number: p.GetNumber(), Generation: fromWireGeneration(p.GetGeneration()), MD5: p.GetMd5(),
			Worse: p.GetWorse(), Peer: p.GetPeer()}
	case *pb.Up_Relay:
		return fromWireRelay(k.Relay)
	default:
		return nil
	}
}

func fromWireReport(m *pb.Report) nodeproto.Report {
	out := nodeproto.Report{
		MD5: m.GetMd5(), Generation: fromWireGeneration(m.GetGeneration()), Software: m.GetSoftware(),
		Firmware: m.GetFirmware(),
		Board:    m.GetBoard(), Source: m.GetSource(), Managed: m.Managed, Settled: m.GetSettled(), Fallback: m.GetFallback(),
		Restores: fromWireGeneration(m.GetRestores()), Actions: convertEach(m.GetActions(), actionOf), Peer: m.GetPeer(),
		Events: m.GetEvents(),
		Ports: convertEach(m.GetPorts(), func(p *pb.Port) nodeproto.Port {
			return nodeproto.Port{Label: p.GetLabel(), Addresses: p.GetAddresses(),
				MTU: int(min(p.GetMtu(), math.MaxInt32)), PublicKey: p.GetPublicKey()}
		}),
		Health: convertEach(m.GetHealth(), func(h *pb.Health) nodeproto.HealthReport {
			return nodeproto.HealthReport{Name: h.GetName(), Good: h.GetGood(), Detail: h.GetDetail()}
		}),
		Parameters: convertEach(m.GetParameters(), func(p *pb.Parameter) nodeproto.ParameterReport {
			return nodeproto.ParameterReport{
				ID: p.GetId(), Kind: p.GetKind(), State: p.GetState(), Detail: p.GetDetail(),
				Generation: fromWireGeneration(p.GetGeneration()),
				Since:      unixMilliOf(p.GetSinceUnixMs()), Attempts: int(min(p.GetAttempts(), math.MaxInt32)),
				NextTry: unixMilliOf(p.GetNextTryUnixMs()),
			}
		}),
	}
	if h := m.GetHeld(); h != nil {
		out.Held = &nodeproto.Held{By: h.GetBy(), Since: boundTime(h.GetSinceUnixMs())}
	}
	if p := m.GetPending(); p != nil {
		out.Pending = &nodeproto.PendingReport{Generation: fromWireGeneration(p.GetGeneration()),
			Remaining: millis(p.GetRemainingMs()),
			Settled:   p.GetSettled(), Worse: p.GetWorse()}
	}
	return out
}

func fromWireResult(m *pb.Result) nodeproto.Result {
	out := nodeproto.Result{
		Generation: fromWireGeneration(m.GetGeneration()), MD5: m.GetMd5(), Outcome: nodeproto.PushOutcome(m.GetOutcome()),
		Restored: fromWireGeneration(m.GetRestored()),
		Faults: convertEach(m.GetFaults(), func(f *pb.Fault) config.Fault {
			return config.Fault{Path: f.GetPath(), Problem: f.GetWhat(), Expectation: f.GetAllowed()}
		}),
		Actions: convertEach(m.GetActions(), actionOf), Attempt: m.GetAttempt(),
	}
	if out.Outcome < nodeproto.Unknown || out.Outcome > nodeproto.NotStored {
		out.Outcome = nodeproto.Unknown
	}
	return out
}

func toWireRelay(m nodeproto.Relay) *pb.Relay {
	return &pb.Relay{Id: m.ID, Kind: validUTF8(m.Kind), Data: m.Data, Credit: m.Credit, End: m.End,
		Error: validUTF8(m.Error)}
}

func fromWireRelay(m *pb.Relay) nodeproto.Relay {
	return nodeproto.Relay{ID: m.GetId(), Kind: m.GetKind(), Data: m.GetData(), Credit: m.GetCredit(), End: m.GetEnd(),
		Error: m.GetError()}
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

// toWireDown returns the wire form of a controller's message.
func toWireDown(m nodeproto.FromController) *pb.Down {
	switch m := m.(type) {
	case nodeproto.Push:
		return &pb.Down{Kind: &pb.Down_Push{Push: &pb.Push{
			Generation: toWireGeneration(m.Generation), Md5: validUTF8(m.MD5), Document: m.Document,
			PeerConfiguration: m.PeerConfiguration,
			ConfirmMs:         m.Confirm.Milliseconds(), Managed: m.Managed, Attempt: m.Attempt,
			Traceparent: m.Trace,
			Cause:       validUTF8(m.Cause),
		}}}
	case nodeproto.Number:
		return &pb.Down{Kind: &pb.Down_Number{Number: &pb.Number{Generation: toWireGeneration(m.Generation)}}}
	case nodeproto.Confirm:
		return &pb.Down{Kind: &pb.Down_Confirm{Confirm: &pb.Confirm{Generation: toWireGeneration(m.Generation)}}}
	case nodeproto.Request:
		return &pb.Down{Kind: &pb.Down_Ask{Ask: &pb.Ask{Id: m.ID, Kind: validUTF8(m.Kind), Data: m.Data}}}
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
	case nodeproto.Relay:
		return &pb.Down{Kind: &pb.Down_Relay{Relay: toWireRelay(m)}}
	default:
		return nil
	}
}

// fromWireDown returns a controller's message, or nil as in fromWireUp.
func fromWireDown(m *pb.Down) nodeproto.FromController {
	switch k := m.GetKind().(type) {
	case *pb.Down_Push:
		p := k.Push
		return nodeproto.Push{
			Generation: fromWireGeneration(p.GetGeneration()), MD5: p.GetMd5(), Document: p.GetDocument(),
			PeerConfiguration: p.GetPeerConfiguration(), Confirm: millis(p.GetConfirmMs()), Managed: p.GetManaged(),
			Attempt: p.GetAttempt(), Trace: p.GetTraceparent(),
			Cause: p.GetCause(),
		}
	case *pb.Down_Number:
		return nodeproto.Number{Generation: fromWireGeneration(k.Number.GetGeneration())}
	case *pb.Down_Confirm:
		return nodeproto.Confirm{Generation: fromWireGeneration(k.Confirm.GetGeneration())}
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
	case *pb.Down_Relay:
		return fromWireRelay(k.Relay)
	default:
		return nil
	}
}
