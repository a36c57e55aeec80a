package clitest

import (
	"context"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"

	"bytes"
	"strings"
	"testing"

	"edgespan/cmd/term"
)

// Said is what a command line left behind.
type Said struct {
	Code     int
	Out, Err string
}

// Run runs a command line of root's commands in this process, with nothing of its
// surroundings.
func Run(t *testing.T, root func(*reach.App) *cobra.Command, env map[string]string, stdin string, args ...string) Said {
	t.Helper()
	var out, errOut bytes.Buffer
	code := RunStreams(t.Context(), root, term.Streams{
		In: strings.NewReader(stdin), Out: &out, Err: &errOut,
		Env: func(k string) string { return env[k] },
	}, args...)
	return Said{code, out.String(), errOut.String()}
}

// RunStreams runs a command line with these streams and returns its exit code.
func RunStreams(ctx context.Context, root func(*reach.App) *cobra.Command, s term.Streams, args ...string) int {
	a := &reach.App{Streams: s}
	return a.Run(ctx, root(a), args)
}

// RootOf is a root that has these commands, and context.
func RootOf(commands ...func(*reach.App) []*cobra.Command) func(*reach.App) *cobra.Command {
	return func(a *reach.App) *cobra.Command {
		root := a.NewRoot("edgespan", "", "")
		a.Bind(root)
		root.AddCommand(reach.NewContext(a))
		for _, of := range commands {
			root.AddCommand(of(a)...)
		}
		return root
	}
}
