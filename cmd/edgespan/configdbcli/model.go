package configdbcli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
)

// modelSpecs are the commands for environments, components, definitions and levels (reference fuel-configdb §2.2).
var modelSpecs = []factsSpec{
	{use: "env", short: "Manage environments: the components and levels of their facts", sub: []factsSpec{
		{use: "list", short: "List the environments",
			example: "  edgespan env list -f table",
			forms:   modelForms, run: listEnvironments},
		{use: "show ID", short: "Show an environment",
			example: "  edgespan env show 1",
			args:    term.ExactArgs(1, "one ID"), complete: environmentIDs,
			forms: modelForms,
			run:   showEnvironment},
		{
			use:     "create [--components C,...] [--levels L,...]",
			short:   "Create an environment; its first level is the least specific",
			example: "  edgespan env create --id 1 --components fuel --levels nodes",
			forms:   modelForms, run: createEnvironment, flags: []factsFlags{idFlag, environmentFlags, messageFlag},
		},
		{
			use:     "update ID [--components C,...] [--levels L,...]",
			short:   "Change the components or levels of an environment",
			long:    `Change the components or levels of an environment; [] is none. The values of a removed level are deleted.`,
			example: "  edgespan env update 1 --components fuel --levels role,nodes",
			args:    term.ExactArgs(1, "one ID"), complete: environmentIDs, run: updateEnvironment,
			flags: []factsFlags{environmentFlags, messageFlag},
		},
		{use: "delete ID", short: "Delete an environment with all its values",
			example:  "  edgespan env delete 1",
			args:     term.ExactArgs(1, "one ID"),
			complete: environmentIDs, run: deleteEnvironment, flags: []factsFlags{messageFlag}},
	}},
	{use: "comp", short: "Manage components: the sets of resources of environments", sub: []factsSpec{
		{use: "list", short: "List the components",
			example: "  edgespan comp list -f table",
			forms:   modelForms, run: listComponents},
		{use: "show COMPONENT", short: "Show a component",
			example:  "  edgespan comp show fuel",
			args:     term.ExactArgs(1, "one ID or NAME"),
			complete: componentNames,
			forms:    modelForms, run: showComponent},
		{
			use: "create --name NAME", short: "Create a component without resources; def create adds them",
			example: "  edgespan comp create --name fuel",
			needs:   []string{"name"},
			forms:   modelForms, run: createComponent,
			flags: []factsFlags{idFlag, nameFlag, messageFlag},
		},
		{
			use:     "update COMPONENT [--name NAME] [--resource-definitions ID,...]",
			short:   "Rename a component, or set its resource definitions",
			long:    `Rename a component, or set its resource definitions: [] is none, and those left out are deleted.`,
			example: "  edgespan comp update fuel --name fuel9.0\n  edgespan comp update fuel --resource-definitions 1,2",
			args:    term.ExactArgs(1, "one ID or NAME"), complete: componentNames, run: updateComponent,
			flags: []factsFlags{nameFlag, messageFlag, func(f *pflag.FlagSet, c *factsCall) {
				f.StringVarP(&c.definitions, "resource-definitions", "r", "",
					"IDs of all its resource definitions, separated by commas; [] for none")
			}},
		},
		{
			use: "delete COMPONENT", short: "Delete a component with its resource definitions and their values",
			example:  "  edgespan comp delete fuel",
			args:     term.ExactArgs(1, "one ID or NAME"),
			complete: componentNames, run: deleteComponent, flags: []factsFlags{messageFlag},
		},
	}},
	{use: "def", short: "Manage resource definitions: the data sources of a component", sub: []factsSpec{
		{use: "list", short: "List the resource definitions",
			example: "  edgespan def list -f table",
			forms:   modelForms, run: listDefinitions},
		{use: "show DEFINITION", short: "Show a resource definition",
			example:  "  edgespan def show astute",
			args:     term.ExactArgs(1, "one ID or NAME"),
			complete: definitionNames,
			forms:    modelForms, run: showDefinition},
		{
			use:   "create --name NAME [--component-id ID] [--content TEXT --type T | --data-format F < FILE]",
			short: "Create a resource definition",
			long:  `Create a resource definition. Its content below $template gives the lowest values of the resource.`,
			example: `  edgespan def create --name astute --component-id 1
  edgespan def create --name globals --component-id 1 --type json --content '{"$template": {"id": ` +
				`"%{astute:deployment_id}"}}'`,
			needs: []string{"name"}, forms: modelForms, run: createDefinition,
			flags: []factsFlags{idFlag, nameFlag, definitionFlags, messageFlag},
		},
		{
			use:     "update DEFINITION [--name NAME] [--component-id ID] [--content TEXT --type T | --data-format F < FILE]",
			short:   "Change the name, component or content of a resource definition",
			example: "  edgespan def update astute --component-id fuel",
			args:    term.ExactArgs(1, "one ID or NAME"), complete: definitionNames, run: updateDefinition,
			flags: []factsFlags{nameFlag, definitionFlags, messageFlag},
		},
		{
			use: "delete DEFINITION", short: "Delete a resource definition with all its values",
			example:  "  edgespan def delete astute",
			args:     term.ExactArgs(1, "one ID or NAME"),
			complete: definitionNames, run: deleteDefinition, flags: []factsFlags{messageFlag},
		},
	}},
	{use: "lvl", short: "Show and rename the levels of an environment",
		sub: []factsSpec{
			{use: "list --env ID", short: "List the levels of an environment, with their values",
				example: "  edgespan lvl list --env 1",
				needs:   []string{"env"},
				forms:   modelForms, run: listLevels, flags: []factsFlags{envFlag}},
			{
				use: "show --env ID LEVEL", short: "Show a level",
				example: "  edgespan lvl show --env 1 nodes",
				args:    term.ExactArgs(1, "one ID or NAME"), complete: levelNames,
				needs: []string{"env"}, forms: modelForms,
				run: showLevel, flags: []factsFlags{envFlag},
			},
			{
				use: "update --env ID LEVEL --name NAME", short: "Rename a level",
				example:  "  edgespan lvl update --env 1 nodes --name node",
				args:     term.ExactArgs(1, "one ID or NAME"),
				complete: levelNames, needs: []string{"env", "name"},
				run: renameLevel, flags: []factsFlags{envFlag, nameFlag, messageFlag},
			},
		}},
}

