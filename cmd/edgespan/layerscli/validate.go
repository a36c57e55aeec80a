package layerscli

import (
	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/nodeconf"
	"edgespan/platform/confdir"
)

func newLayersValidate(a offline) *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "validate --metadata FILE... CONFIG",
		Short: "Validate a config against metadata, and list all faults",
		Long: `validate checks a whole config against metadata. Each fault is one line on stderr, with its
dotted path, and the exit code is 4. A key without metadata is a warning, or a fault below a
parameter that is marked as strict. Values that a layer made "$absent" are left out. CONFIG may
be - for stdin.`,
		Example: "  edgespan layers validate --metadata config_metadata.json node_config.json",
		Args:    term.ExactArgs(1, "one config"),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := a.metadata(files)
			if err != nil {
				return err
			}
			o, err := ReadObject(a.Streams, args[0])
			if err != nil {
				return err
			}
			report := m.Validate(nodeconf.DropAbsent(o))
			for _, path := range report.Unknown {
				f := config.Fault{Path: path, Problem: "unknown field (warning)", Expectation: "kept, but not validated"}
				a.Printf("%s", term.Printable(args[0]+": "+f.Error()))
			}
			if faults := report.Err(); faults != nil {
				return &confdir.Broken{File: args[0], Faults: faults}
			}
			a.Printf("%s", term.Printable(args[0]+": valid"))
			return nil
		},
	}
	bindMetadata(cmd, &files)
	return cmd
}
