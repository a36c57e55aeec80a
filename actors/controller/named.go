package controller

import (
	"context"
	"errors"

	"edgespan/config"
	"edgespan/config/operate"
)

// FactsEnvironment is the environment of ConfigDB that the config of a node names, by the node's id; 0: none.
func (c *Controller) FactsEnvironment(ctx context.Context, id string) (int64, error) {
	s := c.d.dir.node(id)
	if s == nil {
		return 0, nil
	}
	name, _ := s.called()
	path := []string{"sysParams", "factsEnvironment"}
	w, err := c.d.world(ctx) // without a turn: who asks may have that of the other API
	if err != nil {
		return 0, err
	}
	doc, err := w.Config(operate.ConfigQuery{Node: name, Paths: [][]string{path}})
	var missing *operate.NotFoundError
	var refused *operate.Refused
	if errors.As(err, &missing) || errors.As(err, &refused) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	v, _ := config.Lookup(doc.Object, path)
	n, _ := v.(int64) // no number names none
	return n, nil
}
