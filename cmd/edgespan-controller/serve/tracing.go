package serve

import (
	"edgespan/cmd/term"
	"edgespan/platform/otlp"
	"edgespan/pubsub/trace"
)

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
func (t *tracing) stop() { t.exporter.Stop() }

// spans returns what became of the spans; nil without traces.
func (t *tracing) spans() map[string]uint64 { return t.exporter.Outcomes(t.tracer) }
