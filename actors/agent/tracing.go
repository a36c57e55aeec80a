package agent

import (
	"go.uber.org/zap"

	"edgespan/actors/supervise"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/pubsub/trace"
)

// configTrace are the spans of the config that runs: "node.apply" from the machine's candidate until it is applied,
// then "node.confirm" until it is confirmed or undone, or "node.undo". They end with the process: a config that
// continues after a restart has no trace.
type configTrace struct{ applying, confirming trace.Span }

// startSpan starts the span of a candidate that the machine gets. A push that is only a number has none.
func (s *shell) startSpan(o *candidate) {
	if o.event.Source == commitconfirm.Push && o.event.Attempt == 0 {
		return
	}
	o.span = s.o.Tracer.Start(o.trace, "node.apply", trace.Consumer)
	if o.span.On() {
		o.span.Set("edgespan.source", string(o.event.Source))
		o.span.Set("edgespan.node", s.o.Facts.Name)
	}
}

// validated runs f in a span of a candidate's validation.
func (s *shell) validated(o *candidate, f func() commitconfirm.Verdict) commitconfirm.Verdict {
	span := s.o.Tracer.Below(o.span.Context(), "node.validate", trace.Internal)
	defer span.End()
	v := f()
	if len(v.Faults) > 0 {
		span.FailIf(v.Faults)
	}
	return v
}

// traceReport starts and ends the spans that a report of the machine is about, and returns the log for it.
func (s *shell) traceReport(r commitconfirm.Announce) *zap.Logger {
	switch r.What {
	case commitconfirm.Accepted:
		s.traceAccepted(r)
	case commitconfirm.Rejected, commitconfirm.Refused, commitconfirm.Superseded, commitconfirm.Renumbered,
		commitconfirm.Unchanged, commitconfirm.WouldTake:
		return s.traceRefused(r)
	case commitconfirm.Applied, commitconfirm.WentBack:
		return s.traceApplied()
	case commitconfirm.NowConfirmed:
		return s.traceConfirmed()
	}
	return supervise.Traced(s.log, s.applying.Context())
}

func (s *shell) traceAccepted(r commitconfirm.Announce) {
	if s.busy == nil {
		return
	}
	s.endTrace("replaced by another config")
	if s.applying = s.busy.span; s.applying.On() {
		s.applying.Set("edgespan.generation", r.Echo.Generation.String())
		s.applying.Set("edgespan.md5", r.Echo.MD5)
	}
}

// traceRefused ends the span of a candidate with another outcome.
func (s *shell) traceRefused(r commitconfirm.Announce) *zap.Logger {
	if s.busy == nil {
		return s.log
	}
	span := s.busy.span
	log := supervise.Traced(s.log, span.Context())
	span.Set("edgespan.outcome", string(r.What))
	switch {
	case len(r.Faults) > 0:
		span.FailIf(r.Faults)
	case r.What == commitconfirm.Refused:
		span.Fail(r.Why)
	}
	span.End()
	return log
}

// traceApplied ends the span of a config that is applied; a pending one awaits its confirmation.
func (s *shell) traceApplied() *zap.Logger {
	log := supervise.Traced(s.log, s.applying.Context())
	s.applying.End()
	if s.hasPending() {
		s.confirming = s.o.Tracer.Below(s.applying.Context(), "node.confirm", trace.Internal)
	} else {
		s.applying = trace.Span{}
	}
	return log
}

func (s *shell) traceConfirmed() *zap.Logger {
	log := supervise.Traced(s.log, s.applying.Context())
	s.endTrace("")
	return log
}

// traceUndo ends the spans of a config that is given up, and starts the one of its undo.
func (s *shell) traceUndo(u commitconfirm.Undo) *zap.Logger {
	from := s.applying.Context()
	s.endTrace(string(u.Reason) + ": " + u.Why)
	s.applying = s.o.Tracer.Below(from, "node.undo", trace.Internal)
	return supervise.Traced(s.log, s.applying.Context())
}

// endTrace ends the spans of the config that runs, as failed if there is a reason.
func (s *shell) endTrace(why string) {
	for _, span := range []*trace.Span{&s.applying, &s.confirming} {
		if span.On() && why != "" {
			span.Fail(why)
		}
		span.End()
		*span = trace.Span{}
	}
}