// noneOf is an empty list in the original's spelling.
const noneOf = "[]"

func idFlag(f *pflag.FlagSet, c *factsCall) {
	f.Int64Var(&c.id, "id", 0, "ID (default: the next free one)")
}

func nameFlag(f *pflag.FlagSet, c *factsCall) {
	f.StringVarP(&c.name, "name", "n", "", "name to give")
}

func messageFlag(f *pflag.FlagSet, c *factsCall) {
	f.StringVarP(&c.message, "message", "m", "", "reason, recorded in the history")
}

func environmentFlags(f *pflag.FlagSet, c *factsCall) {
	f.StringVarP(&c.components, "components", "i", "", "IDs or names of components, separated by commas; [] for none")
	f.StringVarP(&c.levels, "levels", "l", "",
		"names of levels, separated by commas, the least specific first; [] for none")
	f.BoolVar(&c.selfRegistration, "self-registration", false, "register nodes automatically at their first upload")
	f.BoolVar(&c.strictNodes, "strict-nodes", false, "refuse reads and writes of nodes that are not registered")
}

func definitionFlags(f *pflag.FlagSet, c *factsCall) {
	f.StringVarP(&c.component, "component-id", "i", "", "ID or name of its component")
	f.StringVarP(&c.content, "content", "p", "", "content, in the format of --type")
	f.StringVarP(&c.typ, "type", "t", "", "format of --content: json, yaml")
	f.StringVarP(&c.data, "data-format", "d", "", "read the content from stdin, in this format: json, yaml")
}

// given returns the ID of --id, or nil without the flag.
func (c *factsCall) given() *int64 {
	if !c.changed("id") {
		return nil
	}
	return &c.id
}

// textOf returns a flag's text, or nil without the flag.
func (c *factsCall) textOf(flag string, value *string) *string {
	if !c.changed(flag) {
		return nil
	}
	return value
}

// words splits the list of a flag.
func words(text string) []string {
	if strings.TrimSpace(text) == noneOf {
		return nil
	}
	return term.List([]string{text})
}

// refs parses a list of components, which are IDs (numbers) or names.
func refs(text string) []configdb.JSON {
	out := []configdb.JSON{}
	for _, w := range words(text) {
		if id, err := strconv.ParseInt(w, 10, 64); err == nil {
			out = append(out, configdb.JSON(strconv.FormatInt(id, 10)))
			continue
		}
		out = append(out, configdb.Quote(w))
	}
	return out
}

// answer prints an answer of ConfigDB in the format of --format.
func (c *factsCall) answer(data any, head []string, rows [][]string) error {
	if c.format == "table" {
		return c.tableOf(head, rows)
	}
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	v, err := configdb.Parse(text) // YAML and JSON keep the same numbers and order of keys
	if err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return c.print(v)
}

// Environments.

func (c *factsCall) environments(data any, all ...model.Environment) error {
	rows := make([][]string, len(all))
	for i, e := range all {
		rows[i] = []string{fmt.Sprint(e.ID), numbers(e.Components), strings.Join(e.Levels, ",")}
	}
	return c.answer(data, []string{"ID", "COMPONENTS", "HIERARCHY LEVELS"}, rows)
}

func numbers(ids []int64) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = fmt.Sprint(id)
	}
	return strings.Join(out, ",")
}

func listEnvironments(c *factsCall) error {
	all, err := c.client.Environments(c.ctx)
	if err != nil {
		return err
	}
	return c.environments(term.OrEmpty(all), all...)
}

