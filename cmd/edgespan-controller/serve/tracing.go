package serve

import (
	"context"
	"time"

	"edgespan/cmd/term"
	"edgespan/platform/otlp"
	"edgespan/pubsub/trace"
)

// lastSpans is how long the end of the controller waits for a collector that takes the last spans.
const lastSpans = 2 * time.Second

// tracing is the export of traces; the zero value is off.
type tracing struct {
	tracer   *trace.Tracer
	exporter *otlp.Exporter
}

// traceSettings returns the flags of traces.
func (o *Options) traceSettings() []setting {
	return []setting{
		{"trace-endpoint", &o.TraceEndpoint,
			"URL of an OpenTelemetry collector that gets traces by OTLP over HTTP (default OTEL_EXPORTER_OTLP_TRACES_ENDPOINT " +
				"or OTEL_EXPORTER_OTLP_ENDPOINT, else no traces)", serving},
		{"trace-ca", &o.TraceCA, "PEM file of the CAs of the collector (default: those of the machine)", serving},
		{"trace-ratio", &o.TraceRatio, "share of the writes that are traced, 0 to 1 (default 1)", serving},
	}
}

// traceConfig returns where traces go, by the flags and the environment.
func (o *Options) traceConfig(env func(string) string) (otlp.Config, error) {
	c, err := otlp.Configure(otlp.Options{Endpoint: string(o.TraceEndpoint), CA: string(o.TraceCA),
		Ratio: string(o.TraceRatio)}, env)
	if err != nil {
		return c, term.Usagef("%w", err)
	}
	return c, nil
}

// startTracing starts the export of traces, if there is a collector.
func (s *service) startTracing() error {
	c, err := s.o.traceConfig(s.app.Env)
	if err != nil || c.Endpoint == "" {
		return err
	}
	who := otlp.Resource{Service: "edgespan-controller", Version: s.app.Version, Instance: s.foundation.replica}
	if s.exporter, err = otlp.Start(c, who, s.log.Named(logTrace)); err != nil {
		return term.Usagef("%w", err)
	}
	s.tracer = trace.New(s.exporter, c.Ratio)
	s.foundation.tracer = s.tracer
	return nil
}

// stop sends the last spans.
func (t *tracing) stop() {
	if t.exporter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	t.exporter.Close(ctx)
}

// spans returns what became of the spans; nil without traces.
func (t *tracing) spans() map[string]uint64 {
	if t.exporter == nil {
		return nil
	}
	sent, dropped := t.exporter.Counts()
	return map[string]uint64{"sent": sent, "dropped": dropped, "truncated": t.tracer.Truncated()}
}
