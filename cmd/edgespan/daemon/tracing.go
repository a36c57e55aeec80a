package daemon

import (
	"github.com/google/uuid"
	"go.uber.org/zap"

	nodemetrics "edgespan/actors/node/metrics"
	"edgespan/config/httpapi/metrics"
	"edgespan/platform/otlp"
	"edgespan/pubsub/trace"
)

// tracing is the export of traces; the zero value is off.
type tracing struct {
	tracer   *trace.Tracer
	exporter *otlp.Exporter
}

// start starts the export of traces, if there is a collector.
func (t *tracing) start(c *otlp.Config, version string, node uuid.UUID, log *zap.Logger) error {
	if c == nil {
		return nil
	}
	who := otlp.Resource{Service: "edgespan", Version: version, Instance: node.String()}
	var err error
	if t.exporter, err = otlp.Start(*c, who, log.Named(logTrace)); err != nil {
		return err
	}
	t.tracer = trace.New(t.exporter, c.Ratio)
	return nil
}

// stop sends the last spans.
func (t *tracing) stop() { t.exporter.Stop() }

// Scrape adds the node's metrics.
func (n *node) Scrape(version string, to *metrics.Scrape) {
	n.Node.Scrape(version, to)
	nodemetrics.CollectSpans(n.spans(), to)
}

// spans returns what became of the spans; nil without traces.
func (t *tracing) spans() map[string]uint64 { return t.exporter.Outcomes(t.tracer) }
