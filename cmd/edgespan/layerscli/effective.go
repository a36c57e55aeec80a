package layerscli

import (
	"fmt"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
)

func newLayersEffective(a offline) *cobra.Command {
	var f selection
	output := ""
	cmd := &cobra.Command{
		Use:   "effective",
		Short: "Print the effective config of a node: all its layers merged",
		Long: `Print the effective config of a node: base, firmware, hardware, auto, network and
node layer, each laid over those before it.

What is printed is the canonical form and a final newline; "layers md5" is its
digest, without that newline. With -o json it is the config and, for each value,
the layer that it is from. An object of one layer over which another has none is
an error that names both.`,
		Example: `  edgespan layers effective --base-dir base_versions --sw-version RELEASE_M81 \
    --fw-version 10.11.0.5 --hw-board NXP_LS1048A_PUMA \
    --network network.json --node nodes.json --node-name pop-1`,
		Args: term.ExactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			s, err := f.set(a)
			if err != nil {
				return err
			}
			o, err := s.effective()
			if err != nil {
				return err
			}
			if output == "json" {
				return a.PrintJSON(map[string]any{"config": o, "origins": s.Origins()})
			}
			return a.printCanonical(o)
		},
	}
	f.bind(cmd)
	term.OneOf(cmd, &output, "canonical", "json")
	return cmd
}

func newLayersMD5(a offline) *cobra.Command {
	var f selection
	cmd := &cobra.Command{
		Use:     "md5",
		Short:   "Print the MD5 of the effective config",
		Example: `  edgespan layers md5 --base-dir base_versions --sw-version RELEASE_M81 --network network.json`,
		Args:    term.ExactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			s, err := f.set(a)
			if err != nil {
				return err
			}
			o, err := s.effective()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, config.MD5(o))
			return err
		},
	}
	f.bind(cmd)
	return cmd
}
