package configdbcli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
)

// nodeFactSpecs are the commands for registered nodes and for secrets. The original has none.
var nodeFactSpecs = []factsSpec{
	{use: "node", short: "Manage the nodes that are registered in an environment",
		sub: []factsSpec{
			{use: "list --env ID", short: "List the registered nodes",
				example: "  edgespan config node list --env 1 -f table",
				needs:   []string{"env"}, forms: modelForms,
				run: listFactNodes, flags: []factsFlags{envFlag}},
			{
				use:   "set --env ID NODE [--fqdn NAME] [--certname NAME] [--levels LEVEL=VALUE,...]",
				short: "Register a node by its id, or replace its other names", args: term.ExactArgs(1, "one ID"),
				long: `Register a node by its id, or replace its other names. With its own certificate a node reads, beside ` +
					`what is at the
root, what is at the values that --levels declares of the levels above its own, and at no others.`,
				example:  "  edgespan config node set --env 1 1 --fqdn node-1.domain.tld --levels role=compute",
				complete: factNodeNames, needs: []string{"env"}, run: setFactNode,
				flags: []factsFlags{envFlag, messageFlag, func(f *pflag.FlagSet, c *factsCall) {
					f.StringVar(&c.fqdn, "fqdn", "", "fully qualified host name")
					f.StringVar(&c.certname, "certname", "", "name in the Puppet certificate")
					f.StringVar(&c.above, "levels", "",
						"LEVEL=VALUE of each level above that of the nodes, separated by commas; [] for none (default: unchanged)")
				}},
			},
			{
				use: "del --env ID NODE", short: "Remove a node from an environment, by any of its names",
				example:  "  edgespan config node del --env 1 node-1.domain.tld",
				args:     term.ExactArgs(1, "one ID or NAME"),
				complete: factNodeNames, needs: []string{"env"}, run: deleteFactNode, flags: []factsFlags{envFlag, messageFlag},
			},
		}},
	{use: "secrets", short: "Manage the secret keys of a resource",
		sub: []factsSpec{
			{use: "show DEFINITION", short: "Show the secret keys",
				example:  "  edgespan config secrets show astute",
				args:     term.ExactArgs(1, "one ID or NAME"),
				complete: definitionNames, forms: modelForms, run: showSecrets},
			{
				use: "set DEFINITION PATH...", short: "Set the secret keys of a resource",
				long: `Set all secret keys of a resource; * is any key, [] is none. Their values are shown to admins only, and to a
node its own.`,
				example: "  edgespan config secrets set astute 'users.*.password' nova.db_password",
				args:    term.AtLeast(2, "DEFINITION PATH..."), complete: definitionNames, run: setSecrets,
				flags: []factsFlags{messageFlag},
			},
		}},
}

func listFactNodes(c *factsCall) error {
	all, err := c.client.Nodes(c.ctx, c.env)
	if err != nil {
		return err
	}
	rows := make([][]string, len(all))
	for i, n := range all {
		var levels []string
		for _, name := range slices.Sorted(maps.Keys(n.Levels)) {
			levels = append(levels, name+"="+n.Levels[name])
		}
		rows[i] = []string{n.ID, n.FQDN, n.Certname, strings.Join(levels, ",")}
	}
	return c.answer(term.OrEmpty(all), []string{"ID", "FQDN", "CERTNAME", "LEVELS"}, rows)
}

func setFactNode(c *factsCall) error {
	levels, err := c.declared()
	if err != nil {
		return err
	}
	n := model.Node{ID: c.args[0], FQDN: c.fqdn, Certname: c.certname, Levels: levels}
	return c.done(c.client.PutNode(c.ctx, c.env, n, c.writeOptions()), "Node %s was registered in environment %d", n.ID,
		c.env)
}

// declared parses --levels; it returns nil without the flag.
func (c *factsCall) declared() (map[string]string, error) {
	if !c.changed("levels") {
		return nil, nil //nolint:nilnil // as the comment says
	}
	out := map[string]string{}
	if c.above == noneOf {
		return out, nil
	}
	pairs, err := parseLevels("levels", c.above)
	for _, l := range pairs {
		if _, twice := out[l.Level]; twice {
			return nil, term.Usagef("--levels: duplicate level %s: give each level once", config.Quote(l.Level))
		}
		out[l.Level] = l.Value
	}
	return out, err
}

func deleteFactNode(c *factsCall) error {
	return c.done(c.client.DeleteNode(c.ctx, c.env, c.args[0], c.writeOptions()), "Node %s was taken from environment %d",
		c.args[0], c.env)
}

func showSecrets(c *factsCall) error {
	id, err := c.definitionID(c.args[0])
	if err != nil {
		return err
	}
	keys, err := c.client.Secrets(c.ctx, id)
	if err != nil {
		return err
	}
	rows := make([][]string, len(keys))
	for i, k := range keys {
		rows[i] = []string{k}
	}
	return c.answer(term.OrEmpty(keys), []string{"KEY"}, rows)
}

func setSecrets(c *factsCall) error {
	id, err := c.definitionID(c.args[0])
	if err != nil {
		return err
	}
	keys := c.args[1:]
	if len(keys) == 1 && keys[0] == noneOf {
		keys = nil
	}
	return c.done(c.client.DeclareSecrets(c.ctx, id, keys, c.writeOptions()),
		"Secrets of resource_definition with id %d were set", id)
}

// Completions return nothing if ConfigDB does not answer.

// completions asks ConfigDB for at most reach.CompletionTimeout.
func (c *factsCall) completions(cmd *cobra.Command, find factsCompleter) []string {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background() // cobra completes without a context
	}
	ctx, cancel := context.WithTimeout(ctx, reach.CompletionTimeout)
	defer cancel()
	client, err := c.open(ctx)
	if err != nil {
		return nil
	}
	defer client.Close()
	names, err := find(ctx, client, c)
	if err != nil {
		return nil
	}
	return names
}

// named returns a completer that takes each name of a list.
func named[T any](ask func(context.Context, *configdbapi.Client, *factsCall) ([]T, error),
	name func(T) string) factsCompleter {
	return func(ctx context.Context, client *configdbapi.Client, c *factsCall) ([]string, error) {
		all, err := ask(ctx, client, c)
		out := make([]string, len(all))
		for i, one := range all {
			out[i] = name(one)
		}
		return out, err
	}
}

func readLevels(ctx context.Context, client *configdbapi.Client, c *factsCall) ([]model.Level, error) {
	return client.Levels(ctx, c.env)
}

func readDefinitions(ctx context.Context, client *configdbapi.Client, _ *factsCall) ([]model.Definition, error) {
	return client.Definitions(ctx, nil)
}

var (
	environmentIDs = named(func(ctx context.Context, client *configdbapi.Client, _ *factsCall) ([]model.Environment,
		error) {
		return client.Environments(ctx)
	}, func(e model.Environment) string { return fmt.Sprint(e.ID) })

	componentNames = named(func(ctx context.Context, client *configdbapi.Client, _ *factsCall) ([]model.Component, error) {
		return client.Components(ctx)
	}, func(one model.Component) string { return one.Name })

	factNodeNames = named(func(ctx context.Context, client *configdbapi.Client, c *factsCall) ([]model.Node, error) {
		return client.Nodes(ctx, c.env)
	}, func(n model.Node) string { return n.ID })

	definitionNames = named(readDefinitions, func(d model.Definition) string { return d.Name })
	resourceNames   = definitionNames
	levelNames      = named(readLevels, func(l model.Level) string { return l.Name })
	levelStarts     = named(readLevels, func(l model.Level) string { return l.Name + "=" })
)
