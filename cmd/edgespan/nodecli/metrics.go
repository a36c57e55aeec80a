package nodecli

import (
	"github.com/spf13/cobra"

	"edgespan/cmd/term"
)

func newMetrics(a commands) *cobra.Command {
	return &cobra.Command{
		Use:     "metrics",
		Short:   "Print the node's metrics in the text format of Prometheus",
		Example: "  edgespan metrics | grep edgespan_adapter",
		Long: `metrics prints what the daemon counts, as a scrape by Prometheus gets it: the traffic of networks,
adapters and ports, the hits of access rules, packets dropped by limits, probes, and the daemon's own
work. docs/metrics.md lists all metrics. For Prometheus itself, start the daemon with --metrics.`,
		Args: term.ExactArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, c, done := a.Connect(cmd.Context())
			defer done()
			text, err := c.Metrics(ctx)
			if err != nil {
				return err
			}
			_, err = a.Out.Write(text)
			return err
		},
	}
}
