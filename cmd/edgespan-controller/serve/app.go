package serve

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
)

// App is one run of the program.
type App struct {
	term.Streams
	Host
	Version string
	HUP     <-chan os.Signal // nil: the SIGHUP of the process
}

// New returns a run of this version of the program on this machine.
func New(s term.Streams, version string) *App {
	return &App{Streams: s, Host: thisHost(), Version: version}
}

// Run executes a command line, in which flags may have the seed's spelling, and returns its exit code.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	args = seedForm(args, func(name string) bool { return knows(root, name) })
	return a.Streams.Run(ctx, root, args)
}

// Bind makes the root command run the controller.
func Bind(a *App, root *cobra.Command) {
	o := NewOptions()
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return term.UnknownCommand(cmd, args[0])
		}
		if err := o.Resolve(cmd, a.Env); err != nil {
			return err
		}
		return a.serve(cmd.Context(), o)
	}
	o.bindAll(root)
}

// knows reports whether any command has a flag.
func knows(cmd *cobra.Command, name string) bool {
	if cmd.Flags().Lookup(name) != nil || name == "help" {
		return true
	}
	for _, c := range cmd.Commands() {
		if knows(c, name) {
			return true
		}
	}
	return false
}
