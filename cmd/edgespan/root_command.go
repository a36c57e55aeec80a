package main

import (
	"context"

	"github.com/spf13/cobra"
)

// newRoot is the root of a program's commands. A word that is no command and a flag that is
// none are errors of usage.
func (s streams) newRoot(name, short, long string) *cobra.Command {
	root := group(name, short)
	root.Long, root.SilenceErrors, root.SilenceUsage = long, true, true
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s: %w: see %s --help", cmd.Name(), err, cmd.CommandPath())
	})
	return root
}

// run executes a command line and returns its exit code; what went wrong is said on Err, one
// line each.
func (s streams) run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	return s.report(root.ExecuteContext(ctx))
}
