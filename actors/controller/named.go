package controller

import (
	"context"
	"encoding/json"
	"errors"

	"edgespan/config/operate"
)

// FactsEnvironment is the environment of ConfigDB that the config of a node names, by the node's id; 0: none.
func (c *Controller) FactsEnvironment(ctx context.Context, id string) (int64, error) {
	s := c.d.dir.node(id)
	if s == nil {
		return 0, nil
	}
	s.mu.Lock()
	name := s.name
	s.mu.Unlock()
	doc, err := c.Config(ctx, operate.ConfigQuery{Node: name, Paths: [][]string{{"sysParams", "factsEnvironment"}}})
	var missing *operate.NotFoundError
	var refused *operate.Refused
	if errors.As(err, &missing) || errors.As(err, &refused) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(doc.Object)
	if err != nil {
		return 0, err
	}
	var read struct {
		Sys struct {
			Environment int64 `json:"factsEnvironment"`
		} `json:"sysParams"`
	}
	if json.Unmarshal(text, &read) != nil {
		return 0, nil // no number: it names none
	}
	return read.Sys.Environment, nil
}
