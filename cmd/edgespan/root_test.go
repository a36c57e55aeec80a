package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"

	"github.com/spf13/cobra"
)

// Of two commands with one name cobra runs the one that was added first, and says nothing.
func TestNoTwoCommandsHaveOneName(t *testing.T) {
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		var names []string
		for _, sub := range c.Commands() {
			if slices.Contains(names, sub.Name()) {
				t.Errorf("%s: has two commands %s", c.CommandPath(), sub.Name())
			}
			names = append(names, sub.Name())
			look(sub)
		}
	}
	look(program(&reach.App{Streams: term.Streams{Env: func(string) string { return "" }}}))
}

func TestACommandOfNodeAndControllerIsTheNodesWithoutArguments(t *testing.T) {
	for line, want := range map[string]string{
		"both": "local", "both 3": "fleet 3", "both -m x": "both: has --message: it is allowed with arguments: both N",
		"both --soon": "local",
		"both 3 4":    "both: has 2 arguments: one N is allowed",
	} {
		said := ""
		root := &cobra.Command{Use: "root", SilenceErrors: true, SilenceUsage: true}
		local := &cobra.Command{Use: "both", Args: term.ExactArgs(0, "none"),
			RunE: func(*cobra.Command, []string) error { said = "local"; return nil }}
		local.Flags().Bool("soon", false, "")
		asks := &cobra.Command{Use: "both N", Args: term.ExactArgs(1, "one N"),
			RunE: func(_ *cobra.Command, args []string) error { said = "fleet " + args[0]; return nil }}
		asks.Flags().StringP("message", "m", "", "")
		root.AddCommand(local)
		addBeside(root, []*cobra.Command{asks})
		root.SetArgs(strings.Fields(line))
		if err := root.ExecuteContext(context.Background()); err != nil {
			said = err.Error()
		}
		if said != want || strings.Count(term.CommandNames(root), "both") != 1 {
			t.Errorf("%s: %q, want %q", line, said, want)
		}
	}
}

func TestVersion(t *testing.T) {
	if got := cli(t, nil, "", "version"); got != (clitest.Said{Code: 0, Out: "edgespan " + version + "\n", Err: ""}) {
		t.Errorf("%+v", got)
	}
}

// program is the root of the whole program.
func program(a *reach.App) *cobra.Command { return newRoot(a) }

// cli runs a command line of the whole program.
func cli(t *testing.T, env map[string]string, stdin string, args ...string) clitest.Said {
	t.Helper()
	return clitest.Run(t, program, env, stdin, args...)
}
