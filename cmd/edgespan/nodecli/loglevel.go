package nodecli

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/pubsub/loglevel"
)

func newLogLevel(a commands) *cobra.Command {
	var during time.Duration
	var output string
	cmd := &cobra.Command{
		Use:   "loglevel [SUBSYSTEM [LEVEL]]",
		Short: "Show the levels of the daemon's log, or change one for a while",
		Long: `loglevel lists the level of each subsystem of the daemon's log: lines below it are not written.
sysParams.logLevel of the config is the level of all. With SUBSYSTEM and LEVEL (debug, info, warn or
error) it changes one of them, or all of them for the subsystem "all", until --for is over; "reset"
ends that at once. A restart of the daemon ends it, too. Each change is a line of the log.`,
		Example: "  edgespan loglevel probe debug --for 10m\n  edgespan loglevel all reset",
		Args:    term.RangeArgs(0, 2, "a SUBSYSTEM and a LEVEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if during <= 0 || during > loglevel.MaxFor {
				return term.Invalid("--for", during, "a positive duration of at most "+loglevel.MaxFor.String()+", such as 10m")
			}
			if words := append(loglevel.Words(), loglevel.Reset); len(args) == 2 && !slices.Contains(words, args[1]) {
				return term.NotOneOf("LEVEL", args[1], words)
			}
			ctx, c, done := a.Connect(cmd.Context())
			defer done()
			var all []loglevel.Setting
			var err error
			if len(args) == 2 {
				all, err = c.SetLogLevel(ctx, loglevel.Change{Subsystem: args[0], Level: args[1], For: during, By: userName()})
			} else {
				all, err = c.LogLevels(ctx)
			}
			if err != nil {
				return err
			}
			if all, err = ofSubsystem(all, args); err != nil {
				return err
			}
			return a.Show(term.LevelTable(all), output)
		},
		ValidArgsFunction: a.completeLevels,
	}
	cmd.Flags().DurationVar(&during, "for", loglevel.DefaultFor, "end the change after this time")
	term.OutputFlag(cmd, &output)
	return cmd
}

// ofSubsystem returns the levels that a command names: all of them for none, and for "all".
func ofSubsystem(all []loglevel.Setting, args []string) ([]loglevel.Setting, error) {
	if len(args) == 0 || args[0] == loglevel.All {
		return all, nil
	}
	names := make([]string, len(all))
	for i, l := range all {
		if names[i] = l.Subsystem; l.Subsystem == args[0] {
			return all[i : i+1], nil
		}
	}
	return nil, term.NotOneOf("SUBSYSTEM", args[0], names)
}

// completeLevels completes a subsystem, then a level.
func (a commands) completeLevels(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return append(loglevel.Words(), loglevel.Reset), cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, c, done := a.Connect(cmd.Context())
	defer done()
	all, _ := c.LogLevels(ctx) // without a daemon nothing is completed
	var names []string
	for _, l := range all {
		names = append(names, l.Subsystem)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
