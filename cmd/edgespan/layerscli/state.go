package layerscli

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/stateloop"
	"edgespan/platform/confdir"
)

// newState returns the command `state`, which works on files and needs no daemon.
func newState(s term.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Derive the state of parameters from files, offline",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return term.UnknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newStateDerive(offline{s}))
	return cmd
}

func newStateDerive(a offline) *cobra.Command {
	output, desired, former, reported := "", "", "", ""
	cmd := &cobra.Command{
		Use:   "derive --desired FILE --reported FILE",
		Short: "Derive the state of parameters from desired and reported ones",
		Long: `Derive the state of each parameter from its desired and reported values, as the
controller does. "-" is stdin, for one of both.

  desired   {"generation": 7, "parameters": [{"id", "target", "dependencies"}]}
  reported  {"generation": 7, "parameters": [{"id", "state", "timestamp", "message"}]}

The exit code is 0 whenever a state was derived, ready or not. It is 4, with all faults
of both files and no output, if they are invalid: cycles, dependencies on unknown
ids, duplicate ids, unknown states, times and targets.`,
		Example: `  edgespan state derive --desired desired.json --reported reported.json -o json`,
		Args:    term.ExactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			if err := term.CheckOutput(output); err != nil {
				return err
			}
			if former != "" {
				a.Printf("deprecated: use '--desired' instead of '--wanted'")
				desired = cmp.Or(desired, former)
			}
			switch {
			case desired == "" || reported == "":
				return term.Required("--desired and --reported", "a file each; one of them can be - for stdin")
			case desired == "-" && reported == "-":
				return term.Usagef("--desired and --reported: both are -: only one of them can be stdin")
			}
			d, err := a.derive(desired, reported)
			if err != nil {
				return err
			}
			return a.showDerived(d, output)
		},
	}
	cmd.Flags().StringVar(&desired, "desired", "", "file with the desired parameters")
	cmd.Flags().StringVar(&former, "wanted", "", "the former name of --desired")
	cmd.MarkFlagsMutuallyExclusive("desired", "wanted")
	cmd.Flags().Lookup("wanted").Hidden = true
	cmd.Flags().StringVar(&reported, "reported", "", "file with the reported parameters")
	term.OutputFlag(cmd, &output)
	return cmd
}

// derive reads both files and derives the state. It returns the faults of both files together.
func (a offline) derive(desired, reported string) (stateloop.PeerConfigurationState, error) {
	wantText, err := a.text(desired)
	saidText, err2 := a.text(reported)
	if err := errors.Join(err, err2); err != nil {
		return stateloop.PeerConfigurationState{}, err
	}
	want, faults := stateloop.ReadDesired(wantText)
	said, more := stateloop.ReadReported(saidText)
	if err := errors.Join(brokenFile(desired, faults), brokenFile(reported, more)); err != nil {
		return stateloop.PeerConfigurationState{}, err
	}
	return stateloop.Derive(want, said), nil
}

// brokenFile returns an error for a file's faults, or nil if it has none.
func brokenFile(name string, faults config.Faults) error {
	if faults == nil {
		return nil
	}
	return &confdir.Broken{File: name, Faults: faults}
}

func (a offline) showDerived(d stateloop.PeerConfigurationState, output string) error {
	doc := d.Document()
	t := &term.Table{Head: []string{"PARAMETER", "STATE", "REVIEW", "REASON"}}
	out := term.Shown{Data: doc, Empty: "no parameters"}
	for _, p := range append(doc.Parameters, doc.Ignored...) {
		t.Wide = output == "wide"
		t.Add(p.ID, string(p.State), string(p.Review), p.Reason)
		out.Names = append(out.Names, p.ID)
	}
	out.Table = func(bool) *term.Table { return t }
	if err := a.Show(out, output); err != nil {
		return err
	}
	if output == "table" || output == "wide" {
		a.Printf("ready: %s", term.YesNo(d.Ready))
	}
	return nil
}
