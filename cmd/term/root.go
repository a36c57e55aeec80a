package term

import (
	"context"

	"github.com/spf13/cobra"
)

// NewRoot is the root of a program's commands. A word that is no command and a flag that is
// none are errors of usage.
func (s Streams) NewRoot(name, short, long string) *cobra.Command {
	root := Group(name, short)
	root.Long, root.SilenceErrors, root.SilenceUsage = long, true, true
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return Usagef("%s: %w: see %s --help", cmd.Name(), err, cmd.CommandPath())
	})
	return root
}

// Run executes a command line and returns its exit code; what went wrong is said on Err, one
// line each.
func (s Streams) Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	return s.report(root.ExecuteContext(ctx))
}
