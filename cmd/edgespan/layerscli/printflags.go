package layerscli

import (
	"fmt"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/fleet/controllerconf"
	"edgespan/platform/confdir"
)

func newLayersPrintFlags(a offline) *cobra.Command {
	return &cobra.Command{
		Use:   "print-flags FILE",
		Short: "Print the flags of a controller's config for a shell",
		Long: `Print the flags of a controller's or an aggregator's config on one line, --name=value in the
order of their names, each quoted where a shell needs it; nothing when there are none. What
stands before the last '.' of a name is left out. FILE may be - for stdin.

A start script takes them as they were meant, blanks and quotes included, with eval.`,
		Example: `  edgespan layers print-flags controller_config.json
  eval "exec edgespan-controller $(edgespan layers print-flags /data/cfg/controller_config.json)"`,
		Args: term.ExactArgs(1, "one FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			doc, err := ReadObject(a.Streams, args[0])
			if err != nil {
				return err
			}
			flags, faults := controllerconf.Flags(doc)
			if faults != nil {
				return &confdir.Broken{File: args[0], Faults: faults}
			}
			line, faults := controllerconf.PrintFlags(flags)
			if faults != nil {
				return &confdir.Broken{File: args[0], Faults: faults}
			}
			if line == "" {
				return nil
			}
			_, err = fmt.Fprintln(a.Out, line)
			return err
		},
	}
}
