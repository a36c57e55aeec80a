package term

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs a program until it ends or is signaled. A second signal kills it, for code that ignores the context, such
// as an offline command that computes.
func Main(run func(ctx context.Context, s Streams, args []string) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, OS(), os.Args[1:])
	stop()
	os.Exit(code)
}

// NewRoot returns the root of a program's commands. An unknown command or flag is a usage error.
func (s Streams) NewRoot(name, short, long string) *cobra.Command {
	root := Group(name, short)
	root.Long, root.SilenceErrors, root.SilenceUsage = long, true, true
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagFault(cmd, err)
	})
	return root
}

// NewVersion returns the command that prints the program's version.
func (s Streams) NewVersion(program, version string) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  " + program + " version",
		Args:    ExactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.Out, program, version)
			return err
		},
	}
}

// Run executes a command line and returns its exit code. It prints errors on Err, one line each.
func (s Streams) Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	return s.Report(root.ExecuteContext(ctx))
}
