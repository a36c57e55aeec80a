package main

import (
	"context"
	"slices"
	"strings"

	"edgespan/cmd/edgespan/configdbcli"
	"edgespan/cmd/edgespan/daemon"
	"edgespan/cmd/edgespan/demo"
	"edgespan/cmd/edgespan/fleetcli"
	"edgespan/cmd/edgespan/layerscli"
	"edgespan/cmd/edgespan/nodecli"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/edgespan/replaycli"
	"edgespan/cmd/edgespan/shellcli"
	"edgespan/cmd/edgespan/supportcli"
	"edgespan/cmd/edgespan/top"
	"edgespan/cmd/edgespan/tunnel"
	"edgespan/cmd/term"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// run executes the command line and returns its exit code. It prints errors on Err, one line each.
func run(ctx context.Context, s term.Streams, args []string) int {
	a := &reach.App{Streams: s}
	return a.Run(ctx, newRoot(a), args)
}

const aboutProgram = `edgespan runs the virtual networks of an edge node as its config describes them, and
controls the fleet of a controller (--controller, or edgespan context).

Data goes to stdout, messages to stderr. Exit codes: 0 ok, 1 error, 2 usage,
3 timeout, 4 config rejected, 5 conflict, 6 partial answer, 7 permission,
8 daemon or controller not reachable, 10 not found.

Environment, below the flag of the same name: EDGESPAN_SOCKET, EDGESPAN_RUN_DIR,
EDGESPAN_STATE_DIR, EDGESPAN_CONFIG, EDGESPAN_METRICS; for a controller EDGESPAN_CONTROLLER,
EDGESPAN_TOKEN_FILE, EDGESPAN_CA_FILE, EDGESPAN_CA_SHA256, EDGESPAN_CONTEXT and
EDGESPAN_CONTEXTS. NO_COLOR switches colours off.`

func newRoot(a *reach.App) *cobra.Command {
	root := a.NewRoot("edgespan", "Run and control the network daemon of an edge node, and its fleet",
		aboutProgram)
	a.Bind(root)
	root.AddGroup(&cobra.Group{ID: "node", Title: "On a node:"},
		&cobra.Group{ID: "controller", Title: "With a controller:"})
	node := daemon.New(a, version)
	node.AddCommand(fleetcli.NodeCommands(a)...)
	root.AddCommand(node, daemon.NewJoin(a))
	root.AddCommand(nodecli.Commands(a)...)
	root.AddCommand(supportcli.New(a, version), replaycli.New(a), shellcli.New(a), top.New(a), tunnel.New())
	root.AddCommand(demo.Commands(a.Streams)...)
	inGroup("node", root.Commands())
	fleet := slices.Concat(fleetcli.Commands(a), configdbcli.Commands(a), []*cobra.Command{reach.NewContext(a)})
	inGroup("controller", fleet)
	root.AddCommand(fleet...)
	oldRollback(below(root, "rollback"), below(root, "history", "rollback"))
	root.AddCommand(layerscli.Commands(a.Streams)...)
	root.AddCommand(a.NewVersion("edgespan", version))
	return root
}

// oldRollback makes `rollback` of a node accept a REVISION and roll back layers, as it did before layers had a
// rollback command of their own. It prints the new command.
func oldRollback(node, layers *cobra.Command) {
	layers.Flags().VisitAll(func(f *pflag.Flag) {
		hidden := *f
		hidden.Hidden = true
		node.Flags().AddFlag(&hidden)
	})
	reach.AsksController(node)
	node.Long += "\n\nTo roll back the layers of a controller use " + layers.CommandPath() + "."
	run := node.RunE
	node.Args = cobra.ArbitraryArgs
	node.RunE = func(cmd *cobra.Command, words []string) error {
		var err error
		if len(words) > 0 {
			if err = layers.Args(cmd, words); err == nil {
				term.Streams{Err: cmd.ErrOrStderr()}.Printf("deprecated: use '%s %s' to roll back layers",
					layers.CommandPath(), term.Printable(strings.Join(words, " ")))
				err = layers.RunE(cmd, words)
			}
			return err
		}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if f.Hidden || slices.Contains(reach.FlagNames, f.Name) {
				err = term.Usagef("--%s: not a flag of 'edgespan rollback': use '%s'", f.Name, layers.CommandPath())
			}
		})
		if err != nil {
			return err
		}
		return run(cmd, words)
	}
}

// below returns the command that the words name.
func below(root *cobra.Command, words ...string) *cobra.Command {
	for _, word := range words {
		root = root.Commands()[slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == word })]
	}
	return root
}

// inGroup lists commands under one heading of the help.
func inGroup(id string, commands []*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
	}
}
