package term

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs a program in its process until its end, or that of a signal. A second signal ends what hears none, as an
// offline command that computes.
func Main(run func(ctx context.Context, s Streams, args []string) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, OS(), os.Args[1:])
	stop()
	os.Exit(code)
}

// NewRoot is the root of a program's commands. A word that is no command and a flag that is
// none are errors of usage.
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

// NewVersion is the command that prints a program's version.
func (s Streams) NewVersion(program, version string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  ExactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.Out, program, version)
			return err
		},
	}
}

// Run executes a command line and returns its exit code; what went wrong is said on Err, one
// line each.
func (s Streams) Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	return s.report(root.ExecuteContext(ctx))
}
