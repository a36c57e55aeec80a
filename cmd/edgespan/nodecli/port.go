package nodecli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

const portLabel = "a port's LABEL"

func newPort(a commands) *cobra.Command {
	group := term.Group("port", "Drain a port of the node, or end its drain")
	group.AddCommand(newDrain(a), newUndrain(a))
	return group
}

func newDrain(a commands) *cobra.Command {
	var how nodeapi.DrainOptions
	cmd := &cobra.Command{
		Use:   "drain LABEL",
		Short: "Drain a port: networks leave it while they have another one",
		Long: `drain keeps a port free of networks, such as for work on its line. A network that may use
another port that works moves there at once; one that has no other stays. The drain outlasts
restarts of the daemon and of the machine. It ends with --for, with edgespan port undrain, or when
the port is removed from the config; then networks use the port again if its cost is the lowest.

A port that is drained already gets the new end. edgespan explain port/LABEL shows which networks
still use it, and why.`,
		Example: "  edgespan port drain wan --for 1h\n  edgespan port drain lte",
		Args:    term.ExactArgs(1, portLabel),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("for") {
				if must := nodeapi.CheckDrain(how.For); must != "" {
					return term.Invalid("--for", how.For, must)
				}
			}
			how.By = userName()
			return a.drain(cmd.Context(), args[0], how)
		},
		ValidArgsFunction: a.completePorts,
	}
	cmd.Flags().DurationVar(&how.For, "for", 0, "end the drain after this time, such as 1h; default: until undrain")
	return cmd
}

func newUndrain(a commands) *cobra.Command {
	return &cobra.Command{
		Use:     "undrain LABEL",
		Short:   "End a drain: networks may use the port again",
		Long:    "undrain ends the drain of a port. It exits 0 if the port is not drained.",
		Example: "  edgespan port undrain wan",
		Args:    term.ExactArgs(1, portLabel),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, c, done := a.Connect(cmd.Context())
			defer done()
			switch drained, err := c.Undrain(ctx, args[0]); {
			case err != nil:
				return err
			case drained:
				a.Printf("port %s is no longer drained", args[0])
			default:
				a.Printf("port %s was not drained", args[0])
			}
			return nil
		},
		ValidArgsFunction: a.completePorts,
	}
}

func (a commands) drain(ctx context.Context, label string, how nodeapi.DrainOptions) error {
	ctx, c, done := a.Connect(ctx)
	defer done()
	until, err := c.Drain(ctx, label, how)
	switch {
	case err != nil:
		return err
	case until.IsZero():
		a.Printf("port %s is drained until you run: edgespan port undrain %s", label, label)
	default:
		a.Printf("port %s is drained until %s", label, until.UTC().Format(time.RFC3339))
	}
	return nil
}

// completePorts completes the label of a port.
func (a commands) completePorts(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.liveIDs(cmd.Context(), "port", ""), cobra.ShellCompDirectiveNoFileComp
}
