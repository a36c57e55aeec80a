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

// Said is the result of a command line.
type Said struct {
	Code     int
	Out, Err string
}

// Run runs a command line in this process, with the given environment and stdin only.
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

// RootOf returns a function that makes a root with these commands and `context`.
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
