package nodes

import (
	"strconv"

	"edgespan/config/fleet/nodeproto"
	"edgespan/pubsub/trace"
)

// pushTrace are the spans of the last push that belongs to a trace: "push" until the node has stored it or refused it,
// then "confirm" until it is confirmed or undone.
type pushTrace struct {
	pushed, confirming trace.Span
	tracedAttempt      uint64
}

// tracePush starts the span of a push, and returns its traceparent for the node: "" if the desired config comes from no
// trace. A push that the node has not answered ends unanswered.
func (n *node) tracePush(attempt uint64) string {
	n.pushed.Fail("replaced by another push")
	n.pushed.End()
	n.confirming.Fail("replaced by another push")
	n.confirming.End()
	n.tracedAttempt = attempt
	from := trace.Parse(n.desired.Trace)
	n.pushed = n.d.Tracer.Below(from, "push", trace.Producer)
	if n.pushed.On() {
		n.pushed.Set("edgespan.node", n.name)
		n.pushed.Set("edgespan.node.id", n.id)
		n.pushed.Set("edgespan.generation", strconv.FormatUint(n.desired.Generation.Counter, 10))
		n.pushed.Set("edgespan.attempt", strconv.FormatUint(attempt, 10))
	}
	return n.pushed.Context().String()
}

// traceResult ends the spans that a result of the node answers. Its texts are the node's: a span truncates them.
func (n *node) traceResult(r nodeproto.Result) {
	if r.Attempt != n.tracedAttempt || !n.pushed.On() && !n.confirming.On() {
		return
	}
	switch r.Outcome {
	case nodeproto.Applied:
		n.confirming.Set("edgespan.applied", "true")
		return
	case nodeproto.Accepted:
		if n.pushed.On() {
			n.confirming = n.d.Tracer.Below(n.pushed.Context(), "confirm", trace.Internal)
			n.confirming.Set("edgespan.node", n.name)
		}
	default:
		for _, s := range []trace.Span{n.pushed, n.confirming} {
			s.Set("edgespan.outcome", r.Outcome.String())
			s.Fail(r.Faults.Error())
		}
		n.confirming.End()
	}
	n.pushed.End()
}

// traceConfirmed ends the span of a push that the controller has confirmed to the node.
func (n *node) traceConfirmed() { n.confirming.End() }
