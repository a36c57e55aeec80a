package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"edgespan/cmd/edgespan/configdbcli"
	"edgespan/cmd/edgespan/daemon"
	"edgespan/cmd/edgespan/demo"
	"edgespan/cmd/edgespan/fleetcli"
	"edgespan/cmd/edgespan/layerscli"
	"edgespan/cmd/edgespan/nodecli"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"

	"github.com/spf13/cobra"
)

// run executes the command line and returns its exit code; what went wrong is said on
// Err, one line each.
func run(ctx context.Context, s term.Streams, args []string) int {
	a := &reach.App{Streams: s}
	return a.Run(ctx, newRoot(a), args)
}

const aboutProgram = `edgespan keeps the virtual networks of an edge node as a config wants them, and asks
a controller for the configs of many nodes (--controller, or edgespan context).

Data goes to stdout, messages to stderr. Exit codes: 0 ok, 1 error, 2 usage,
3 timeout, 4 config rejected, 5 conflict, 6 partial answer, 7 permission,
8 daemon or controller not reachable, 10 not found.

Environment, below the flag of the same name: EDGESPAN_SOCKET, EDGESPAN_RUN_DIR,
EDGESPAN_STATE_DIR, EDGESPAN_CONFIG; for a controller EDGESPAN_CONTROLLER,
EDGESPAN_TOKEN_FILE, EDGESPAN_CA_FILE, EDGESPAN_CA_SHA256, EDGESPAN_CONTEXT and
EDGESPAN_CONTEXTS. NO_COLOR switches colours off.`

// newRoot builds the command tree.
func newRoot(a *reach.App) *cobra.Command {
	root := a.NewRoot("edgespan", "The network daemon of an edge node, and the command line of node and controller",
		aboutProgram)
	a.Bind(root)
	root.AddGroup(&cobra.Group{ID: "node", Title: "On a node:"},
		&cobra.Group{ID: "controller", Title: "With a controller:"})
	node := daemon.New(a, version)
	node.AddCommand(fleetcli.NodeCommands(a)...)
	root.AddCommand(node, daemon.NewJoin(a))
	root.AddCommand(nodecli.Commands(a)...)
	root.AddCommand(demo.Commands(a.Streams)...)
	inGroup("node", root.Commands())
	fleet := slices.Concat(fleetcli.Commands(a), configdbcli.Commands(a), []*cobra.Command{reach.NewContext(a)})
	inGroup("controller", fleet)
	addBeside(root, fleet)
	root.AddCommand(layerscli.Commands(a.Streams)...)
	root.AddCommand(newVersion(a))
	return root
}

// addBeside adds commands that ask a controller. Where one of the node has the same name, as
// rollback, both are one command: without arguments it is the node's.
func addBeside(root *cobra.Command, fleet []*cobra.Command) {
	for _, c := range fleet {
		for _, local := range root.Commands() {
			if local.Name() == c.Name() {
				root.RemoveCommand(local)
				beside(c, local)
			}
		}
		root.AddCommand(c)
	}
}

// beside makes c the node's command where it has no arguments.
func beside(c, local *cobra.Command) {
	args, run := c.Args, c.RunE
	c.Args = func(cmd *cobra.Command, words []string) error {
		if len(words) == 0 {
			return nil
		}
		return args(cmd, words)
	}
	c.RunE = func(cmd *cobra.Command, words []string) error {
		if len(words) > 0 {
			return run(cmd, words)
		}
		for _, name := range append([]string{"message", "dry-run", "if-match", "output"}, reach.FlagNames...) {
			if cmd.Flags().Changed(name) && local.Flags().Lookup(name) == nil {
				return term.Usagef("%s: has --%s: it is allowed with arguments: %s", cmd.Name(), name, c.Use)
			}
		}
		return local.RunE(cmd, words)
	}
	c.Short += "; without arguments: " + local.Short
	c.Long += "\n\nWithout arguments: " + cmp.Or(local.Long, local.Short) + "."
	c.Flags().AddFlagSet(local.Flags())
}

// inGroup puts commands under one heading of the help.
func inGroup(id string, commands []*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
	}
}

func newVersion(a *reach.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  term.ExactArgs(0, "none"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, "edgespan", version)
			return err
		},
	}
}
