package configdbcli

import (
	"fmt"
	"strings"

	"edgespan/cmd/term"
	"edgespan/config/configdb/model"
)

func (c *factsCall) levelRows(data any, all ...model.Level) error {
	rows := make([][]string, len(all))
	for i, l := range all {
		parent := ""
		if l.Parent != nil {
			parent = *l.Parent
		}
		rows[i] = []string{fmt.Sprint(l.ID), l.Name, parent, strings.Join(l.Values, ",")}
	}
	return c.answer(data, []string{"ID", "NAME", "PARENT", "VALUES"}, rows)
}

// levelColumns is a level as the original's commands print it.
type levelColumns struct {
	ID     int64    `json:"id"`
	Name   string   `json:"name"`
	Parent *string  `json:"parent"`
	Values []string `json:"values"`
}

func columnsOfLevel(l model.Level) levelColumns {
	return levelColumns{l.ID, l.Name, l.Parent, term.OrEmpty(l.Values)}
}

func listLevels(c *factsCall) error {
	all, err := c.client.Levels(c.ctx, c.env)
	if err != nil {
		return err
	}
	shown := make([]levelColumns, len(all))
	for i := range all {
		shown[i] = columnsOfLevel(all[i])
	}
	return c.levelRows(shown, all...)
}

func showLevel(c *factsCall) error {
	l, err := c.client.Level(c.ctx, c.env, c.args[0])
	if err != nil {
		return err
	}
	return c.levelRows(columnsOfLevel(l), l)
}

func renameLevel(c *factsCall) error {
	return c.done(c.client.RenameLevel(c.ctx, c.env, c.args[0], c.name, c.writeOptions()),
		"Hierarchy_level %s was renamed to %s", c.args[0], c.name)
}
