package configdbcli

import (
	"fmt"
	"slices"
	"strconv"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
)

func (c *factsCall) definitionRows(data any, all ...model.Definition) error {
	rows := make([][]string, len(all))
	for i, d := range all {
		component := ""
		if d.Component != nil {
			component = fmt.Sprint(*d.Component)
		}
		rows[i] = []string{fmt.Sprint(d.ID), d.Name, component, config.Shorten(d.Content.String())}
	}
	return c.answer(data, []string{"ID", "NAME", "COMPONENT", "CONTENT"}, rows)
}

func listDefinitions(c *factsCall) error {
	all, err := c.client.Definitions(c.ctx, nil)
	if err != nil {
		return err
	}
	return c.definitionRows(term.OrEmpty(all), all...)
}

func showDefinition(c *factsCall) error {
	id, err := c.definitionID(c.args[0])
	if err != nil {
		return err
	}
	d, err := c.client.Definition(c.ctx, id)
	if err != nil {
		return err
	}
	return c.definitionRows(d, d)
}

// definitionID returns the ID of a resource definition, which may be given as a unique name.
func (c *factsCall) definitionID(text string) (int64, error) {
	if id, err := strconv.ParseInt(text, 10, 64); err == nil {
		return id, nil
	}
	all, err := c.client.Definitions(c.ctx, nil)
	if err != nil {
		return 0, err
	}
	var ids []int64
	for _, d := range all {
		if d.Name == text {
			ids = append(ids, d.ID)
		}
	}
	switch len(ids) {
	case 0:
		return 0, notFoundError("resource definition %s: not found", config.Quote(text))
	case 1:
		return ids[0], nil
	}
	return 0, conflicting("resource definition %s: ambiguous name: must be one of the IDs %s", config.Quote(text),
		numbers(ids))
}

// contents returns the value of --content or stdin, or nil without either. Like the original, it requires the format
// of either, since text that looks like JSON may be YAML.
func (c *factsCall) contents() (configdb.JSON, error) {
	given, piped := c.changed("content"), c.changed("data-format")
	switch {
	case given && piped:
		return nil, term.Exclusive("--content", "--data-format")
	case piped && c.changed("type"):
		return nil, term.Exclusive("--type", "--data-format")
	case given != c.changed("type"):
		return nil, term.RequiredTogether("--content", "--type")
	case given && !slices.Contains(inputForms, c.typ):
		return nil, term.NotOneOf("--type", c.typ, inputForms)
	case piped && !slices.Contains(inputForms, c.data):
		return nil, term.NotOneOf("--data-format", c.data, inputForms)
	case given:
		return coerced(c.typ, c.content)
	case piped:
		return c.stdin(c.data)
	}
	return nil, nil
}

func createDefinition(c *factsCall) error {
	n := configdbapi.NewDefinition{ID: c.given(), Name: c.name}
	var err error
	if n.Content, err = c.contents(); err != nil {
		return err
	}
	if c.changed("component-id") {
		id, err := c.componentID(c.component)
		if err != nil {
			return err
		}
		n.Component = &id
	}
	d, err := c.client.CreateDefinition(c.ctx, n, c.writeOptions())
	if err != nil {
		return err
	}
	return c.definitionRows(d, d)
}

func updateDefinition(c *factsCall) error {
	e := configdbapi.DefinitionEdit{Name: c.textOf("name", &c.name)}
	var err error
	if e.Content, err = c.contents(); err != nil {
		return err
	}
	if c.changed("component-id") {
		id, err := c.componentID(c.component)
		if err != nil {
			return err
		}
		e.Component = new(&id)
	}
	if e.Name == nil && e.Component == nil && e.Content == nil {
		return term.Usagef("def update: nothing to update: give --name, --component-id, --content or --data-format")
	}
	id, err := c.definitionID(c.args[0])
	if err != nil {
		return err
	}
	return c.done(c.client.EditDefinition(c.ctx, id, e, c.writeOptions()), "Resource_definition with id %d was updated",
		id)
}

func deleteDefinition(c *factsCall) error {
	id, err := c.definitionID(c.args[0])
	if err != nil {
		return err
	}
	return c.done(c.client.DeleteDefinition(c.ctx, id, c.writeOptions()), "Resource_definition with id %d was deleted", id)
}