func showEnvironment(c *factsCall) error {
	id, err := idOf("ID", c.args[0])
	if err != nil {
		return err
	}
	e, err := c.client.Environment(c.ctx, id)
	if err != nil {
		return err
	}
	return c.environments(e, e)
}

func createEnvironment(c *factsCall) error {
	e, err := c.client.CreateEnvironment(c.ctx,
		configdbapi.NewEnvironment{ID: c.given(), Components: refs(c.components), Levels: words(c.levels),
			Nodes: model.Nodes{SelfRegistration: c.selfRegistration, StrictNodes: c.strictNodes}}, c.writeOptions())
	if err != nil {
		return err
	}
	return c.environments(e, e)
}

func updateEnvironment(c *factsCall) error {
	id, err := idOf("ID", c.args[0])
	if err != nil {
		return err
	}
	var e configdbapi.EnvironmentEdit
	if c.changed("components") {
		e.Components = new(refs(c.components))
	}
	if c.changed("levels") {
		e.Levels = new(term.OrEmpty(words(c.levels)))
	}
	if c.changed("self-registration") {
		e.SelfRegistration = &c.selfRegistration
	}
	if c.changed("strict-nodes") {
		e.StrictNodes = &c.strictNodes
	}
	if e == (configdbapi.EnvironmentEdit{}) {
		return term.Usagef("env update: nothing to update: give --components, --levels, " +
			"--self-registration or --strict-nodes")
	}
	return c.done(c.client.EditEnvironment(c.ctx, id, e, c.writeOptions()), "Environment with id %d was updated", id)
}

func deleteEnvironment(c *factsCall) error {
	id, err := idOf("ID", c.args[0])
	if err != nil {
		return err
	}
	return c.done(c.client.DeleteEnvironment(c.ctx, id, c.writeOptions()), "Environment with id %d was deleted", id)
}

// Components.

func (c *factsCall) componentRows(data any, all ...model.Component) error {
	rows := make([][]string, len(all))
	for i, one := range all {
		var names []string
		for _, d := range one.Definitions {
			names = append(names, fmt.Sprintf("%d %s", d.ID, d.Name))
		}
		rows[i] = []string{fmt.Sprint(one.ID), one.Name, strings.Join(names, ", ")}
	}
	return c.answer(data, []string{"ID", "NAME", "RESOURCE DEFINITIONS"}, rows)
}

func listComponents(c *factsCall) error {
	all, err := c.client.Components(c.ctx)
	if err != nil {
		return err
	}
	return c.componentRows(term.OrEmpty(all), all...)
}

func showComponent(c *factsCall) error {
	id, err := c.componentID(c.args[0])
	if err != nil {
		return err
	}
	one, err := c.client.Component(c.ctx, id)
	if err != nil {
		return err
	}
	return c.componentRows(one, one)
}

// componentID returns the ID of a component, which may be given by its name.
func (c *factsCall) componentID(text string) (int64, error) {
	if id, err := strconv.ParseInt(text, 10, 64); err == nil {
		return id, nil
	}
	all, err := c.client.Components(c.ctx)
	if err != nil {
		return 0, err
	}
	for _, one := range all {
		if one.Name == text {
			return one.ID, nil
		}
	}
	return 0, notFoundError("component %s: not found", config.Quote(text))
}

func createComponent(c *factsCall) error {
	one, err := c.client.CreateComponent(c.ctx, configdbapi.NewComponent{ID: c.given(), Name: c.name}, c.writeOptions())
	if err != nil {
		return err
	}
	return c.componentRows(one, one)
}

func updateComponent(c *factsCall) error {
	e := configdbapi.ComponentEdit{Name: c.textOf("name", &c.name)}
	if c.changed("resource-definitions") {
		all := []configdbapi.ByID{}
		for _, w := range words(c.definitions) {
			id, err := idOf("--resource-definitions", w)
			if err != nil {
				return err
			}
			all = append(all, configdbapi.ByID{ID: id})
		}
		e.Definitions = &all
	}
	if e.Name == nil && e.Definitions == nil {
		return term.Usagef("comp update: nothing to update: give --name or --resource-definitions")
	}
	id, err := c.componentID(c.args[0])
	if err != nil {
		return err
	}
	return c.done(c.client.EditComponent(c.ctx, id, e, c.writeOptions()), "Component with id %d was updated", id)
}

func deleteComponent(c *factsCall) error {
	id, err := c.componentID(c.args[0])
	if err != nil {
		return err
	}
	return c.done(c.client.DeleteComponent(c.ctx, id, c.writeOptions()), "Component with id %d was deleted", id)
}

// Levels.

// conflicting returns the error for an ambiguous argument.
func conflicting(format string, args ...any) error {
	return term.WithClass(term.ExitConflict, fmt.Errorf(format, args...))
}
