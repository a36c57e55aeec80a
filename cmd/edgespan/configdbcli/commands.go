package configdbcli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
)

// factsSpec is one command that asks ConfigDB (seed fuel-configdb-serialized-facts-api, "Fuel Client"). Each group of
// commands has a table of them.
type factsSpec struct {
	use, short    string
	long, example string
	args          cobra.PositionalArgs // nil: none
	complete      factsCompleter       // completes the first argument
	needs         []string             // required flags
	forms         []string             // values of -f, the default first; none: the command has no -f
	input         bool                 // -f is the format of stdin
	flags         []factsFlags
	run           func(*factsCall) error
	sub           []factsSpec
}

// factsFlags defines the flags of a command.
type factsFlags func(*pflag.FlagSet, *factsCall)

// factsCompleter returns the words that can complete an argument or a flag.
type factsCompleter func(context.Context, *configdbapi.Client, *factsCall) ([]string, error)

// The values of -f. The seed's default is JSON.
var (
	valueForms  = []string{"json", "yaml", "plain", "value"}
	inputForms  = []string{"json", "yaml"}
	modelForms  = []string{"json", "yaml", "table", "value"}
	lookupForms = []string{"table", "json", "yaml"}
)

// factsCall is one run of a command.
type factsCall struct {
	a      *reach.App
	ctx    context.Context //nolint:containedctx // the command's own
	cmd    *cobra.Command
	args   []string
	client *configdbapi.Client

	door doorFlags

	env           int64
	level         string
	resource, key string
	value, typ    string
	format        string
	columns       []string

	lookup, values, overrides, etag, all bool
	version, revision                    uint64

	message, ifMatch string
	dryRun           bool

	before, since uint64
	limit         int

	id                     int64
	name                   string
	components, levels     string
	selfRegistration       bool
	strictNodes            bool
	component, definitions string
	content, data          string
	fqdn, certname, above  string

	node, naming string
	effective    bool
}

// Commands returns `config` with all groups as subcommands, and each group again at the top level: the seed and its
// implementation use both forms. Help shows the groups once.
func Commands(a *reach.App) []*cobra.Command {
	cfg := factsSpec{
		use: "config", short: "Read and change the facts of ConfigDB",
		sub: slices.Concat(valueSpecs, recordSpecs, modelSpecs, nodeFactSpecs, treeSpecs),
	}.command(a)
	cfg.Long = cfg.Short + aboutFacts
	out := []*cobra.Command{cfg}
	for _, s := range modelSpecs {
		c := s.command(a)
		c.Hidden = true
		out = append(out, c)
	}
	return out
}

const aboutFacts = `.

The address of ConfigDB is taken from --controller, EDGESPAN_CONTROLLER or --context; otherwise, if
OS_AUTH_URL is set, from the service of type "config" in Keystone's catalog; otherwise from the
current context. The caller is taken from --user (its password from --password-file or
EDGESPAN_PASSWORD), --token-file, EDGESPAN_USER, EDGESPAN_TOKEN_FILE, the context's token, or the
user of OS_USERNAME, in this order.

The groups env, comp, def and lvl are commands of edgespan itself, too: edgespan env list.`

// command returns the cobra command of a spec, with its subcommands.
func (s factsSpec) command(a *reach.App) *cobra.Command {
	if s.run == nil {
		cmd := reach.AsksController(term.Group(s.use, s.short))
		for _, sub := range s.sub {
			cmd.AddCommand(sub.command(a))
		}
		return cmd
	}
	call := &factsCall{a: a}
	if s.args == nil {
		s.args = term.ExactArgs(0, "")
	}
	cmd := &cobra.Command{Use: s.use, Short: s.short, Long: s.long, Example: s.example, Args: s.args}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if s.complete == nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return call.completions(cmd, s.complete), cobra.ShellCompDirectiveNoFileComp
	}
	s.bind(cmd, call)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		call.cmd, call.args = cmd, args
		if err := s.check(cmd, call); err != nil {
			return err
		}
		return call.get(cmd.Context(), s.run)
	}
	return reach.AsksController(cmd)
}

// bind defines the flags of a command.
func (s factsSpec) bind(cmd *cobra.Command, call *factsCall) {
	flags := cmd.Flags()
	call.door.bind(flags)
	if s.forms != nil {
		what := "output format: "
		if s.input {
			what = "format of stdin: "
		}
		flags.StringVarP(&call.format, "format", "f", s.forms[0], what+strings.Join(s.forms, ", "))
		complete(cmd, "format", s.forms)
	}
	for _, f := range s.flags {
		f(flags, call)
	}
	if slices.Contains(s.forms, "value") {
		columnFlag(flags, call)
	}
	complete(cmd, "type", valueTypes)
	for name, find := range map[string]factsCompleter{"env": environmentIDs, "level": levelStarts,
		"resource": resourceNames} {
		if flags.Lookup(name) == nil {
			continue
		}
		// The only possible error is an undefined flag, and the flag is defined.
		_ = cmd.RegisterFlagCompletionFunc(name,
			func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				directive := cobra.ShellCompDirectiveNoFileComp
				if name == "level" {
					directive |= cobra.ShellCompDirectiveNoSpace
				}
				return call.completions(cmd, find), directive
			})
	}
}

