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

// factsSpec is one command that asks ConfigDB (seed fuel-configdb-serialized-facts-api, "Fuel
// Client"). The commands stand in tables, one for each group.
type factsSpec struct {
	use, short    string
	long, example string
	args          cobra.PositionalArgs // nil: none
	complete      factsCompleter       // of the first argument
	needs         []string             // flags that have to be said
	forms         []string             // of -f, the default first; none: the command has no -f
	input         bool                 // -f is the form of stdin
	flags         []factsFlags
	run           func(*factsCall) error
	sub           []factsSpec
}

// factsFlags defines flags of a command.
type factsFlags func(*pflag.FlagSet, *factsCall)

// factsCompleter finds what a word may be.
type factsCompleter func(context.Context, *configdbapi.Client, *factsCall) ([]string, error)

// The forms of -f. The seed's default is JSON.
var (
	valueForms  = []string{"json", "yaml", "plain", "value"}
	inputForms  = []string{"json", "yaml"}
	modelForms  = []string{"json", "yaml", "table", "value"}
	lookupForms = []string{"table", "json", "yaml"}
)

// factsCall is one run of such a command.
type factsCall struct {
	a      *reach.App
	ctx    context.Context //nolint:containedctx // lives as long as the command
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

// Commands are `config` with all groups below it, and the groups again beside it: the seed's
// and its implementation's words for the same. Help shows them once.
func Commands(a *reach.App) []*cobra.Command {
	cfg := factsSpec{
		use: "config", short: "Read and change the facts of ConfigDB: values, overrides, models and history",
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

Where ConfigDB is: --controller, EDGESPAN_CONTROLLER or a context that is named; else the service of type
"config" in Keystone's catalog, where OS_AUTH_URL is set; else the context in use. Who asks:
--user (its password from --password-file or EDGESPAN_PASSWORD), --token-file, then EDGESPAN_USER,
EDGESPAN_TOKEN_FILE, the context's token, and last the user of OS_USERNAME.

The groups env, comp, def and lvl are commands of edgespan itself, too: edgespan env list.`

// command makes the cobra command of a spec and of those below it.
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

// Bind defines the flags of a command.
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
		// The flag is there: the only error there is can't be.
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

// complete gives the words that a flag allows, if the command has it.
func complete(cmd *cobra.Command, flag string, words []string) {
	if cmd.Flags().Lookup(flag) != nil {
		// The flag is there: the only error there is can't be.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// check finds what a command line lacks, all of it at once.
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

// Ask finds ConfigDB and carries the command out, within fleetTimeout.
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
		_, _ = fmt.Fprintln(c.a.Out, term.Printable(err.Error())) // where the original's clients look for it
	}
	return err
}

func (c *factsCall) changed(flag string) bool { return c.cmd.Flags().Changed(flag) }

// The flags that commands share.

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

// writeOptions are what these flags say.
func (c *factsCall) writeOptions() configdbapi.WriteOptions {
	o := configdbapi.WriteOptions{Message: c.message, DryRun: c.dryRun, IfMatch: c.ifMatch}
	if o.IfMatch != "" && o.IfMatch != "*" && !strings.HasSuffix(o.IfMatch, `"`) {
		o.IfMatch = `"` + o.IfMatch + `"`
	}
	return o
}

// kind is the half of a record that is meant.
func (c *factsCall) kind() model.Kind {
	if c.overrides {
		return model.Overrides
	}
	return model.Values
}

// place is where --env, --level and --resource point.
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

// parseLevels reads l1=v1,l2=v2.
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

// nameNodes spells the level of nodes as the environment has it: the seed says nodes, and its examples
// node.
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

// path is --key in its parts.
func (c *factsCall) path() ([]string, error) {
	path, err := config.ParsePath(c.key)
	if err != nil {
		return nil, term.Usagef("--key: %w", err)
	}
	return path, nil
}

// notThere is the error of a name that ConfigDB has nothing for.
func notThere(format string, args ...any) error {
	return term.WithClass(term.ExitNotFound, fmt.Errorf(format, args...))
}

// idOf reads an id.
func idOf(what, text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return 0, term.Invalid(what, text, "a number")
	}
	return id, nil
}
