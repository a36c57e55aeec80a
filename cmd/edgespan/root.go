package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/config/httpapi"
)

const (
	defaultRunDir   = "/run/edgespan"
	defaultStateDir = "/var/lib/edgespan"
	defaultConfig   = "/etc/edgespan/node.yaml"
	socketName      = "edgespan.sock"
)

// streams is all that the command line has of its surroundings, so that a test gives
// it other ones.
type streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Color    bool // Out is a terminal that wants colours
}

// app is one run of the command line.
type app struct {
	streams
	socket, runDir string
	fleet          fleetFlags
	start          startFunc    // makes the daemon of `node`
	again          func() error // starts the daemon in its own place once more
	lock           string       // the abstract socket that keeps a second daemon away
	lockDir        string       // where the file is that does, too
}

// run executes the command line and returns its exit code; what went wrong is said on
// Err, one line each.
func run(ctx context.Context, s streams, args []string) int {
	return runApp(ctx, &app{streams: s, start: startNode, again: startAgain, lock: nodeLock, lockDir: nodeLockDir}, args)
}

func runApp(ctx context.Context, a *app, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return a.report(err)
}

// newRoot builds the command tree.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "edgespan",
		Short: "The network daemon of an edge node, and the command line of node and controller",
		Long: `edgespan keeps the virtual networks of an edge node as a config wants them, and asks
a controller for the configs of many nodes (--controller, or edgespan context).

Data goes to stdout, messages to stderr. Exit codes: 0 ok, 1 error, 2 usage,
3 timeout, 4 config rejected, 5 conflict, 6 partial answer, 7 permission,
8 daemon or controller not reachable, 10 not found.

Environment, below the flag of the same name: EDGESPAN_SOCKET, EDGESPAN_RUN_DIR,
EDGESPAN_STATE_DIR, EDGESPAN_CONFIG; for a controller EDGESPAN_CONTROLLER,
EDGESPAN_TOKEN_FILE, EDGESPAN_CA_FILE, EDGESPAN_CA_SHA256, EDGESPAN_CONTEXT and
EDGESPAN_CONTEXTS. NO_COLOR switches colours off.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("command: is %q: %s are allowed", args[0], commandNames(cmd))
			}
			return cmd.Help()
		},
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s: %w: see %s --help", cmd.Name(), err, cmd.CommandPath())
	})
	root.PersistentFlags().StringVar(&a.socket, "socket", "", "control socket (default <run-dir>/"+socketName+")")
	root.PersistentFlags().StringVar(&a.runDir, "run-dir", "", "runtime folder (default "+defaultRunDir+")")
	a.bindFleet(root)
	root.AddGroup(&cobra.Group{ID: "node", Title: "On a node:"}, &cobra.Group{ID: "controller", Title: "With a controller:"})
	root.AddCommand(newNode(a), newJoin(a), newApply(a), newPlan(a), newConfirm(a), newRollback(a), newRelease(a), newGet(a), newWait(a), newExplain(a), newEvents(a), newDiff(a), newWatch(a), newDoctor(a),
		newDemo(a), newDemoISP(a))
	inGroup("node", root.Commands())
	fleet := fleetCommands(a)
	inGroup("controller", fleet)
	addBeside(root, fleet)
	root.AddCommand(newLayers(a), newState(a), newVersion(a))
	return root
}

// addBeside adds commands that ask a controller. Where one of the node has the same name, as
// rollback, both are one command: without arguments it is the node's.
func addBeside(root *cobra.Command, fleet []*cobra.Command) {
	for _, c := range fleet {
		for _, local := range root.Commands() {
			if local.Name() == c.Name() {
				root.RemoveCommand(local)
				join(c, local)
			}
		}
		root.AddCommand(c)
	}
}

func join(c, local *cobra.Command) {
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
		for _, name := range append([]string{"message", "dry-run", "if-match", "output"}, fleetFlagNames...) {
			if cmd.Flags().Changed(name) && local.Flags().Lookup(name) == nil {
				return usagef("%s: has --%s: it is allowed with arguments: %s", cmd.Name(), name, c.Use)
			}
		}
		return local.RunE(cmd, words)
	}
	c.Short += "; without arguments: " + local.Short
	c.Long += "\n\nWithout arguments: " + either(local.Long, local.Short) + "."
	c.Flags().AddFlagSet(local.Flags())
}

// inGroup puts commands under one heading of the help.
func inGroup(id string, commands []*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
	}
}

func commandNames(cmd *cobra.Command) string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return strings.Join(names, " ")
}

// setting is a value by the precedence flag > environment > default.
func (a *app) setting(flag, env, fallback string) string {
	if flag != "" {
		return flag
	}
	if v := a.Env(env); v != "" {
		return v
	}
	return fallback
}

func (a *app) runFolder() string { return a.setting(a.runDir, "EDGESPAN_RUN_DIR", defaultRunDir) }

// socketPath follows the precedence over both ways to name it: a --run-dir on the
// command line beats EDGESPAN_SOCKET, since it is a flag.
func (a *app) socketPath() string {
	switch {
	case a.socket != "":
		return a.socket
	case a.runDir != "":
		return filepath.Join(a.runDir, socketName)
	}
	return a.setting("", "EDGESPAN_SOCKET", filepath.Join(a.runFolder(), socketName))
}

func (a *app) client() *httpapi.Client { return httpapi.NewClient(a.socketPath()) }

// say writes one message for a person.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.Err, format+"\n", args...) }

// exactArgs is cobra's check with our exit code and words.
func exactArgs(n int, what string) cobra.PositionalArgs { return rangeArgs(n, n, what) }

func rangeArgs(lo, hi int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < lo || len(args) > hi {
			return usagef("%s: has %d arguments: %s is allowed", cmd.Name(), len(args), what)
		}
		return nil
	}
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  exactArgs(0, "none"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, "edgespan", version)
			return err
		},
	}
}