// complete completes a flag with fixed words, if the command has the flag.
func complete(cmd *cobra.Command, flag string, words []string) {
	if cmd.Flags().Lookup(flag) != nil {
		// The only possible error is an undefined flag, and the flag is defined.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// check returns all faults of a command line together.
func (s factsSpec) check(cmd *cobra.Command, call *factsCall) error {
	var faults []string
	for _, name := range s.needs {
		f := cmd.Flags().Lookup(name)
		if !f.Changed || f.Value.String() == "" {
			faults = append(faults, fmt.Sprintf("--%s: required: %s", name, f.Usage))
		}
	}
	if s.forms != nil && !slices.Contains(s.forms, call.format) {
		faults = append(faults,
			fmt.Sprintf("--format: invalid value %s: must be %s", config.Quote(call.format), config.OrList(s.forms)))
	}
	if len(faults) > 0 {
		return term.Usagef("%s", strings.Join(faults, "\n"))
	}
	return nil
}

// get finds ConfigDB and runs the command within reach.Timeout.
func (c *factsCall) get(ctx context.Context, run func(*factsCall) error) error {
	ctx, cancel := context.WithTimeout(ctx, reach.Timeout)
	defer cancel()
	client, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	c.ctx, c.client = ctx, client
	err = run(c)
	if err != nil && strings.Contains(err.Error(), "duplicate key value violates unique constraint") {
		_, _ = fmt.Fprintln(c.a.Out, term.Printable(err.Error())) // the original's clients look for it on stdout
	}
	return err
}

func (c *factsCall) changed(flag string) bool { return c.cmd.Flags().Changed(flag) }

// Flags that commands share.

func envFlag(f *pflag.FlagSet, c *factsCall) {
	f.Int64VarP(&c.env, "env", "e", 0, "ID of the environment")
}

func placeFlags(f *pflag.FlagSet, c *factsCall) {
	envFlag(f, c)
	f.StringVarP(&c.level, "level", "l", "",
		"nodes=ID or nodes=FQDN, or any levels from the environment's first one on: role=compute,nodes=1 (default: the "+
			"environment itself)")
	f.StringVarP(&c.resource, "resource", "r", "", "name or ID of a resource")
}

func keyFlag(f *pflag.FlagSet, c *factsCall) {
	f.StringVarP(&c.key, "key", "k", "", `path of a value, such as a.b.0; quote a key that has a dot: a."b.c"`)
}

func halfFlag(f *pflag.FlagSet, c *factsCall) {
	f.BoolVar(&c.overrides, "overrides", false, "use the overrides instead of the values")
}

func pageFlags(f *pflag.FlagSet, c *factsCall) {
	f.Uint64Var(&c.before, "before", 0, "only entries older than this one")
	f.IntVar(&c.limit, "limit", 50, "maximum number of entries")
}

func writeFlags(f *pflag.FlagSet, c *factsCall) {
	f.StringVarP(&c.message, "message", "m", "", "reason, recorded in the history")
	f.BoolVar(&c.dryRun, "dry-run", false, "validate and print what would change, and change nothing")
}

func boundFlags(f *pflag.FlagSet, c *factsCall) {
	writeFlags(f, c)
	f.StringVar(&c.ifMatch, "if-match", "",
		"ETag of the version you have read (config get --etag): fail if it has changed since")
}

// writeOptions returns the write options of the flags.
func (c *factsCall) writeOptions() configdbapi.WriteOptions {
	o := configdbapi.WriteOptions{Message: c.message, DryRun: c.dryRun, IfMatch: c.ifMatch}
	if o.IfMatch != "" && o.IfMatch != "*" && !strings.HasSuffix(o.IfMatch, `"`) {
		o.IfMatch = `"` + o.IfMatch + `"`
	}
	return o
}

// kind returns the half of a record that the flags select.
func (c *factsCall) kind() model.Kind {
	if c.overrides {
		return model.Overrides
	}
	return model.Values
}

// place returns the place that --env, --level and --resource select.
func (c *factsCall) place() (configdbapi.Place, error) {
	p := configdbapi.Place{Environment: c.env, Resource: c.resource}
	if !c.changed("level") {
		return p, nil
	}
	var err error
	if p.Levels, err = parseLevels("level", c.level); err != nil {
		return p, err
	}
	return p, c.nameNodes(p.Levels)
}

// parseLevels parses l1=v1,l2=v2.
func parseLevels(flag, text string) ([]model.LevelValue, error) {
	var out []model.LevelValue
	for pair := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" || value == "" {
			return nil, term.Invalid("--"+flag, pair, "LEVEL=VALUE, or several separated by commas")
		}
		out = append(out, model.LevelValue{Level: name, Value: value})
	}
	return out, nil
}

// nameNodes replaces node by nodes, or nodes by node, to match the environment: the seed's text says nodes, and its
// examples node.
func (c *factsCall) nameNodes(levels []model.LevelValue) error {
	other := map[string]string{"node": "nodes", "nodes": "node"}
	for i, l := range levels {
		if other[l.Level] == "" {
			continue
		}
		e, err := c.client.Environment(c.ctx, c.env)
		if err != nil {
			return err
		}
		if !slices.Contains(e.Levels, l.Level) && slices.Contains(e.Levels, other[l.Level]) {
			levels[i].Level = other[l.Level]
		}
	}
	return nil
}

// path splits --key into its parts.
func (c *factsCall) path() ([]string, error) {
	path, err := config.ParsePath(c.key)
	if err != nil {
		return nil, term.Usagef("--key: %w", err)
	}
	return path, nil
}

// notFoundError returns the error for a name that ConfigDB doesn't have.
func notFoundError(format string, args ...any) error {
	return term.WithClass(term.ExitNotFound, fmt.Errorf(format, args...))
}

// idOf parses an ID.
func idOf(what, text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return 0, term.Invalid(what, text, "a number")
	}
	return id, nil
}
