package fleetcli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/fleet/bisect"
	"edgespan/config/httpapi/fleetapi"
)

// The values of -o, the default first. A document, which can be written back, defaults to JSON; everything else
// defaults to a table.
var (
	tableForms    = term.Outputs
	documentForms = []string{"json", "yaml", "table", "wide", "name"}
)

// fleetSpec is one command that asks the controller. Each group of commands has a table of them.
type fleetSpec struct {
	use, short    string
	long, example string
	args          cobra.PositionalArgs
	complete      completer
	forms         []string // values of -o; none: the command has no -o
	body          bool     // has -f
	write         bool     // has -m, --dry-run, --if-match
	unbound       bool     // has no --if-match, since it writes many layers
	flags         func(*cobra.Command, *fleetCall)
	run           func(*fleetCall) error
	sub           []fleetSpec
}

// fleetCall is one run of a command.
type fleetCall struct {
	a      *reach.App
	ctx    context.Context //nolint:containedctx // the command's own
	cmd    *cobra.Command
	args   []string
	client *fleetapi.Client

	output string
	file   string // -f

	message, ifMatch string
	dryRun           bool

	layer                     string
	paths, versions           []string
	software, firmware, board string
	reveal, clearUser, set    bool
	revert, watch             bool
	adoptImport, adoptReplace bool
	role, from, digest        string
	life, timeout             time.Duration
	limit                     int
	before                    uint64
	age                       string
	events                    fleetapi.EventQuery
	search                    bisect.Request
	testTimeout, settle       time.Duration
}

// Commands returns the commands that ask a controller, except those below `node`.
func Commands(a *reach.App) []*cobra.Command {
	var out []*cobra.Command
	for _, specs := range [][]fleetSpec{layerSpecs, e2eSpecs, topologySpecs, nodesSpecs, peerSpecs, historySpecs,
		rolloutSpecs, bisectSpecs, hardwareSpecs, operatorSpecs, backupSpecs} {
		for _, s := range specs {
			out = append(out, s.command(a))
		}
	}
	return out
}

// NodeCommands returns the commands below `node`: what a controller stores about one node.
func NodeCommands(a *reach.App) []*cobra.Command {
	var out []*cobra.Command
	for _, s := range nodeSpecs {
		out = append(out, s.command(a))
	}
	return out
}

// command returns the cobra command of a spec, with its subcommands.
func (s fleetSpec) command(a *reach.App) *cobra.Command {
	if s.run == nil {
		cmd := reach.AsksController(term.Group(s.use, s.short))
		for _, sub := range s.sub {
			cmd.AddCommand(sub.command(a))
		}
		return cmd
	}
	call := &fleetCall{a: a}
	cmd := &cobra.Command{Use: s.use, Short: s.short, Long: s.long, Example: s.example, Args: s.args}
	if s.complete != nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return s.complete(a, cmd, args, typed), cobra.ShellCompDirectiveNoFileComp
		}
	}
	s.bind(cmd, call)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		call.cmd, call.args = cmd, args
		if s.forms != nil && !slices.Contains(s.forms, call.output) {
			return term.NotOneOf("-o", call.output, s.forms)
		}
		return call.get(cmd.Context(), s.run)
	}
	for _, sub := range s.sub {
		cmd.AddCommand(sub.command(a))
	}
	return reach.AsksController(cmd)
}

// bind defines the shared flags that the command has, and its own.
func (s fleetSpec) bind(cmd *cobra.Command, call *fleetCall) {
	flags := cmd.Flags()
	if s.forms != nil {
		flags.StringVarP(&call.output, "output", "o", s.forms[0], "form: "+strings.Join(s.forms, ", "))
		// The only possible error is an undefined flag, and the line above defines it.
		_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(s.forms, cobra.ShellCompDirectiveNoFileComp))
	}
	if s.body {
		flags.StringVarP(&call.file, "file", "f", "", "document, YAML or JSON; - reads stdin")
	}
	if s.write {
		flags.StringVarP(&call.message, "message", "m", "", "reason, recorded in the history")
		flags.BoolVar(&call.dryRun, "dry-run", false, "validate and print what would change, and change nothing")
	}
	if s.write && !s.unbound {
		flags.StringVar(&call.ifMatch, "if-match", "",
			"revision that you have read: fail if the layer has changed since")
	}
	if s.flags != nil {
		s.flags(cmd, call)
	}
}

// get finds the controller and runs the command within reach.Timeout plus --wait.
func (c *fleetCall) get(ctx context.Context, run func(*fleetCall) error) error {
	if c.timeout < 0 {
		return term.Invalid("--wait", c.timeout, "0s or more")
	}
	client, err := c.a.FleetClient()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, reach.Timeout+c.timeout)
	defer cancel()
	c.ctx, c.client = ctx, client
	return oneLineOf(run(c))
}

// lineError is an error whose text is one line, even if it quotes several.
type lineError struct {
	text string
	err  error
}

func (e *lineError) Error() string { return e.text }
func (e *lineError) Unwrap() error { return e.err }

// oneLineOf puts an error of the controller on one line, unless it is a list of faults: a name in it could contain a
// newline.
func oneLineOf(err error) error {
	var p *fleetapi.Problem
	if _, many := err.(interface{ Unwrap() []error }); many || !errors.As(err, &p) || len(p.Errors) > 0 {
		return err
	}
	return &lineError{term.Printable(err.Error()), err}
}

// completer completes an argument. It returns nothing if no controller answers.
type completer func(a *reach.App, cmd *cobra.Command, args []string, typed string) []string

func completeNodes(a *reach.App, cmd *cobra.Command, args []string, _ string) []string {
	return slices.DeleteFunc(liveNodes(cmd.Context(), a), func(n string) bool { return slices.Contains(args, n) })
}

// firstNode completes the first argument only.
func firstNode(a *reach.App, cmd *cobra.Command, args []string, typed string) []string {
	if len(args) > 0 {
		return nil
	}
	return completeNodes(a, cmd, args, typed)
}

// liveNodes returns the names of the nodes that the controller knows now.
func liveNodes(ctx context.Context, a *reach.App) []string {
	if ctx == nil {
		ctx = context.Background() // cobra completes without a context
	}
	ctx, cancel := context.WithTimeout(ctx, reach.CompletionTimeout)
	defer cancel()
	client, err := a.FleetClient()
	if err != nil {
		return nil
	}
	defer client.Close()
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return nil
	}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return names
}
