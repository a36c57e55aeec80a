package main

import (
	"context"

	"github.com/spf13/cobra"

	reachpkg "edgespan/cmd/edgespan/reach"

	"bytes"
	"strings"
	"testing"

	"edgespan/cmd/term"
)

// said is what a command line left behind.
type said struct {
	code     int
	out, err string
}

// runRoot runs a command line of root's commands in this process, with nothing of its
// surroundings.
func runRoot(t *testing.T, root func(*reachpkg.App) *cobra.Command, env map[string]string, stdin string, args ...string) said {
	t.Helper()
	var out, errOut bytes.Buffer
	code := runStreams(t.Context(), root, term.Streams{
		In: strings.NewReader(stdin), Out: &out, Err: &errOut,
		Env: func(k string) string { return env[k] },
	}, args...)
	return said{code, out.String(), errOut.String()}
}

// runStreams runs a command line with these streams and returns its exit code.
func runStreams(ctx context.Context, root func(*reachpkg.App) *cobra.Command, s term.Streams, args ...string) int {
	a := &reachpkg.App{Streams: s}
	return a.Run(ctx, root(a), args)
}

// rootOf is a root that has these commands.
func rootOf(commands ...func(*reachpkg.App) []*cobra.Command) func(*reachpkg.App) *cobra.Command {
	return func(a *reachpkg.App) *cobra.Command {
		root := a.NewRoot("edgespan", "", "")
		a.Bind(root)
		for _, of := range commands {
			root.AddCommand(of(a)...)
		}
		return root
	}
}
