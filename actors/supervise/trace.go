package supervise

import (
	"go.uber.org/zap"

	"edgespan/pubsub/trace"
)

// Traced returns a log whose lines carry the IDs of a trace that is recorded.
func Traced(log *zap.Logger, c trace.Context) *zap.Logger {
	if !c.Sampled {
		return log
	}
	return log.With(zap.String("trace_id", c.TraceID()), zap.String("span_id", c.SpanID()))
}
