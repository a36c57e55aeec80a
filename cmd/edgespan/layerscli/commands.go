package layerscli

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/platform/confdir"
)

// offline is one run of a command on files of layers.
type offline struct{ term.Streams }

// Commands returns `layers` and `state`.
func Commands(s term.Streams) []*cobra.Command {
	return []*cobra.Command{newLayers(s), newState(s)}
}

// newLayers returns the command `layers`, which works on files and needs no daemon.
func newLayers(s term.Streams) *cobra.Command {
	a := offline{s}
	cmd := &cobra.Command{
		Use:   "layers",
		Short: "Compute, validate and explain layers in files, offline",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return term.UnknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newLayersDiff(a), newLayersEffective(a), newLayersMD5(a), newLayersVersions(a), newLayersExplain(a),
		newLayersMetadata(a), newLayersValidate(a), newLayersActions(a), newLayersRollout(a), newLayersOptimize(a),
		newLayersSet(a), newLayersModify(a), newLayersUnset(a), newLayersPrintFlags(a), newLayersMigrate(a), newLayersLint(a))
	return cmd
}

// ReadObject reads one object, JSON or YAML, from a file, or from stdin for "-".
func ReadObject(s term.Streams, name string) (config.Object, error) {
	text, err := offline{s}.text(name)
	if err != nil {
		return nil, err
	}
	read := config.ReadObject
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) == 0 || start[0] == '{' || start[0] == '[' {
		read = config.ParseObject
	}
	o, faults := read(text)
	if faults != nil {
		return nil, &confdir.Broken{File: name, Faults: faults}
	}
	return o, nil
}

func (a offline) text(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.In)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, term.Unreadable(err)
	}
	return text, nil
}

// printCanonical prints a document in its canonical form.
func (a offline) printCanonical(v any) error {
	_, err := fmt.Fprintf(a.Out, "%s\n", config.AppendCanonical(nil, v))
	return err
}

func newLayersDiff(a offline) *cobra.Command {
	oneWay := false
	cmd := &cobra.Command{
		Use:     "diff A B",
		Short:   "Print the difference of two configs",
		Example: "  edgespan layers diff old.json new.json",
		Args:    term.ExactArgs(2, "two FILEs"),
		RunE: func(_ *cobra.Command, args []string) error {
			x, err := ReadObject(a.Streams, args[0])
			if err != nil {
				return err
			}
			y, err := ReadObject(a.Streams, args[1])
			if err != nil {
				return err
			}
			if oneWay {
				return a.printCanonical(config.Diff(x, y))
			}
			return a.printCanonical(config.FullDiff(x, y))
		},
	}
	cmd.Flags().BoolVar(&oneWay, "one-way", false, "print the values of B that differ from A instead")
	return cmd
}
