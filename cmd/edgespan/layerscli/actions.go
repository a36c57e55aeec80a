package layerscli

import (
	"fmt"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// shownAction is an action as -o json prints it.
type shownAction struct {
	Action string   `json:"action"`
	Keys   []string `json:"keys"`
}

func newLayersActions(a offline) *cobra.Command {
	var files []string
	output := ""
	cmd := &cobra.Command{
		Use:   "actions --metadata FILE... OLD NEW",
		Short: "Print the actions a node takes when its config changes from OLD to NEW",
		Long: `Print the actions that a node takes when its config changes from OLD to NEW, one on each
line, in the order of execution. RESTART_MINION comes after the others; REBOOT takes its place
and is last. With -o json each has the keys that ask for it: the entries and properties of the
metadata that carry the action.`,
		Example: "  edgespan layers actions --metadata config_metadata.json old.json new.json\n" +
			"  edgespan layers actions -o json --metadata config_metadata.json old.json new.json",
		Args: term.ExactArgs(2, "two configs"),
		RunE: func(_ *cobra.Command, args []string) error {
			if output != "" && output != "json" {
				return term.Invalid("--output", output, "json")
			}
			m, err := a.metadata(files)
			if err != nil {
				return err
			}
			before, err := ReadObject(a.Streams, args[0])
			if err != nil {
				return err
			}
			after, err := ReadObject(a.Streams, args[1])
			if err != nil {
				return err
			}
			return a.printActions(m.Actions(config.FullDiff(before, after)), output)
		},
	}
	bindMetadata(cmd, &files)
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or one name per line")
	return cmd
}

func (a offline) printActions(actions []metadata.Action, output string) error {
	list := showActions(actions)
	if output == "json" {
		return a.PrintJSON(list)
	}
	for _, s := range list {
		fmt.Fprintln(a.Out, s.Action)
	}
	return nil
}
